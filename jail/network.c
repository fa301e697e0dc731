/* A network namespace takes the kernel as long to make as all else in a jail together. So the parent has it
 * made while PID 1, on another processor, builds the root, and hands it over before PID 1 gives up its
 * capabilities. Runs in the warden and in `immure run`, both single-threaded.
 *
 * The namespace has to belong to the jail's user namespace, which nobody can enter and leave again. So a
 * helper does, a process that shares our memory and descriptors while we stand still (vfork-like), opens the
 * result for us and ends. It makes four system calls; the jail has no program yet, and PID 1, the only other
 * process of that user namespace, is our own code. */
#include "jail/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELPER_STACK_BYTES (16 * 1024)

struct helper {
    int userns;
    int result; /* the descriptor, or -errno */
};

static int helper_main(void *argument)
{
    struct helper *helper = argument;
    if (setns(helper->userns, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNET) < 0) {
        helper->result = -errno;
        _exit(1);
    }
    helper->result = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (helper->result < 0) {
        helper->result = -errno;
    }
    _exit(0);
}

int network_new(int userns)
{
    char stack[HELPER_STACK_BYTES] __attribute__((aligned(64)));
    struct helper helper = {.userns = userns, .result = -ECHILD};
    /* No signal at its end: whoever waits for jails does not hear of it. */
    pid_t pid = clone(helper_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FILES, &helper);
    if (pid < 0) {
        return -errno;
    }
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    return helper.result;
}
