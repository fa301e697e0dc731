/* Inside a template: clones jails out of a warm process. Linked into the template programs only.
 *
 *     template                      PID 1 of a new jail              the parked process
 *     ZYGOTE_PARK ◄─ (parent)
 *     clone3 into new namespaces ─► waits for its id maps
 *     writes them, CHILD_CLONED
 *                                   applies the plan up to PROGRAM
 *                                   fork ──────────────────────────► applies what is the policy's, if it may
 *                                                                    CHILD_PARKED, waits for a program
 *                                   reaps, answers denied calls      ◄─ ZYGOTE_RUN (parent)
 *                                                                    applies the rest, CHILD_STARTED, returns
 *
 * The template is trusted code in a jail of its own and holds no secret: what it knows, every job's memory
 * contains. Between clone and fork PID 1 keeps to raw system calls, as jail/child does; the parked process
 * comes from fork(2) by way of glibc, so that everything it does later finds the C library in order. */
#include "jail/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/child/apply.h"
#include "jail/child/child.h"
#include "jail/child/init.h"
#include "jail/plan/zygote_message.h"

#define STDIO_FDS 3u

#define LISTENER_TRIES 200000u

/* What the interpreter wants done in a process before it is parked. */
struct park_hook {
    void (*call)(void *argument, bool is_awaited);
    void *argument;
};

/* One jail on its way from the request to the parked process. */
struct parking {
    struct jail_plan *plan;
    struct child child;
    int control; /* the jail's end, ours to close */
    int scratch;
    int workspace, cgroup; /* -1: none */
    uint32_t inner_uid;    /* of the template's own user namespace */
    int go[2];             /* pipe: one byte says that the id maps are written */
    bool is_awaited, filter_early;
    const struct park_hook *hook;
};

static void free_parking(struct parking *parking)
{
    jail_plan_free(parking->plan);
    fd_closep(&parking->control);
    fd_closep(&parking->scratch);
    fd_closep(&parking->workspace);
    fd_closep(&parking->cgroup);
    fd_closep(&parking->go[0]);
    fd_closep(&parking->go[1]);
}

/* Index of the first step behind PROGRAM; the plan has passed jail_plan_check() in the parent. */
static uint32_t behind_program(const struct jail_plan *plan)
{
    uint32_t index = 0;
    while (index < plan->n_steps && plan->steps[index].kind != JAIL_STEP_PROGRAM) {
        index++;
    }
    return index + 1;
}

static char **copy_vector(const struct jail_plan *plan, jail_ref run, uint32_t count)
{
    char **vector = calloc((size_t)count + 1, sizeof *vector);
    const char *text = jail_plan_string(plan, run);
    for (uint32_t i = 0; vector && i < count; i++) {
        vector[i] = (char *)(uintptr_t)text; /* the plan stays as long as the process */
        text += strlen(text) + 1;
    }
    return vector;
}

/* Puts the job's pipes on 0 and above; those of the bridge close themselves at an exec. They have come by one
 * message, in ascending order, so none lies where one before it goes. */
static int take_fds(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (dup3(fds[i], (int)i, i > STDERR_FILENO ? O_CLOEXEC : 0) < 0) {
            return -errno;
        }
    }
    return 0;
}

/* Receives the program. The plan's text is what argv and envp point into, so it is never freed. */
static int receive_run(const struct child *child, struct jail_plan **ret_plan, int fds[JAIL_PROGRAM_FDS],
                       size_t *ret_n_fds)
{
    unsigned char *message = malloc(ZYGOTE_MESSAGE_MAX);
    if (!message) {
        return -ENOMEM;
    }
    size_t n_fds = JAIL_PROGRAM_FDS;
    ssize_t n = io_recv_fds(child->control, message, ZYGOTE_MESSAGE_MAX, fds, &n_fds);
    struct zygote_header header;
    int r = n < 0 ? (int)n : -EPIPE;
    if (n > 0 && (n_fds == STDIO_FDS || n_fds == JAIL_PROGRAM_FDS)) {
        r = zygote_decode_header(message, (size_t)n, &header);
        r = r == 0 && header.kind != ZYGOTE_RUN ? -EPROTO : r;
        r = r < 0 ? r : zygote_decode_plan(message, (size_t)n, ret_plan);
    }
    free(message);
    *ret_n_fds = n_fds;
    return r;
}

