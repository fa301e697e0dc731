/* struct stored_session: what is written beside a session's workspace on disk, so that a server that starts
 * again knows whose it is. config/message/session.proto. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "config/message/job.h"

struct buf;
struct err;

struct stored_session {
    char id[SESSION_ID_BYTES];
    unsigned char owner[SHA256_BYTES];
    uint64_t created_ms;
};

/* Appends it as text. -ENOMEM. */
int stored_session_write(const struct stored_session *session, struct buf *ret);
/* ERR_CONFIG with the place, also for a name that no session could have. */
int stored_session_read(const char *file, const char *text, size_t size, struct stored_session *ret,
                        struct err *reterr);
