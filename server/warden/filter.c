/* The warden's own filter. It has capabilities over the host, to make jails with; what else the kernel would
 * do for them (load programs into itself, swap, read files by their number, count all processes) it never
 * needs. This does not make a warden that was taken over harmless: it still mounts and changes ids.
 *
 * Every jail inherits it. No shipped policy allows what it lists; a policy of your own that does gets ENOSYS
 * all the same in a server's jails. It answers in the one way that leaves a policy's own filter the last
 * word: SECCOMP_RET_TRACE, which is weaker than every action of a policy but log and allow (PID 1 still hears
 * of what the policy denies, and counts it), and is ENOSYS where no tracer has asked for such calls. Nobody
 * below the warden can become that tracer: that, too, is on the list. io_uring is not: none of what is listed
 * here can be had through it. */
#include "server/warden/filter.h"

#include <errno.h>
#include <linux/ptrace.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define NUMBERS_END 0x40000000u /* those from here on are x32's */

static const unsigned short refused[] = {
    /* code in the kernel, or another kernel */
    SYS_bpf,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    /* the whole machine's memory, disks, clock, log and terminals */
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_syslog,
    SYS_vhangup,
    /* files past every path, and what others do with files */
    SYS_open_by_handle_at,
    SYS_fanotify_init,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#if defined(__x86_64__)
    SYS_ioperm,
    SYS_iopl,
    SYS_uselib,
#endif
};

#define PERF_OF_ALL    UINT32_MAX /* pid -1: every process of a processor */
#define OLD_SETOPTIONS 21         /* x86's other name for PTRACE_SETOPTIONS */

/* Loads, two architectures' checks, two calls with conditions, the two answers. */
#define FILTER_MAX (ARRAY_SIZE(refused) + 18)

/* Below it lie most of the calls that jobs make often and whose own filter looks at arguments. */
static uint32_t lowest_number(void)
{
    uint32_t lowest = SYS_ptrace < SYS_perf_event_open ? SYS_ptrace : SYS_perf_event_open;
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        lowest = refused[i] < lowest ? refused[i] : lowest;
    }
    return lowest;
}

static unsigned short build(struct sock_filter *code)
{
    unsigned short n = 0;
    const unsigned char calls = ARRAY_SIZE(refused);
    const struct sock_filter head[] = {
        BPF_DO(BPF_DO_LOAD, BPF_ARCHITECTURE),
        BPF_SKIP(BPF_IF_EQ, BPF_OUR_ARCHITECTURE, 1, 0),
        BPF_DO(BPF_DO_RETURN, SECCOMP_RET_TRACE),
        BPF_DO(BPF_DO_LOAD, BPF_NUMBER),
        BPF_SKIP(BPF_IF_GE, lowest_number(), 0, calls + 11),
        BPF_SKIP(BPF_IF_GE, NUMBERS_END, calls + 11, 0),
    };
    const struct sock_filter tail[] = {
        BPF_SKIP(BPF_IF_EQ, SYS_perf_event_open, 0, 2), BPF_DO(BPF_DO_LOAD, bpf_argument(1, false)),
        BPF_SKIP(BPF_IF_EQ, PERF_OF_ALL, 8, 7),         BPF_SKIP(BPF_IF_EQ, SYS_ptrace, 0, 6),
        BPF_DO(BPF_DO_LOAD, bpf_argument(0, false)),    BPF_SKIP(BPF_IF_EQ, PTRACE_SEIZE, 2, 0),
        BPF_SKIP(BPF_IF_EQ, OLD_SETOPTIONS, 1, 0),      BPF_SKIP(BPF_IF_EQ, PTRACE_SETOPTIONS, 0, 2),
        BPF_DO(BPF_DO_LOAD, bpf_argument(3, false)),    BPF_SKIP(BPF_IF_ANY, PTRACE_O_TRACESECCOMP, 1, 0),
        BPF_DO(BPF_DO_RETURN, SECCOMP_RET_ALLOW),       BPF_DO(BPF_DO_RETURN, SECCOMP_RET_TRACE),
    };
    for (size_t i = 0; i < ARRAY_SIZE(head); i++) {
        code[n++] = head[i];
    }
    for (unsigned char i = 0; i < calls; i++) {
        code[n++] = (struct sock_filter)BPF_SKIP(BPF_IF_EQ, refused[i], calls - i + 10, 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(tail); i++) {
        code[n++] = tail[i];
    }
    return n;
}

int warden_filter_enter(struct err *reterr)
{
    struct sock_filter code[FILTER_MAX];
    struct sock_fprog program = {.len = build(code), .filter = code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return err_errno(reterr, errno, "the warden's filter");
    }
    return 0;
}
