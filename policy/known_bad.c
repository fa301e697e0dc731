/* The table of calls that a policy's conditions have to keep out. A condition is easily one digit off, and
 * the text of a policy does not show it; its compiled filter does. Only register arguments are here: a filter
 * sees nothing else. */
#include "policy/known_bad.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "jail/base/cleanup.h"

/* What the C library's headers do not have, or not yet. */
#ifndef TIOCLINUX
#define TIOCLINUX 0x541c
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#define PID_1 1

#define NONE 6

#define CALL(name, why)                                                                                      \
    {                                                                                                        \
        .syscall = #name, .shown = #name, .consequence = (why), .narrow = NONE                               \
    }
#define ARG0(name, value, narrows, why)                                                                      \
    {                                                                                                        \
        .syscall = #name, .shown = #name "(" #value ")", .consequence = (why), .arguments = {(value)},       \
        .narrow = (narrows) ? 0 : NONE                                                                       \
    }
#define ARG1(name, value, why)                                                                               \
    {                                                                                                        \
        .syscall = #name, .shown = #name "(" #value ")", .consequence = (why), .arguments = {3, (value)},    \
        .narrow = 1                                                                                          \
    }
#define OPTION(level, option, why)                                                                           \
    {                                                                                                        \
        .syscall = "setsockopt", .shown = "setsockopt(" #level ", " #option ")", .consequence = (why),       \
        .arguments = {3, (level), (option)}, .narrow = 2                                                     \
    }
#define FAMILY(family, type, why)                                                                            \
    {                                                                                                        \
        .syscall = "socket", .shown = "socket(" #family ", " #type ")", .consequence = (why),                \
        .arguments = {(family), (type)}, .narrow = 0                                                         \
    }

#define EVERY_CAPABILITY "brings every capability back, in namespaces of the program's own"
#define HOST_MEMORY      "takes memory of the whole host that no cgroup counts"
#define OTHERS_MEMORY    "reads or changes another process"
#define HOST_FILTERS     "takes from the host's limit of compiled filters, which every jail needs"
#define HOST_CORES       "changes the limit of cores, which a handler of the host's reads as root"
#define UNCOUNTED_LOCKS  "takes locks, which the kernel charges to nobody; the action COUNT counts them"
#define HUGE_PAGES       "takes from the host's pool of huge pages"
#define KERNEL_CODE      "loads code into the kernel"
#define HOST_NETWORK     "reaches past the network namespace, or loads seldom used protocols"

