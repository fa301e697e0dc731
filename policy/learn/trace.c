/* What a watched program's system call says: the arguments that filters may look at, and the paths. Runs in
 * the command line, which has the same files before it as the program, unless that has a root of its own. */
#include "policy/learn/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/proc_text.h"
#include "policy/compiled.h"
#include "jail/base/bpf_run.h"
#include "policy/filter/names.h"
#include "policy/learn/learn_internal.h"
#include "policy/learn/observed.h"
#include "policy/learn/walk.h"
#include "policy/policy.h"

#define CALLS_KNOWN 1024
#define STATUS_MAX  65536u
#define OTHER_PID   2u /* not that of a jail's first process, either */

/* What programs try first and do without, in the words of the shipped parts: while a program is watched it is
 * answered as in a jail, so that what it does instead is seen too. */
static const char answers_text[] =
    "name: 'answers' use: ['processes', 'sockets', 'scratch'] seccomp {"
    " rule { action: ERRNO errno: 'ENOSYS' syscall: ['io_uring_setup', 'pkey_alloc'] } }";

enum path_kind { LOOK, LOOK_AT_LINK, OPEN, OPEN_HOW, READ, CHANGE, MAKE, EXECUTE };

/* Arguments by number; -1: there is none, the path is relative to the working directory. */
static const struct path_call {
    const char *name;
    int dirfd, path;
    enum path_kind kind;
    int flags;
} path_calls[] = {
    {"open", -1, 0, OPEN, 1},
    {"openat", 0, 1, OPEN, 2},
    {"openat2", 0, 1, OPEN_HOW, 2},
    {"creat", -1, 0, MAKE, -1},
    {"stat", -1, 0, LOOK, -1},
    {"lstat", -1, 0, LOOK_AT_LINK, -1},
    {"newfstatat", 0, 1, LOOK, 3},
    {"statx", 0, 1, LOOK, 2},
    {"access", -1, 0, LOOK, -1},
    {"faccessat", 0, 1, LOOK, -1},
    {"faccessat2", 0, 1, LOOK, 3},
    {"statfs", -1, 0, LOOK, -1},
    {"readlink", -1, 0, LOOK_AT_LINK, -1},
    {"readlinkat", 0, 1, LOOK_AT_LINK, -1},
    {"chdir", -1, 0, READ, -1},
    {"execve", -1, 0, EXECUTE, -1},
    {"execveat", 0, 1, EXECUTE, -1},
    {"mkdir", -1, 0, MAKE, -1},
    {"mkdirat", 0, 1, MAKE, -1},
    {"mknod", -1, 0, MAKE, -1},
    {"mknodat", 0, 1, MAKE, -1},
    {"symlink", -1, 1, MAKE, -1},
    {"symlinkat", 1, 2, MAKE, -1},
    {"link", -1, 1, MAKE, -1},
    {"linkat", 2, 3, MAKE, -1},
    {"rename", -1, 1, MAKE, -1},
    {"renameat", 2, 3, MAKE, -1},
    {"renameat2", 2, 3, MAKE, -1},
    {"unlink", -1, 0, CHANGE, -1},
    {"unlinkat", 0, 1, CHANGE, -1},
    {"rmdir", -1, 0, CHANGE, -1},
    {"truncate", -1, 0, CHANGE, -1},
    {"chmod", -1, 0, CHANGE, -1},
    {"fchmodat", 0, 1, CHANGE, -1},
    {"utimensat", 0, 1, CHANGE, -1},
};

/* What is given another name is as good as read. */
#ifdef SYS_link
static const struct path_call link_source = {"link", -1, 0, READ, -1};
#endif
static const struct path_call linkat_source = {"linkat", 0, 1, READ, -1};

struct tracer {
    struct observed *observed;
    struct policy *answers;
    uint8_t kept[CALLS_KNOWN];  /* bit n: argument n is written down */
    uint8_t paths[CALLS_KNOWN]; /* index into path_calls + 1 */
    bool started;               /* the program is no longer a copy of ours */
};

