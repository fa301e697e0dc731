/* The parent's side of templates. Runs in the warden.
 *
 * A template is an ordinary jail whose descriptor 0 is a socket to us. What we ask of it are jails; each
 * answers on a control socket of its own, with the messages of any other jail (jail.c), so a job's life is
 * one code whichever way it came to be. */
#include "jail/template.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/jail_internal.h"
#include "jail/plan/zygote_message.h"
#include "jail/resources/cgroup.h"

#define BUILD_TIMEOUT_MS 10000

struct jail_template {
    struct jail *jail;
    int sock;
    uint32_t range_base, range_count;
    uint32_t inner_self; /* unprivileged: the one id there is */
};

int jail_template_new(const struct jail_template_options *options, struct jail_template **ret,
                      struct err *reterr)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        jail_cgroup_free(options->cgroup);
        return err_errno(reterr, errno, "making the socket of a template");
    }
    CLEANUP(fd_closep) int ours = sockets[0];
    CLEANUP(fd_closep) int its = sockets[1];
    struct jail_template *template = calloc(1, sizeof *template);
    if (!template) {
        jail_cgroup_free(options->cgroup);
        return err_errno(reterr, ENOMEM, "making a template");
    }
    const struct jail_spawn_options spawn = {
        .plan = options->plan,
        .fds = {[JAIL_FD_STDIN] = its,
                [JAIL_FD_STDOUT] = options->log_fd,
                [JAIL_FD_STDERR] = options->log_fd,
                [JAIL_FD_SCRATCH] = -1,
                [JAIL_FD_INPUT] = options->program_fd,
                [JAIL_FD_BRIDGE_IN] = -1,
                [JAIL_FD_BRIDGE_OUT] = -1,
                [JAIL_FD_WORKSPACE] = -1,
                [JAIL_FD_IMAGE... JAIL_FD_BIND_LAST] = -1},
        .cgroup = options->cgroup,
        .outer_uid = options->outer_uid,
        .outer_gid = options->outer_gid,
        .range_inside = TEMPLATE_INNER_BASE,
        .range_outside = options->range_base,
        .range_count = options->range_count,
        .drop_groups = options->range_count > 0,
        .template = true,
        .setup_timeout_ms = JAIL_UNHURRIED_SETUP_MS,
    };
    int r = jail_spawn(&template->jail, &spawn, reterr);
    if (r < 0) {
        free(template);
        return r;
    }
    template->sock = TAKE_FD(ours);
    template->range_base = options->range_base;
    template->range_count = options->range_count;
    template->inner_self = options->plan->uid;
    *ret = template;
    return 0;
}

void jail_template_free(struct jail_template *template)
{
    if (template) {
        fd_closep(&template->sock);
        jail_free(template->jail);
        free(template);
    }
}

struct jail *jail_template_jail(struct jail_template *template)
{
    return template->jail;
}

/* A header and an encoded plan in one datagram. */
static int send_plan(int sock, const struct zygote_header *header, const struct jail_plan *plan,
                     const int *fds, size_t n_fds)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT;
    buf_append(&message, header, sizeof *header);
    int r = jail_plan_encode(plan, &message);
    if (r == 0 && message.len > ZYGOTE_MESSAGE_MAX) {
        return -E2BIG;
    }
    return r < 0 ? r : io_send_fds(sock, message.data, message.len, fds, n_fds);
}

int jail_park(struct jail_template *template, const struct jail_park_options *options, struct jail **ret,
              struct err *reterr)
{
    int r = jail_plan_check(options->plan, reterr);
    if (r < 0) {
        jail_cgroup_free(options->cgroup);
        return r;
    }
    struct jail *jail = NULL;
    CLEANUP(fd_closep) int childs_end = -1;
    r = jail_new(options->plan, options->cgroup, &jail, &childs_end, reterr);
    if (r < 0) {
        return r;
    }
    jail->by_template = jail->parks = true;
    jail->cloned_ns = clock_now_ns();
    struct zygote_header header;
    memset(&header, 0, sizeof header);
    header.kind = ZYGOTE_PARK;
    header.drop_groups = template->range_count > 0;
    header.filter_early = options->filter_early;
    header.files_late = options->files_late;
    header.is_awaited = options->is_awaited;
    header.inner_uid = template->range_count > 0
                           ? TEMPLATE_INNER_BASE + (options->outer_uid - template->range_base)
                           : template->inner_self;
    int fds[4];
    size_t n_fds = 0;
    fds[n_fds++] = childs_end;
    fds[n_fds++] = options->scratch_fd;
    header.has_workspace = jail_plan_has(options->plan, JAIL_STEP_WORKSPACE);
    if (header.has_workspace) {
        fds[n_fds++] = options->workspace_fd;
    }
    if (jail->cgroup) {
        fds[n_fds++] = jail_cgroup_fd(jail->cgroup);
    }
    uint64_t timeout_ms = options->is_awaited ? BUILD_TIMEOUT_MS : JAIL_UNHURRIED_SETUP_MS;
    r = jail_arm(jail, clock_now_ns() + timeout_ms * NS_PER_MS);
    r = r < 0 ? r : send_plan(template->sock, &header, options->plan, fds, n_fds);
    if (r < 0) {
        jail_free(jail);
        return err_set(reterr, ERR_SETUP, -r, NULL, "asking a template for a jail: %s", strerror(-r));
    }
    *ret = jail;
    return 0;
}

