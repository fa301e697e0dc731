/* Queries about sessions, their answers, and both as messages, which message.c reads and writes. Lists travel
 * beside an answer, in a file of their own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/bind.h"
#include "config/message/job.h"
#include "jail/base/err.h"

struct buf;

enum session_query {
    SESSION_LIST,
    SESSION_DELETE,
    SESSION_FILES,
    SESSION_FILE_GET,
    SESSION_FILE_PUT, /* with its content beside the message */
    SESSION_FILE_DELETE,
    SESSION_FORK,    /* `others` become copies; none of them is there */
    SESSION_DIFF,    /* with the one of `others`; read only */
    SESSION_RESTORE, /* becomes a copy of the one of `others` */
    SESSION_QUERY_COUNT
};

/* Room for the path of a file in a workspace. */
#define SESSION_PATH_BYTES 4096

/* Sessions that one fork makes at most. */
#define SESSION_OTHERS_MAX 16

struct session_name {
    char session_id[SESSION_ID_BYTES];
};

struct msg_session_query {
    uint64_t id;
    enum session_query what;
    char key[65];                      /* the calling key's name */
    char session_id[SESSION_ID_BYTES]; /* LIST: "" */
    char path[SESSION_PATH_BYTES];     /* of one file; else "" */
    struct session_name others[SESSION_OTHERS_MAX];
    size_t n_others;
};

/* Times are milliseconds since the epoch. */
struct session_row {
    char session_id[SESSION_ID_BYTES];
    uint64_t created_ms, used_ms, expires_ms; /* expires_ms 0: not while its jobs run */
    uint64_t bytes, files;
    uint32_t jobs;
};
#define MSG_SESSIONS_MAX 65536

/* From the session that is asked about to the other one. */
enum session_change { SESSION_SAME, SESSION_ADDED, SESSION_REMOVED, SESSION_CHANGED, SESSION_CHANGE_COUNT };

/* A file of a session. */
struct session_file {
    char *path; /* relative, any bytes but NUL; owned */
    uint64_t size, modified_ms;
    enum session_change change; /* DIFF */
    uint64_t size_before;       /* DIFF: of one that has changed */
};

/* A list of the ones or the others. */
struct session_rows {
    struct session_row *sessions;
    size_t n_sessions;
    struct session_file *files;
    size_t n_files;
    bool truncated; /* there are more files */
};
#define MSG_SESSION_FILES_MAX (1u << 20)
/* Packed. */
#define MSG_SESSION_ROWS_BYTES_MAX (64u << 20)

int session_rows_encode(const struct session_rows *rows, struct buf *ret, struct err *reterr);
int session_rows_decode(const void *data, size_t size, struct session_rows *ret, struct err *reterr);
void session_rows_clear(struct session_rows *rows);

/* What became of the interpreter, where there was one: a copy has none, and one whose files are replaced
 * ends. */
enum session_kernel {
    SESSION_KERNEL_NONE,
    SESSION_KERNEL_NOT_COPIED,
    SESSION_KERNEL_ENDED,
    SESSION_KERNEL_COUNT
};

struct msg_session_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char text[512];
    uint64_t retry_after_ms;
    uint64_t size; /* of the file that comes along */
    bool made;     /* the session, for this */
    uint64_t files,
        left_out; /* of a copy: its files, and what is neither file, directory nor symbolic link */
    enum session_kernel kernel;
};

extern const struct bind_table session_query_table, session_answer_table;
