/* The files of an image: copied, and made such that any job can read them and none gains by them. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct err;

struct image_limits {
    uint64_t bytes, files;
};

struct image_counts {
    uint64_t bytes, files;
    uint64_t dropped; /* devices, sockets, named pipes */
    uint64_t set_ids; /* set-user-ID and set-group-ID bits taken away */
};

/* Directories, regular files and links of one directory into another, empty one; no other mount is entered.
 * ERR_TOO_LARGE over a limit. */
int image_tree_copy(int from, int to, const struct image_limits *limits, struct image_counts *counts,
                    struct err *reterr);
/* A regular file. */
int image_tree_copy_file(int from, int to_directory, const char *name, const struct image_limits *limits,
                         struct image_counts *counts, struct err *reterr);

/* Gives everything to uid:gid, directories mode 0755, files 0644 or 0755, and removes what is neither, nor a
 * link. Nobody else may be changing it. */
int image_tree_settle(int dirfd, uid_t uid, gid_t gid, const struct image_limits *limits,
                      struct image_counts *ret, struct err *reterr);
/* Gives every directory a mode in which it can be emptied, as far as that goes. */
void image_tree_open_up(int dirfd);
