/* The front's own jail. Whoever takes the front over through a request has a process without a uid of its
 * own, without capabilities, and, behind this, without any way to the host's files, processes and networks:
 * descriptors that it holds or is sent are all there is. Runs once, after everything has been opened.
 *
 * Two layers, since each has gaps of its own. Landlock denies every access to files and, on newer kernels,
 * every TCP port and signals and abstract sockets of others; a kernel may lack it. The filter lists the
 * system calls that are left, by number; others fail with EPERM rather than killing, because which calls a C
 * library makes differs between its versions. The warden is told of each (front_denials.c): a front that
 * tries is worth a line in the log. */
#include "server/front/sandbox.h"

#include <errno.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/bpf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* ---- Landlock ---- */

/* The kernel's struct, which grows with its versions: a newer one than the headers know is told by its size.
 */
struct ruleset {
    uint64_t handled_access_fs, handled_access_net, scoped;
};

/* What each version of the interface can deny; all of it is denied. */
static const struct {
    uint64_t fs, net, scoped;
    size_t size;
} versions[] = {
    [1] = {(1u << 13) - 1, 0, 0, 8},  /* execute, write, read, directories, remove, make */
    [2] = {(1u << 14) - 1, 0, 0, 8},  /* link and rename between directories */
    [3] = {(1u << 15) - 1, 0, 0, 8},  /* truncate */
    [4] = {(1u << 15) - 1, 3, 0, 16}, /* bind and connect TCP */
    [5] = {(1u << 16) - 1, 3, 0, 16}, /* ioctl on devices */
    [6] = {(1u << 16) - 1, 3, 3, 24}, /* abstract sockets and signals of others */
};

#define NET_CONNECT_TCP 2u /* of handled_access_net, and of a rule */
#define RULE_NET_PORT   2

struct port_rule {
    uint64_t allowed_access, port;
};

static int allow_port(int ruleset, uint16_t port)
{
    const struct port_rule rule = {NET_CONNECT_TCP, port};
    return syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) < 0 ? -errno : 0;
}

static int allow_ports_of_policy(const struct egress_rules *policy, int ruleset)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < policy->n_rules; i++) {
        r = allow_port(ruleset, (uint16_t)policy->rules[i].port);
    }
    return r;
}

/* Landlock knows ports, not addresses; those are server/bridge/callback_hosts.c's. */
static int allow_ports(const struct server_config *config, const struct egress_policies *policies,
                       int ruleset)
{
    int r = 0;
    for (size_t i = 0; r == 0 && config && i < config->n_callbacks; i++) {
        r = allow_port(ruleset, config->callbacks[i].url.port);
    }
    if (r == 0 && config && *config->otlp_endpoint) {
        r = allow_port(ruleset, config->otlp_url.port);
    }
    for (size_t i = 0; r == 0 && config && i < config->n_egress; i++) {
        r = allow_port(ruleset, config->egress[i].url.port);
    }
    for (size_t i = 0; r == 0 && policies && i < policies->n_policies; i++) {
        r = allow_ports_of_policy(&policies->policies[i], ruleset);
    }
    return r;
}

/* A ruleset without a single rule, but for the ports of callbacks, package indexes, hosts of
 * policies and a collector of traces. */
int front_sandbox_deny_access(const struct server_config *config, const struct egress_policies *policies,
                              bool *ret_landlock, struct err *reterr)
{
    long newest = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    *ret_landlock = newest > 0;
    if (newest <= 0) {
        return 0;
    }
    size_t version = (size_t)newest < ARRAY_SIZE(versions) ? (size_t)newest : ARRAY_SIZE(versions) - 1;
    struct ruleset ruleset = {versions[version].fs, versions[version].net, versions[version].scoped};
    if (config && config->callback_any) {
        ruleset.handled_access_net &= ~(uint64_t)NET_CONNECT_TCP;
    }
    CLEANUP(fd_closep)
    int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, versions[version].size, 0);
    if (fd >= 0 && (ruleset.handled_access_net & NET_CONNECT_TCP)) {
        int r = allow_ports(config, policies, fd);
        if (r < 0) {
            return err_errno(reterr, -r, "Landlock");
        }
    }
    if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0) {
        return err_errno(reterr, errno, "Landlock");
    }
    return 0;
}

/* ---- System calls ---- */

