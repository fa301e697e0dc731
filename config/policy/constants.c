/* The kernel's constants and the arguments that take them; pure data. Runs in the warden and the command
 * line. The values are this machine's, from its headers: a policy's names are read on the machine that runs
 * it. */
#include "config/policy/constants.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/fiemap.h>
#include <linux/if_tun.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "config/format/suggest.h"
#include "jail/base/cleanup.h"

/* What the C library's headers do not have. */
#ifndef TIOCLINUX
#define TIOCLINUX 0x541c
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

static const struct named_argument arguments[] = {
    {"socket", "family", 0, 32, "family"},
    {"socket", "type", 1, 32, "type"},
    {"socket", "protocol", 2, 32, "protocol"},
    {"socketpair", "family", 0, 32, "family"},
    {"socketpair", "type", 1, 32, "type"},
    {"socketpair", "protocol", 2, 32, "protocol"},
    {"clone", "flags", 0, 32, "clone"},
    {"unshare", "flags", 0, 64, "clone"},
    {"setns", "nstype", 1, 32, "clone"},
    {"ioctl", "fd", 0, 32, NULL},
    {"ioctl", "request", 1, 32, "request"},
    {"ioctl", "arg", 2, 64, NULL},
    {"prctl", "option", 0, 32, "option"},
    {"prctl", "arg2", 1, 64, NULL},
    {"prctl", "arg3", 2, 64, NULL},
    {"prctl", "arg4", 3, 64, NULL},
    {"prctl", "arg5", 4, 64, NULL},
    {"prlimit64", "pid", 0, 32, NULL},
    {"prlimit64", "resource", 1, 32, "resource"},
    {"prlimit64", "new_limit", 2, 64, NULL},
    {"prlimit64", "old_limit", 3, 64, NULL},
    {"setrlimit", "resource", 0, 32, "resource"},
    {"getrlimit", "resource", 0, 32, "resource"},
    {"mknod", "mode", 1, 16, "mode"},
    {"mknod", "dev", 2, 32, NULL},
    {"mknodat", "dirfd", 0, 32, NULL},
    {"mknodat", "mode", 2, 16, "mode"},
    {"mknodat", "dev", 3, 32, NULL},
    {"personality", "persona", 0, 32, "persona"},
    {"fcntl", "fd", 0, 32, NULL},
    {"fcntl", "op", 1, 32, "fcntl"},
    {"fcntl", "arg", 2, 64, NULL},
    {"setsockopt", "sockfd", 0, 32, NULL},
    {"setsockopt", "level", 1, 32, "level"},
    {"setsockopt", "optname", 2, 32, "sockopt"},
    {"getsockopt", "sockfd", 0, 32, NULL},
    {"getsockopt", "level", 1, 32, "level"},
    {"getsockopt", "optname", 2, 32, "sockopt"},
    {"madvise", "length", 1, 64, NULL},
    {"madvise", "advice", 2, 32, "advice"},
    {"mmap", "addr", 0, 64, NULL},
    {"mmap", "length", 1, 64, NULL},
    {"mmap", "prot", 2, 32, "prot"},
    {"mmap", "flags", 3, 32, "map"},
    {"mmap", "fd", 4, 32, NULL},
    {"mprotect", "len", 1, 64, NULL},
    {"mprotect", "prot", 2, 64, "prot"},
    {"membarrier", "cmd", 0, 32, "membarrier"},
    {"membarrier", "flags", 1, 32, NULL},
    {"futex", "op", 1, 32, "futex"},
    {"seccomp", "operation", 0, 32, "seccomp"},
    {"memfd_create", "flags", 1, 32, "memfd"},
    {"ptrace", "op", 0, 64, "ptrace"},
    {"ptrace", "pid", 1, 32, NULL},
    {"clock_gettime", "clockid", 0, 32, "clockid"},
    {"clock_settime", "clockid", 0, 32, "clockid"},
    {"clock_nanosleep", "clockid", 0, 32, "clockid"},
    {"timer_create", "clockid", 0, 32, "clockid"},
    {"timerfd_create", "clockid", 0, 32, "clockid"},
    {"bpf", "cmd", 0, 32, "bpf"},
    {"open", "flags", 1, 32, "open"},
    {"openat", "flags", 2, 32, "open"},
    {"sendto", "flags", 3, 32, "msg"},
    {"recvfrom", "flags", 3, 32, "msg"},
    {"sendmsg", "flags", 2, 32, "msg"},
    {"recvmsg", "flags", 2, 32, "msg"},
    {"sendmmsg", "flags", 3, 32, "msg"},
    {"recvmmsg", "flags", 3, 32, "msg"},
    {"kill", "pid", 0, 32, NULL},
    {"kill", "sig", 1, 32, NULL},
    {"tgkill", "tgid", 0, 32, NULL},
    {"setresuid", "ruid", 0, 32, NULL},
    {"setresuid", "euid", 1, 32, NULL},
    {"setresuid", "suid", 2, 32, NULL},
    {"setresgid", "rgid", 0, 32, NULL},
    {"setresgid", "egid", 1, 32, NULL},
    {"setresgid", "sgid", 2, 32, NULL},
};

