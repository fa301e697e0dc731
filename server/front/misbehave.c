/* What somebody might try who has taken the front over. Runs in the front of builds with HOOKS=1, which are
 * for tests; no other build has this file. It goes past the channel's own rules and speaks on the socket
 * itself. */
#include "server/front/misbehave.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/message/message.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "server/http/http.h"
#include "server/jobs/request.h"
#include "server/kit/json_out.h"
#include "server/link/channel.h"

/* ---- system calls ---- */

/* Of the victim: the warden's process id, as the test knows it. */
#define VICTIM (-4711L)
#define AT(x)  ((long)(uintptr_t)(x))

static const struct sockaddr_in elsewhere = {
    .sin_family = AF_INET, .sin_port = 0x0100 /* 1 */, .sin_addr.s_addr = 0x0100007f /* 127.0.0.1 */};
static const struct sockaddr_un beside = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/private"};
static char page[8192] __attribute__((aligned(4096)));

static const struct attempt {
    const char *how;
    long number, arguments[6];
} attempts[] = {
    {"exec", SYS_execve, {AT("/bin/true"), 0, 0}},
    {"exec itself", SYS_execveat, {FRONT_CHANNEL_FD, AT(""), 0, 0, AT_EMPTY_PATH}},
    {"clone", SYS_clone, {SIGCHLD}},
    {"clone3", SYS_clone3, {AT(page), 64}},
    {"new namespaces", SYS_unshare, {CLONE_NEWUSER | CLONE_NEWNS}},
    {"enter a namespace", SYS_setns, {FRONT_CHANNEL_FD, 0}},
    {"write a file", SYS_openat, {AT_FDCWD, AT("/tmp/front-was-here"), O_WRONLY | O_CREAT, 0600}},
    {"write an unnamed file", SYS_openat, {AT_FDCWD, AT("/tmp"), O_WRONLY | O_TMPFILE, 0600}},
    {"read a file", SYS_openat, {AT_FDCWD, AT("/etc/passwd"), O_RDONLY}},
    {"read the warden's memory", SYS_openat, {AT_FDCWD, AT("/proc/1/mem"), O_RDONLY}},
    {"open with openat2", SYS_openat2, {AT_FDCWD, AT("/etc/passwd"), AT(page), 24}},
    {"open by handle", SYS_open_by_handle_at, {AT_FDCWD, AT(page), O_RDONLY}},
    {"look at a path", SYS_newfstatat, {AT_FDCWD, AT("/etc/passwd"), AT(page), 0}},
    {"look at a path with statx", SYS_statx, {AT_FDCWD, AT("/etc/passwd"), 0, 0xfff, AT(page)}},
    {"read a link", SYS_readlinkat, {AT_FDCWD, AT("/proc/self/exe"), AT(page), 4096}},
    {"remove a file", SYS_unlinkat, {AT_FDCWD, AT("/tmp/front-was-here"), 0}},
    {"rename a file", SYS_renameat2, {AT_FDCWD, AT("/tmp/a"), AT_FDCWD, AT("/tmp/b"), 0}},
    {"make a directory", SYS_mkdirat, {AT_FDCWD, AT("/tmp/front-was-here"), 0700}},
    {"make a device", SYS_mknodat, {AT_FDCWD, AT("/tmp/front-was-here"), 0020600, 0x103}},
    {"mount", SYS_mount, {0, AT("/tmp"), AT("tmpfs"), 0, 0}},
    {"change the root", SYS_chroot, {AT("/tmp")}},
    {"a TCP socket", SYS_socket, {AF_INET, SOCK_STREAM, 0}},
    {"a unix socket", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
    {"a netlink socket", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
    {"a socket pair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, AT(page)}},
    {"a UDP socket", SYS_socket, {AF_INET, SOCK_DGRAM, 0}},
    {"a UDP-Lite socket", SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE}},
    {"an MPTCP socket", SYS_socket, {AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */}},
    {"an SCTP socket", SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}},
    {"a raw socket", SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}},
    {"send to an address", SYS_sendto, {FRONT_LISTEN_FD, AT(page), 1, 0, AT(&elsewhere), sizeof elsewhere}},
    {"connect by sending", SYS_sendto, {FRONT_LISTEN_FD, AT(page), 1, MSG_FASTOPEN, 0, 0}},
    {"connect by a message", SYS_sendmsg, {FRONT_LISTEN_FD, AT(page), MSG_FASTOPEN}},
    {"send urgently", SYS_sendto, {FRONT_CHANNEL_FD, AT(page), 1, MSG_OOB, 0, 0}},
    {"connect when sending",
     SYS_setsockopt,
     {FRONT_LISTEN_FD, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, AT(page), 4}},
    {"another protocol on top", SYS_setsockopt, {FRONT_LISTEN_FD, IPPROTO_TCP, TCP_ULP, AT("smc"), 3}},
    {"a filter on a socket", SYS_setsockopt, {FRONT_LISTEN_FD, SOL_SOCKET, SO_ATTACH_FILTER, AT(page), 16}},
    {"connect elsewhere", SYS_connect, {FRONT_LISTEN_FD, AT(&elsewhere), sizeof elsewhere}},
    {"connect beside", SYS_connect, {FRONT_CHANNEL_FD, AT(&beside), sizeof beside}},
    {"bind elsewhere", SYS_bind, {FRONT_LISTEN_FD, AT(&elsewhere), sizeof elsewhere}},
    {"trace the warden", SYS_ptrace, {0x4206 /* PTRACE_SEIZE */, VICTIM, 0, 0}},
    {"read the warden", SYS_process_vm_readv, {VICTIM, AT(page), 1, AT(page), 1, 0}},
    {"kill the warden", SYS_kill, {VICTIM, SIGKILL}},
    {"kill everybody", SYS_kill, {-1, SIGKILL}},
    {"signal the warden's thread", SYS_tgkill, {VICTIM, VICTIM, SIGKILL}},
    {"a descriptor of the warden", SYS_pidfd_open, {VICTIM, 0}},
    {"limit the warden", SYS_prlimit64, {VICTIM, 7, AT(page), 0}},
    {"own a descriptor's signals", SYS_fcntl, {FRONT_CHANNEL_FD, F_SETOWN, VICTIM}},
    {"become root", SYS_setuid, {0}},
    {"gain capabilities", SYS_capset, {AT(page), AT(page)}},
    {"change its own filter", SYS_seccomp, {1, 0, AT(page)}},
    {"be dumped", SYS_prctl, {4 /* PR_SET_DUMPABLE */, 1}},
    {"memory to execute", SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
    {"execute its memory", SYS_mprotect, {AT(page), 4096, PROT_READ | PROT_EXEC}},
    {"io_uring", SYS_io_uring_setup, {1, AT(page)}},
    {"bpf", SYS_bpf, {0, AT(page), 64}},
    {"perf", SYS_perf_event_open, {AT(page), 0, -1, -1, 0}},
    {"userfaultfd", SYS_userfaultfd, {0}},
    {"keys", SYS_keyctl, {0, -3, 0}},
    {"type into a terminal", SYS_ioctl, {0, 0x5412 /* TIOCSTI */, AT("x")}},
};

static long commit(const struct attempt *attempt, long victim)
{
    long a[6];
    for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
        a[i] = attempt->arguments[i] == VICTIM ? victim : attempt->arguments[i];
    }
    return syscall(attempt->number, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? -errno : 0;
}

/* ---- messages ---- */

static void say(const void *data, size_t size, const int *fds, size_t n_fds)
{
    io_send_fds(FRONT_CHANNEL_FD, data, size, fds, n_fds);
}

/* What a front sends when it is itself: a job of an unknown runtime, with descriptors as they should be. */
struct job_parts {
    struct msg msg;
    int fds[MSG_JOB_FDS], others[MSG_JOB_FDS - 1];
};

static void make_job(struct job_parts *parts)
{
    struct job *job = calloc(1, sizeof *job);
    parts->msg = (struct msg){.type = MSG_JOB, .job = job};
    if (job) {
        job->id = clock_now_ns() * 2; /* above every number of the front's own */
        job->runtime = strdup("none");
        job->execution_id = strdup("e");
        job->key = strdup("default");
    }
    parts->fds[0] = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fcntl(parts->fds[0], F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    for (int i = 0; i < MSG_JOB_FDS - 1; i++) {
        bool writes = i != 0 && i != 3; /* stdout, stderr, what goes out over the bridge */
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) == 0) {
            parts->fds[1 + i] = ends[writes];
            parts->others[i] = ends[!writes];
        }
    }
}

