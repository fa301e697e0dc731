/* struct unpacker: skopeo and umoci, run in a jail that has nothing but one directory. */
#pragma once

#include <stddef.h>

struct err;
struct image_limits;
struct unpacker;

/* Where programs that unpack are at work, in the directory that they were given. */
#define UNPACK_WORK "work"

/* Call first of all, single-threaded: an ordinary user enters a namespace of its own. */
int unpacker_new(struct unpacker **ret, struct err *reterr);
void unpacker_free(struct unpacker *unpacker);

/* Makes `directory`/work, which the programs may write to. */
int unpacker_prepare(struct unpacker *unpacker, int directory, struct err *reterr);

/* Runs one program in work/. ERR_INVALID with its last words where it fails, ERR_TOO_LARGE where what lies at
 * `watched`, below work/, has passed the limits: it is ended then. */
int unpacker_run(struct unpacker *unpacker, char *const *argv, size_t n_argv, const char *watched,
                 const struct image_limits *limits, struct err *reterr);
