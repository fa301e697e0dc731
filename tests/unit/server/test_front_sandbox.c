/* server/front_sandbox.c: what is left, and that everything else fails. Each case is a child, since there is
 * no way back. */
#include "server/front_sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static long open_a_file(void)
{
    return open("/etc/passwd", O_RDONLY);
}

static long make_a_file(void)
{
    return open("/tmp", O_TMPFILE | O_RDWR, 0600);
}

static long look_at_a_path(void)
{
    struct stat st;
    return stat("/etc/passwd", &st);
}

static long make_a_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}

static long make_a_socket_pair(void)
{
    int fds[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static long start_a_program(void)
{
    char *argv[] = {(char[]){"true"}, NULL};
    return execve("/bin/true", argv, NULL);
}

static long make_a_process(void)
{
    return fork();
}

static long make_executable_memory(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long make_memory_executable(void)
{
    static char page[8192] __attribute__((aligned(4096)));
    return mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static long signal_another(void)
{
    return kill(getppid(), 0);
}

static long look_into_another(void)
{
    return syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, 1, 0, 0);
}

static long limit_another(void)
{
    struct rlimit limit;
    return syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, NULL, &limit);
}

static long push_into_a_terminal(void)
{
    return ioctl(0, TIOCSTI, "x");
}

static long make_a_ring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}

static long make_a_namespace(void)
{
    return syscall(SYS_unshare, 0);
}

static long (*const denied[])(void) = {
    open_a_file,
    make_a_file,
    look_at_a_path,
    make_a_socket,
    make_a_socket_pair,
    start_a_program,
    make_a_process,
    make_executable_memory,
    make_memory_executable,
    signal_another,
    look_into_another,
    limit_another,
    push_into_a_terminal,
    make_a_ring,
    make_a_namespace,
};

static void enter(void)
{
    bool landlock;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || front_sandbox_enter(&landlock, NULL) < 0) {
        _exit(250);
    }
}

/* Runs `fn` in a child; its exit code. */
static int in_child(int (*fn)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        enter();
        _exit(fn());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* 0, or 1 + the number of the first case that did not fail as it should. */
static int try_denied(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
        errno = 0;
        if (denied[i]() != -1 || errno != EPERM) {
            return (int)i + 1;
        }
    }
    return 0;
}

static int do_a_fronts_work(void)
{
    int pipes[2], unread;
    struct stat st;
    struct rlimit limit;
    int memory = memfd_create("x", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    int epoll = epoll_create1(EPOLL_CLOEXEC); /* the front has made its own before: no more of them */
    if (memory < 0 || pwrite(memory, "abc", 3, 0) != 3 || fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE) < 0) {
        return 1;
    }
    if (epoll >= 0 || pipe2(pipes, O_CLOEXEC) < 0 || fcntl(pipes[0], F_SETFL, O_NONBLOCK) < 0) {
        return 2;
    }
    if (write(pipes[1], "x", 1) != 1 || ioctl(pipes[0], FIONREAD, &unread) < 0 || unread != 1) {
        return 3;
    }
    void *much = malloc(50u << 20);
    if (!much || fstat(memory, &st) < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 4;
    }
    memset(much, 1, 50u << 20);
    void *more = realloc(much, 100u << 20);
    free(more);
    return more ? 0 : 5;
}

static void everything_else_fails(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip(); /* the front is not confined in such builds */
    }
    assert_int_equal(in_child(try_denied), 0);
}

static void a_fronts_work_goes_on(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    assert_int_equal(in_child(do_a_fronts_work), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_else_fails),
        cmocka_unit_test(a_fronts_work_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
