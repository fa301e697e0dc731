/* A template in the warden: started, asked for jails, started again when it dies, given up where it does not
 * work.
 *
 * It is a matter of speed only. Every failure here ends in jobs that start their own interpreter, and in one
 * line of the log that says why. */
#include "server/run/warm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "jail/jail.h"
#include "jail/plan/template_plan.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/idmap.h"
#include "jail/resources/scratch.h"
#include "jail/template.h"
#include "policy/policy.h"
#include "server/host/host.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/sessions/sessions.h"

/* The delay after a failure doubles with each in a row, up to a minute: it may have been the load. */
#define DOUBLINGS_MAX 7
#ifndef RESTART_DELAY_NS
#define RESTART_DELAY_NS (NS_PER_S / 2)
#endif

/* How long a template that has gone may take to tell why. The warden waits meanwhile. */
#define LAST_WORDS_NS (100 * NS_PER_MS)

/* So many times in a row an image's interpreter may fail to stand ready. */
#define IMAGE_FAILURES_MAX 3

/* For what packages write when they are imported: a list of fonts. */
#define TEMPORARY_BYTES (16ull << 20)

/* The plan of a job that asks for nothing of its own, or of one that has a session. */
static int plain_plan(const struct warm_template *template, bool in_session, struct jail_plan **ret,
                      struct err *reterr)
{
    char some_session[] = "s";
    struct policy_ceilings ceilings = {0};
    host_apply_to_ceilings(template->host, &ceilings);
    ceilings.file_bytes = in_session ? session_file_bytes(template->warm->options.settings->config) : 0;
    struct job job = {
        .runtime = template->runtime->name, .session_id = in_session ? some_session : NULL, .code_size = 1};
    struct policy_program program = {.runtime = template->runtime, .proxy = true};
    return policy_build_plan(template->policy, &ceilings, &job, &program, ret, reterr);
}

static void plan_freep(struct jail_plan **plan)
{
    jail_plan_free(*plan);
}

/* A call of the parked process, with the arguments that are always the same. */
struct needed_call {
    const char *name;
    unsigned known;
    uint64_t arguments[6];
};

static const char *find_refused(const struct policy *policy, const struct needed_call *needed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!policy_allows(policy, needed[i].name, needed[i].known, needed[i].arguments)) {
            return needed[i].name;
        }
    }
    return NULL;
}

/* What a parked process does behind its filter, before it is the program's (jail/zygote.c). Denied, it would
 * wait for an answer that nobody can give yet. */
static int check_filter(const struct warm_template *template, struct err *reterr)
{
    static const struct needed_call needed[] = {
        {.name = "sendmsg", .known = 1u << 2, .arguments[2] = MSG_NOSIGNAL},
        {.name = "close_range", .known = 1u << 1 | 1u << 2, .arguments[1] = UINT32_MAX},
    };
    const char *refused = find_refused(template->policy, needed, ARRAY_SIZE(needed));
    return refused ? err_set(reterr, ERR_HOST, EPERM, NULL,
                             "policy '%s' does not allow %s, which jobs from a template need once",
                             policy_name(template->policy), refused)
                   : 0;
}

/* True if a parked process that is behind its filter already can still become the program's. */
static bool can_filter_early(const struct warm_template *template)
{
    static const struct needed_call needed[] = {
        {.name = "recvmsg", .known = 1u << 2, .arguments[2] = MSG_CMSG_CLOEXEC},
        {.name = "dup3", .known = 1u << 2, .arguments[2] = 0},
        {.name = "dup3", .known = 1u << 2, .arguments[2] = O_CLOEXEC},
        {.name = "sendmsg", .known = 1u << 2, .arguments[2] = MSG_NOSIGNAL},
        {.name = "close_range", .known = 1u << 1 | 1u << 2, .arguments[1] = UINT32_MAX},
    };
    if (find_refused(template->policy, needed, ARRAY_SIZE(needed))) {
        return false;
    }
    for (uint32_t i = 0; i < template->park_plan->n_steps; i++) {
        const struct jail_step *step = &template->park_plan->steps[i];
        const uint64_t arguments[6] = {0, step->rlimit.resource, UINTPTR_MAX / 2};
        if (jail_step_is_wish(step) && !policy_allows_call(template->policy, "prlimit64", arguments)) {
            return false;
        }
    }
    return true;
}

/* A policy without a workspace to share has none. */
static void make_session_plan(struct warm_template *template)
{
    struct err ignored = {0};
    CLEANUP(plan_freep) struct jail_plan *plain = NULL;
    jail_plan_free(TAKE_PTR(template->session_plan));
    if (plain_plan(template, true, &plain, &ignored) == 0) {
        jail_plan_for_run(plain, &template->session_plan, &ignored);
    }
}