static const int allowed[] = {
    /* connections, pipes, the channel, logs */
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_accept4,
    SYS_shutdown,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_close,
    SYS_pipe2,
    SYS_fchmod,
    /* a job's input and output files, /proc/self */
    SYS_memfd_create,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_fstat,
    SYS_getdents64,
    SYS_ftruncate,
    /* the loop */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_ppoll,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_eventfd2,
    /* memory: none of it executable, see below */
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_futex,
    /* time and chance */
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_clock_nanosleep,
    SYS_sched_yield,
    /* about itself, and its end */
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
#if defined(__x86_64__)
    SYS_epoll_wait,
    SYS_poll,
    SYS_time,
#endif
};

/* A test of one argument's low half, which is all that most of them use, or of its high half. */
struct test {
    unsigned argument;
    bool high;
    uint32_t mask, value; /* holds where `argument & mask` is `value` */
};

/* Calls of which only some uses are left: those for which all tests of one row hold. */
struct rule {
    int call;
    unsigned n_tests;
    struct test tests[3];
};

#define IS(n, wanted)                                                                                        \
    {                                                                                                        \
        .argument = (n), .mask = UINT32_MAX, .value = (wanted)                                               \
    }
#define HAS_NONE_OF(n, bits)                                                                                 \
    {                                                                                                        \
        .argument = (n), .mask = (uint32_t)(bits), .value = 0                                                \
    }
#define IS_NULL(n)                                                                                           \
    IS(n, 0),                                                                                                \
    {                                                                                                        \
        .argument = (n), .high = true, .mask = UINT32_MAX, .value = 0                                        \
    }

/* Not MSG_FASTOPEN, which connects on the way past Landlock; not urgent data, not pages of ours that wait. */
#define OTHER_SEND_FLAGS ~(MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE)

static const struct rule rules[] = {
    {SYS_mmap, 1, {HAS_NONE_OF(2, PROT_EXEC)}},
    {SYS_mprotect, 1, {HAS_NONE_OF(2, PROT_EXEC)}},
    {SYS_ioctl, 1, {IS(1, 0x541b /* FIONREAD */)}},
    {SYS_prlimit64, 1, {IS(0, 0 /* itself */)}},
    {SYS_fcntl, 1, {IS(1, F_GETFL)}},
    {SYS_fcntl, 1, {IS(1, F_SETFL)}},
    {SYS_fcntl, 1, {IS(1, F_GETFD)}},
    {SYS_fcntl, 1, {IS(1, F_SETFD)}},
    {SYS_fcntl, 1, {IS(1, F_DUPFD_CLOEXEC)}},
    {SYS_fcntl, 1, {IS(1, F_ADD_SEALS)}},
    {SYS_sendto, 3, {HAS_NONE_OF(3, OTHER_SEND_FLAGS), IS_NULL(4)}},
    /* Its address lies behind a pointer. No socket that the front has or can make heeds one: connections and
     * sequenced packets take it for their own peer's, and TCP asks for MSG_FASTOPEN first. */
    {SYS_sendmsg, 1, {HAS_NONE_OF(2, OTHER_SEND_FLAGS)}},
    {SYS_setsockopt, 2, {IS(1, SOL_SOCKET), IS(2, SO_SNDBUF)}},
    {SYS_setsockopt, 2, {IS(1, SOL_SOCKET), IS(2, SO_KEEPALIVE)}},
    {SYS_setsockopt, 2, {IS(1, IPPROTO_TCP), IS(2, TCP_NODELAY)}},
    {SYS_setsockopt, 2, {IS(1, IPPROTO_TCP), IS(2, TCP_NOTSENT_LOWAT)}},
    {SYS_setsockopt, 2, {IS(1, SOL_SOCKET), IS(2, SO_LINGER)}},
};

/* What callbacks, package indexes and hosts of policies need besides: TCP of the internet's two families
 * (AF_INET is 2, AF_INET6 is 10), and no other protocol (MPTCP, UDP, UDP-Lite, SCTP, SMC), for Landlock knows
 * ports of TCP alone. Names have been looked up before. */
#define IS_INTERNET                                                                                          \
    {                                                                                                        \
        .argument = 0, .mask = ~(uint32_t)(AF_INET ^ AF_INET6), .value = AF_INET                             \
    }
#define IS_STREAM                                                                                            \
    {                                                                                                        \
        .argument = 1, .mask = ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC), .value = SOCK_STREAM               \
    }

static const struct rule rules_to_connect[] = {
    {SYS_connect, 0, {{0}}},
    {SYS_socket, 3, {IS_INTERNET, IS_STREAM, IS(2, 0)}},
    {SYS_socket, 3, {IS_INTERNET, IS_STREAM, IS(2, IPPROTO_TCP)}},
};

