/* server/front/sandbox.c: what is left, and that everything else fails. Each case is a child, since there is
 * no way back. */
#include "server/front/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
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
#include "jail/base/io.h"
#include "server/warden/front_denials.h"

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

static long stat_beside_a_descriptor(void)
{
    struct stat st;
    return fstatat(0, "/etc/passwd", &st, 0x1000 /* AT_EMPTY_PATH */);
}

static long lock_a_descriptor(void)
{
    return fcntl(0, F_SETOWN, getppid());
}

static long signal_another_thread(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), 0);
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
    stat_beside_a_descriptor,
    lock_a_descriptor,
    signal_another_thread,
};

static void enter(void)
{
    /* The filter alone: denied calls fail without a listener. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || front_sandbox_deny_calls(NULL, NULL, NULL, NULL) < 0) {
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
    if (!much || getrlimit(RLIMIT_NOFILE, &limit) < 0) {
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

/* ---- every number that there is ---- */

/* What the filter leaves in some use or other, by name: whoever adds to it adds to this. */
static const int left[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_accept4,
    SYS_shutdown,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_close,
    SYS_pipe2,
    SYS_fcntl,
    SYS_memfd_create,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_fstat,
    SYS_getdents64,
    SYS_ftruncate,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_ppoll,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_eventfd2,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_futex,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_clock_nanosleep,
    SYS_sched_yield,
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_getrusage,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    SYS_mmap,
    SYS_mprotect,
    SYS_ioctl,
    SYS_prlimit64,
    SYS_tgkill,
    SYS_fchmod,
#if defined(__x86_64__)
    SYS_epoll_wait,
    SYS_poll,
    SYS_time,
#endif
};

/* The kernel's own, for its probes: no filter sees them, and anybody else who makes them dies. */
#define UPROBE_FIRST 335
#define UPROBE_LAST  336

static bool is_left(long number)
{
    if (number >= UPROBE_FIRST && number <= UPROBE_LAST) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
        if (left[i] == number) {
            return true;
        }
    }
    return false;
}

/* 0, or a number whose call was not denied, as far as an exit code can tell it. */
static int try_all_numbers(void)
{
    for (long number = 0; number < 1024; number++) {
        if (!is_left(number)) {
            errno = 0;
            if (syscall(number, 0, 0, 0, 0, 0, 0) != -1 || errno != EPERM) {
                return number > 0 && number < 249 ? (int)number : 249;
            }
        }
    }
    return 0;
}

static void no_other_call_is_left(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    assert_int_equal(in_child(try_all_numbers), 0);
}

#if defined(__x86_64__)
/* Two doors of the same processor to calls of other numbers. */
static int call_x32(void)
{
    return syscall(0x40000000 | SYS_getpid) == -1 && errno == EPERM ? 0 : 1;
}

static void foreign_doors_are_shut(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    assert_int_equal(in_child(call_x32), 0);
    pid_t pid = fork();
    if (pid == 0) {
        enter();
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L /* getpid of i386 */) : "memory");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}
#endif

/* ---- Landlock alone, as if the filter had a hole ---- */

static long write_a_file(void)
{
    return open("/dev/null", O_WRONLY);
}

static long make_a_directory(void)
{
    return mkdir("/tmp/front-sandbox", 0700);
}

static long connect_elsewhere(void)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&to, sizeof to);
}

static long listen_elsewhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return bind(fd, (struct sockaddr *)&at, sizeof at);
}

/* By the version of Landlock that has it. */
static const struct {
    long version;
    int error;
    long (*attempt)(void);
} kept_out[] = {
    {1, EACCES, open_a_file},      {1, EACCES, make_a_file},     {1, EACCES, write_a_file},
    {1, EACCES, make_a_directory}, {1, EACCES, start_a_program}, {4, EACCES, connect_elsewhere},
    {4, EACCES, listen_elsewhere}, {6, EPERM, signal_another},
};

static int try_kept_out(void)
{
    bool landlock;
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        front_sandbox_deny_access(NULL, NULL, &landlock, NULL) < 0) {
        return 250;
    }
    if (landlock != (version > 0)) {
        return 249;
    }
    for (size_t i = 0; i < ARRAY_SIZE(kept_out); i++) {
        errno = 0;
        if (kept_out[i].version <= version && (kept_out[i].attempt() != -1 || errno != kept_out[i].error)) {
            return (int)i + 1;
        }
    }
    return 0;
}

static void landlock_alone_holds(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(try_kept_out());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- what the warden hears ---- */

/* A child in the sandbox that makes two denied calls; its listener comes back over the socket. */
static _Noreturn void try_and_be_heard(int sock)
{
    int listener;
    bool landlock;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        front_sandbox_enter(NULL, NULL, NULL, NULL, &listener, &landlock, NULL) < 0 || listener < 0 ||
        io_send_fds(sock, "x", 1, &listener, 1) < 0) {
        _exit(250);
    }
    close(listener);
    bool first = open_a_file() == -1 && errno == EPERM;
    bool second = make_a_process() == -1 && errno == EPERM;
    /* Nobody listens from here on. */
    char byte;
    bool told = recv(sock, &byte, 1, 0) == 1;
    bool third = open_a_file() == -1 && errno == ENOSYS;
    _exit(first && second && told && third ? 0 : 1);
}

static void denied_calls_are_heard(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    int sockets[2], listener = -1, status;
    char byte, name[64];
    size_t n = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        try_and_be_heard(sockets[1]);
    }
    close(sockets[1]);
    assert_int_equal(io_recv_fds(sockets[0], &byte, 1, &listener, &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(front_denials_check(listener), 0);
    assert_int_equal(front_denials_answer(listener, name, sizeof name), 1);
    assert_string_equal(name, "openat");
    assert_int_equal(front_denials_answer(listener, name, sizeof name), 1);
    assert_string_equal(name, "clone");
    close(listener);
    assert_int_equal(send(sockets[0], "x", 1, 0), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(sockets[0]);
}

static void only_a_listener_is_one(void **state)
{
    (void)state;
    int null = open("/dev/null", O_RDWR), sockets[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(pipe(pipes), 0);
    const int fds[] = {null, sockets[0], sockets[1], pipes[0], pipes[1], -1};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        assert_int_equal(front_denials_check(fds[i]), -EBADF);
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_else_fails),
        cmocka_unit_test(a_fronts_work_goes_on),
        cmocka_unit_test(no_other_call_is_left),
#if defined(__x86_64__)
        cmocka_unit_test(foreign_doors_are_shut),
#endif
        cmocka_unit_test(landlock_alone_holds),
        cmocka_unit_test(denied_calls_are_heard),
        cmocka_unit_test(only_a_listener_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