const struct known_bad_call known_bad_calls[] = {
    ARG0(clone, CLONE_NEWUSER, true, EVERY_CAPABILITY),
    ARG0(clone, CLONE_NEWUSER | CLONE_NEWNET, true, EVERY_CAPABILITY),
    CALL(clone3,
         "makes user namespaces, which bring every capability back; no condition can look at its flags"),
    ARG0(unshare, CLONE_NEWUSER, true, EVERY_CAPABILITY),
    CALL(setns, "enters other namespaces"),
    CALL(mount, "changes what the jail shows"),
    CALL(umount2, "takes away what hides something"),
    CALL(move_mount, "changes what the jail shows"),
    CALL(fsopen, "has file systems parse what the program writes"),
    CALL(pivot_root, "changes the root"),
    ARG1(ioctl, TIOCSTI, "types into the terminal of the user who started it"),
    ARG1(ioctl, TIOCLINUX, "types into the console"),
    ARG1(ioctl, TIOCSCTTY, "takes the terminal of another session"),
    ARG1(fcntl, F_NOTIFY, "tells when others read files"),
    ARG1(fcntl, F_SETLEASE, "makes others wait who open a file"),
    {.syscall = "fcntl",
     .shown = "fcntl(F_SETPIPE_SZ, 1 MiB)",
     .consequence = HOST_MEMORY,
     .arguments = {3, F_SETPIPE_SZ, 1 << 20},
     .narrow = 1},
    ARG1(fcntl, F_SETLK, UNCOUNTED_LOCKS),
    ARG1(fcntl, F_OFD_SETLK, UNCOUNTED_LOCKS),
    CALL(flock, UNCOUNTED_LOCKS),
    OPTION(SOL_SOCKET, SO_ATTACH_FILTER, HOST_FILTERS),
    OPTION(SOL_SOCKET, SO_ATTACH_BPF, HOST_FILTERS),
    OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, HOST_FILTERS),
    OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, HOST_FILTERS),
    OPTION(SOL_SOCKET, SO_SNDBUF, HOST_MEMORY),
    OPTION(SOL_SOCKET, SO_RCVBUF, HOST_MEMORY),
    OPTION(SOL_SOCKET, SO_ZEROCOPY, "pins memory of the program"),
    OPTION(IPPROTO_UDP, UDP_ENCAP, "puts sockets into the hands of IPsec"),
    OPTION(IPPROTO_IP, IP_OPTIONS, HOST_MEMORY),
    FAMILY(AF_NETLINK, SOCK_RAW, "configures the kernel"),
    FAMILY(AF_PACKET, SOCK_RAW, "reads and writes raw packets"),
    FAMILY(AF_ALG, SOCK_SEQPACKET, "loads the kernel's ciphers"),
    FAMILY(AF_VSOCK, SOCK_STREAM, HOST_NETWORK),
    FAMILY(AF_INET, SOCK_RAW, "reads and writes raw packets"),
    ARG0(ptrace, PTRACE_ATTACH, false, OTHERS_MEMORY),
    ARG0(ptrace, PTRACE_SEIZE, false, OTHERS_MEMORY),
    CALL(process_vm_readv, OTHERS_MEMORY),
    CALL(process_vm_writev, OTHERS_MEMORY),
    CALL(pidfd_getfd, "takes descriptors of another process"),
    {.syscall = "prlimit64",
     .shown = "prlimit64(PID_1)",
     .consequence = "changes the limits of PID 1 of the jail",
     .arguments = {PID_1, RLIMIT_NOFILE, 4096},
     .narrow = 0},
    {.syscall = "prlimit64",
     .shown = "prlimit64(0, RLIMIT_CORE)",
     .consequence = HOST_CORES,
     .arguments = {0, RLIMIT_CORE, 4096},
     .narrow = 1},
    ARG0(setrlimit, RLIMIT_CORE, true, HOST_CORES),
    CALL(bpf, "loads programs into the kernel"),
    ARG0(seccomp, SECCOMP_SET_MODE_FILTER, true, HOST_FILTERS),
    ARG0(prctl, PR_SET_SECCOMP, true, HOST_FILTERS),
    ARG0(prctl, PR_SET_MM, true, "changes what the kernel shows of the program to others"),
    CALL(io_uring_setup, "makes calls that no filter sees"),
    CALL(perf_event_open, "measures the kernel and others"),
    CALL(userfaultfd, "holds the kernel still while it reads memory"),
    CALL(keyctl, "reaches keyrings, which no namespace separates"),
    CALL(add_key, HOST_MEMORY),
    CALL(open_by_handle_at, "opens files that no path in the jail leads to"),
    {.syscall = "mmap",
     .shown = "mmap(MAP_HUGETLB)",
     .consequence = HUGE_PAGES,
     .arguments = {0, 1 << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, UINT64_MAX},
     .narrow = NONE},
    ARG1(memfd_create, MFD_HUGETLB, HUGE_PAGES),
    ARG0(personality, ADDR_NO_RANDOMIZE, true, "makes addresses guessable"),
    ARG0(personality, READ_IMPLIES_EXEC, true, "makes data executable"),
    ARG1(mknod, S_IFBLK, "makes devices"),
    ARG1(mknod, S_IFCHR, "makes devices"),
    {.syscall = "mknodat",
     .shown = "mknodat(S_IFCHR)",
     .consequence = "makes devices",
     .arguments = {(uint32_t)AT_FDCWD, 0, S_IFCHR},
     .narrow = 2},
    CALL(init_module, KERNEL_CODE),
    CALL(finit_module, KERNEL_CODE),
    CALL(kexec_load, "replaces the kernel"),
    CALL(reboot, "stops the host"),
    CALL(swapon, "changes the host's memory"),
    CALL(clock_settime, "sets the host's clock"),
    CALL(syslog, "reads the kernel's log"),
};
const size_t n_known_bad_calls = ARRAY_SIZE(known_bad_calls);