/* Arguments that the shipped parts look at, and those whose values have names; but not those of which no
 * policy asks the value. */
static void choose_arguments(struct tracer *tracer)
{
    static const char *const unasked[] = {"open", "prot", "map"};
    const struct named_argument *argument;
    for (size_t i = 0; (argument = argument_row(i)); i++) {
        int nr = policy_syscall_number(argument->call, NULL);
        bool asked = argument->kind != NULL;
        for (size_t n = 0; asked && n < ARRAY_SIZE(unasked); n++) {
            asked = strcmp(argument->kind, unasked[n]) != 0;
        }
        if (asked && nr >= 0 && nr < CALLS_KNOWN) {
            tracer->kept[nr] |= (uint8_t)(1u << argument->number);
        }
    }
    for (size_t i = 0; i < tracer->answers->filter.n_entries; i++) {
        const struct filter_entry *entry = &tracer->answers->filter.entries[i];
        const struct seccomp_rule rule = policy_filter_rule(tracer->answers->spec, entry);
        for (size_t n = 0; entry->nr < CALLS_KNOWN && n < rule.n_conditions; n++) {
            tracer->kept[entry->nr] |= (uint8_t)(1u << rule.conditions[n].arg);
        }
    }
}

int trace_answers(struct policy **ret, struct err *reterr)
{
    struct policy_spec *spec = NULL;
    int r = policy_spec_decode_text("learn", answers_text, strlen(answers_text), &spec, reterr);
    return r < 0 ? r : policy_compile(spec, ret, reterr);
}

int tracer_new(struct observed *observed, struct tracer **ret, struct err *reterr)
{
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer) {
        return err_errno(reterr, ENOMEM, "watching a program");
    }
    tracer->observed = observed;
    int r = trace_answers(&tracer->answers, reterr);
    if (r < 0) {
        free(tracer);
        return r;
    }
    choose_arguments(tracer);
    for (size_t i = 0; i < ARRAY_SIZE(path_calls); i++) {
        int nr = policy_syscall_number(path_calls[i].name, NULL);
        if (nr >= 0 && nr < CALLS_KNOWN) {
            tracer->paths[nr] = (uint8_t)(i + 1);
        }
    }
    *ret = tracer;
    return 0;
}

void tracer_free(struct tracer *tracer)
{
    if (tracer) {
        policy_free(tracer->answers);
        free(tracer);
    }
}

static bool read_memory(struct tracer *tracer, pid_t pid, uint64_t address, void *ret, size_t size)
{
    struct iovec to = {ret, size}, from = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(pid, &to, 1, &from, 1, 0);
    tracer->observed->unreadable |= n < 0 && errno == EPERM;
    return n == (ssize_t)size;
}

/* Page by page: what lies behind the text's end may not be there. */
static bool read_text(struct tracer *tracer, pid_t pid, uint64_t address, char ret[PATH_MAX])
{
    for (size_t n = 0; n < PATH_MAX;) {
        size_t size = 4096 - (address + n) % 4096;
        size = size < PATH_MAX - n ? size : PATH_MAX - n;
        if (!read_memory(tracer, pid, address + n, ret + n, size)) {
            return false;
        }
        if (memchr(ret + n, '\0', size)) {
            return true;
        }
        n += size;
    }
    return false;
}

/* The directory that relative paths of the call begin in. */
static bool read_base(pid_t pid, int dirfd, char ret[PATH_MAX])
{
    char link[64];
    if (dirfd == AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/%d/cwd", pid);
    } else {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, dirfd);
    }
    ssize_t n = readlink(link, ret, PATH_MAX - 1);
    if (n <= 0 || ret[0] != '/') {
        return false;
    }
    ret[n] = '\0';
    return true;
}

