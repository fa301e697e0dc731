/* struct files_process: lists, opens, replaces and removes files of workspaces, copies and compares whole
 * ones, one after the other, beside its parent: that takes as long as there are files and bytes. */
#pragma once

#include <stdint.h>

#include "config/message/message_session.h"
#include "jail/base/err.h"

struct files_process;

struct files_request {
    enum session_query what; /* one about files */
    uint32_t uid, gid;       /* PUT, FORK: whose the file, or the copy, is to be */
    uint64_t most;           /* FILES, DIFF, FORK: names that are looked at; GET: bytes of the file */
    uint64_t bytes;          /* FORK: of the copy */
    char path[SESSION_PATH_BYTES];
};

struct files_answer {
    struct err err;
    uint64_t size;            /* GET, PUT: of the file in bytes */
    uint64_t files, left_out; /* FORK: as of workspace_copy() */
};

/* Forks the process; call while single-threaded. It ends with its parent. */
int files_process_new(struct files_process **ret, struct err *reterr);
/* Ends it, in the midst of its work if need be. Takes NULL. */
void files_process_free(struct files_process *process);

/* Readable when what was asked for is done, or the process has ended. */
int files_process_fd(const struct files_process *process);

/* Asks and returns; it does one thing at a time. `content` is of PUT, or the workspace that is to be the
 * copy (FORK), or that is compared (DIFF), -1 otherwise; both descriptors stay the caller's. -EPIPE: the
 * process is gone. */
int files_process_begin(struct files_process *process, const struct files_request *request, int workspace,
                        int content);
/* What became of it. `*ret_fd`, the caller's to close: of FILES and DIFF an anonymous file with the packed
 * rows, of GET the file; -1 otherwise. -EPIPE: the process is gone, and `*ret` untouched. */
int files_process_end(struct files_process *process, struct files_answer *ret, int *ret_fd);
