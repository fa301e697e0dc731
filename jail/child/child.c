/* The child side of a launch: PID 1 of a new jail, from clone to the point where it becomes the jail's init.
 *
 * It runs in a copy of the parent's memory without its heap, inside the new namespaces, with a full
 * capability set in the new user namespace and none outside. One loop applies the plan's steps; the first
 * failure is reported by number and ends everything: there is no half-built jail. */
#include "jail/child/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"

/* A page, or the largest of an architecture that has several sizes. */
#ifdef __x86_64__
#define WIPED_PAGE_BYTES 4096u
#else
#define WIPED_PAGE_BYTES 65536u
#endif
#define STACK_BYTES_MAX (8u << 20)

/* A sanitizer would take the wiping of frames that are not our own for an overflow. */
#if defined(__SANITIZE_ADDRESS__)
#define STACK_IS_WATCHED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STACK_IS_WATCHED
#endif
#endif

/* Where the stack of the first thread begins; the dynamic linker's. */
extern void *__libc_stack_end;

int child_send(const struct child *child, const struct child_message *message, int fd)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof control.space;
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        *cmsg = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(cmsg), &fd, sizeof fd);
    }
    ssize_t n;
    do {
        n = sendmsg(child->control, &msg, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

int child_receive(const struct child *child, enum jail_phase phase)
{
    struct parent_message message;
    ssize_t n;
    do {
        n = recv(child->control, &message, sizeof message, 0);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof message || message.phase != phase) {
        return n < 0 ? -errno : -EPIPE;
    }
    return -message.error;
}

static int open_beneath(int dirfd, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dirfd, *path ? path : ".", &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

int child_open_path(struct child *child, const char *path)
{
    child->call = "openat2";
    return open_beneath(child->root, path + 1, O_PATH);
}

/* The step before mostly had the same parent, and what is attached meanwhile lies below it: attaching opens
 * its own parent this way as well, so that no tree is ever put over the remembered directory or one above it.
 */
int child_open_parent(struct child *child, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash > path ? (size_t)(slash - path - 1) : 0;
    if (length >= sizeof child->parent_path) {
        return -ENAMETOOLONG;
    }
    *ret_name = slash + 1;
    if (child->parent >= 0 && strncmp(child->parent_path, path + 1, length) == 0 &&
        child->parent_path[length] == '\0') {
        return child->parent;
    }
    child_forget_parent(child);
    memcpy(child->parent_path, path + 1, length);
    child->parent_path[length] = '\0';
    child->call = "openat2";
    child->parent = open_beneath(child->root, child->parent_path, O_PATH | O_DIRECTORY);
    return child->parent;
}

int child_open_below(struct child *child, int parent, const char *name)
{
    child->call = "openat2";
    return open_beneath(parent, name, O_PATH);
}

void child_forget_parent(struct child *child)
{
    fd_closep(&child->parent);
}

typedef int (*step_fn)(struct child *child, const struct jail_step *step);

static const step_fn step_functions[JAIL_STEP_COUNT] = {
#define X(name, word, where, doc) [JAIL_STEP_##name] = step_##name,
#include "jail/plan/steps.def"
#undef X
};

int child_apply_step(struct child *child, const struct jail_step *step)
{
    child->call = "";
    return step_functions[step->kind](child, step);
}

int child_apply(struct child *child, uint32_t *index, enum jail_step_kind stop)
{
    const struct jail_plan *plan = child->plan;
    for (; *index < plan->n_steps; (*index)++) {
        const struct jail_step *step = &plan->steps[*index];
        if (step->kind == stop) {
            break;
        }
        int r = child_apply_step(child, step);
        if (r < 0) {
            child_forget_parent(child);
            return r;
        }
    }
    child_forget_parent(child);
    return 0;
}

/* Keeps the program's descriptors free of anything of ours: its pipes go there, and a parent that was started
 * with some of them closed may have been given their numbers. */
static int clear_program_fds(struct child *child)
{
    int *const ours[] = {&child->control,
                         &child->fds[JAIL_FD_SCRATCH],
                         &child->fds[JAIL_FD_INPUT],
                         &child->fds[JAIL_FD_BRIDGE_IN],
                         &child->fds[JAIL_FD_BRIDGE_OUT],
                         &child->fds[JAIL_FD_WORKSPACE],
                         &child->fds[JAIL_FD_IMAGE]};
    child->call = "fcntl";
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
        if (*ours[i] >= 0 && *ours[i] < JAIL_PROGRAM_FDS) {
            *ours[i] = fcntl(*ours[i], F_DUPFD_CLOEXEC, JAIL_PROGRAM_FDS);
            if (*ours[i] < 0) {
                return -errno;
            }
        }
    }
    /* Nor may what the steps open land there: anything will do to fill the gaps. */
    int filler;
    do {
        filler = fcntl(child->control, F_DUPFD_CLOEXEC, 0);
    } while (filler >= 0 && filler < JAIL_PROGRAM_FDS);
    if (filler < 0) {
        return -errno;
    }
    close(filler);
    return 0;
}

/* Closes every descriptor but the standard ones and those the jail was given: the parent's table holds other
 * jobs' pipes, which would otherwise never reach end of file while this jail lives. */
int child_close_others(struct child *child)
{
    int keep[JAIL_FD_COUNT + 1];
    size_t n = 0;
    keep[n++] = child->control;
    for (size_t i = 0; i < JAIL_FD_COUNT; i++) {
        if (child->fds[i] >= 0) {
            keep[n++] = child->fds[i];
        }
    }
    unsigned next = STDERR_FILENO + 1;
    child->call = "close_range";
    for (;;) {
        unsigned lowest = UINT32_MAX;
        for (size_t i = 0; i < n; i++) {
            if (keep[i] >= (int)next && (unsigned)keep[i] < lowest) {
                lowest = (unsigned)keep[i];
            }
        }
        if (lowest > next && close_range(next, lowest == UINT32_MAX ? lowest : lowest - 1, 0) < 0) {
            return -errno;
        }
        if (lowest == UINT32_MAX) {
            return 0;
        }
        next = lowest + 1;
    }
}

/* A clone3() that fails once it has a PID: nobody runs, or is counted, or has to be waited for. That the
 * kernel does it in this order is seen when a template starts, by the PID that it gets (init_main()). */
int child_pass_over_pid(struct child *child)
{
    struct clone_args args = {.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_PIDFD,
                              .pidfd = UINT64_MAX}; /* nobody's memory: EFAULT */
    child->call = "clone3";
    long pid = syscall(SYS_clone3, &args, sizeof args);
    return pid < 0 && errno == EFAULT ? 0 : pid < 0 ? -errno : -ESRCH;
}

void child_report_failure(const struct child *child, uint32_t step, int error)
{
    struct child_message message;
    memset(&message, 0, sizeof message);
    message.kind = CHILD_FAILED;
    message.step = step;
    message.error = -error;
    for (size_t i = 0; i < CHILD_CALL_MAX - 1 && child->call[i]; i++) {
        message.call[i] = child->call[i];
    }
    child_send(child, &message, -1);
}

/* Leaves the parent's network namespace, for the one that the parent has made meanwhile
 * (jail/resources/network.h). */
static int enter_network(struct child *child)
{
    struct parent_message message;
    size_t n_fds = 1;
    CLEANUP(fd_closep) int network = -1;
    child->call = "recvmsg";
    ssize_t n = io_recv_fds(child->control, &message, sizeof message, &network, &n_fds);
    if (n != (ssize_t)sizeof message || message.phase != PHASE_NETWORK) {
        return n < 0 ? (int)n : -EPIPE;
    }
    if (n_fds == 0) {
        child->call = "unshare";
        return unshare(CLONE_NEWNET) < 0 ? -errno : 0;
    }
    child->call = "setns";
    return setns(network, CLONE_NEWNET) < 0 ? -errno : 0;
}

/* Applies what PID 1 does without the network namespace, unless it has failed already (`r`), and enters it:
 * before lo is wanted, and while we may. A failure waits for the parent's word as well: one that we left
 * unread would take our own words to the parent along. */
static int build_up_to_network(struct child *child, uint32_t *index, int r)
{
    enum jail_step_kind stop = JAIL_STEP_CAPABILITIES;
    for (uint32_t i = 0; i < child->plan->n_steps; i++) {
        stop = child->plan->steps[i].kind == JAIL_STEP_LOOPBACK ? JAIL_STEP_LOOPBACK : stop;
    }
    r = r < 0 ? r : child_apply(child, index, stop);
    const char *call = child->call;
    int entered = enter_network(child);
    child->call = r < 0 ? call : child->call;
    return r < 0 ? r : entered;
}

/* What comes before the first step. Whatever fails waits for the id maps: to a parent that still writes them,
 * an early end would look like a failure of its own. */
static int prepare(struct child *child)
{
    int r = clear_program_fds(child);
    r = r < 0 ? r : child_close_others(child);
    umask(0);
    /* Not one of clone3's flags: there it would make the parent's cgroup the new namespace's root, not the
     * job's. */
    if (r == 0 && (child->plan->namespaces & CLONE_NEWCGROUP)) {
        child->call = "unshare";
        r = unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
    }
    int received = child_receive(child, PHASE_IDMAP);
    if (r == 0 && received < 0) {
        child->call = "recv";
        r = received;
    }
    return r;
}

/* Wipes what earlier calls of the parent's have left below this one. */
static void __attribute__((noinline)) wipe_below(void)
{
    char stack[4 * WIPED_PAGE_BYTES];
    explicit_bzero(stack, sizeof stack);
}

static int __attribute__((noinline)) drop_below(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t to = here / WIPED_PAGE_BYTES * WIPED_PAGE_BYTES - 2 * WIPED_PAGE_BYTES;
    /* Most of it is a hole, and madvise() says so. */
    return madvise((void *)(to - STACK_BYTES_MAX), STACK_BYTES_MAX, MADV_DONTNEED) < 0 && errno != ENOMEM
               ? -errno
               : 0;
}

/* The parent's stack, of which we never return to anything above `frame`, may hold words of other jobs. Its
 * heap is not ours (spawn.c). */
static int forget_stack(void *frame)
{
#ifndef STACK_IS_WATCHED
    explicit_bzero(frame, (size_t)((char *)__libc_stack_end - (char *)frame));
#else
    (void)frame;
#endif
    int r = drop_below();
    wipe_below();
    return r;
}

void child_main(struct child *child)
{
    int forgotten = forget_stack(__builtin_dwarf_cfa());
    child->root = child->parent = child->listener = child->proc = -1;
    int r = prepare(child);
    if (r == 0 && forgotten < 0) {
        child->call = "madvise";
        r = forgotten;
    }
    bool prepared = r == 0;
    uint32_t index = 0;
    if (child->plan->namespaces & CLONE_NEWNET) {
        r = build_up_to_network(child, &index, r);
    }
    r = r < 0 ? r : child_apply(child, &index, JAIL_STEP_PROGRAM);
    if (r < 0) {
        child_report_failure(child, prepared ? index : JAIL_NO_STEP, r);
        _exit(1);
    }
    init_main(child, index + 1);
}
