/* Calls as text, and the table of arguments that it goes by: PID 1 of a jail records those. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "config/policy/constants.h"
#include "jail/base/bpf.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/child/denied.h"
#include "policy/filter/call_text.h"
#include "policy/filter/names.h"

#define UPPER (1ull << 32)

static const struct {
    int nr;
    uint64_t arguments[6];
    const char *text;
} rows[] = {
    {SYS_ioctl, {3, FIONREAD, 0x7ffc00001000}, "ioctl(FIONREAD)"},
    {SYS_ioctl, {3, FIONREAD | UPPER}, "ioctl(FIONREAD)"},
    {SYS_ioctl, {3, 0x12345678}, "ioctl(0x12345678)"},
    {SYS_ioctl, {3, 0}, "ioctl(0)"},
    {SYS_prctl, {PR_SET_THP_DISABLE, 1}, "prctl(PR_SET_THP_DISABLE)"},
    {SYS_prctl, {1000}, "prctl(1000)"},
    {SYS_socket, {AF_NETLINK, SOCK_RAW}, "socket(AF_NETLINK, SOCK_RAW)"},
    {SYS_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 15}, "socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, 15)"},
    {SYS_socket,
     {AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 17},
     "socket(AF_INET, SOCK_DGRAM|SOCK_NONBLOCK|SOCK_CLOEXEC, IPPROTO_UDP)"},
    {SYS_socket, {77, 9}, "socket(77, 9)"},
    {SYS_socket, {0}, "socket(AF_UNSPEC)"},
    {SYS_clone, {CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD}, "clone(CLONE_NEWUSER|CLONE_NEWNET|SIGCHLD)"},
    {SYS_clone, {SIGCHLD, 1, 2, 3}, "clone(SIGCHLD)"},
    {SYS_clone, {CLONE_VM | 5}, "clone(CLONE_VM|5)"},
    {SYS_unshare, {CLONE_NEWUSER | CLONE_NEWNS}, "unshare(CLONE_NEWNS|CLONE_NEWUSER)"},
    {SYS_setsockopt, {3, SOL_SOCKET, SO_MARK}, "setsockopt(SOL_SOCKET, SO_MARK)"},
    {SYS_setsockopt, {3, IPPROTO_TCP, SO_MARK}, "setsockopt(IPPROTO_TCP, 36)"},
    {SYS_mmap,
     {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | 1 << 30},
     "mmap(PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_ANONYMOUS|0x40000000)"},
    {SYS_mknodat, {3, 1, S_IFBLK | 0640}, "mknodat(S_IFBLK|0640)"},
    {SYS_futex, {1, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG}, "futex(FUTEX_LOCK_PI|FUTEX_PRIVATE_FLAG)"},
    {SYS_openat, {3, 1, O_WRONLY | O_CREAT | O_CLOEXEC}, "openat(O_WRONLY|O_CREAT|O_CLOEXEC)"},
    {SYS_personality, {UINT32_MAX}, "personality(0xffffffff)"},
    {SYS_bpf, {BPF_PROG_LOAD}, "bpf(BPF_PROG_LOAD)"},
    {SYS_mount, {1, 2, 3}, "mount"},
    {100000, {1, 2, 3}, "syscall_100000"},
};

static void test_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        call_text(policy_native_arch(), rows[i].nr, rows[i].arguments, &text);
        assert_string_equal(text.data, rows[i].text);
    }
}

/* The same number is another call there, with other arguments. */
static void test_another_architecture(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    const uint64_t arguments[6] = {0, FIONREAD};
    call_text(AUDIT_ARCH_S390X, 54, arguments, &text);
    assert_string_equal(text.data, "ioctl");
}

/* PID 1 records the arguments that have names, and no others. */
static void test_what_has_names_is_recorded(void **state)
{
    (void)state;
    for (int nr = 0; nr < 500; nr++) {
        char name[64];
        policy_syscall_name(policy_native_arch(), nr, name, sizeof name);
        unsigned named = strcmp(name, "prlimit64") == 0 ? 1 : 0; /* whose: the rule for it says so */
        for (uint32_t i = 0; i < 6; i++) {
            const struct named_argument *argument = argument_at(name, i);
            named |= argument && argument->kind ? 1u << i : 0;
        }
        if (named != denied_told_arguments(nr)) {
            fail_msg("%s: arguments 0x%x have names, 0x%x are recorded", name, named,
                     denied_told_arguments(nr));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_another_architecture),
        cmocka_unit_test(test_what_has_names_is_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