static void send_job(const struct job_parts *parts, size_t size, const int *fds, size_t n_fds)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    if (msg_encode(&parts->msg, &packed, NULL) == 0) {
        say(packed.data, size < packed.len ? size : packed.len, fds, n_fds);
    }
}

/* A job with `fd` in the place of descriptor `place`. */
static void job_with(int place, int fd)
{
    struct job_parts parts;
    make_job(&parts);
    parts.fds[place] = fd;
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
}

static void say_type(enum msg_type type, const int *fds, size_t n_fds)
{
    struct msg msg = {.type = type};
    if (type == MSG_REFUSED) {
        msg.refused.kind = ERR_BUSY;
    }
    if (type == MSG_DONE) {
        msg.done.policy = strdup("p");
        msg.done.policy_sha256 = strdup("0");
    }
    if (type == MSG_KEEP) {
        snprintf(msg.keep.status, sizeof msg.keep.status, "success");
    }
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    if (msg_encode(&msg, &packed, NULL) == 0) {
        say(packed.data, packed.len, fds, n_fds);
    }
}

static void garbage(void)
{
    say("\xff\xff\xff\xff", 4, NULL, 0);
}

static void nothing(void)
{
    const int fds[] = {FRONT_CHANNEL_FD};
    say("", 0, fds, 1);
}

