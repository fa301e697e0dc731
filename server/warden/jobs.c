/* A job's life in the warden: MSG_JOB in, a jail, MSG_DONE or MSG_REFUSED out.
 *
 * The front's word is not taken: ids must rise, and descriptors be what they should (job_descriptors.c).
 * Capacity is decided here and nowhere else. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/watch.h"
#include "server/image/open.h"
#include "server/kit/die_here.h"
#include "server/kit/log.h"
#include "server/run/execution.h"
#include "server/run/kernels.h"
#include "server/run/settings.h"
#include "server/run/warm.h"
#include "server/sessions/sessions.h"
#include "server/warden/job_descriptors.h"

/* How many answered jobs may be waiting for their jails to be gone. */
#define DYING_MAX 64

static bool unlink_from(struct warden_job **at, const struct warden_job *job)
{
    while (*at && *at != job) {
        at = &(*at)->next;
    }
    if (!*at) {
        return false;
    }
    *at = job->next;
    return true;
}

static void unlink_job(struct warden_job *job)
{
    struct warden *warden = job->warden;
    if (job->is_reported) {
        warden->n_dying -= unlink_from(&warden->dying, job);
    } else if (unlink_from(&warden->jobs, job)) {
        warden->n_jobs -= !job->is_selftest;
    }
}

/* With its verdict a job has left its session, although its jail takes a little longer to go. */
static void leave_session(struct warden_job *job, bool ran)
{
    if (!job->has_left) {
        job->has_left = true;
        session_leave(job->session, ran);
    }
}

/* Frees a job, running or not. */
void job_discard(struct warden_job *job)
{
    loop_remove(job->source);
    loop_remove(job->files_source);
    unlink_job(job);
    leave_session(job, job->execution != NULL);
    execution_free(job->execution);
    session_unref(job->session);
    fd_closep(&job->image_fd);
    free(job);
}

static void tell_verdict(struct warden_job *job, int r, struct job_result *result, const struct err *err)
{
    struct warden *warden = job->warden;
    if (job->is_selftest) {
        return;
    }
    if (!job->front) {
        LOG(warden->log, LOG_WARNING, "job_orphaned", LOG_FIELD_U64("job", job->id),
            LOG_FIELD_STR("execution_id", execution_job(job->execution)->execution_id),
            LOG_FIELD_STR("key", execution_job(job->execution)->key));
    } else if (r < 0) {
        log_err(warden->log, LOG_ERROR, "job_verdict_lost", err);
        job_refuse(job->front, job->id, err, 0);
    } else {
        struct msg msg = {.type = MSG_DONE, .done = *result};
        front_send(job->front, &msg, NULL, 0);
    }
}

/* Keeps what the jail still holds (its uid, its cgroup, its scratch) until it is gone. */
static void await_end(struct warden_job *job)
{
    struct warden *warden = job->warden;
    unlink_job(job);
    job->is_reported = true;
    job->next = warden->dying;
    warden->dying = job;
    warden->n_dying++;
}

/* Jobs must not come faster than the kernel takes their jails apart. */
static void discard_oldest(struct warden *warden)
{
    while (warden->n_dying > DYING_MAX) {
        struct warden_job *oldest = warden->dying;
        while (oldest->next) {
            oldest = oldest->next;
        }
        job_discard(oldest);
    }
}

/* Only now another jail is parked: its making must not keep a verdict from its caller. */
static void discard_gone(struct warden_job *job)
{
    struct warm *warm = job->warden->warm;
    job_discard(job);
    warm_tend(warm);
}

static void on_files(void *arg, uint32_t events);

/* Whether another front counts the jobs of this one. */
static bool counts_elsewhere(const struct warden *warden, const struct front *front)
{
    return front != warden->current || (warden->fronts && warden->fronts->next);
}

