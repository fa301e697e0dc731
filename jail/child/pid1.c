/* The child side of a launch: PID 1 of a new jail, from clone to the point where it becomes the jail's init.
 *
 * It runs in a copy of the parent's memory without its heap, inside the new namespaces, with a full
 * capability set in the new user namespace and none outside. The plan's steps are applied in their order; the
 * first failure is reported by number and ends everything: there is no half-built jail. */
#include "jail/child/pid1.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "jail/child/apply.h"
#include "jail/child/child.h"
#include "jail/child/init.h"

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

/* Keeps the program's descriptors free of anything of ours: its pipes go there, and a parent that was started
 * with some of them closed may have been given their numbers. */
static int clear_program_fds(struct child *child)
{
    child->call = "fcntl";
    for (size_t slot = JAIL_FD_STDERR; slot < JAIL_FD_COUNT; slot++) {
        int *fd = slot == JAIL_FD_STDERR ? &child->control : &child->fds[slot];
        if (*fd >= 0 && *fd < JAIL_PROGRAM_FDS) {
            *fd = fcntl(*fd, F_DUPFD_CLOEXEC, JAIL_PROGRAM_FDS);
            if (*fd < 0) {
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
