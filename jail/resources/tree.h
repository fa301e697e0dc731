/* What programs left below a directory of the host: counted and removed by descriptor, through no link. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct tree_limits {
    uint64_t bytes, files;
};

struct tree_usage {
    uint64_t bytes; /* of storage; a file with several names counts once */
    uint64_t files; /* names: files, directories and all else */
    bool over;      /* a limit is passed, or TREE_DEPTH_MAX: the rest was not looked at */
};
#define TREE_DEPTH_MAX 128

/* Counts what lies below the directory. Others may change it meanwhile: what moves is counted once, twice or
 * not at all. 0 or -errno. */
int tree_measure(int dirfd, const struct tree_limits *limits, struct tree_usage *ret);

/* Empties the directory. However deep it is, that takes two descriptors; broken off at any moment, the next
 * call goes on where it was. 0 or -errno for what could not be removed. */
int tree_clear(int dirfd);
