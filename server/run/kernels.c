/* The table of kernels. Runs in the warden, which asks it for each job of a session whose policy says
 * `state: KERNEL`.
 *
 *     (none) ── first call ──► called ── call ends ──► idle ── session ends, idles too busily ──► dying
 *                               ▲ │                     │                                          │
 *                               │ └─ jail ends ─► dying │                                          ▼
 *                               └────── next call ──────┘                                        (none)
 *
 * While it is called its jail is the call's execution's to watch, while it is idle ours: what lives on in
 * there has its limits then as well. Whatever ends in an idle kernel ends it; the next call of the session
 * says that it has a new one. */
#include "server/run/kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/jail.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/scratch.h"
#include "jail/standby.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/callers/admission.h"
#include "server/host/floor.h"
#include "server/host/host.h"
#include "server/kit/log.h"
#include "server/sessions/sessions.h"

struct kernel {
    struct kernels *all;
    struct kernel *next;
    struct session *session; /* with a reference: the jail has its outer id and its workspace */
    char *key;               /* whose */
    char *runtime, *policy;
    char policy_sha256[65];
    uint64_t grace_ms, idle_cpu_ms;
    bool called;       /* a call has it, and watches its jail */
    bool dying;        /* no call finds it any more */
    bool fresh;        /* no call has ended in it */
    struct jail *jail; /* NULL: not started yet */
    struct jail_plan *plan;
    int scratch_fd;
    struct loop_source *source; /* while it is not called */
    struct floor_account account;
};

struct kernels {
    struct kernels_options options;
    struct kernel *first;
    size_t count;
    struct loop_source *timer; /* the next look at those that are idle */
    uint64_t armed_ns;         /* when that is due; 0: never */
};

/* ---- The life of one ---- */

static void kernel_free(struct kernel *kernel)
{
    struct kernels *all = kernel->all;
    for (struct kernel **at = &all->first; *at; at = &(*at)->next) {
        if (*at == kernel) {
            *at = kernel->next;
            all->count--;
            break;
        }
    }
    loop_remove(kernel->source);
    jail_free(kernel->jail);
    jail_plan_free(kernel->plan);
    fd_closep(&kernel->scratch_fd);
    session_keep(kernel->session, false);
    session_unref(kernel->session);
    free(kernel->key);
    free(kernel->runtime);
    free(kernel->policy);
    free(kernel);
    all->options.changed(all->options.arg);
}

static void log_end(const struct kernel *kernel)
{
    struct jail_result result;
    struct err err = {0};
    if (jail_collect(kernel->jail, &result, &err) == 0) {
        LOG(*kernel->all->options.log, LOG_INFO, "kernel_ended",
            LOG_FIELD_STR("session_id", session_id_of(kernel->session)),
            LOG_FIELD_STR("runtime", kernel->runtime), LOG_FIELD_STR("while", "idle"),
            LOG_FIELD_STR("end", jail_end_to_string(result.end)));
    }
}

/* Its launcher waits again after a signal, or its jail has ended between two calls. */
static void on_idle_event(void *arg, uint32_t events)
{
    (void)events;
    struct kernel *kernel = arg;
    if (jail_dispatch(kernel->jail) != JAIL_ENDED) {
        return;
    }
    if (!kernel->dying) {
        kernel->dying = true;
        log_end(kernel);
    }
    if (jail_is_gone(kernel->jail)) {
        kernel_free(kernel);
    }
}

static void kill_kernel(struct kernel *kernel)
{
    kernel->dying = true;
    if (kernel->jail) {
        jail_kill(kernel->jail, JAIL_END_CANCEL);
    }
}

void kernels_end_session(struct kernels *kernels, const struct session *session, bool at_once)
{
    for (struct kernel *kernel = kernels ? kernels->first : NULL; kernel; kernel = kernel->next) {
        if (kernel->session != session) {
            continue;
        }
        if (at_once || !kernel->called) {
            kill_kernel(kernel);
        } else {
            kernel->dying = true; /* with its call */
        }
    }
}