static void unknown_kind(void)
{
    say("\xfa\x06\x00", 3, NULL, 0); /* field 111, empty */
}

static void truncated_job(void)
{
    struct job_parts parts;
    make_job(&parts);
    send_job(&parts, 9, parts.fds, MSG_JOB_FDS);
}

static void oversized(void)
{
    static char much[MSG_BYTES_MAX + 4096];
    say(much, sizeof much, NULL, 0);
}

static void hello_again(void)
{
    say_type(MSG_HELLO, NULL, 0);
}

static void hello_with_a_descriptor(void)
{
    const int fds[] = {FRONT_CHANNEL_FD};
    say_type(MSG_HELLO, fds, 1);
}

static void config_from_the_front(void)
{
    const int fds[] = {STDIN_FILENO};
    say_type(MSG_CONFIG, fds, 1);
}

static void state_from_the_front(void)
{
    say_type(MSG_STATE, NULL, 0);
}

static void done_from_the_front(void)
{
    say_type(MSG_DONE, NULL, 0);
}

static void refused_from_the_front(void)
{
    say_type(MSG_REFUSED, NULL, 0);
}

static void ping_from_the_front(void)
{
    say_type(MSG_PING, NULL, 0);
}

static void pong_without_ping(void)
{
    struct msg msg = {.type = MSG_PONG, .pong = {.number = 1u << 30}};
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    msg_encode(&msg, &packed, NULL);
    say(packed.data, packed.len, NULL, 0);
}

static void cancel_with_a_descriptor(void)
{
    const int fds[] = {STDIN_FILENO};
    say_type(MSG_CANCEL, fds, 1);
}

