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
    SESSION_QUERY_COUNT
};

/* Room for the path of a file in a workspace. */
#define SESSION_PATH_BYTES 4096

struct msg_session_query {
    uint64_t id;
    enum session_query what;
    char key[65];                      /* the calling key's name */
    char session_id[SESSION_ID_BYTES]; /* LIST: "" */
    char path[SESSION_PATH_BYTES];     /* of one file; else "" */
};

/* Times are milliseconds since the epoch. */
struct session_row {
    char session_id[SESSION_ID_BYTES];
    uint64_t created_ms, used_ms, expires_ms; /* expires_ms 0: not while its jobs run */
    uint64_t bytes, files;
    uint32_t jobs;
};
#define MSG_SESSIONS_MAX 65536

/* A file of a session. */
struct session_file {
    char *path; /* relative, any bytes but NUL; owned */
    uint64_t size, modified_ms;
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

struct msg_session_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char text[512];
    uint64_t retry_after_ms;
    uint64_t size; /* of the file that comes along */
    bool made;     /* the session, for this */
};

extern const struct bind_table session_query_table, session_answer_table;