/* ---- Looking at those that are idle ---- */

/* A look that is due sooner stays: calls that end in quick succession must not put it off for ever. */
static void arm(struct kernels *kernels)
{
    uint64_t soonest_ns = UINT64_MAX;
    for (const struct kernel *kernel = kernels->first; kernel; kernel = kernel->next) {
        if (!kernel->called && !kernel->dying && jail_watch_due_ns(kernel->jail) < soonest_ns) {
            soonest_ns = jail_watch_due_ns(kernel->jail);
        }
    }
    uint64_t earliest_ns = clock_now_ns() + JAIL_WATCH_INTERVAL_MS * NS_PER_MS;
    uint64_t at_ns = soonest_ns < earliest_ns ? earliest_ns : soonest_ns;
    if (soonest_ns == UINT64_MAX || (kernels->armed_ns > 0 && kernels->armed_ns <= at_ns)) {
        return;
    }
    kernels->armed_ns = at_ns;
    loop_timer_set(kernels->timer, at_ns);
}

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    struct kernels *kernels = arg;
    kernels->armed_ns = 0;
    for (struct kernel *kernel = kernels->first; kernel; kernel = kernel->next) {
        if (!kernel->called && !kernel->dying) {
            jail_watch(kernel->jail, kernel->scratch_fd);
        }
    }
    arm(kernels);
}

/* ---- Calls ---- */

static struct kernel *find(const struct kernels *kernels, const struct session *session)
{
    struct kernel *kernel = kernels->first;
    while (kernel && (kernel->session != session || kernel->dying)) {
        kernel = kernel->next;
    }
    return kernel;
}

static int check_room(const struct kernels *kernels, const struct server_config *config, const char *key,
                      struct err *reterr)
{
    unsigned share = admission_share(config, config->max_kernels), of_key = 0;
    if (kernels->count >= config->max_kernels) {
        return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: there is no room for another kernel");
    }
    for (const struct kernel *kernel = kernels->first; kernel; kernel = kernel->next) {
        of_key += strcmp(kernel->key, key) == 0;
    }
    return of_key < share
               ? 0
               : err_set(reterr, ERR_RATE, EAGAIN, NULL,
                         "key '%.100s' may have %u kernels; the last one is kept for other keys", key, share);
}

static int kernel_new(struct kernels *kernels, const struct server_config *config, const char *key,
                      struct session *session, const struct runtime_config *runtime,
                      const struct policy *policy, struct kernel **ret, struct err *reterr)
{
    if (runtime->kernel[0] == '\0') {
        return err_set(
            reterr, ERR_INVALID, EOPNOTSUPP, "policy",
            "policy '%s' keeps the interpreters of sessions, and the runtime '%s' has none to keep",
            policy_name(policy), runtime->name);
    }
    int r = check_room(kernels, config, key, reterr);
    if (r < 0) {
        return r;
    }
    struct kernel *kernel = calloc(1, sizeof *kernel);
    char *runtime_name = strdup(runtime->name), *policy_text = strdup(policy_name(policy));
    char *key_name = strdup(key);
    if (!kernel || !runtime_name || !policy_text || !key_name) {
        free(kernel);
        free(key_name);
        free(runtime_name);
        free(policy_text);
        return err_errno(reterr, ENOMEM, "making a kernel");
    }
    *kernel = (struct kernel){.all = kernels,
                              .next = kernels->first,
                              .session = session_ref(session),
                              .key = key_name,
                              .runtime = runtime_name,
                              .policy = policy_text,
                              .grace_ms = config->kernel_interrupt_grace_ms,
                              .idle_cpu_ms = config->kernel_idle_cpu_ms,
                              .called = true,
                              .fresh = true,
                              .scratch_fd = -1};
    snprintf(kernel->policy_sha256, sizeof kernel->policy_sha256, "%s", policy_sha256(policy));
    session_keep(session, true);
    kernels->first = kernel;
    kernels->count++;
    kernels->options.changed(kernels->options.arg);
    *ret = kernel;
    return 0;
}