/* A rule is three instructions and three for each of its tests. */
#define FILTER_MAX (5 + 2 * ARRAY_SIZE(allowed) + 12 * (ARRAY_SIZE(rules) + ARRAY_SIZE(rules_to_connect) + 1))

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short n;
};

static void put(struct filter *filter, struct sock_filter instruction)
{
    filter->code[filter->n++] = instruction;
}

static struct sock_filter load(size_t offset)
{
    return (struct sock_filter)BPF_DO(BPF_DO_LOAD, offset);
}

/* Runs the next instruction if the accumulator is `value`, else skips `skip`. */
static struct sock_filter unless_equal_skip(uint32_t value, unsigned skip)
{
    return (struct sock_filter)BPF_SKIP(BPF_IF_EQ, value, 0, skip);
}

static struct sock_filter answer(uint32_t action)
{
    return (struct sock_filter)BPF_DO(BPF_DO_RETURN, action);
}

/* The number is in the accumulator before and after. */
static void put_rule(struct filter *filter, const struct rule *rule)
{
    put(filter, unless_equal_skip((uint32_t)rule->call, 3 * rule->n_tests + 2));
    for (unsigned i = 0; i < rule->n_tests; i++) {
        const struct test *test = &rule->tests[i];
        put(filter, load(bpf_argument(test->argument, test->high)));
        put(filter, (struct sock_filter)BPF_DO(BPF_DO_AND, test->mask));
        put(filter, unless_equal_skip(test->value, 3 * (rule->n_tests - i) - 2));
    }
    put(filter, answer(SECCOMP_RET_ALLOW));
    put(filter, load(BPF_NUMBER));
}

/* Foreign architectures, whose numbers mean other calls, end the process. x32's numbers are above all of
 * ours. */
static void build_filter(struct filter *filter, bool connects, uint32_t otherwise)
{
    put(filter, load(BPF_ARCHITECTURE));
    put(filter, (struct sock_filter)BPF_SKIP(BPF_IF_EQ, BPF_OUR_ARCHITECTURE, 1, 0));
    put(filter, answer(SECCOMP_RET_KILL_PROCESS));
    put(filter, load(BPF_NUMBER));
    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
        put(filter, unless_equal_skip((uint32_t)allowed[i], 1));
        put(filter, answer(SECCOMP_RET_ALLOW));
    }
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        put_rule(filter, &rules[i]);
    }
    for (size_t i = 0; connects && i < ARRAY_SIZE(rules_to_connect); i++) {
        put_rule(filter, &rules_to_connect[i]);
    }
    const struct rule abort_itself = {SYS_tgkill, 1, {IS(0, (uint32_t)getpid())}};
    put_rule(filter, &abort_itself);
    put(filter, answer(otherwise));
}

static int set_filter(bool connects, unsigned flags, uint32_t otherwise)
{
    struct filter filter = {.n = 0};
    build_filter(&filter, connects, otherwise);
    struct sock_fprog program = {.len = filter.n, .filter = filter.code};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* Where somebody listens to denied calls of ours already (a container's runtime), nobody else can. */
int front_sandbox_deny_calls(const struct server_config *config, const struct egress_policies *policies,
                             int *ret_listener, struct err *reterr)
{
    bool connects = (config && server_config_connects(config)) || (policies && policies->n_policies > 0);
    int fd = -1;
    if (ret_listener) {
        fd = set_filter(connects,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC |
                            SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
                        SECCOMP_RET_USER_NOTIF);
        *ret_listener = fd;
    }
    if (fd < 0 && set_filter(connects, SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ERRNO | EPERM) != 0) {
        return err_errno(reterr, errno, "the front's filter");
    }
    return 0;
}

/* Landlock holds for the thread that asks for it, and for those that it makes afterwards; the filter is put
 * on all of them. */
int front_sandbox_enter(const struct server_config *config, const struct egress_policies *policies,
                        int (*start_thread)(void *arg, struct err *reterr), void *arg, int *ret_listener,
                        bool *ret_landlock, struct err *reterr)
{
    const struct rlimit none = {0, 0};
    *ret_listener = -1;
    *ret_landlock = false;
    int r = SANITIZED ? 0 : front_sandbox_deny_access(config, policies, ret_landlock, reterr);
    if (r == 0 && start_thread) {
        r = start_thread(arg, reterr);
    }
    if (r < 0 || SANITIZED) {
        return r;
    }
    if (setrlimit(RLIMIT_NPROC, &none) < 0) {
        return err_errno(reterr, errno, "forbidding processes and threads");
    }
    return front_sandbox_deny_calls(config, policies, ret_listener, reterr);
}
