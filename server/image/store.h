/* struct image_store: the directory of images that jobs may run in.
 *
 *     DIRECTORY/            locked (flock) while one is imported or removed
 *         .staging/         one that is being imported; what a crash left is swept by the next
 *         .removed-N/       one that was removed while jobs ran in it; swept likewise
 *         NAME/             locked, shared, by every job that runs in it
 *             image.json    what it is: struct image_record
 *             rootfs/       its files: directories 0755, files 0644 or 0755, links, and nothing else
 *
 * A name appears by a rename and is complete from then on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define IMAGE_ROOT "rootfs"

/* Variables of one image: how many, and bytes of all. */
#define IMAGE_ENV_MAX       256u
#define IMAGE_ENV_BYTES_MAX 65536u

/* A digest is this and 64 digits. */
#define IMAGE_DIGEST_PREFIX "sha256:"
bool image_digest_is_valid(const char *text);

/* Owned; image_record_clear(). */
struct image_record {
    char *digest; /* of the manifest; "": it was a directory */
    char *source; /* the path that it was imported from */
    char *form;   /* "oci-layout", "oci-archive", "docker-archive", "directory" */
    uint64_t imported_ms, bytes, files;
    char **env; /* NAME=VALUE */
    size_t n_env;
};
void image_record_clear(struct image_record *record);
/* Appends a variable of an image's configuration; what is none is left out. */
int image_record_add_env(struct image_record *record, const char *variable, struct err *reterr);

/* `fd` is the directory of one image. */
int image_record_read(int fd, struct image_record *ret, struct err *reterr);
int image_record_write(int fd, const struct image_record *record, struct err *reterr);

/* Opens what lies at `name` (no path of more parts) in the directory, through no link; -errno. */
int image_open_below(int dirfd, const char *name, uint64_t flags);

/* The directory to change something in it: waits until nobody else does, and sweeps. It is made where it is
 * missing. */
int image_store_lock(const char *directory, int *ret_fd, struct err *reterr);
/* An empty directory for an image that comes to be; only its owner gets into it, for what is unpacked there
 * may still have set-user-ID bits. */
int image_store_stage(int store, int *ret_fd, struct err *reterr);
/* Gives it its name (image_name_is_valid(): the caller has checked it), and opens it to all. `replace`: what
 * has that name is removed; otherwise that is an error. */
int image_store_publish(int store, int staging, const char *name, bool replace, struct err *reterr);
/* Gives up what was staged. */
void image_store_unstage(int store);
/* `*ret_in_use`: its files are still there, until its jobs have ended and somebody changes something. */
int image_store_remove(int store, const char *name, bool *ret_in_use, struct err *reterr);

/* Calls `found` for each image, in no order; what cannot be read has `record` NULL, and why. */
typedef void (*image_found)(void *arg, const char *name, const struct image_record *record,
                            const struct err *err);
int image_store_list(const char *directory, image_found found, void *arg, struct err *reterr);