static int refuse_call(const struct kernel *kernel, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    uint64_t deadline_ns = kernel->jail ? jail_deadline_ns(kernel->jail) : 0, now_ns = clock_now_ns();
    *ret_retry_after_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_MS + 1 : 1;
    return err_set(reterr, ERR_BUSY, EBUSY, NULL,
                   "server busy: the kernel of this session runs another call");
}

/* What it may do is what the policy says now. */
static bool is_current(const struct kernel *kernel, const struct policy *policy)
{
    return strcmp(kernel->policy_sha256, policy_sha256(policy)) == 0;
}

int kernel_try(const struct kernels *kernels, const struct server_config *config, const char *key,
               const struct session *session, const struct policy *policy, struct err *reterr)
{
    const struct kernel *kernel = find(kernels, session);
    uint64_t retry_after_ms;
    if (kernel && kernel->called) {
        return refuse_call(kernel, &retry_after_ms, reterr);
    }
    return kernel && is_current(kernel, policy) ? 0 : check_room(kernels, config, key, reterr);
}

int kernel_enter(struct kernels *kernels, const struct server_config *config, const char *key,
                 struct session *session, const struct runtime_config *runtime, const struct policy *policy,
                 struct kernel **ret, uint64_t *ret_retry_after_ms, struct err *reterr)
{
    struct kernel *kernel = find(kernels, session);
    *ret_retry_after_ms = 0;
    if (kernel && kernel->called) {
        return refuse_call(kernel, ret_retry_after_ms, reterr);
    }
    if (kernel &&
        (strcmp(kernel->runtime, runtime->name) != 0 || strcmp(kernel->policy, policy_name(policy)) != 0)) {
        return err_set(reterr, ERR_INVALID, EEXIST, "session_id",
                       "this session has a kernel of the runtime '%s' under the policy '%s'; end the session "
                       "first, or use another one",
                       kernel->runtime, kernel->policy);
    }
    if (kernel && !is_current(kernel, policy)) {
        kill_kernel(kernel);
        kernel = NULL;
    }
    if (!kernel) {
        return kernel_new(kernels, config, key, session, runtime, policy, ret, reterr);
    }
    loop_remove(TAKE_PTR(kernel->source));
    kernel->called = true;
    *ret = kernel;
    return 0;
}

int kernel_start(struct kernel *kernel, struct jail_plan *plan, const struct session_workspace *session,
                 struct err *reterr)
{
    const struct host *host = kernel->all->options.host;
    const struct jail_limits *limits = &plan->limits;
    kernel->plan = plan;
    int r = scratch_open(limits->scratch_bytes, limits->scratch_inodes, session->uid, session->gid,
                         &kernel->scratch_fd, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        return err_errno(reterr, errno, "opening /dev/null");
    }
    /* cppcheck-suppress legacyUninitvar; it cannot read a range of designators */
    struct jail_spawn_options options = {.plan = plan,
                                         .fds = {[JAIL_FD_STDIN] = null,
                                                 [JAIL_FD_STDOUT] = null,
                                                 [JAIL_FD_STDERR] = null,
                                                 [JAIL_FD_SCRATCH] = kernel->scratch_fd,
                                                 [JAIL_FD_INPUT] = -1,
                                                 [JAIL_FD_BRIDGE_IN] = null,
                                                 [JAIL_FD_BRIDGE_OUT] = null,
                                                 [JAIL_FD_WORKSPACE] = session->mount_fd,
                                                 [JAIL_FD_IMAGE... JAIL_FD_BIND_LAST] = -1},
                                         .outer_uid = session->uid,
                                         .outer_gid = session->gid,
                                         .standby = true,
                                         .kernel = true,
                                         .kernel_grace_ms = kernel->grace_ms,
                                         .drop_groups = host->privileged};
    if (host->cgroups) {
        r = jail_cgroup_new(host->cgroups, limits, &options.cgroup, reterr);
    }
    return r < 0 ? r : jail_spawn(&kernel->jail, &options, reterr);
}