/* Makes the plan of the template itself, and the one that jails are parked with. */
static int make_plans(struct warm_template *template, uint32_t inner_uid, uint64_t program_bytes,
                      struct jail_plan **ret_own, struct err *reterr)
{
    int r = check_filter(template, reterr);
    CLEANUP(plan_freep) struct jail_plan *plain = NULL;
    r = r < 0 ? r : plain_plan(template, false, &plain, reterr);
    jail_plan_free(TAKE_PTR(template->park_plan));
    r = r < 0 ? r : jail_plan_for_run(plain, &template->park_plan, reterr);
    if (r < 0) {
        return r;
    }
    template->filter_early = can_filter_early(template);
    template->files_late = policy_allows_call(template->policy, "prlimit64",
                                              (const uint64_t[6]){0, RLIMIT_NOFILE, UINTPTR_MAX / 2});
    make_session_plan(template);
    CLEANUP(freep) char **argv = warm_template_arguments(template);
    if (!argv) {
        return err_errno(reterr, ENOMEM, "planning a template");
    }
    uint32_t inside = template->host->privileged ? inner_uid : plain->uid;
    uint64_t temporary_bytes = template->runtime->n_preload > 0 ? TEMPORARY_BYTES : 0;
    return jail_plan_for_template(plain, program_bytes, temporary_bytes, argv,
                                  warm_is_preloaded(template->runtime), inside, template->host->privileged,
                                  ret_own, reterr);
}

static void drop_stock(struct warm_template *template)
{
    while (template->stock) {
        struct warm_jail *jail = template->stock;
        warm_template_unstock(jail);
        warm_jail_free(jail);
    }
    loop_remove(TAKE_PTR(template->source));
}

static void stop(struct warm_template *template)
{
    drop_stock(template);
    jail_template_free(TAKE_PTR(template->template));
}

void warm_tend_by(struct warm *warm, uint64_t due_ns)
{
    if (due_ns < warm->due_ns) {
        warm->due_ns = due_ns;
        loop_timer_set(warm->timer, due_ns);
    }
}

static void fail(struct warm_template *template, const struct err *err)
{
    struct log *log = template->warm->options.log;
    template->failures += template->failures < DOUBLINGS_MAX;
    bool hopeless = err->kind == ERR_HOST || (template->image && template->failures >= IMAGE_FAILURES_MAX);
    template->state = hopeless ? TEMPLATE_UNFIT : TEMPLATE_OFF;
    template->pause_ns = clock_now_ns() + (RESTART_DELAY_NS << template->failures);
    template->pss_bytes = 0;
    const char *means = template->is_successor ? "the template that it was to relieve stays"
                                               : "jobs start their own interpreter";
    LOG(log, LOG_WARNING, "template_failed", LOG_FIELD_STR("runtime", template->runtime->name),
        LOG_FIELD_STR("image", template->image ? template->image->name : ""),
        LOG_FIELD_STR("step", err->step), LOG_FIELD_STR("error", err->text),
        LOG_FIELD_BOOL("given_up", hopeless), LOG_FIELD_STR("means", means));
    stop(template);
    if (template->image && hopeless) {
        fd_closep(&template->image->fd);
    }
    template->warm->options.publish(template->warm->options.publish_arg);
    if (!hopeless) {
        warm_tend_by(template->warm, template->pause_ns);
    }
}

/* What the template's own jail has ended with. */
static void collect(struct jail *jail, struct err *reterr)
{
    struct jail_result result = {0};
    jail_collect(jail, &result, reterr);
    err_set(reterr, ERR_SETUP, 0, NULL, "its process ended (%s, wait status %d)",
            jail_end_to_string(result.end), result.wstatus);
}

static void on_template_event(void *arg, uint32_t events)
{
    (void)events;
    struct warm_template *template = arg;
    struct jail *jail = jail_template_jail(template->template);
    if (jail_dispatch(jail) != JAIL_ENDED) {
        return;
    }
    struct err err = {0};
    collect(jail, &err);
    fail(template, &err);
}

