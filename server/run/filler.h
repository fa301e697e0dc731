/* struct filler: puts the input of one job where the job finds it, beside the warden where that takes a
 * while. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail/resources/scratch.h"

struct err;
struct filler;
struct jail_plan;
struct job;

/* What goes where. */
struct filling {
    const struct job *job;
    const struct jail_plan *plan;
    const struct jail_plan *standby; /* NULL, or of the jail that gets the program as a file of its own */
    bool script;                     /* the plan's script goes into the scratch */
    bool shared;                     /* the workspace is a session's */
    uint64_t entries;                /* shared: files and directories in it, as far as is known */
    size_t entries_max;              /* shared: names that are looked at */
    uint32_t file_uid, file_gid;     /* whose the files are to be */
    uint32_t outer_uid, outer_gid;   /* whose the script is to be */
    int work_fd, scratch_fd, input_fd;
};

/* What has come of it. */
struct filled {
    struct scratch_list before; /* the workspace as the program finds it */
    int before_fd;              /* or that, packed; -1: it is not */
    int program_fd;             /* for a standby jail; -1 otherwise */
};
#define FILLED_NOTHING ((struct filled){.before_fd = -1, .program_fd = -1})
void filled_clear(struct filled *filled);

/* Whether that would keep others of the warden waiting. */
bool filling_takes_long(const struct filling *filling);
/* Does it. `*ret` is FILLED_NOTHING, also on failure the caller's to clear. ERR_TOO_LARGE, ERR_INVALID: the
 * input does not fit, or a name leads through a link or a file. 1, unless it is to wait: another one fills
 * the same workspace, or there is more in it than was thought. */
int filling_do(const struct filling *filling, bool wait, struct filled *ret, struct err *reterr);

/* Forks the process; call while single-threaded. It ends with its parent. */
int filler_start(const struct filling *filling, struct filler **ret, struct err *reterr);
/* Readable when it has ended. */
int filler_fd(const struct filler *filler);
/* As filling_do(), with the list packed. */
int filler_end(struct filler *filler, struct filled *ret, struct err *reterr);
/* Ends it, in the midst of its work if need be. Takes NULL. */
void filler_free(struct filler *filler);

/* The list behind such a descriptor. 0 or -errno. */
int filler_unpack(int before_fd, struct scratch_list *ret);
