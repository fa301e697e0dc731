/* The parent side of a launch. Runs in the warden and in `immure run`, both single-threaded; never blocks.
 *
 *     parent                              PID 1                          program
 *     clone3 ───────────────────────────► waits for PHASE_IDMAP
 *     writes its /proc files (uid_map, …)
 *     PHASE_IDMAP ──────────────────────► applies the plan up to CAPABILITIES
 *     makes the network namespace
 *     PHASE_NETWORK ────────────────────► enters it, applies the plan up to PROGRAM
 *     brings lo up ◄──── CHILD_LOOPBACK ─ (only if the plan says so; the network comes before that, then)
 *     PHASE_LOOPBACK ───────────────────► makes the program's process ─► applies the rest, exec
 *     deadline runs ◄───── CHILD_STARTED ─
 *     verdict ◄────────────── CHILD_ENDED ─ ends the rest of the PID namespace, exits
 *
 * A failed step arrives as CHILD_FAILED instead. The control socket is close-on-exec and PID 1 cannot be
 * traced, so nothing that the program does can forge these messages. */
#include "jail/jail_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/child/child.h"
#include "jail/child/pid1.h"
#include "jail/luggage.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/netns.h"
#include "jail/resources/network.h"

#define SETUP_TIMEOUT_MS 10000

static const struct jail_step *find_step(const struct jail_plan *plan, enum jail_step_kind kind)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind == kind) {
            return &plan->steps[i];
        }
    }
    return NULL;
}

static int write_proc(pid_t pid, const char *file, const char *text, struct err *reterr)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int r = io_write_file_at(AT_FDCWD, path, text);
    return r < 0 ? err_set(reterr, ERR_SETUP, -r, NULL, "writing the jail's %s: %s", file, strerror(-r)) : 0;
}

/* One line for the jail's own id, or the range of a template. */
static void format_map(const struct jail_spawn_options *options, uint32_t inside, uint32_t outside, char *ret,
                       size_t size)
{
    if (options->range_count > 0) {
        snprintf(ret, size, "%u %u %u", options->range_inside, options->range_outside, options->range_count);
    } else {
        snprintf(ret, size, "%u %u 1", inside, outside);
    }
}

static int write_proc_files(const struct jail *jail, const struct jail_spawn_options *options,
                            struct err *reterr)
{
    char map[64];
    int r = options->drop_groups ? 0 : write_proc(jail->pid, "setgroups", "deny", reterr);
    if (r == 0) {
        format_map(options, jail->plan->uid, options->outer_uid, map, sizeof map);
        r = write_proc(jail->pid, "uid_map", map, reterr);
    }
    if (r == 0) {
        format_map(options, jail->plan->gid, options->outer_gid, map, sizeof map);
        r = write_proc(jail->pid, "gid_map", map, reterr);
    }
    /* A parent that the OOM killer must spare has handed that on, and then the job's own memory limit would
     * find nobody to kill. Where the whole machine runs short, a job is what it can do without. */
    return r < 0 ? r : write_proc(jail->pid, "oom_score_adj", "1000", reterr);
}

/* What a clone of us finds in our heap: zeros (MADV_WIPEONFORK), or a copy. The heap begins somewhere behind
 * the program's own memory, and nothing else does before its end; that there are holes, madvise() says as
 * well. */
static int heap_on_fork(int advice)
{
    extern char end[];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)end + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)sbrk(0) + page - 1) / page * page;
    if (to < from) { /* a heap that is elsewhere would not be wiped */
        return -EINVAL;
    }
    return to > from && madvise((void *)from, to - from, advice) < 0 && errno != ENOMEM ? -errno : 0;
}

/* What an operator can do where no process or no namespace can be had. */
static const char *clone_hint(int code)
{
    return code == EAGAIN   ? "; it needs more processes (systemd: TasksMax=, containers: --pids-limit=, "
                              "shells: ulimit -u)"
           : code == ENOSPC ? JAIL_MORE_NAMESPACES
           : code == EPERM || code == ENOSYS || code == EINVAL ? "; `immure check` says what forbids it"
                                                               : "";
}

static int clone_child(struct jail *jail, struct child *child, struct err *reterr)
{
    uint64_t cgroup = jail->cgroup ? (uint64_t)jail_cgroup_fd(jail->cgroup) : 0u;
    struct clone_args args = {
        /* These two follow (pid1.c). */
        .flags = (jail->plan->namespaces & ~(uint64_t)(CLONE_NEWCGROUP | CLONE_NEWNET)) |
                 (uint64_t)CLONE_PIDFD | CLONE_CLEAR_SIGHAND | (jail->cgroup ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)&jail->pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup,
    };
    jail->cloned_ns = clock_now_ns();
    int r = heap_on_fork(MADV_WIPEONFORK);
    if (r < 0) {
        return err_errno(reterr, -r, "keeping other jobs' words from a jail");
    }
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        child_main(child);
    }
    int code = errno;
    heap_on_fork(MADV_KEEPONFORK);
    if (pid < 0) {
        /* Where it fails late (pids.max of a cgroup), the kernel has written a number that it then took back.
         */
        jail->pidfd = -1;
        return err_set(reterr, ERR_SETUP, code, NULL, "clone3 into new namespaces: %s%s", strerror(code),
                       clone_hint(code));
    }
    jail->pid = (pid_t)pid;
    r = jail_watch_pidfd(jail);
    return r < 0 ? err_errno(reterr, -r, "watching a jail") : 0;
}