static void finish(struct warden_job *job)
{
    struct warden *warden = job->warden;
    struct job_result result = {0};
    struct err err = {0};
    int r = execution_finish(job->execution, &result, &err);
    if (r == 1) {
        r = loop_add(warden->loop, execution_files_fd(job->execution), EPOLLIN, on_files, job,
                     &job->files_source, &err);
        if (r == 0 && execution_is_gone(job->execution)) {
            loop_remove(TAKE_PTR(job->source)); /* of a kernel, which others may watch from now on */
        }
        if (r == 0) {
            return;
        }
    }
    leave_session(job, true);
    if (job->session) {
        result.session = job->session_is_new ? JOB_SESSION_NEW : JOB_SESSION_KEPT;
    }
    if (job->approval_id[0] != '\0') {
        approval_end(warden, job->approval_id, job->front && r == 0,
                     !job->front ? "the process that had asked for it ended while it ran"
                     : r < 0     ? "its verdict could not be read"
                                 : job_status_to_string(result.status));
    }
    kept_take_verdict(job, r, &result);
    tell_verdict(job, r, &result, &err);
    void (*done)(struct warden * warden, const struct job_result *result) = job->done;
    bool is_elsewhere = !job->is_selftest && counts_elsewhere(warden, job->front);
    if (execution_is_gone(job->execution)) {
        discard_gone(job);
    } else {
        await_end(job);
    }
    if (done) {
        done(warden, r < 0 ? NULL : &result);
    } else if (r == 0 && result.status == JOB_SETUP_ERROR) {
        warden_doubt(warden);
    }
    if (is_elsewhere) {
        warden_publish_state(warden);
    }
    job_result_clear(&result);
    approvals_tend(warden);
    warden_check_drained(warden);
}

static void on_files(void *arg, uint32_t events)
{
    (void)events;
    struct warden_job *job = arg;
    loop_remove(TAKE_PTR(job->files_source));
    finish(job);
}

/* Once, where the job asked for it. */
static void announce(struct warden_job *job)
{
    if (job->front && !job->announced && execution_job(job->execution)->announce) {
        job->announced = true;
        front_send(job->front, &(struct msg){.type = MSG_STARTED, .started = {.id = job->id}}, NULL, 0);
    }
}

/* Its front keeps the proxy to the hosts of its policy: the one that it began with, also after a reload. */
static void hand_over_egress(struct warden_job *job)
{
    int fd = execution_egress_fd(job->execution);
    if (!job->front || job->has_proxy || fd < 0) {
        return;
    }
    struct msg msg = {.type = MSG_EGRESS, .egress = {.id = job->id}};
    snprintf(msg.egress.policy, sizeof msg.egress.policy, "%s", execution_policy(job->execution));
    job->has_proxy = true;
    front_send(job->front, &msg, &fd, 1);
}

static void on_jail_event(void *arg, uint32_t events)
{
    (void)events;
    struct warden_job *job = arg;
    enum execution_state state = execution_dispatch(job->execution);
    if (state == EXECUTION_RUNNING) {
        announce(job);
        hand_over_egress(job);
    }
    if (job->files_source) {
        if (execution_is_gone(job->execution)) {
            loop_remove(TAKE_PTR(job->source)); /* it tells nothing more */
        }
        return;
    }
    if (!job->is_reported && state == EXECUTION_ENDED) {
        /* A program is told that its result has arrived when the front has told us of the files: that is in
         * the socket by now. */
        if (job->front) {
            job->warden->hear(job->front, 1024);
        }
        finish(job);
    } else if (job->is_reported && execution_is_gone(job->execution)) {
        discard_gone(job);
    } else if (state == EXECUTION_RUNNING && job->warden->warm) {
        warm_tend_empty(job->warden->warm);
    }
}

/* Only ever earlier: jobs that start must not push the next look at those that run further away. */
static void watch_by(struct warden *warden, uint64_t due_ns)
{
    if (warden->watch_due_ns == 0 || due_ns < warden->watch_due_ns) {
        warden->watch_due_ns = due_ns;
        loop_timer_set(warden->watch_timer, due_ns);
    }
}

void job_watch_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    uint64_t next_ns = UINT64_MAX;
    warden->watch_due_ns = 0;
    for (struct warden_job *job = warden->jobs; job; job = job->next) {
        if (!execution_needs_watch(job->execution)) {
            continue;
        }
        uint64_t due_ns = execution_watch(job->execution);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    if (next_ns != UINT64_MAX) {
        uint64_t earliest_ns = clock_now_ns() + JAIL_WATCH_INTERVAL_MS * NS_PER_MS;
        watch_by(warden, next_ns > earliest_ns ? next_ns : earliest_ns);
    }
}

static void enlist(struct warden_job *job)
{
    struct warden *warden = job->warden;
    job->next = warden->jobs;
    warden->jobs = job;
    warden->n_jobs += !job->is_selftest;
}