/* Rows of one kind stand together; of two names of one value the first is told. */
static const struct {
    const char *kind, *name;
    uint64_t value;
} constants[] = {
#define OF(kind, name)                                                                                       \
    {                                                                                                        \
        kind, #name, (uint64_t)(uint32_t)(name)                                                              \
    }
    OF("family", AF_UNSPEC),
    OF("family", AF_UNIX),
    OF("family", AF_INET),
    OF("family", AF_INET6),
    OF("family", AF_NETLINK),
    OF("family", AF_PACKET),
    OF("family", AF_ALG),
    OF("family", AF_VSOCK),
    OF("family", AF_BLUETOOTH),
    OF("family", AF_CAN),
    OF("family", AF_KEY),
    OF("family", AF_TIPC),
    OF("family", AF_XDP),
    OF("family", AF_RDS),
    OF("family", AF_NFC),
    OF("family", AF_QIPCRTR),
    OF("family", AF_SMC),
    OF("type", SOCK_STREAM),
    OF("type", SOCK_DGRAM),
    OF("type", SOCK_RAW),
    OF("type", SOCK_SEQPACKET),
    OF("type", SOCK_NONBLOCK),
    OF("type", SOCK_CLOEXEC),
    OF("type", SOCK_TYPE_MASK),
    OF("protocol", IPPROTO_IP),
    OF("protocol", IPPROTO_ICMP),
    OF("protocol", IPPROTO_TCP),
    OF("protocol", IPPROTO_UDP),
    OF("protocol", IPPROTO_ICMPV6),
    OF("protocol", IPPROTO_RAW),
    OF("protocol", IPPROTO_SCTP),
    OF("clone", CLONE_VM),
    OF("clone", CLONE_FS),
    OF("clone", CLONE_FILES),
    OF("clone", CLONE_SIGHAND),
    OF("clone", CLONE_PTRACE),
    OF("clone", CLONE_VFORK),
    OF("clone", CLONE_PARENT),
    OF("clone", CLONE_THREAD),
    OF("clone", CLONE_NEWNS),
    OF("clone", CLONE_SYSVSEM),
    OF("clone", CLONE_SETTLS),
    OF("clone", CLONE_PARENT_SETTID),
    OF("clone", CLONE_CHILD_CLEARTID),
    OF("clone", CLONE_UNTRACED),
    OF("clone", CLONE_CHILD_SETTID),
    OF("clone", CLONE_NEWCGROUP),
    OF("clone", CLONE_NEWUTS),
    OF("clone", CLONE_NEWIPC),
    OF("clone", CLONE_NEWUSER),
    OF("clone", CLONE_NEWPID),
    OF("clone", CLONE_NEWNET),
    OF("clone", CLONE_IO),
    OF("clone", SIGCHLD), /* what the parent gets at its child's end */
    OF("request", TCGETS),
    OF("request", TCSETS),
    OF("request", TCSETSW),
    OF("request", TCSETSF),
    OF("request", TCSBRK),
    OF("request", TCXONC),
    OF("request", TCFLSH),
    OF("request", TIOCGWINSZ),
    OF("request", TIOCSWINSZ),
    OF("request", TIOCGPGRP),
    OF("request", TIOCSPGRP),
    OF("request", TIOCGSID),
    OF("request", TIOCSCTTY),
    OF("request", TIOCNOTTY),
    OF("request", TIOCSTI),
    OF("request", TIOCLINUX),
    OF("request", TIOCGPTN),
    OF("request", TIOCSPTLCK),
    OF("request", TIOCOUTQ),
    OF("request", FIONREAD),
    OF("request", FIONBIO),
    OF("request", FIOASYNC),
    OF("request", FIONCLEX),
    OF("request", FIOCLEX),
    OF("request", FIOQSIZE),
    OF("request", SIOCGIFCONF),
    OF("request", SIOCGIFNAME),
    OF("request", SIOCGIFFLAGS),
    OF("request", SIOCGIFADDR),
    OF("request", SIOCGIFINDEX),
    OF("request", SIOCGIFHWADDR),
    OF("request", SIOCGIFMTU),
    OF("request", SIOCGIFNETMASK),
    OF("request", SIOCATMARK),
    OF("request", FICLONE),
    OF("request", FICLONERANGE),
    OF("request", FS_IOC_GETFLAGS),
    OF("request", FS_IOC_SETFLAGS),
    OF("request", FS_IOC_FIEMAP),
    OF("request", FIGETBSZ),
    OF("request", BLKGETSIZE64),
    OF("request", TIOCSETD),
    OF("request", TIOCEXCL),
    OF("request", TIOCMGET),
    OF("request", TIOCGPTPEER),
    OF("request", SIOCETHTOOL),
    OF("request", TUNSETIFF),
    OF("option", PR_SET_PDEATHSIG),
    OF("option", PR_GET_PDEATHSIG),
    OF("option", PR_GET_DUMPABLE),
    OF("option", PR_SET_DUMPABLE),
    OF("option", PR_GET_KEEPCAPS),
    OF("option", PR_SET_KEEPCAPS),
    OF("option", PR_SET_NAME),
    OF("option", PR_GET_NAME),
    OF("option", PR_GET_SECCOMP),
    OF("option", PR_SET_SECCOMP),
    OF("option", PR_CAPBSET_READ),
    OF("option", PR_CAPBSET_DROP),
    OF("option", PR_GET_TSC),
    OF("option", PR_SET_TSC),
    OF("option", PR_GET_SECUREBITS),
    OF("option", PR_SET_SECUREBITS),
    OF("option", PR_SET_TIMERSLACK),
    OF("option", PR_GET_TIMERSLACK),
    OF("option", PR_SET_MM),
    OF("option", PR_SET_PTRACER),
    OF("option", PR_SET_CHILD_SUBREAPER),
    OF("option", PR_GET_CHILD_SUBREAPER),
    OF("option", PR_SET_NO_NEW_PRIVS),
    OF("option", PR_GET_NO_NEW_PRIVS),
    OF("option", PR_GET_TID_ADDRESS),
    OF("option", PR_SET_THP_DISABLE),
    OF("option", PR_GET_THP_DISABLE),
    OF("option", PR_CAP_AMBIENT),
    OF("option", PR_GET_SPECULATION_CTRL),
    OF("option", PR_SET_SPECULATION_CTRL),
    OF("option", PR_SET_SYSCALL_USER_DISPATCH),
    OF("option", PR_SCHED_CORE),
    OF("option", PR_SET_MDWE),
    OF("option", PR_GET_MDWE),
    OF("option", PR_GET_AUXV),
    OF("option", PR_SET_MEMORY_MERGE),
    OF("option", PR_SET_VMA),
    OF("resource", RLIMIT_CPU),
    OF("resource", RLIMIT_FSIZE),
    OF("resource", RLIMIT_DATA),
    OF("resource", RLIMIT_STACK),
    OF("resource", RLIMIT_CORE),
    OF("resource", RLIMIT_RSS),
    OF("resource", RLIMIT_NPROC),
    OF("resource", RLIMIT_NOFILE),
    OF("resource", RLIMIT_MEMLOCK),
    OF("resource", RLIMIT_AS),
    OF("resource", RLIMIT_LOCKS),
    OF("resource", RLIMIT_SIGPENDING),
    OF("resource", RLIMIT_MSGQUEUE),
    OF("resource", RLIMIT_NICE),
    OF("resource", RLIMIT_RTPRIO),
    OF("resource", RLIMIT_RTTIME),
    OF("mode", S_IFMT),
    OF("mode", S_IFIFO),
    OF("mode", S_IFCHR),
    OF("mode", S_IFDIR),
    OF("mode", S_IFBLK),
    OF("mode", S_IFREG),
    OF("mode", S_IFLNK),
    OF("mode", S_IFSOCK),
    OF("persona", PER_LINUX),
    OF("persona", PER_LINUX32),
    OF("persona", ADDR_NO_RANDOMIZE),
    OF("persona", READ_IMPLIES_EXEC),
    OF("persona", MMAP_PAGE_ZERO),
    OF("persona", ADDR_COMPAT_LAYOUT),
    OF("persona", UNAME26),
    OF("fcntl", F_DUPFD),
    OF("fcntl", F_GETFD),
    OF("fcntl", F_SETFD),
    OF("fcntl", F_GETFL),
    OF("fcntl", F_SETFL),
    OF("fcntl", F_GETLK),
    OF("fcntl", F_SETLK),
    OF("fcntl", F_SETLKW),
    OF("fcntl", F_SETOWN),
    OF("fcntl", F_GETOWN),
    OF("fcntl", F_SETSIG),
    OF("fcntl", F_GETSIG),
    OF("fcntl", F_SETOWN_EX),
    OF("fcntl", F_GETOWN_EX),
    OF("fcntl", F_OFD_GETLK),
    OF("fcntl", F_OFD_SETLK),
    OF("fcntl", F_OFD_SETLKW),
    OF("fcntl", F_SETLEASE),
    OF("fcntl", F_GETLEASE),
    OF("fcntl", F_NOTIFY),
    OF("fcntl", F_DUPFD_CLOEXEC),
    OF("fcntl", F_SETPIPE_SZ),
    OF("fcntl", F_GETPIPE_SZ),
    OF("fcntl", F_ADD_SEALS),
    OF("fcntl", F_GET_SEALS),
    OF("fcntl", F_GET_RW_HINT),
    OF("fcntl", F_SET_RW_HINT),
    OF("level", SOL_SOCKET),
    OF("level", IPPROTO_IP),
    OF("level", IPPROTO_TCP),
    OF("level", IPPROTO_UDP),
    OF("level", IPPROTO_IPV6),
    OF("sockopt", SO_DEBUG),
    OF("sockopt", SO_REUSEADDR),
    OF("sockopt", SO_TYPE),
    OF("sockopt", SO_ERROR),
    OF("sockopt", SO_DONTROUTE),
    OF("sockopt", SO_BROADCAST),
    OF("sockopt", SO_SNDBUF),
    OF("sockopt", SO_RCVBUF),
    OF("sockopt", SO_KEEPALIVE),
    OF("sockopt", SO_OOBINLINE),
    OF("sockopt", SO_LINGER),
    OF("sockopt", SO_REUSEPORT),
    OF("sockopt", SO_PASSCRED),
    OF("sockopt", SO_PEERCRED),
    OF("sockopt", SO_RCVLOWAT),
    OF("sockopt", SO_SNDLOWAT),
    OF("sockopt", SO_RCVTIMEO),
    OF("sockopt", SO_SNDTIMEO),
    OF("sockopt", SO_BINDTODEVICE),
    OF("sockopt", SO_ATTACH_FILTER),
    OF("sockopt", SO_DETACH_FILTER),
    OF("sockopt", SO_TIMESTAMP),
    OF("sockopt", SO_ACCEPTCONN),
    OF("sockopt", SO_SNDBUFFORCE),
    OF("sockopt", SO_RCVBUFFORCE),
    OF("sockopt", SO_MARK),
    OF("sockopt", SO_ATTACH_BPF),
    OF("sockopt", SO_ZEROCOPY),
    OF("sockopt", SO_PRIORITY),
    OF("advice", MADV_NORMAL),
    OF("advice", MADV_RANDOM),
    OF("advice", MADV_SEQUENTIAL),
    OF("advice", MADV_WILLNEED),
    OF("advice", MADV_DONTNEED),
    OF("advice", MADV_FREE),
    OF("advice", MADV_REMOVE),
    OF("advice", MADV_DONTFORK),
    OF("advice", MADV_DOFORK),
    OF("advice", MADV_MERGEABLE),
    OF("advice", MADV_UNMERGEABLE),
    OF("advice", MADV_HUGEPAGE),
    OF("advice", MADV_NOHUGEPAGE),
    OF("advice", MADV_DONTDUMP),
    OF("advice", MADV_DODUMP),
    OF("advice", MADV_WIPEONFORK),
    OF("advice", MADV_KEEPONFORK),
    OF("advice", MADV_HWPOISON),
    OF("advice", MADV_COLD),
    OF("advice", MADV_PAGEOUT),
    OF("prot", PROT_NONE),
    OF("prot", PROT_READ),
    OF("prot", PROT_WRITE),
    OF("prot", PROT_EXEC),
    OF("prot", PROT_GROWSDOWN),
    OF("prot", PROT_GROWSUP),
    OF("map", MAP_SHARED),
    OF("map", MAP_PRIVATE),
    OF("map", MAP_SHARED_VALIDATE),
    OF("map", MAP_FIXED),
    OF("map", MAP_ANONYMOUS),
    OF("map", MAP_GROWSDOWN),
    OF("map", MAP_LOCKED),
    OF("map", MAP_NORESERVE),
    OF("map", MAP_POPULATE),
    OF("map", MAP_NONBLOCK),
    OF("map", MAP_STACK),
    OF("map", MAP_HUGETLB),
    OF("map", MAP_SYNC),
    OF("map", MAP_FIXED_NOREPLACE),
    OF("membarrier", MEMBARRIER_CMD_QUERY),
    OF("membarrier", MEMBARRIER_CMD_GLOBAL),
    OF("membarrier", MEMBARRIER_CMD_GLOBAL_EXPEDITED),
    OF("membarrier", MEMBARRIER_CMD_PRIVATE_EXPEDITED),
    OF("membarrier", MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
    OF("futex", FUTEX_WAIT),
    OF("futex", FUTEX_WAKE),
    OF("futex", FUTEX_REQUEUE),
    OF("futex", FUTEX_CMP_REQUEUE),
    OF("futex", FUTEX_WAKE_OP),
    OF("futex", FUTEX_LOCK_PI),
    OF("futex", FUTEX_UNLOCK_PI),
    OF("futex", FUTEX_TRYLOCK_PI),
    OF("futex", FUTEX_WAIT_BITSET),
    OF("futex", FUTEX_WAKE_BITSET),
    OF("futex", FUTEX_WAIT_REQUEUE_PI),
    OF("futex", FUTEX_CMP_REQUEUE_PI),
    OF("futex", FUTEX_PRIVATE_FLAG),
    OF("futex", FUTEX_CLOCK_REALTIME),
    OF("seccomp", SECCOMP_SET_MODE_STRICT),
    OF("seccomp", SECCOMP_SET_MODE_FILTER),
    OF("seccomp", SECCOMP_GET_ACTION_AVAIL),
    OF("seccomp", SECCOMP_GET_NOTIF_SIZES),
    OF("memfd", MFD_CLOEXEC),
    OF("memfd", MFD_ALLOW_SEALING),
    OF("memfd", MFD_HUGETLB),
    OF("ptrace", PTRACE_TRACEME),
    OF("ptrace", PTRACE_PEEKTEXT),
    OF("ptrace", PTRACE_PEEKDATA),
    OF("ptrace", PTRACE_POKETEXT),
    OF("ptrace", PTRACE_POKEDATA),
    OF("ptrace", PTRACE_CONT),
    OF("ptrace", PTRACE_KILL),
    OF("ptrace", PTRACE_ATTACH),
    OF("ptrace", PTRACE_DETACH),
    OF("ptrace", PTRACE_SYSCALL),
    OF("ptrace", PTRACE_SETOPTIONS),
    OF("ptrace", PTRACE_SEIZE),
    OF("clockid", CLOCK_REALTIME),
    OF("clockid", CLOCK_MONOTONIC),
    OF("clockid", CLOCK_PROCESS_CPUTIME_ID),
    OF("clockid", CLOCK_THREAD_CPUTIME_ID),
    OF("clockid", CLOCK_BOOTTIME),
    OF("clockid", CLOCK_REALTIME_ALARM),
    OF("clockid", CLOCK_BOOTTIME_ALARM),
    OF("open", O_RDONLY),
    OF("open", O_WRONLY),
    OF("open", O_RDWR),
    OF("open", O_CREAT),
    OF("open", O_EXCL),
    OF("open", O_NOCTTY),
    OF("open", O_TRUNC),
    OF("open", O_APPEND),
    OF("open", O_NONBLOCK),
    OF("open", O_DIRECTORY),
    OF("open", O_NOFOLLOW),
    OF("open", O_CLOEXEC),
    OF("open", O_TMPFILE),
    OF("open", O_PATH),
    OF("msg", MSG_OOB),
    OF("msg", MSG_PEEK),
    OF("msg", MSG_TRUNC),
    OF("msg", MSG_DONTWAIT),
    OF("msg", MSG_ERRQUEUE),
    OF("msg", MSG_NOSIGNAL),
    OF("msg", MSG_ZEROCOPY),
    OF("msg", MSG_FASTOPEN),
    OF("bpf", BPF_MAP_CREATE),
    OF("bpf", BPF_PROG_LOAD),
    OF("bpf", BPF_BTF_LOAD),
#undef OF
};

const struct named_argument *argument_row(size_t index)
{
    return index < ARRAY_SIZE(arguments) ? &arguments[index] : NULL;
}

const struct named_argument *argument_at(const char *call, uint32_t number)
{
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
        if (arguments[i].number == number && strcmp(arguments[i].call, call) == 0) {
            return &arguments[i];
        }
    }
    return NULL;
}

