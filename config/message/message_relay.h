/* What one front asks the others through the warden, and is answered: after a reload, jobs go on with the
 * front that was replaced, while their callers' requests come to the new one. */
#pragma once

#include <stdint.h>

#include "config/format/bind.h"
#include "config/format/digest.h"
#include "config/message/approval.h"
#include "jail/base/err.h"

enum relay {
    RELAY_ANSWERS,   /* to tool calls, with the request's body beside the message */
    RELAY_TERMINATE, /* runs of an evaluator */
    RELAY_CALLS,     /* what a job that is kept waits to be answered */
    RELAY_COUNT
};

/* Of one front, at once. */
#define RELAYS_MAX 64u
/* Of a body or a reply beside a message, which is read in an event loop. */
#define RELAY_BODY_MAX (1 << 20)

struct msg_relay {
    uint64_t id;
    enum relay what;
    char key[APPROVAL_KEY_BYTES];           /* to the warden: as it was shown; from it: the key's name */
    unsigned char key_sha256[SHA256_BYTES]; /* from the warden; zeros where the server is open */
    char about[129];                        /* the caller's name for the job; CALLS: the job's id */
    char reason[513];                       /* TERMINATE: "": none; else "" */
};

/* With the reply's body beside the message, where there is one. */
struct msg_relay_answer {
    uint64_t id;
    enum err_kind kind; /* ERR_NONE: done */
    char item[256], text[512];
};

extern const struct bind_table relay_table, relay_answer_table;