static unsigned how_of_open(uint64_t flags)
{
    unsigned how = (flags & O_ACCMODE) == O_RDONLY ? PATH_READ : PATH_WRITTEN;
    how = flags & O_PATH ? PATH_LOOKED : how;
    return flags & O_CREAT ? how | PATH_CREATED : how;
}

static void look_at_path(struct tracer *tracer, const struct path_call *row, const struct seccomp_notif *call)
{
    static const unsigned words[] = {
        [LOOK] = PATH_LOOKED,    [LOOK_AT_LINK] = PATH_LOOKED, [READ] = PATH_READ,
        [CHANGE] = PATH_WRITTEN, [MAKE] = PATH_CREATED,        [EXECUTE] = PATH_EXECUTED | PATH_PROGRAM,
    };
    const __u64 *arguments = call->data.args;
    pid_t pid = (pid_t)call->pid;
    char text[PATH_MAX], base[PATH_MAX];
    uint64_t flags = row->flags >= 0 ? arguments[row->flags] : 0;
    if (!read_text(tracer, pid, arguments[row->path], text) || text[0] == '\0') {
        return;
    }
    if (row->kind == OPEN_HOW) {
        struct open_how open_how = {0};
        if (!read_memory(tracer, pid, flags, &open_how, sizeof open_how)) {
            return;
        }
        flags = open_how.flags;
    }
    if (text[0] != '/' && !read_base(pid, row->dirfd >= 0 ? (int)arguments[row->dirfd] : AT_FDCWD, base)) {
        return;
    }
    bool opens = row->kind == OPEN || row->kind == OPEN_HOW;
    bool follow = row->kind != LOOK_AT_LINK && row->kind != MAKE &&
                  !(row->kind == LOOK && (flags & AT_SYMLINK_NOFOLLOW));
    walk_path(tracer->observed, base, text, opens ? how_of_open(flags) : words[row->kind], follow);
}

/* How large a process has been, when it is about to end or to become another program. */
static void look_at_memory(struct observed *observed, pid_t pid)
{
    char path[64];
    CLEANUP(buf_free) struct buf status = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (io_read_file_at(AT_FDCWD, path, STATUS_MAX, &status) < 0 || !status.data) {
        return;
    }
    uint64_t memory = proc_text_bytes(status.data, "VmHWM:"),
             address = proc_text_bytes(status.data, "VmPeak:");
    observed->memory_peak = memory > observed->memory_peak ? memory : observed->memory_peak;
    observed->address_peak = address > observed->address_peak ? address : observed->address_peak;
}

static unsigned threads_of(pid_t pid)
{
    char path[64];
    struct proc_stat stat;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    bool known = io_read_file_at(AT_FDCWD, path, STATUS_MAX, &text) == 0 && text.data &&
                 proc_text_stat(text.data, &stat) == 0 && stat.threads > 0;
    return known ? (unsigned)stat.threads : 1;
}

/* Roughly, since no call tells that it failed or that a signal ended somebody. */
static void look_at_tasks(struct observed *observed, const struct seccomp_notif *call)
{
    unsigned gone = 0;
    switch (call->data.nr) {
    case SYS_clone:
#ifdef SYS_fork
    case SYS_fork:
    case SYS_vfork:
#endif
        observed->tasks++;
        break;
    case SYS_exit:
        gone = 1;
        break;
    case SYS_exit_group:
        gone = threads_of((pid_t)call->pid);
        break;
    default:
        return;
    }
    observed->tasks -= gone < observed->tasks ? gone : observed->tasks;
    observed->tasks_peak = observed->tasks > observed->tasks_peak ? observed->tasks : observed->tasks_peak;
}

