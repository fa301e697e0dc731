/* What a front asks about sessions: a key's list, the end of one, the files of one. Runs in the warden. The
 * front says on whose behalf it asks; whom a session belongs to is known here. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/sessions/sessions.h"
#include "server/warden/job_descriptors.h"

/* One query on its way to its answer. */
struct asked {
    struct front *front;
    const struct msg_session_query *query;
    int content; /* of a file that is put; -1: none */
    struct msg_session_answer answer;
    int ret_fd; /* what goes with the answer; -1: nothing */
};

static int send_rows(struct asked *asked, const struct session_rows *rows, struct err *reterr)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int r = session_rows_encode(rows, &packed, reterr);
    if (r < 0) {
        return r;
    }
    r = io_memfd("sessions", packed.data ? packed.data : "", packed.len, &asked->ret_fd);
    return r < 0 ? err_errno(reterr, -r, "telling of sessions") : 0;
}

static int list(struct asked *asked, struct err *reterr)
{
    const struct sessions *sessions = asked->front->warden->sessions;
    CLEANUP(session_rows_clear) struct session_rows rows = {0};
    size_t room = sessions_count(sessions);
    rows.sessions = calloc(room + 1, sizeof *rows.sessions);
    if (!rows.sessions) {
        return err_errno(reterr, ENOMEM, "listing sessions");
    }
    rows.n_sessions = sessions_list(sessions, asked->front->settings->config, asked->query->key,
                                    rows.sessions, room < MSG_SESSIONS_MAX ? room : MSG_SESSIONS_MAX);
    return send_rows(asked, &rows, reterr);
}

/* One that is not there is ended already. */
static int end(struct asked *asked, struct err *reterr)
{
    struct warden *warden = asked->front->warden;
    const struct msg_session_query *query = asked->query;
    struct session *session;
    int r = session_find(warden->sessions, asked->front->settings->config, query->key, query->session_id,
                         &session, reterr);
    if (r == 0 && session) {
        LOG(warden->log, LOG_DEBUG, "session_ended", LOG_FIELD_STR("session_id", query->session_id),
            LOG_FIELD_STR("key", query->key));
        job_cancel_session(warden, session);
        session_end(session);
    }
    return r;
}

/* As large as a job may return one that runs under no particular policy. */
static uint64_t most_file_bytes(const struct settings *settings)
{
    const struct server_config *config = settings->config;
    const struct runtime_config *runtime = server_config_runtime(config, config->default_runtime);
    const struct policy *policy = runtime ? policy_set_find(settings->policies, runtime->policy) : NULL;
    return policy ? policy_spec(policy)->limits.output_file_bytes : 0;
}

/* 1: the sessions answer by themselves. */
static int ask_for_files(struct asked *asked, struct err *reterr)
{
    struct front *front = asked->front;
    const struct session_file_ask ask = {.config = front->settings->config,
                                         .query = *asked->query,
                                         .most_bytes = most_file_bytes(front->settings),
                                         .asker = front};
    bool writes = asked->query->what == SESSION_FILE_PUT || asked->query->what == SESSION_FORK ||
                  asked->query->what == SESSION_RESTORE;
    int r = writes ? warden_floor_check(front->warden, &asked->answer.retry_after_ms, reterr) : 0;
    if (r < 0) {
        return r;
    }
    r = asked->query->n_others > 0 ? session_branch_ask(front->warden->sessions, &ask, reterr)
                                   : session_files_ask(front->warden->sessions, &ask, asked->content, reterr);
    return r < 0 ? r : 1;
}

void session_answer_send(void *arg, void *asker, const struct msg_session_answer *answer, int fd)
{
    (void)arg;
    const struct msg msg = {.type = MSG_SESSION_ANSWER, .session_answer = *answer};
    front_send(asker, &msg, &fd, fd >= 0 ? 1 : 0);
}

void session_query_answer(struct front *front, const struct msg_session_query *query, int content)
{
    static int (*const answers[SESSION_QUERY_COUNT])(struct asked * asked, struct err * reterr) = {
        [SESSION_LIST] = list,
        [SESSION_DELETE] = end,
        [SESSION_FILES] = ask_for_files,
        [SESSION_FILE_GET] = ask_for_files,
        [SESSION_FILE_PUT] = ask_for_files,
        [SESSION_FILE_DELETE] = ask_for_files,
        [SESSION_FORK] = ask_for_files,
        [SESSION_DIFF] = ask_for_files,
        [SESSION_RESTORE] = ask_for_files,
    };
    struct asked asked = {
        .front = front, .query = query, .content = content, .answer = {.id = query->id}, .ret_fd = -1};
    struct err err = {0};
    if ((query->what == SESSION_FILE_PUT) != (content >= 0) ||
        (content >= 0 && !job_descriptors_is_sealed(content))) {
        front_kill(front, "a file of a session is not a sealed anonymous file");
        return;
    }
    int r = answers[query->what](&asked, &err);
    if (r == 1) {
        return;
    }
    if (r < 0) {
        asked.answer.kind = err.kind;
        snprintf(asked.answer.text, sizeof asked.answer.text, "%s", err.text);
    }
    session_answer_send(front->warden, front, &asked.answer, asked.ret_fd);
    fd_closep(&asked.ret_fd);
}
