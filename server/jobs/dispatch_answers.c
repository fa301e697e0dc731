/* What a job's own caller is told of while it runs. Tool calls that go to him: in its events, or when he asks
 * for the job; he answers with a request of its own. And what the program shows. Runs in the front. */
#include <errno.h>
#include <string.h>

#include "config/format/json.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/bridge/bridge.h"
#include "server/doors/answers.h"
#include "server/jobs/dispatch.h"
#include "server/jobs/dispatch_internal.h"
#include "server/jobs/stream.h"
#include "server/kit/json_out.h"

static void put_call(struct buf *ret, const char *id, const struct bridge_call *call)
{
    buf_putc(ret, '{');
    json_out_text(ret, "id", id);
    json_out_text(ret, "name", call->name);
    json_out_key(ret, "args");
    buf_append(ret, call->args, call->args_size);
    buf_putc(ret, '}');
}

void dispatch_tell_call(void *arg, const char *id, const struct bridge_call *call)
{
    const struct running *job = arg;
    if (job->request && job->request->stream) {
        CLEANUP(buf_free) struct buf data = BUF_INIT;
        put_call(&data, id, call);
        stream_event(job->request->stream, "call", &data);
    }
}

void dispatch_tell_shown(void *arg, const char *json_text, size_t size)
{
    const struct running *job = arg;
    CLEANUP(buf_free) struct buf data = BUF_INIT;
    buf_append(&data, json_text, size);
    stream_event(job->request->stream, "display", &data);
}

static struct bridge_call *find_call(const struct running *job, const char *id)
{
    for (struct bridge_call *call = bridge_oldest_call(job->bridge); call; call = call->previous) {
        const char *told = tools_told_id(call);
        if (told && strcmp(told, id) == 0) {
            return call;
        }
    }
    return NULL;
}

static bool is_asked(const struct running *job, const struct key_config *key, const char *execution_id)
{
    return job->tools.held && job->bridge && job->caller.key == key &&
           strcmp(job->execution_id, execution_id) == 0;
}

/* Several jobs of one caller may have one name. */
static struct bridge_call *find_anywhere(const struct dispatch *dispatch, const struct key_config *key,
                                         const char *execution_id, const char *id)
{
    struct bridge_call *call = NULL;
    for (const struct running *job = dispatch->jobs; job && !call; job = job->next) {
        call = is_asked(job, key, execution_id) ? find_call(job, id) : NULL;
    }
    return call;
}

static int check_job(const struct dispatch *dispatch, const struct key_config *key, const char *execution_id,
                     struct err *reterr)
{
    const struct running *job = dispatch->jobs;
    while (job && !is_asked(job, key, execution_id)) {
        job = job->next;
    }
    return job ? 0
               : err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL,
                         "no job with this execution_id runs that has `calls`: \"stream\"");
}

int dispatch_answer(struct dispatch *dispatch, const struct key_config *key, const char *execution_id,
                    const char *text, const struct answer *answers, size_t n, struct buf *ret,
                    struct err *reterr)
{
    CLEANUP(buf_free) struct buf refused = BUF_INIT;
    size_t n_answered = 0;
    int r = check_job(dispatch, key, execution_id, reterr);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct bridge_call *call = find_anywhere(dispatch, key, execution_id, answers[i].id);
        if (!call) {
            answer_write_refused(answers[i].id, &refused);
            continue;
        }
        const struct json_slice slice = json_escaped(answers[i].text, text);
        tools_answer(call, answers[i].failed, slice.text, slice.size);
        n_answered++;
    }
    if (r == 0 && n > 0 && n_answered == 0) {
        return err_set(reterr, ERR_CONFLICT, ESTALE, NULL,
                       "no call with such an id waits: each was answered, or has ended");
    }
    if (r == 0) {
        buf_putc(ret, '{');
        json_out_u64(ret, "answered", n_answered);
        json_out_open(ret, "refused", '[');
        buf_append(ret, refused.data, refused.len);
        buf_puts(ret, "]}\n");
        ret->failed = ret->failed || refused.failed;
    }
    return r;
}

bool dispatch_write_calls(const struct dispatch *dispatch, const struct key_config *key, const char *job_id,
                          struct buf *ret)
{
    const struct running *job = dispatch->jobs;
    while (job && (job->caller.key != key || strcmp(job->kept.job_id, job_id) != 0)) {
        job = job->next;
    }
    if (!job || !job->tools.held || !job->bridge) {
        return job != NULL;
    }
    json_out_open(ret, "calls", '[');
    for (struct bridge_call *call = bridge_oldest_call(job->bridge); call; call = call->previous) {
        if (tools_told_id(call)) {
            json_out_separator(ret);
            put_call(ret, tools_told_id(call), call);
        }
    }
    buf_putc(ret, ']');
    return true;
}