int kernel_fits(const struct kernel *kernel, const struct jail_plan *plan, struct err *reterr)
{
    return jail_standby_fits(kernel->plan, plan)
               ? 0
               : err_set(reterr, ERR_INVALID, EINVAL, "session_id",
                         "this session's kernel was started with other limits or variables; ask for the same "
                         "ones, or end the session first");
}

struct jail *kernel_jail(const struct kernel *kernel)
{
    return kernel->jail;
}

const struct jail_plan *kernel_plan(const struct kernel *kernel)
{
    return kernel->plan;
}

int kernel_scratch(const struct kernel *kernel)
{
    return kernel->scratch_fd;
}

enum job_kernel kernel_end_call(struct kernel *kernel)
{
    if (kernel->dying || jail_state(kernel->jail) != JAIL_PARKED) {
        kernel->dying = true;
        return JOB_KERNEL_ENDED;
    }
    bool fresh = kernel->fresh;
    kernel->fresh = false;
    return fresh ? JOB_KERNEL_NEW : JOB_KERNEL_KEPT;
}

void kernel_leave(struct kernel *kernel)
{
    if (!kernel) {
        return;
    }
    struct kernels *all = kernel->all;
    struct err err = {0};
    kernel->called = false;
    if (kernel->jail && (kernel->dying || jail_state(kernel->jail) != JAIL_PARKED)) {
        kill_kernel(kernel);
    }
    if (!kernel->jail || jail_is_gone(kernel->jail)) {
        kernel_free(kernel);
        return;
    }
    jail_idle(kernel->jail, kernel->idle_cpu_ms);
    if (loop_add(all->options.loop, jail_fd(kernel->jail), EPOLLIN, on_idle_event, kernel, &kernel->source,
                 &err) < 0) {
        log_err(*all->options.log, LOG_ERROR, "kernel_not_kept", &err); /* its end would not be noticed */
        kernel_free(kernel);
        return;
    }
    arm(all);
}

/* ---- All of them ---- */

size_t kernels_count(const struct kernels *kernels)
{
    return kernels ? kernels->count : 0;
}

struct floor_account *kernel_account(struct kernel *kernel)
{
    return &kernel->account;
}

void kernel_end_idle(struct kernel *kernel)
{
    kill_kernel(kernel);
}

size_t kernels_idle(struct kernels *kernels, struct floor_candidate *ret, size_t room)
{
    size_t n = 0;
    for (struct kernel *kernel = kernels ? kernels->first : NULL; kernel && n < room; kernel = kernel->next) {
        if (kernel->called || kernel->dying || !kernel->jail) {
            continue;
        }
        ret[n] = (struct floor_candidate){.account = &kernel->account, .owner = kernel};
        jail_watch_usage(kernel->jail, kernel->scratch_fd, &ret[n].memory_bytes, &ret[n].cpu_ns);
        n++;
    }
    return n;
}

int kernels_new(const struct kernels_options *options, struct kernels **ret, struct err *reterr)
{
    struct kernels *kernels = calloc(1, sizeof *kernels);
    if (!kernels) {
        return err_errno(reterr, ENOMEM, "making the table of kernels");
    }
    kernels->options = *options;
    int r = loop_add_timer(options->loop, on_timer, kernels, &kernels->timer, reterr);
    if (r < 0) {
        free(kernels);
        return r;
    }
    *ret = kernels;
    return 0;
}

void kernels_free(struct kernels *kernels)
{
    if (!kernels) {
        return;
    }
    /* First all of them, then one after the other: the kernel takes their jails apart side by side. */
    for (struct kernel *kernel = kernels->first; kernel; kernel = kernel->next) {
        kill_kernel(kernel);
    }
    while (kernels->first) {
        kernel_free(kernels->first);
    }
    loop_remove(kernels->timer);
    free(kernels);
}