/* Puts a started execution under the loop's care. */
static int adopt(struct warden_job *job, struct err *reterr)
{
    struct warden *warden = job->warden;
    int r = loop_add(warden->loop, execution_fd(job->execution), EPOLLIN, on_jail_event, job, &job->source,
                     reterr);
    if (r < 0) {
        return r;
    }
    if (!job->awaits_input) {
        enlist(job);
    }
    job->awaits_input = false;
    warden_floor_arm(warden);
    if (execution_needs_watch(job->execution)) {
        watch_by(warden, clock_now_ns() + JAIL_WATCH_INTERVAL_MS * NS_PER_MS);
    }
    return 0;
}

/* It has not begun, and whoever asked for it is told why, as job_accept() and job_run() do. */
static void give_up(struct warden_job *job, struct err *err)
{
    struct warden *warden = job->warden;
    struct front *front = job->front;
    uint64_t id = job->id;
    bool is_approved = job->approval_id[0] != '\0', is_elsewhere = counts_elsewhere(warden, front);
    leave_session(job, false);
    if (is_approved && front) {
        approval_not_begun(front, job->approval_id, err);
    } else if (is_approved) {
        approval_end(warden, job->approval_id, false,
                     "the process that had asked for it ended before it began");
    }
    job_discard(job);
    if (front && !is_approved) {
        kept_forget(front, id);
    }
    if (front) {
        job_report_failure(front, id, err, 0);
    }
    if (is_elsewhere) {
        warden_publish_state(warden);
    }
    approvals_tend(warden);
    warden_check_drained(warden);
}

static void on_input(void *arg, uint32_t events)
{
    (void)events;
    struct warden_job *job = arg;
    struct err err = {0};
    loop_remove(TAKE_PTR(job->files_source));
    int r = execution_go_on(job->execution, &err);
    r = r < 0 ? r : adopt(job, &err);
    if (r < 0) {
        give_up(job, &err);
    }
}

/* Until its input is written it has a slot, but no jail to listen to. */
static int await_input(struct warden_job *job, struct err *reterr)
{
    int r = loop_add(job->warden->loop, execution_filler_fd(job->execution), EPOLLIN, on_input, job,
                     &job->files_source, reterr);
    if (r < 0) {
        return r;
    }
    job->awaits_input = true;
    enlist(job);
    return 0;
}

/* The session that the job names, if it names one. */
static int enter_session(struct warden_job *job, const struct settings *settings, const struct job *asked,
                         struct session_workspace *ret, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    if (!asked->session_id) {
        return 0;
    }
    const struct session_ask ask = {.config = settings->config,
                                    .key = asked->key,
                                    .session_id = asked->session_id,
                                    .kept = asked->session_kept};
    int r = session_enter(job->warden->sessions, &ask, &job->session, &job->session_is_new,
                          ret_retry_after_ms, reterr);
    uint64_t input_bytes = 0;
    for (size_t i = 0; i < asked->n_files; i++) {
        input_bytes += asked->files[i].size;
    }
    return r < 0 ? r : session_open(job->session, input_bytes, ret, reterr);
}

/* The kernel of the job's session, where its policy keeps one; `*ret` is NULL otherwise. */
static int enter_kernel(const struct warden_job *job, const struct settings *settings,
                        const struct job *asked, const struct runtime_config *runtime,
                        const struct policy *policy, struct kernel **ret, uint64_t *ret_retry_after_ms,
                        struct err *reterr)
{
    if (!job->session || policy_spec(policy)->state != POLICY_STATE_KERNEL) {
        return 0;
    }
    if (job->approval_id[0] == '\0' && approvals_claim_kernel(job->warden, asked->session_id)) {
        *ret_retry_after_ms = 0;
        return err_set(reterr, ERR_BUSY, EBUSY, NULL,
                       "server busy: the kernel of this session is about to run an approved job");
    }
    return kernel_enter(job->warden->kernels, settings->config, asked->key, job->session, runtime, policy,
                        ret, ret_retry_after_ms, reterr);
}