const struct named_argument *argument_find(const char *call, const char *name)
{
    if (name[0] >= '0' && name[0] <= '5' && name[1] == '\0') {
        return argument_at(call, (uint32_t)(name[0] - '0'));
    }
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
        if (strcmp(arguments[i].call, call) == 0 && strcmp(arguments[i].name, name) == 0) {
            return &arguments[i];
        }
    }
    return NULL;
}

void argument_suggest(const char *call, struct suggestion *suggestion)
{
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
        if (strcmp(arguments[i].call, call) == 0) {
            suggestion_offer(suggestion, arguments[i].name);
        }
    }
}

bool constant_find(const char *kind, const char *name, size_t length, uint64_t *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
        if ((!kind || strcmp(constants[i].kind, kind) == 0) && strlen(constants[i].name) == length &&
            memcmp(constants[i].name, name, length) == 0) {
            *ret = constants[i].value;
            return true;
        }
    }
    return false;
}

const char *constant_name(const char *kind, uint64_t value)
{
    for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
        if (constants[i].value == value && strcmp(constants[i].kind, kind) == 0) {
            return constants[i].name;
        }
    }
    return NULL;
}

bool constant_is_flag(const char *kind)
{
    static const char *const kinds[] = {"clone", "prot", "map", "open", "memfd", "mode", "persona", "msg"};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            return true;
        }
    }
    return false;
}

const char *constant_row(const char *kind, size_t index)
{
    for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
        if (strcmp(constants[i].kind, kind) == 0 && index-- == 0) {
            return constants[i].name;
        }
    }
    return NULL;
}

void constant_suggest(const char *kind, struct suggestion *suggestion)
{
    for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
        if (!kind || strcmp(constants[i].kind, kind) == 0) {
            suggestion_offer(suggestion, constants[i].name);
        }
    }
}
