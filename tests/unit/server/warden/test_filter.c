/* server/warden/filter.c: what is refused, that nobody below can lift it, and that a policy's own filter
 * keeps the last word. Each case is a child, since there is no way back. */
#include "server/warden/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/cleanup.h"

#define OLD_SETOPTIONS 21

static const struct refused {
    long number, arguments[4];
} refused[] = {
    {SYS_bpf, {0}},
    {SYS_init_module, {0}},
    {SYS_finit_module, {-1}},
    {SYS_delete_module, {0}},
    {SYS_kexec_load, {0}},
    {SYS_reboot, {0}},
    {SYS_swapon, {0}},
    {SYS_swapoff, {0}},
    {SYS_quotactl, {0}},
    {SYS_quotactl_fd, {-1}},
    {SYS_acct, {1}},
    {SYS_settimeofday, {1, 1}},
    {SYS_clock_settime, {0, 1}},
    {SYS_syslog, {3}},
    {SYS_open_by_handle_at, {-1}},
    {SYS_fanotify_init, {0}},
    {SYS_perf_event_open, {0, -1}},
    {SYS_ptrace, {PTRACE_SEIZE, 0, 0, PTRACE_O_TRACESECCOMP}},
    {SYS_ptrace, {PTRACE_SETOPTIONS, 0, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL}},
    {SYS_ptrace, {OLD_SETOPTIONS, 0, 0, PTRACE_O_TRACESECCOMP}},
#if defined(__x86_64__)
    {SYS_kexec_file_load, {-1}},
    {SYS_ioperm, {0}},
    {SYS_iopl, {3}},
    {0x40000000 + 39 /* getpid(), as x32 calls it */, {0}},
#endif
};

static int in_child(int (*run)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        bool entered = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && warden_filter_enter(NULL) == 0;
        _exit(entered ? run() : 250);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* 0, or 1 + the first that was not refused. */
static int try_refused(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        const long *a = refused[i].arguments;
        errno = 0;
        if (syscall(refused[i].number, a[0], a[1], a[2], a[3]) != -1 || errno != ENOSYS) {
            return (int)i + 1;
        }
    }
    return 0;
}

static void what_it_never_needs_is_refused(void **state)
{
    (void)state;
    assert_int_equal(in_child(try_refused), 0);
}

static int try_the_rest(void)
{
    int status;
    pid_t traced = fork();
    if (traced == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0 ? 1 : 0);
    }
    if (waitpid(traced, &status, 0) != traced || !WIFSTOPPED(status)) {
        return 1;
    }
    if (ptrace(PTRACE_SETOPTIONS, traced, NULL, (void *)(uintptr_t)PTRACE_O_TRACESYSGOOD) < 0 ||
        ptrace(PTRACE_CONT, traced, NULL, NULL) < 0) {
        return 2;
    }
    if (waitpid(traced, &status, 0) != traced || status != 0) {
        return 3;
    }
    errno = 0;
    return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) == -1 && errno != ENOSYS ? 0 : 4;
}

static void a_debugger_goes_on(void **state)
{
    (void)state;
    assert_int_equal(in_child(try_the_rest), 0);
}

/* A filter like a policy's, in a jail below: its answer is the one that counts. */
static int ask_a_stricter_filter(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return 1;
    }
    return syscall(SYS_bpf, 0, NULL, 0) == -1 && errno == EACCES ? 0 : 2;
}

static void a_policy_has_the_last_word(void **state)
{
    (void)state;
    assert_int_equal(in_child(ask_a_stricter_filter), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_never_needs_is_refused),
        cmocka_unit_test(a_debugger_goes_on),
        cmocka_unit_test(a_policy_has_the_last_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