/* The image that the job runs in, if it does. */
static int open_image(const struct settings *settings, const struct policy *policy,
                      const struct runtime_config *runtime, const struct job *asked, struct image *ret,
                      struct err *reterr)
{
    const char *name;
    int r = policy_image_for(policy, asked, &name, reterr);
    return r < 0 || !name ? r : image_open(settings->config->image_directory, name, runtime, ret, reterr);
}

static void give_descriptors(const int fds[JOB_FD_COUNT], int image_fd, int ret[JAIL_FD_COUNT])
{
    ret[JAIL_FD_STDIN] = fds[JOB_FD_STDIN];
    ret[JAIL_FD_STDOUT] = fds[JOB_FD_STDOUT];
    ret[JAIL_FD_STDERR] = fds[JOB_FD_STDERR];
    ret[JAIL_FD_INPUT] = fds[JOB_FD_INPUT];
    ret[JAIL_FD_SCRATCH] = -1;
    ret[JAIL_FD_BRIDGE_IN] = fds[JOB_FD_BRIDGE_IN];
    ret[JAIL_FD_BRIDGE_OUT] = fds[JOB_FD_BRIDGE_OUT];
    ret[JAIL_FD_WORKSPACE] = -1;
    ret[JAIL_FD_IMAGE] = image_fd;
    for (size_t slot = JAIL_FD_BIND; slot <= JAIL_FD_BIND_LAST; slot++) {
        ret[slot] = -1;
    }
}

/* Takes `asked` over. `approval_id`: NULL where it needed none. */
static int start(struct warden *warden, const struct settings *settings, struct job *asked,
                 const int fds[JOB_FD_COUNT], bool is_selftest, const char *approval_id,
                 struct warden_job **ret, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    const struct runtime_config *runtime;
    const struct policy *policy;
    discard_oldest(warden);
    struct warden_job *job = calloc(1, sizeof *job);
    int r = job ? settings_find(settings, asked, &runtime, &policy, reterr)
                : err_errno(reterr, ENOMEM, "starting a job");
    if (r < 0) {
        job_free(asked);
        free(job);
        return r;
    }
    *job = (struct warden_job){.warden = warden, .is_selftest = is_selftest, .id = asked->id, .image_fd = -1};
    snprintf(job->approval_id, sizeof job->approval_id, "%s", approval_id ? approval_id : "");
    struct session_workspace session = {.fd = -1, .mount_fd = -1};
    struct kernel *kernel = NULL;
    struct image image = IMAGE_CLOSED;
    r = open_image(settings, policy, runtime, asked, &image, reterr);
    job->image_fd = TAKE_FD(image.lock_fd);
    r = r < 0 ? r : enter_session(job, settings, asked, &session, ret_retry_after_ms, reterr);
    r = r < 0 ? r : enter_kernel(job, settings, asked, runtime, policy, &kernel, ret_retry_after_ms, reterr);
    if (r == 0 && !is_selftest) {
        r = warden_audit_begin_job(warden, asked, runtime, policy, ret_retry_after_ms, reterr);
    }
    r = r < 0 || !approval_id ? r : approval_begin(warden, approval_id, reterr);
    if (r < 0) {
        kernel_leave(kernel);
        image_close(&image);
        fd_closep(&session.mount_fd);
        job_free(asked);
        job_discard(job);
        return r;
    }
    struct policy_ceilings ceilings = settings_ceilings(settings, &warden->host, asked->key);
    ceilings.file_bytes = job->session ? session_file_bytes(settings->config) : 0;
    bool in_image = image.mount_fd >= 0;
    char owner[TEMPLATE_OWNER_BYTES];
    settings_template_owner(settings, asked->key, owner);
    bool may_be_warm = settings == warden->settings && !(is_selftest && (owner[0] || in_image));
    struct policy_program program = {
        .runtime = runtime, .image = in_image ? &image.policy : NULL, .bridge = !is_selftest, .proxy = true};
    const struct warm_image warm_image = {
        .lock_fd = job->image_fd, .imported_ms = image.record.imported_ms, .policy = &image.policy};
    struct execution_request request = {.host = &warden->host,
                                        .policy = policy,
                                        .ceilings = &ceilings,
                                        .program = &program,
                                        .job = asked,
                                        .image = in_image ? &warm_image : NULL,
                                        .warm = may_be_warm ? warden->warm : NULL,
                                        .template_owner = owner,
                                        .session = job->session ? &session : NULL,
                                        .kernel = kernel,
                                        .list_outputs = !is_selftest};
    give_descriptors(fds, image.mount_fd, request.fds);
    r = execution_start(&request, &job->execution, reterr);
    fd_closep(&session.mount_fd);
    image_close(&image);
    r = r == 1 ? await_input(job, reterr) : r == 0 ? adopt(job, reterr) : r;
    if (r < 0) {
        job_discard(job);
        return r;
    }
    *ret = job;
    return 0;
}

