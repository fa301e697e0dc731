/* Processes that work for the warden beside it. Runs in the parent up to the fork, then in the process
 * itself.
 *
 * What must hold: it keeps nothing that was open in the parent, because other jobs' pipes would never reach
 * their end, and it does not outlive the parent. */
#include "jail/base/helper.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

typedef void (*run_fn)(int sock, void *arg);

static void helper_main(const char *name, run_fn run, void *arg, int sock, pid_t parent)
    __attribute__((noreturn));
static void helper_main(const char *name, run_fn run, void *arg, int sock, pid_t parent)
{
    prctl(PR_SET_NAME, name, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    bool alone = dup2(sock, STDIN_FILENO) >= 0 && close_range(STDIN_FILENO + 1, UINT32_MAX, 0) == 0;
    if (!alone || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    run(STDIN_FILENO, arg);
    _exit(EXIT_SUCCESS);
}

int helper_start(const char *name, run_fn run, void *arg, struct helper *ret)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return -errno;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        helper_main(name, run, arg, sockets[1], parent);
    }
    int code = errno;
    close(sockets[1]);
    if (pid < 0) {
        close(sockets[0]);
        return -code;
    }
    *ret = (struct helper){.pid = pid, .sock = sockets[0]};
    return 0;
}

void helper_stop(struct helper *helper)
{
    fd_closep(&helper->sock);
    if (helper->pid > 0) {
        kill(helper->pid, SIGKILL);
        waitpid(helper->pid, NULL, 0);
    }
    helper->pid = -1;
}