/* What the filter of a policy would see, as the kernel reads it. */
static void look_at_arguments(struct tracer *tracer, const struct seccomp_data *data)
{
    char buffer[64];
    uint64_t kept[6] = {0};
    unsigned which = data->nr < CALLS_KNOWN ? tracer->kept[data->nr] : 0;
    const char *name = policy_syscall_name(data->arch, data->nr, buffer, sizeof buffer);
    for (uint32_t i = 0; which != 0 && i < ARRAY_SIZE(kept); i++) {
        const struct named_argument *argument = argument_at(name, i);
        unsigned bits = argument ? argument->bits : 64;
        if (which & 1u << i) {
            kept[i] = bits < 64 ? data->args[i] & ((UINT64_C(1) << bits) - 1) : data->args[i];
        }
    }
    /* The size of a pipe; else a pointer or a descriptor. */
    if (data->nr == SYS_fcntl && kept[1] != F_SETPIPE_SZ) {
        kept[2] = 0;
    }
    /* Given or not: which place in memory says nothing, nor which other process it is. */
    if (data->nr == SYS_prlimit64) {
        kept[0] = kept[0] ? OTHER_PID : 0;
        kept[2] = kept[2] != 0;
    }
    observed_add_call(tracer->observed, data->nr, kept);
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, address, sizeof in);
    memcpy(&in6, address, sizeof in6);
    return address->ss_family == AF_INET ? ntohl(in.sin_addr.s_addr) >> 24 == 127
                                         : IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

/* Whom the program talks to. The C library asks nscd for names of users and hosts, and does without. */
static void look_at_sockets(struct tracer *tracer, const struct seccomp_notif *call)
{
    static const char nscd[] = "/var/run/nscd/socket";
    const __u64 *arguments = call->data.args;
    struct observed *observed = tracer->observed;
    struct sockaddr_storage address = {0};
    if (call->data.nr == SYS_socket) {
        observed->sockets |= (int)arguments[0] != AF_UNIX;
    }
    if (call->data.nr != SYS_connect && call->data.nr != SYS_bind) {
        return;
    }
    size_t size = arguments[2] < sizeof address ? arguments[2] : sizeof address;
    if (!read_memory(tracer, (pid_t)call->pid, arguments[1], &address, size)) {
        return;
    }
    bool inet = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    const char *path = (const char *)&address + offsetof(struct sockaddr_un, sun_path);
    observed->sockets |= call->data.nr == SYS_bind || strncmp(path, nscd, sizeof nscd) != 0;
    observed->loopback |= inet && call->data.nr == SYS_bind;
    observed->network |= inet && call->data.nr == SYS_connect && !is_loopback(&address);
}

/* x32 has not, nor what this version does not know: no rule could name it. */
static bool has_name(const struct seccomp_data *data)
{
    char buffer[64];
    return policy_syscall_number(policy_syscall_name(data->arch, data->nr, buffer, sizeof buffer), NULL) >= 0;
}

int tracer_look(struct tracer *tracer, const struct seccomp_notif *call)
{
    struct observed *observed = tracer->observed;
    const struct seccomp_data *data = &call->data;
    observed->n_answers++;
    if (data->arch != policy_native_arch() || data->nr < 0 || !has_name(data)) {
        observed->foreign = true;
        return 0;
    }
    look_at_arguments(tracer, data);
    look_at_tasks(observed, call);
    look_at_sockets(tracer, call);
    if (data->nr == SYS_exit_group || (data->nr == SYS_execve && tracer->started)) {
        look_at_memory(observed, (pid_t)call->pid);
    }
    tracer->started |= data->nr == SYS_execve;
    if (data->nr < CALLS_KNOWN && tracer->paths[data->nr]) {
        look_at_path(tracer, &path_calls[tracer->paths[data->nr] - 1], call);
    }
#ifdef SYS_link
    if (data->nr == SYS_link) {
        look_at_path(tracer, &link_source, call);
    }
#endif
    if (data->nr == SYS_linkat) {
        look_at_path(tracer, &linkat_source, call);
    }
    const struct policy_filter *filter = &tracer->answers->filter;
    uint32_t answer = bpf_run(filter->instructions, filter->length, data);
    return (answer & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO ? (int)(answer & SECCOMP_RET_DATA) : 0;
}
