/* What front and warden say about asynchronous jobs whose results are kept, and that as messages, which
 * message.c reads and writes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/format/bind.h"
#include "config/message/approval.h"
#include "jail/base/err.h"

#define KEPT_STATUS_BYTES 32
#define KEPT_REASON_BYTES 513

/* How a job that the warden keeps has ended. */
struct msg_keep {
    uint64_t id; /* of the job */
    char status[KEPT_STATUS_BYTES];
};

enum kept_query { KEPT_LIST, KEPT_GET, KEPT_DELETE, KEPT_QUERY_COUNT };

struct msg_kept_query {
    uint64_t id;
    enum kept_query what;
    char key[APPROVAL_KEY_BYTES];   /* as it was shown; "" where the server is open */
    char job_id[KEPT_ID_BYTES];     /* of all but LIST */
    char reason[KEPT_REASON_BYTES]; /* of DELETE; "" there is none */
};

/* Times are milliseconds since the epoch. */
struct kept_row {
    char job_id[KEPT_ID_BYTES], execution_id[129], runtime[65], status[KEPT_STATUS_BYTES];
    uint64_t created_ms, ended_ms, expires_ms; /* the last two 0: it runs */
};
#define MSG_KEPT_MAX 256

struct msg_kept_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char text[512];
    struct kept_row *rows; /* owned */
    size_t n_rows;
};

extern const struct bind_table keep_table, kept_query_table, kept_answer_table;
