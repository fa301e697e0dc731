/* Words that reach jobs under way: a front's, a session's, the server's own end. Runs in the warden. What
 * they come to is told as every end is (jobs.c). */
#include "config/message/message.h"
#include "server/run/execution.h"
#include "server/run/kernels.h"
#include "server/warden/warden_internal.h"

void job_cancel(struct front *front, uint64_t id)
{
    for (struct warden_job *job = front->warden->jobs; job; job = job->next) {
        if (job->front == front && job->id == id) {
            execution_cancel(job->execution);
        }
    }
    /* One that is not there has ended meanwhile: its verdict is on the way. */
}

void job_name_outputs(struct front *front, struct msg_outputs *outputs)
{
    for (struct warden_job *job = front->warden->jobs; job; job = job->next) {
        if (job->front == front && job->id == outputs->id) {
            execution_name_outputs(job->execution, &outputs->paths, &outputs->n_paths);
        }
    }
}

void job_cancel_session(struct warden *warden, const struct session *session)
{
    for (struct warden_job *job = warden->jobs; job; job = job->next) {
        if (job->session == session) {
            execution_kill(job->execution);
        }
    }
}

void job_end_session(void *arg, const struct session *session, const char *why)
{
    const struct warden *warden = arg;
    for (struct warden_job *job = warden->jobs; job; job = job->next) {
        if (job->session == session) {
            execution_end_over_workspace(job->execution, why);
        }
    }
    kernels_end_session(warden->kernels, session, true);
}

void job_cancel_all(struct warden *warden)
{
    for (struct warden_job *job = warden->jobs; job; job = job->next) {
        execution_kill(job->execution);
    }
}