/* The filter, the limits and the rest of what a parked process may have applied already. */
static bool same_step(const struct jail_plan *plan_a, const struct jail_step *a,
                      const struct jail_plan *plan_b, const struct jail_step *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case JAIL_STEP_UMASK:
        return a->umask.mask == b->umask.mask;
    case JAIL_STEP_WORKDIR:
        return strcmp(jail_plan_string(plan_a, a->workdir.path), jail_plan_string(plan_b, b->workdir.path)) ==
               0;
    case JAIL_STEP_RLIMIT:
        return a->rlimit.resource == b->rlimit.resource &&
               (jail_step_is_wish(a) ||
                (a->rlimit.soft == b->rlimit.soft && a->rlimit.hard == b->rlimit.hard));
    case JAIL_STEP_SECCOMP:
        return a->seccomp.length == b->seccomp.length && a->seccomp.notify == b->seccomp.notify &&
               a->seccomp.locks == b->seccomp.locks && a->seccomp.file_locks == b->seccomp.file_locks &&
               memcmp(plan_a->arena + a->seccomp.bpf, plan_b->arena + b->seccomp.bpf,
                      a->seccomp.length * sizeof(struct sock_filter)) == 0;
    default:
        return true;
    }
}

static bool same_steps(const struct jail_plan *a, const struct jail_plan *b)
{
    bool same = a->n_steps == b->n_steps;
    for (uint32_t i = 0; same && i < a->n_steps; i++) {
        same = same_step(a, &a->steps[i], b, &b->steps[i]);
    }
    return same;
}

int jail_run(struct jail *jail, const struct jail_plan *plan, const int *fds, size_t n_fds,
             struct err *reterr)
{
    if (jail->state != JAIL_PARKED) {
        return err_errno(reterr, EBUSY, "handing a program to a jail that is %s",
                         jail_state_to_string(jail->state));
    }
    if (jail->end != JAIL_END_NONE || jail->control < 0) {
        return err_set(reterr, ERR_SETUP, ECHILD, NULL, "the parked jail has ended%s%s",
                       err_is_set(&jail->err) ? ": " : "", jail->err.text);
    }
    int r = jail_plan_check(plan, reterr);
    if (r < 0) {
        return r;
    }
    if (!same_steps(jail->plan, plan)) {
        return err_set(reterr, ERR_SETUP, EINVAL, NULL,
                       "a program's plan is not the one its jail was parked with");
    }
    r = jail->cgroup ? jail_cgroup_set_limits(jail->cgroup, &plan->limits, reterr) : 0;
    if (r < 0) {
        return r;
    }
    struct jail_plan *copy = jail_plan_copy(plan);
    if (!copy) {
        return err_errno(reterr, ENOMEM, "handing a program to a parked jail");
    }
    struct zygote_header header;
    memset(&header, 0, sizeof header);
    header.kind = ZYGOTE_RUN;
    uint64_t now_ns = clock_now_ns();
    r = send_plan(jail->control, &header, plan, fds, n_fds);
    r = r < 0 ? r : jail_arm(jail, now_ns + BUILD_TIMEOUT_MS * NS_PER_MS);
    if (r < 0) {
        jail_plan_free(copy);
        return err_set(reterr, ERR_SETUP, -r, NULL, "handing a program to a parked jail: %s", strerror(-r));
    }
    jail_plan_free(jail->plan);
    jail->plan = copy;
    jail->state = JAIL_BUILDING;
    jail->cloned_ns = now_ns; /* set-up is what this job waited for */
    return 0;
}