static void submission_is_not_sealed(void)
{
    const int fds[] = {memfd_create("submission", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    say_type(MSG_SUBMIT, fds, 1);
}

static void reply_is_not_sealed(void)
{
    const int fds[] = {memfd_create("reply", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    say_type(MSG_KEEP, fds, 1);
}

static void run_of_no_approval(void)
{
    say_type(MSG_RUN, NULL, 0);
}

static void same_id_twice(void)
{
    struct job_parts parts;
    make_job(&parts);
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
}

static void too_few_descriptors(void)
{
    struct job_parts parts;
    make_job(&parts);
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS - 1);
}

static void too_many_descriptors(void)
{
    struct job_parts parts;
    int fds[IO_FDS_MAX];
    make_job(&parts);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = parts.fds[i % MSG_JOB_FDS];
    }
    send_job(&parts, SIZE_MAX, fds, ARRAY_SIZE(fds));
}

/* More than any message of ours has, and than fit into what the warden receives at once. */
static void heaps_of_descriptors(void)
{
    enum { MANY = 253 };
    static char space[CMSG_SPACE(MANY * sizeof(int))] __attribute__((aligned(8)));
    struct iovec byte = {.iov_base = (char[]){"x"}, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(MANY * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memset(CMSG_DATA(header), 0, MANY * sizeof(int)); /* stdin, again and again */
    sendmsg(FRONT_CHANNEL_FD, &message, MSG_NOSIGNAL);
}

static void stdout_is_a_socket(void)
{
    job_with(2, FRONT_LISTEN_FD);
}

static void stdout_is_the_channel(void)
{
    job_with(2, FRONT_CHANNEL_FD);
}

static void stdin_is_a_device(void)
{
    job_with(1, STDIN_FILENO);
}

static void stdin_can_be_written(void)
{
    struct job_parts parts;
    make_job(&parts);
    parts.fds[1] = parts.others[0];
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
}

static void bridge_is_a_socket(void)
{
    job_with(4, FRONT_LISTEN_FD);
}

static void bridge_is_the_wrong_way_round(void)
{
    struct job_parts parts;
    make_job(&parts);
    parts.fds[5] = parts.others[4];
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
}

/* The front holds one directory: /proc/self/fd. */
static int find_directory(void)
{
    char entry[1024];
    for (int fd = 5; fd < 64; fd++) {
        if (syscall(SYS_getdents64, fd, entry, sizeof entry) >= 0) {
            return fd;
        }
    }
    return -1;
}

static void input_is_a_directory(void)
{
    job_with(0, find_directory());
}

static void stderr_is_a_directory(void)
{
    job_with(3, find_directory());
}

static void input_is_a_pipe(void)
{
    struct job_parts parts;
    make_job(&parts);
    parts.fds[0] = parts.fds[1];
    send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
}

static void input_is_not_sealed(void)
{
    job_with(0, memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

static void flood_without_reading(void)
{
    for (int i = 0; i < 100000; i++) {
        struct job_parts parts;
        make_job(&parts);
        send_job(&parts, SIZE_MAX, parts.fds, MSG_JOB_FDS);
        msg_clear(&parts.msg);
        for (int j = 0; j < MSG_JOB_FDS; j++) {
            close(parts.fds[j]);
        }
        for (int j = 0; j < MSG_JOB_FDS - 1; j++) {
            close(parts.others[j]);
        }
    }
}

static void hang(void)
{
    for (;;) {
        clock_now_ns();
    }
}

static void sleep_for_ever(void)
{
    for (;;) {
        const struct timespec day = {.tv_sec = 86400};
        nanosleep(&day, NULL);
    }
}

static void crash(void)
{
    abort();
}

static void close_the_channel(void)
{
    shutdown(FRONT_CHANNEL_FD, SHUT_RDWR);
    sleep_for_ever();
}

static void leave(void)
{
    _exit(0);
}

static void foreign_call(void)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L /* getpid of i386 */) : "memory");
#else
    leave();
#endif
}

static const struct {
    const char *how;
    void (*act)(void);
} acts[] = {
    {"garbage", garbage},
    {"nothing", nothing},
    {"unknown kind", unknown_kind},
    {"truncated job", truncated_job},
    {"oversized", oversized},
    {"hello again", hello_again},
    {"hello with a descriptor", hello_with_a_descriptor},
    {"config from the front", config_from_the_front},
    {"state from the front", state_from_the_front},
    {"done from the front", done_from_the_front},
    {"refused from the front", refused_from_the_front},
    {"ping from the front", ping_from_the_front},
    {"pong without ping", pong_without_ping},
    {"cancel with a descriptor", cancel_with_a_descriptor},
    {"submission is not sealed", submission_is_not_sealed},
    {"reply is not sealed", reply_is_not_sealed},
    {"run of no approval", run_of_no_approval},
    {"same id twice", same_id_twice},
    {"too few descriptors", too_few_descriptors},
    {"too many descriptors", too_many_descriptors},
    {"heaps of descriptors", heaps_of_descriptors},
    {"stdout is a socket", stdout_is_a_socket},
    {"stdout is the channel", stdout_is_the_channel},
    {"the bridge is a socket", bridge_is_a_socket},
    {"the bridge is the wrong way round", bridge_is_the_wrong_way_round},
    {"stdin is a device", stdin_is_a_device},
    {"stdin can be written", stdin_can_be_written},
    {"input is a directory", input_is_a_directory},
    {"stderr is a directory", stderr_is_a_directory},
    {"input is a pipe", input_is_a_pipe},
    {"input is not sealed", input_is_not_sealed},
    {"flood without reading", flood_without_reading},
    {"hang", hang},
    {"sleep for ever", sleep_for_ever},
    {"crash", crash},
    {"close the channel", close_the_channel},
    {"leave", leave},
    {"foreign call", foreign_call},
};

/* ---- the request ---- */

static void answer(struct request *request, const char *text, long error)
{
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_text(&body, "did", text);
    json_out_i64(&body, "error", error);
    buf_puts(&body, "}\n");
    request_reply(request, 200, "application/json", &body);
}

static void list(struct request *request)
{
    struct buf body = BUF_INIT;
    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
        buf_printf(&body, "attempt\t%s\n", attempts[i].how);
    }
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        buf_printf(&body, "act\t%s\n", acts[i].how);
    }
    request_reply(request, 200, "text/plain", &body);
}

static void misbehave(struct request *request, const char *how, int64_t victim)
{
    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
        if (strcmp(how, attempts[i].how) == 0) {
            answer(request, how, -commit(&attempts[i], (long)victim));
            return;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        if (strcmp(how, acts[i].how) == 0) {
            acts[i].act();
            answer(request, how, 0);
            return;
        }
    }
    list(request);
}

void handle_misbehave(struct request *request)
{
    struct json_doc *doc = NULL;
    const struct buf *body = http_body(request->http);
    int64_t victim = 0;
    char how[64] = "";
    if (json_parse(body->data, body->len, &doc, NULL) == 0) {
        const char *text = json_string(json_get(json_root(doc), "how"));
        snprintf(how, sizeof how, "%s", text ? text : "");
        json_i64(json_get(json_root(doc), "victim"), &victim);
        json_free(doc);
    }
    misbehave(request, how, victim);
}
