/* struct observed: what a program did while it was watched: its system calls, and the paths that it found. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* A way to make a system call: the arguments that a filter may look at, the others 0. */
#define OBSERVED_ARGUMENTS 6

struct observed_call {
    int nr; /* of the native architecture */
    uint64_t arguments[OBSERVED_ARGUMENTS];
    uint64_t count;
};

/* What was done with a path, as bits. */
enum {
    PATH_LOOKED = 1 << 0,   /* its name, kind or size was asked for, no more */
    PATH_READ = 1 << 1,     /* opened for reading, or, a directory, listed or entered */
    PATH_WRITTEN = 1 << 2,  /* opened for writing, or changed */
    PATH_CREATED = 1 << 3,  /* it was not there before */
    PATH_EXECUTED = 1 << 4, /* the program, or the loader or the interpreter of one */
    PATH_REFUSED = 1 << 5,  /* this user may not do that with it */
    PATH_DIRECTORY = 1 << 6,
    PATH_PRIVATE = 1 << 7, /* not everybody may read it */
    PATH_LINK = 1 << 8,    /* a symbolic link on the way to another */
    PATH_PROGRAM = 1 << 9, /* named by an execve itself */
    PATH_SECRET = 1 << 10, /* what holds it is not mounted; also of those that nobody has asked for */
};

struct observed_path {
    char *path;   /* absolute, and but for its last part without symbolic links */
    char *target; /* of a link; else NULL */
    unsigned how;
    uint64_t count;
};

struct observed {
    struct observed_call *calls;
    size_t n_calls;
    struct observed_path *paths;
    size_t n_paths;
    uint32_t *slots; /* indices of `paths` + 1 by hash; `n_slots` of them */
    size_t n_slots;
    uint64_t n_answers;                 /* calls that were looked at */
    uint64_t memory_peak, address_peak; /* bytes, of the largest process */
    unsigned tasks, tasks_peak;         /* processes and threads at once */
    bool foreign;                       /* calls of another ABI were made */
    bool sockets;                       /* used for more than to ask nscd, which a jail does not have */
    bool loopback;                      /* an address of its own was bound */
    bool network;                       /* connections to others were tried */
    bool unreadable;                    /* some process's memory could not be read */
    bool interrupted;                   /* by Ctrl-C */
    bool full;                          /* more ways to make calls than can be kept */
    size_t n_unnamed;                   /* paths that no line of text can hold */
    bool failed;                        /* out of memory: something is missing */
    char cwd[4096];                     /* where the program started */
};

void observed_clear(struct observed *observed);
void observed_add_call(struct observed *observed, int nr, const uint64_t arguments[6]);
/* `target` may be NULL. One with control characters is counted, and not kept. The path of the same name has
 * the bits of both. */
void observed_add_path(struct observed *observed, const char *path, unsigned how, const char *target);
const struct observed_path *observed_find(const struct observed *observed, const char *path);
/* What was only looked at counts as read from now on; returns how many paths these are. */
size_t observed_promote(struct observed *observed);
/* Both sorted: calls by number, paths by name. Nothing is added afterwards. */
void observed_sort(struct observed *observed);