static int spawn(struct warm_template *template, struct err *reterr)
{
    uint32_t base, count;
    idmap_pool_range(template->host->ids, &base, &count);
    CLEANUP(plan_freep) struct jail_plan *own = NULL;
    CLEANUP(fd_closep) int program = -1;
    uint64_t program_bytes = 0;
    int r = warm_open_program(template, &program, &program_bytes, reterr);
    if (r == 0) {
        r = make_plans(template, TEMPLATE_INNER_BASE + (template->uid - base), program_bytes, &own, reterr);
    }
    struct jail_template_options options = {.plan = own,
                                            .program_fd = program,
                                            .log_fd = STDERR_FILENO,
                                            .outer_uid = template->uid,
                                            .outer_gid = template->gid,
                                            .range_base = base,
                                            .range_count = count};
    if (r == 0 && template->host->cgroups) {
        r = jail_cgroup_new(template->host->cgroups, &own->limits, &options.cgroup, reterr);
    }
    r = r < 0 ? r : jail_template_new(&options, &template->template, reterr);
    if (r < 0) {
        return r;
    }
    int fd = jail_fd(jail_template_jail(template->template));
    return loop_add(template->warm->options.loop, fd, EPOLLIN, on_template_event, template, &template->source,
                    reterr);
}

void warm_template_start(struct warm_template *template)
{
    struct err err = {0};
    struct warm_jail *first;
    template->state = TEMPLATE_STARTING;
    template->started_ns = clock_now_ns();
    template->n_jobs = 0;
    int r = warm_is_standby(template) ? warm_standby_start(template, &err) : spawn(template, &err);
    r = r < 0 ? r : warm_template_park(template, NULL, &first, &err);
    if (r < 0) {
        warm_template_fail(template, &err);
    }
}

int warm_template_new(struct warm *warm, const struct runtime_config *runtime, const struct policy *policy,
                      const char *owner, const struct warm_image *image, struct warm_template **ret,
                      struct err *reterr)
{
    struct warm_template *template = calloc(1, sizeof *template);
    if (!template) {
        return err_errno(reterr, ENOMEM, "making a template");
    }
    *template = (struct warm_template){
        .references = 1, .warm = warm, .host = warm->options.host, .runtime = runtime, .policy = policy};
    snprintf(template->owner, sizeof template->owner, "%s", owner);
    int r = image ? warm_image_attach(template, image, reterr) : 0;
    if (r < 0) {
        warm_template_unref(template);
        return r;
    }
    r = warm_is_standby(template) ? 0 : idmap_take(template->host->ids, &template->uid, &template->gid);
    if (r < 0) {
        warm_template_unref(template);
        return err_errno(reterr, -r, "taking an outer uid for a template");
    }
    template->has_id = !warm_is_standby(template);
    if (template->has_id) {
        template->n_templates = warm->options.n_templates;
        ++*template->n_templates;
    }
    *ret = template;
    return 0;
}

void warm_template_retire(struct warm_template *template)
{
    drop_stock(template);
    template->warm = NULL;
    if (template->successor) {
        warm_template_retire(TAKE_PTR(template->successor));
    }
    warm_template_unref(template);
}

/* Its jails go with a template, and whoever speaks to it hears of that first: what it died of comes with the
 * end of its own jail. A step that failed, or a host that does not offer something, speaks for itself. */
static bool may_have_died(const struct warm_template *template, const struct err *err)
{
    bool heard = err->code == 0 || err->code == EPIPE || err->code == ECONNRESET || err->code == ECHILD;
    return template->template && heard && err->kind != ERR_HOST && err->step[0] == '\0';
}

