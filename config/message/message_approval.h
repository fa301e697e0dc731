/* What front and warden say about approvals, and that as messages, which message.c reads and writes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/format/bind.h"
#include "config/message/approval.h"
#include "jail/base/err.h"

enum approval_query { APPROVAL_LIST, APPROVAL_GET, APPROVAL_DECIDE, APPROVAL_QUERY_COUNT };

struct msg_approval_query {
    uint64_t id;
    enum approval_query what;
    char key[APPROVAL_KEY_BYTES]; /* as it was shown; "" where the server is open */
    char approval_id[APPROVAL_ID_BYTES];
    bool approve;                       /* of DECIDE */
    char reason[APPROVAL_REASON_BYTES]; /* of DECIDE; else "" */
};

struct msg_approval_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char item[256], text[512];
    bool not_needed;
};

struct msg_approval_changed {
    char approval_id[APPROVAL_ID_BYTES];
    enum approval_state state;
    char reason[APPROVAL_REASON_BYTES];
};

/* Of MSG_APPROVAL_RUN, which tells no id, and of MSG_RUN. */
struct msg_approval_run {
    uint64_t id;
    char approval_id[APPROVAL_ID_BYTES];
};

extern const struct bind_table approval_query_table, approval_answer_table, approval_changed_table,
    approval_run_table, run_table;