/* An ordinary user's jails have one uid, and what all of it have sent and nobody has received yet is held
 * against our RLIMIT_NOFILE, which is still the parent's if the filter lets us set it afterwards. If not,
 * another try is worth it, of which there are 0.2 s on a usual machine: a program's own is gone when it ends.
 * No other system call is made between two: until PID 1 has the listener, nobody would answer it. */
static int send_listener(struct child *child, int to_init)
{
    int r;
    unsigned left = LISTENER_TRIES;
    child->call = "sendmsg";
    do {
        r = io_send_fds(to_init, "l", 1, &child->listener, 1);
    } while (r == -ETOOMANYREFS && --left > 0);
    return r;
}

/* The steps between PROGRAM and RUN: those that the policy alone decides, those that are a job's own wishes,
 * or both. PID 1 gets the filter's listener as soon as there is one. */
struct part {
    bool policy, wishes;
};

static int apply_part(struct child *child, struct part part, uint32_t *index, int to_init)
{
    const struct jail_plan *plan = child->plan;
    uint32_t late = JAIL_NO_STEP;
    for (*index = behind_program(plan); plan->steps[*index].kind != JAIL_STEP_RUN; (*index)++) {
        const struct jail_step *step = &plan->steps[*index];
        if (!(jail_step_is_wish(step) ? part.wishes : part.policy)) {
            continue;
        }
        if (child->files_late && step->kind == JAIL_STEP_RLIMIT && step->rlimit.resource == RLIMIT_NOFILE) {
            late = *index;
            continue;
        }
        int r = child_apply_step(child, step);
        if (r < 0) {
            return r;
        }
    }
    int r = child->listener < 0 ? 0 : send_listener(child, to_init);
    fd_closep(&child->listener);
    if (r == 0 && late != JAIL_NO_STEP) {
        *index = late;
        r = child_apply_step(child, &plan->steps[late]);
    }
    return r;
}

/* Everything between the order to run and the interpreter. Closes all that is not the job's. */
static int confine(struct child *child, struct part part, uint32_t *index, int to_init, size_t n_fds)
{
    int r = apply_part(child, part, index, to_init);
    struct child_message started;
    memset(&started, 0, sizeof started);
    started.kind = CHILD_STARTED;
    started.proc_absent = child->proc_absent;
    started.time_ns = clock_now_ns();
    child->call = r < 0 ? child->call : "sendmsg";
    r = r < 0 ? r : child_send(child, &started, -1);
    child->call = r < 0 ? child->call : "close_range";
    return r < 0 ? r : close_range((unsigned)n_fds, UINT32_MAX, 0) < 0 ? -errno : 0;
}

/* Out of the way of what the program will find at these numbers. */
static void move_away(int *fd)
{
    int moved = *fd < JAIL_PROGRAM_FDS ? fcntl(*fd, F_DUPFD_CLOEXEC, JAIL_PROGRAM_FDS) : *fd;
    if (moved < 0) {
        _exit(1);
    }
    if (moved != *fd) {
        close(*fd);
    }
    *fd = moved;
}

static void __attribute__((noreturn)) give_up(const struct child *child, uint32_t index, int error)
{
    child_report_failure(child, index, error);
    _exit(1);
}

/* The parked process. Returns once it is the program's. */
static void wait_for_program(struct child *child, bool filter_early, int to_init, struct zygote_run *ret)
{
    struct child_message parked;
    memset(&parked, 0, sizeof parked);
    parked.kind = CHILD_PARKED;
    move_away(&child->control);
    move_away(&to_init);
    struct jail_plan *plan = NULL;
    int fds[JAIL_PROGRAM_FDS];
    size_t n_fds = 0;
    uint32_t index;
    /* Since the change of ids /proc/self belonged to root, and the program would not find its own descriptors
     * there. */
    prctl(PR_SET_DUMPABLE, 1);
    int r = filter_early ? apply_part(child, (struct part){.policy = true}, &index, to_init) : 0;
    if (r < 0) {
        give_up(child, index, r);
    }
    child->call = "sendmsg";
    r = child_send(child, &parked, -1);
    if (r == 0) {
        child->call = "recvmsg";
        r = receive_run(child, &plan, fds, &n_fds);
    }
    if (r < 0) {
        give_up(child, behind_program(child->plan) - 1, r); /* most often the parent has no use for us */
    }
    child->plan = plan;
    index = behind_program(plan);
    child->call = "dup3";
    r = take_fds(fds, n_fds);
    r = r < 0
            ? r
            : confine(child, (struct part){.policy = !filter_early, .wishes = true}, &index, to_init, n_fds);
    const struct jail_step *run = &plan->steps[plan->n_steps - 1];
    *ret = (struct zygote_run){.argv = copy_vector(plan, run->exec.argv, run->exec.argc),
                               .argc = run->exec.argc,
                               .envp = copy_vector(plan, run->exec.envp, run->exec.envc),
                               .envc = run->exec.envc,
                               .bridge = n_fds == JAIL_PROGRAM_FDS};
    if (r < 0 || !ret->argv || !ret->envp) {
        give_up(child, index, r < 0 ? r : -ENOMEM);
    }
}

