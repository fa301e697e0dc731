/* Copies of sessions as JSON: what a request names. */
#pragma once

#include "config/message/message_session.h"

struct err;
struct json;

/* {"to": [...]}: the names of the copies, all different. ERR_INVALID names the field. */
int fork_decode(const struct json *root, struct msg_session_query *ret, struct err *reterr);
/* {"from": "..."}: whose copy the session becomes. The same. */
int restore_decode(const struct json *root, struct msg_session_query *ret, struct err *reterr);