/* The verdict goes to this front; the others count the job as well. */
static void give_to(struct front *front, struct warden_job *job)
{
    job->front = front;
    if (counts_elsewhere(front->warden, front)) {
        warden_publish_state(front->warden);
    }
}

/* Whether other jobs leave it a slot. */
static int check_slot(const struct front *front, const struct job *asked, uint64_t *ret_retry_after_ms,
                      struct err *reterr)
{
    const struct warden *warden = front->warden;
    int r = job_check_load(front, asked, ret_retry_after_ms, reterr);
    if (r == 0 && warden->n_jobs + approvals_handed_over(warden, NULL) >=
                      warden->settings->config->max_concurrent_jobs) {
        r = err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: execution capacity reached");
    }
    return r;
}

void job_accept(struct front *front, struct job *asked, int fds[JOB_FD_COUNT])
{
    struct warden *warden = front->warden;
    struct err err = {0};
    uint64_t id = asked->id;
    if (!front_next_job(front, id, job_descriptors_check(fds))) {
        job_free(asked);
        return;
    }
    uint64_t retry_after_ms = 0;
    if (approval_check_job(front, asked, &err) < 0 || warden_floor_check(warden, &retry_after_ms, &err) < 0) {
        job_free(asked);
        job_report_failure(front, id, &err, retry_after_ms);
        return;
    }
    if (check_slot(front, asked, &retry_after_ms, &err) < 0) {
        job_free(asked);
        job_refuse_slot(front, id, &err, retry_after_ms);
        return;
    }
    if (kept_begin(front, asked, &err) < 0) {
        job_free(asked);
        job_report_failure(front, id, &err, 0);
        return;
    }
    struct warden_job *job;
    if (start(warden, front->settings, asked, fds, false, NULL, &job, &retry_after_ms, &err) < 0) {
        kept_forget(front, id);
        job_report_failure(front, id, &err, retry_after_ms);
    } else {
        give_to(front, job);
    }
}

/* Its job is ours, and so is the input; the pipes are the front's. There is room for it: approvals_tend() has
 * seen to that. */
void job_run(struct front *front, uint64_t id, const char *approval_id, const int pipes[MSG_RUN_FDS])
{
    struct warden *warden = front->warden;
    struct job *asked = NULL;
    struct err err = {0};
    int fds[JOB_FD_COUNT] = {-1};
    memcpy(fds + 1, pipes, MSG_RUN_FDS * sizeof *pipes);
    if (!front_next_job(front, id, job_descriptors_check_pipes(fds))) {
        return;
    }
    struct warden_job *job = NULL;
    uint64_t retry_after_ms = 0;
    kept_begin_approved(front, id, approval_id);
    int r = approval_take(front, approval_id, &asked, &fds[JOB_FD_INPUT], &err);
    if (r == 0) {
        asked->id = id;
        r = start(warden, front->settings, asked, fds, false, approval_id, &job, &retry_after_ms, &err);
        fd_closep(&fds[JOB_FD_INPUT]);
        if (r < 0) {
            approval_not_begun(front, approval_id, &err);
        }
    }
    if (r < 0 && err.kind == ERR_BUSY) {
        kept_forget(front, id);
    }
    if (r < 0) {
        job_report_failure(front, id, &err, retry_after_ms);
    } else {
        give_to(front, job);
        die_here("started");
    }
    approvals_tend(warden); /* the next one that enters a session */
}

int job_start_selftest(struct warden *warden, const struct settings *settings, struct job *asked,
                       const int fds[JOB_FD_COUNT],
                       void (*done)(struct warden *warden, const struct job_result *result),
                       struct warden_job **ret, struct err *reterr)
{
    uint64_t retry_after_ms;
    int r = start(warden, settings, asked, fds, true, NULL, ret, &retry_after_ms, reterr);
    if (r == 0) {
        (*ret)->done = done;
    }
    return r;
}
