/* struct image: an image of the server's directory, opened for one job. */
#pragma once

#include <limits.h>

#include "policy/policy.h"
#include "server/image/store.h"

struct err;
struct runtime_config;

struct image {
    char name[65];
    struct image_record record;
    char interpreter[PATH_MAX]; /* of the runtime, as it is found in the image */
    char startup[PATH_MAX];     /* what that executes when it starts; "": not known */
    struct policy_image policy; /* refers to all above */
    int lock_fd;                /* while it is open, the files stay: keep it as long as the jail */
    int mount_fd;               /* a detached mount of them, for JAIL_FD_IMAGE */
};
#define IMAGE_CLOSED ((struct image){.lock_fd = -1, .mount_fd = -1})

/* ERR_INVALID naming the field `image` where there is none of that name, ERR_SETUP where it cannot be used,
 * or where it lacks what the runtime starts (NULL: nothing in particular). `ret` stays where it is. */
int image_open(const char *directory, const char *name, const struct runtime_config *runtime,
               struct image *ret, struct err *reterr);
void image_close(struct image *image);
