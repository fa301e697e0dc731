/* zygote_serve() without a jail: forks once per request. Linked instead of jail/zygote.c where the tests want
 * to know what the interpreter does, and nothing else.
 *
 * A child is parked before its request comes, as in earnest, and takes it from the socket itself. The
 * template says "parked" with the child's pid, and when the child has ended how, and what it has used. */
#include "jail/zygote.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"

#define REQUEST_MAX (128u << 10)
#define NO_REQUEST  99 /* exit code of a child that waited in vain */

/* A request: this, then the working directory, the arguments and the environment, each ended by a NUL; stdin,
 * stdout and stderr come along. */
struct request {
    uint32_t argc, envc;
};

struct report {
    int64_t pid; /* of the one that is parked; the rest is 0 then */
    int64_t ended, wstatus, user_us, system_us, faults, fork_us;
};

static char **take_strings(char **text, size_t n)
{
    char **strings = calloc(n + 1, sizeof *strings);
    for (size_t i = 0; strings && i < n; i++) {
        strings[i] = *text;
        *text += strlen(*text) + 1;
    }
    return strings;
}

static void take_request(int sock, struct zygote_run *ret)
{
    static char message[REQUEST_MAX];
    int fds[3];
    size_t n_fds = ARRAY_SIZE(fds);
    ssize_t n = io_recv_fds(sock, message, sizeof message - 1, fds, &n_fds);
    if (n < (ssize_t)sizeof(struct request) || n_fds != ARRAY_SIZE(fds)) {
        _exit(NO_REQUEST);
    }
    struct request request;
    memcpy(&request, message, sizeof request);
    char *text = message + sizeof request;
    char *directory = text;
    text += strlen(text) + 1;
    *ret = (struct zygote_run){.argc = request.argc, .envc = request.envc};
    ret->argv = take_strings(&text, request.argc);
    ret->envp = take_strings(&text, request.envc);
    for (int i = 0; i < 3; i++) {
        dup2(fds[i], i);
    }
    close_range(3, ~0u, 0);
    if (!ret->argv || !ret->envp || chdir(directory) < 0) {
        _exit(NO_REQUEST);
    }
}

static int64_t microseconds(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000000 + time->tv_usec;
}

/* True as long as there are requests. */
static bool attend(int sock, pid_t pid, int64_t fork_us)
{
    struct report report = {.pid = pid};
    int wstatus;
    struct rusage usage;
    if (io_send_fds(sock, &report, sizeof report, NULL, 0) < 0 || wait4(pid, &wstatus, 0, &usage) < 0) {
        return false;
    }
    report = (struct report){.pid = pid,
                             .ended = 1,
                             .wstatus = wstatus,
                             .user_us = microseconds(&usage.ru_utime),
                             .system_us = microseconds(&usage.ru_stime),
                             .faults = usage.ru_minflt,
                             .fork_us = fork_us};
    return !(WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == NO_REQUEST) &&
           io_send_fds(sock, &report, sizeof report, NULL, 0) >= 0;
}

int zygote_serve(int sock, void (*park)(void *argument, bool is_awaited), void *argument,
                 struct zygote_run *ret)
{
    for (;;) {
        uint64_t before_ns = clock_now_ns();
        pid_t pid = fork();
        if (pid == 0) {
            if (park) {
                park(argument, false);
            }
            take_request(sock, ret);
            return 0;
        }
        if (pid < 0 || !attend(sock, pid, (int64_t)((clock_now_ns() - before_ns) / 1000))) {
            _exit(0);
        }
    }
}
