/* A network namespace takes the kernel as long to make as all else in a jail together. So the parent has it
 * made while PID 1, on another processor, builds the root, and has it handed over before PID 1 gives up its
 * capabilities. Runs in the warden and in `immure run`, both single-threaded.
 *
 * The namespace has to belong to the jail's user namespace, which nobody can enter and leave again. So a
 * helper does, a process that shares our memory and descriptors while we stand still (vfork-like), sends the
 * result itself, for which PID 1 may be waiting already, and ends. It makes five system calls; the jail has
 * no program yet, and PID 1, the only other process of that user namespace, is our own code. */
#include "jail/resources/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/io.h"

#define HELPER_STACK_BYTES (16 * 1024)

struct helper {
    int userns, sock;
    const void *message;
    size_t size;
    int network; /* -1, or a descriptor that we share */
    int result;  /* 0 or -errno */
};

static int make_and_send(struct helper *helper)
{
    if (setns(helper->userns, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNET) < 0) {
        return -errno;
    }
    helper->network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return helper->network < 0
               ? -errno
               : io_send_fds(helper->sock, helper->message, helper->size, &helper->network, 1);
}

static int helper_main(void *argument)
{
    struct helper *helper = argument;
    helper->result = make_and_send(helper);
    _exit(0);
}

int network_send(int userns, int sock, const void *message, size_t size)
{
    char stack[HELPER_STACK_BYTES] __attribute__((aligned(64)));
    struct helper helper = {
        .userns = userns, .sock = sock, .message = message, .size = size, .network = -1, .result = -ECHILD};
    /* No signal at its end: whoever waits for jails does not hear of it. */
    pid_t pid = clone(helper_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FILES, &helper);
    if (pid < 0) {
        return -errno;
    }
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    fd_closep(&helper.network);
    return helper.result;
}