/* What comes before the first step. */
static int prepare_build(struct parking *parking)
{
    struct child *child = &parking->child;
    char go = 0;
    close(parking->go[1]);
    child->call = "read";
    ssize_t n;
    do {
        n = read(parking->go[0], &go, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1) {
        return n < 0 ? -errno : -EPIPE;
    }
    close(parking->go[0]);
    int r = child_close_others(child);
    if (r < 0) {
        return r;
    }
    child->call = "PR_SET_DUMPABLE";
    if (prctl(PR_SET_DUMPABLE, 0) < 0) {
        return -errno;
    }
    umask(0);
    child->call = "unshare";
    return (parking->plan->namespaces & CLONE_NEWCGROUP) && unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* PID 1 of the new jail. Returns in the parked process only. */
static void build(struct parking *parking, struct zygote_run *ret)
{
    struct child *child = &parking->child;
    uint32_t index = JAIL_NO_STEP;
    int r = prepare_build(parking);
    if (r == 0) {
        index = 0;
        r = child_apply(child, &index, JAIL_STEP_PROGRAM);
    }
    int signals = r < 0 ? r : init_watch_children(child);
    r = signals < 0 ? signals : r;
    int pair[2] = {-1, -1};
    if (r == 0) {
        child->call = "socketpair";
        r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
    }
    if (r < 0) {
        child_report_failure(child, index, r);
        _exit(1);
    }
    child->call = "fork";
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        close(signals);
        r = getpid() == PROGRAM_PID ? child_pass_over_pid(child) : -ESRCH;
        if (r < 0) {
            give_up(child, JAIL_NO_STEP, r);
        }
        if (parking->hook->call) {
            parking->hook->call(parking->hook->argument, parking->is_awaited);
        }
        wait_for_program(child, parking->filter_early, pair[1], ret);
        return;
    }
    if (pid < 0) {
        child_report_failure(child, index, -errno);
        _exit(1);
    }
    close(pair[1]);
    fd_closep(&child->fds[JAIL_FD_SCRATCH]);
    fd_closep(&child->fds[JAIL_FD_WORKSPACE]);
    struct child_message end;
    memset(&end, 0, sizeof end);
    init_serve(child, pid, signals, pair[0], &end);
}

/* Its directory in /proc. A child of ours is reaped when it ends, and its number may be another's then: it is
 * the right one if the child is there still when it has been opened. */
static int open_process(pid_t pid, int pidfd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    CLEANUP(fd_closep) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || pidfd_send_signal(pidfd, 0, NULL, 0) < 0 ? -errno : TAKE_FD(fd);
}

static int write_maps(const struct parking *parking, pid_t pid, int pidfd)
{
    char map[64];
    const struct jail_plan *plan = parking->plan;
    CLEANUP(fd_closep) int process = open_process(pid, pidfd);
    int r = process < 0                  ? process
            : parking->child.drop_groups ? 0
                                         : io_write_file_at(process, "setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", plan->uid, parking->inner_uid);
    r = r < 0 ? r : io_write_file_at(process, "uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", plan->gid,
             parking->inner_uid == plan->uid ? plan->gid : parking->inner_uid);
    return r < 0 ? r : io_write_file_at(process, "gid_map", map);
}

/* Returns 1 in the parked process; 0 or -errno in the template. */
static int clone_jail(struct parking *parking, struct zygote_run *ret)
{
    CLEANUP(fd_closep) int pidfd = -1;
    uint64_t cgroup = parking->cgroup >= 0 ? (uint64_t)parking->cgroup : 0u;
    struct clone_args args = {
        .flags = (parking->plan->namespaces & ~(uint64_t)CLONE_NEWCGROUP) | (uint64_t)CLONE_PIDFD |
                 (parking->cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0) {
        int code = errno;
        pidfd = -1; /* a late failure leaves a number behind that is nobody's */
        parking->child.call = "clone3";
        return -code;
    }
    if (pid == 0) {
        pidfd = -1;
        build(parking, ret);
        return 1;
    }
    parking->child.call = "writing id maps";
    int r = write_maps(parking, (pid_t)pid, pidfd);
    if (r == 0) {
        struct child_message cloned;
        memset(&cloned, 0, sizeof cloned);
        cloned.kind = CHILD_CLONED;
        parking->child.call = "sendmsg";
        r = child_send(&parking->child, &cloned, pidfd);
    }
    if (r == 0) {
        parking->child.call = "write";
        r = io_write_full(parking->go[1], "g", 1);
    }
    if (r < 0) {
        /* Not by its number: it is reaped when it ends, and that may be another's by now. */
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    }
    return r;
}

static int prepare(const struct zygote_header *header, const unsigned char *message, size_t size,
                   const int *fds, size_t n_fds, struct parking *ret)
{
    *ret = (struct parking){.control = -1,
                            .scratch = -1,
                            .workspace = -1,
                            .cgroup = -1,
                            .go = {-1, -1},
                            .inner_uid = header->inner_uid,
                            .is_awaited = header->is_awaited,
                            .filter_early = header->filter_early};
    /* In the order in which they are sent; a cgroup may be missing. */
    int *const shared[] = {&ret->control, &ret->scratch, &ret->workspace, &ret->cgroup};
    int *const alone[] = {&ret->control, &ret->scratch, &ret->cgroup, &ret->workspace};
    int *const *places = header->has_workspace ? shared : alone;
    for (size_t i = 0; i < n_fds; i++) {
        *places[i] = fds[i];
    }
    if (n_fds < (header->has_workspace ? 3u : 2u) || header->kind != ZYGOTE_PARK) {
        return -EPROTO;
    }
    ret->child = (struct child){.control = ret->control,
                                .drop_groups = header->drop_groups,
                                .in_process = true,
                                .files_late = header->files_late,
                                .root = -1,
                                .parent = -1,
                                .listener = -1,
                                .proc = -1,
                                .call = "decoding the plan"};
    for (size_t i = 0; i < JAIL_FD_COUNT; i++) {
        ret->child.fds[i] = -1;
    }
    ret->child.fds[JAIL_FD_SCRATCH] = ret->scratch;
    ret->child.fds[JAIL_FD_WORKSPACE] = ret->workspace;
    int r = zygote_decode_plan(message, size, &ret->plan);
    ret->child.plan = ret->plan;
    r = r == 0 && getpid() != TEMPLATE_PID ? -ESRCH : r;
    return r < 0 ? r : pipe2(ret->go, O_CLOEXEC) < 0 ? -errno : 0;
}

/* One message from the parent: 1 in a parked process that has got its program, 0 in the template, -EPIPE when
 * the parent wants no more. A request that fails is answered on the jail's own socket. */
static int serve_one(int sock, unsigned char *message, const struct park_hook *hook, struct zygote_run *ret)
{
    int fds[4];
    size_t n_fds = ARRAY_SIZE(fds);
    ssize_t n = io_recv_fds(sock, message, ZYGOTE_MESSAGE_MAX, fds, &n_fds);
    struct zygote_header header;
    if (n == -ENOMEM || n == -EMSGSIZE) {
        return 0; /* no room for it or its descriptors: that jail has ended by itself, for want of a socket */
    }
    if (n <= 0 || zygote_decode_header(message, (size_t)n, &header) < 0) {
        return -EPIPE;
    }
    struct parking parking;
    int r = prepare(&header, message, (size_t)n, fds, n_fds, &parking);
    parking.hook = hook;
    r = r < 0 ? r : clone_jail(&parking, ret);
    if (r == 1) {
        return 1;
    }
    if (r < 0 && parking.control >= 0) {
        child_report_failure(&parking.child, JAIL_NO_STEP, r);
    }
    free_parking(&parking);
    return 0;
}

int zygote_serve(int sock, void (*park)(void *argument, bool is_awaited), void *argument,
                 struct zygote_run *ret)
{
    const struct park_hook hook = {.call = park, .argument = argument};
    /* Its jails are its children; the kernel reaps them, nobody here asks how they ended. */
    signal(SIGCHLD, SIG_IGN);
    unsigned char *message = malloc(ZYGOTE_MESSAGE_MAX);
    int r = message ? 0 : -ENOMEM;
    while (r == 0) {
        r = serve_one(sock, message, &hook, ret);
    }
    if (r < 0) {
        _exit(0);
    }
    free(message);
    signal(SIGCHLD, SIG_DFL);
    return 0;
}
