/* What a front asks about sessions: a key's list, and the end of one. Runs in the warden. The front says on
 * whose behalf it asks; whom a session belongs to is known here. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/sessions/sessions.h"

static int list(struct front *front, const char *key, struct msg_session_answer *answer, struct err *reterr)
{
    answer->rows = calloc(MSG_SESSIONS_MAX, sizeof *answer->rows);
    if (!answer->rows) {
        return err_errno(reterr, ENOMEM, "listing sessions");
    }
    answer->n_rows =
        sessions_list(front->warden->sessions, front->settings->config, key, answer->rows, MSG_SESSIONS_MAX);
    return 0;
}

/* One that is not there is ended already. */
static int end(struct front *front, const char *key, const char *session_id, struct err *reterr)
{
    struct warden *warden = front->warden;
    struct session *session;
    int r = session_find(warden->sessions, front->settings->config, key, session_id, &session, reterr);
    if (r == 0 && session) {
        LOG(warden->log, LOG_DEBUG, "session_ended", LOG_FIELD_STR("session_id", session_id),
            LOG_FIELD_STR("key", key));
        job_cancel_session(warden, session);
        session_end(session);
    }
    return r;
}

void session_query_answer(struct front *front, const struct msg_session_query *query)
{
    struct msg msg = {.type = MSG_SESSION_ANSWER};
    struct msg_session_answer *answer = &msg.session_answer;
    struct err err = {0};
    answer->id = query->id;
    int r = query->what == SESSION_LIST ? list(front, query->key, answer, &err)
                                        : end(front, query->key, query->session_id, &err);
    if (r < 0) {
        answer->kind = err.kind;
        snprintf(answer->text, sizeof answer->text, "%s", err.text);
    }
    front_send(front, &msg, NULL, 0);
    msg_clear(&msg);
}