static int open_user_namespace(const struct jail *jail)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)jail->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Lets the building begin and makes the network namespace meanwhile. Where that fails, nothing comes with the
 * message, and PID 1 makes it itself: it may be that only our way to it is barred, and if not, PID 1 says so.
 */
static int tell_to_build(const struct jail *jail)
{
    bool network = jail->plan->namespaces & CLONE_NEWNET;
    CLEANUP(fd_closep) int userns = network ? open_user_namespace(jail) : -1;
    int r = jail_tell(jail, PHASE_IDMAP, 0);
    if (r < 0 || !network) {
        return r;
    }
    const struct parent_message message = {.phase = PHASE_NETWORK};
    r = userns < 0 ? userns : network_send(userns, jail->control, &message, sizeof message);
    r = r < 0 ? io_send_fds(jail->control, &message, sizeof message, NULL, 0) : 0;
    /* A child that has failed already says itself why. */
    return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* Everything between the check of the plan and the last word to a child that is on its own from there. */
static int launch(struct jail *jail, const struct jail_spawn_options *options, int childs_end,
                  struct err *reterr)
{
    uint64_t setup_ms = options->setup_timeout_ms ? options->setup_timeout_ms : SETUP_TIMEOUT_MS;
    int r = jail_arm(jail, clock_now_ns() + setup_ms * NS_PER_MS);
    if (r < 0) {
        return err_errno(reterr, -r, "arming the deadline of a jail");
    }
    CLEANUP(luggage_free) struct luggage luggage = {0};
    struct child *child = luggage_pack(&luggage, jail->plan);
    if (!child) {
        return err_errno(reterr, errno, "preparing a jail");
    }
    child->control = childs_end;
    child->drop_groups = options->drop_groups;
    child->waits_for_all = options->waits_for_all;
    child->template = options->template;
    child->standby = options->standby ? STANDBY_STARTING : STANDBY_NONE;
    child->kernel = options->kernel;
    child->program_fd = -1;
    memcpy(child->fds, options->fds, sizeof child->fds);
    r = clone_child(jail, child, reterr);
    if (r == 0) {
        r = write_proc_files(jail, options, reterr);
    }
    if (r == 0) {
        r = tell_to_build(jail);
        r = r < 0 ? err_errno(reterr, -r, "starting the building of a jail") : 0;
    }
    return r;
}

static int check_fds(const struct jail_plan *plan, const int fds[JAIL_FD_COUNT], struct err *reterr)
{
    static const struct {
        enum jail_step_kind kind;
        enum jail_fd first, last;
    } needs[] = {{JAIL_STEP_STDIO, JAIL_FD_STDIN, JAIL_FD_STDERR},
                 {JAIL_STEP_BRIDGE, JAIL_FD_BRIDGE_IN, JAIL_FD_BRIDGE_OUT},
                 {JAIL_STEP_SCRATCH, JAIL_FD_SCRATCH, JAIL_FD_SCRATCH},
                 {JAIL_STEP_WORKSPACE, JAIL_FD_WORKSPACE, JAIL_FD_WORKSPACE},
                 {JAIL_STEP_IMAGE, JAIL_FD_IMAGE, JAIL_FD_IMAGE}};
    for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
        if (!find_step(plan, needs[i].kind)) {
            continue;
        }
        for (unsigned slot = needs[i].first; slot <= needs[i].last; slot++) {
            if (fds[slot] < 0) {
                return err_set(reterr, ERR_SETUP, EBADF, NULL, "the %s step has no descriptor",
                               jail_step_word(needs[i].kind));
            }
        }
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct jail_step *step = &plan->steps[i];
        if (step->kind == JAIL_STEP_FILE && step->file.from_input && fds[JAIL_FD_INPUT] < 0) {
            return err_set(reterr, ERR_SETUP, EBADF, NULL, "a file step has no input descriptor");
        }
        if (step->kind == JAIL_STEP_BIND && step->bind.given && fds[step->bind.given] < 0) {
            return err_set(reterr, ERR_SETUP, EBADF, NULL, "a bind step has no mount");
        }
    }
    return 0;
}

/* The child has its own copy of the plan that it was built by. */
static int hold_against(struct jail *jail, const struct jail_plan *plan, struct err *reterr)
{
    struct jail_plan *copy = jail_plan_copy(plan);
    if (!copy) {
        return err_errno(reterr, ENOMEM, "preparing a jail");
    }
    jail_plan_free(jail->plan);
    jail->plan = copy;
    return 0;
}

int jail_spawn(struct jail **ret, const struct jail_spawn_options *options, struct err *reterr)
{
    int r = jail_plan_check(options->plan, reterr);
    if (r == 0) {
        r = check_fds(options->plan, options->fds, reterr);
    }
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
    jail->parks = options->standby;
    jail->kernel = options->kernel;
    jail->grace_ms = options->kernel_grace_ms;
    jail->stands_by = options->idle_cpu_ms > 0;
    jail->idle_cpu_ms = options->idle_cpu_ms;
    r = launch(jail, options, childs_end, reterr);
    r = r < 0 || !options->standby_plan ? r : hold_against(jail, options->standby_plan, reterr);
    if (r < 0) {
        jail_free(jail);
        return r;
    }
    *ret = jail;
    return 0;
}