static bool ends_soon(struct jail *jail)
{
    uint64_t until_ns = clock_now_ns() + LAST_WORDS_NS;
    while (jail_dispatch(jail) != JAIL_ENDED) {
        uint64_t now_ns = clock_now_ns();
        struct pollfd awaited = {.fd = jail_fd(jail), .events = POLLIN};
        if (now_ns >= until_ns) {
            return false;
        }
        poll(&awaited, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
    }
    return true;
}

void warm_template_fail(struct warm_template *template, const struct err *err)
{
    struct err cause = {0};
    if (may_have_died(template, err) && ends_soon(jail_template_jail(template->template))) {
        collect(jail_template_jail(template->template), &cause);
        err = &cause;
    }
    fail(template, err);
}

void warm_template_stumble(struct warm_template *template, const struct err *err)
{
    if (template->state != TEMPLATE_READY || template->image) {
        warm_template_fail(template, err);
        return;
    }
    template->pause_ns = clock_now_ns() + RESTART_DELAY_NS;
    LOG(template->warm->options.log, LOG_WARNING, "parking_failed",
        LOG_FIELD_STR("runtime", template->runtime->name), LOG_FIELD_STR("step", err->step),
        LOG_FIELD_STR("error", err->text));
}

void warm_template_unref(struct warm_template *template)
{
    if (--template->references > 0) {
        return;
    }
    stop(template);
    if (template->has_id) {
        --*template->n_templates;
        idmap_give_back(template->host->ids, template->uid);
    }
    jail_plan_free(template->park_plan);
    jail_plan_free(template->session_plan);
    warm_image_free(template->image);
    free(template);
}

static int make_cgroup(const struct warm_template *template, struct jail_cgroup **ret, struct err *reterr)
{
    if (!template->host->cgroups) {
        return 0;
    }
    int r = jail_cgroup_new(template->host->cgroups, &template->park_plan->limits, ret, reterr);
    return r < 0 || !template->host->privileged ? r : jail_cgroup_open_to(*ret, template->uid, reterr);
}

/* The jail's outer id: one of its own, or its session's. */
static int take_id(const struct warm_template *template, const struct session_workspace *session,
                   struct warm_jail *jail, struct err *reterr)
{
    if (session) {
        jail->uid = session->uid;
        jail->gid = session->gid;
        return 0;
    }
    int r = idmap_take(template->host->ids, &jail->uid, &jail->gid);
    jail->has_id = r == 0;
    return r < 0 ? err_errno(reterr, -r, "taking an outer uid for a parked jail") : 0;
}

static int park(struct warm_template *template, const struct session_workspace *session,
                struct warm_jail *jail, struct err *reterr)
{
    const struct jail_plan *plan = session ? template->session_plan : template->park_plan;
    const struct jail_limits *limits = &plan->limits;
    int r = take_id(template, session, jail, reterr);
    if (r < 0) {
        return r;
    }
    if (warm_is_standby(template)) {
        return warm_standby_park(template, jail, reterr);
    }
    r = scratch_open(limits->scratch_bytes + SCRIPT_ROOM_BYTES, limits->scratch_inodes, jail->uid, jail->gid,
                     &jail->scratch_fd, reterr);
    struct jail_park_options options = {.plan = plan,
                                        .scratch_fd = jail->scratch_fd,
                                        .workspace_fd = session ? session->mount_fd : -1,
                                        .outer_uid = jail->uid,
                                        .filter_early = template->filter_early,
                                        .files_late = template->files_late,
                                        .is_awaited = template->state == TEMPLATE_READY && !template->stock};
    r = r < 0 ? r : make_cgroup(template, &options.cgroup, reterr);
    if (r < 0) {
        jail_cgroup_free(options.cgroup);
        return r;
    }
    return jail_park(template->template, &options, &jail->jail, reterr);
}

int warm_template_park(struct warm_template *template, const struct session_workspace *session,
                       struct warm_jail **ret, struct err *reterr)
{
    struct warm_jail *jail = calloc(1, sizeof *jail);
    if (!jail) {
        return err_errno(reterr, ENOMEM, "parking a jail");
    }
    *jail = (struct warm_jail){.template = template, .scratch_fd = -1, .said_fd = -1};
    template->references++;
    int r = park(template, session, jail, reterr);
    if (r == 0) {
        r = loop_add(template->warm->options.loop, jail_fd(jail->jail), EPOLLIN,
                     template->warm->on_parked_jail, jail, &jail->source, reterr);
    }
    if (r < 0) {
        warm_jail_free(jail);
        return r;
    }
    struct warm_jail **end = &template->stock;
    while (*end) {
        end = &(*end)->next;
    }
    *end = jail;
    template->n_building++;
    *ret = jail;
    return 0;
}

void warm_template_unstock(struct warm_jail *jail)
{
    struct warm_template *template = jail->template;
    struct warm_jail **at = &template->stock;
    while (*at && *at != jail) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = jail->next;
        jail->next = NULL;
        template->n_ready -= jail->ready;
        template->n_building -= !jail->ready;
    }
    loop_remove(TAKE_PTR(jail->source));
}

void warm_jail_free(struct warm_jail *jail)
{
    if (!jail) {
        return;
    }
    loop_remove(jail->source);
    jail_free(jail->jail);
    /* Only now is no process left that has the id. */
    if (jail->has_id) {
        idmap_give_back(jail->template->host->ids, jail->uid);
    }
    fd_closep(&jail->scratch_fd);
    fd_closep(&jail->said_fd);
    warm_template_unref(jail->template);
    free(jail);
}

struct jail *warm_jail_jail(struct warm_jail *jail)
{
    return jail->jail;
}

const struct jail_plan *warm_jail_standby_plan(const struct warm_jail *jail)
{
    return warm_is_standby(jail->template) ? jail->template->park_plan : NULL;
}

int warm_jail_scratch(const struct warm_jail *jail)
{
    return jail->scratch_fd;
}

void warm_jail_ids(const struct warm_jail *jail, uint32_t *ret_uid, uint32_t *ret_gid)
{
    *ret_uid = jail->uid;
    *ret_gid = jail->gid;
}

uint64_t warm_jail_scratch_bytes(const struct warm_jail *jail)
{
    return jail->template->park_plan->limits.scratch_bytes;
}
