/* The programs that unpack an image, in a jail. Runs in `immure image import`.
 *
 * An archive is hostile, and what reads it may have mistakes. So it gets what any unread program gets: its
 * own namespaces, an unprivileged uid, no network, a filter, limits, and of the host only /usr, read-only,
 * /dev/null, /dev/urandom and the one directory that the image is unpacked in. What has come of that
 * is looked at when all of it has ended. A directory of the host has no limits of its own: it is measured
 * while they write. */
#include "server/image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/hostdir.h"
#include "jail/resources/idmap.h"
#include "jail/resources/tree.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/host/host.h"
#include "server/image/store.h"
#include "server/image/tree.h"
#include "server/run/execution.h"

/* As for `immure run`, and away from its uids: PIDs are below 2^22. */
#define OUTER_UID_BASE      1900019712u /* 0x71400000 */
#define MEASURE_INTERVAL_NS (200 * NS_PER_MS)
#define UNMEASURED_MAX      10u /* times */
#define WORDS_BYTES         1024u

/* Go's runtime, files, and nothing else. Attributes are refused in the words that make umoci do without:
 * none shall come out of an archive. */
static const char policy_text[] =
    "name: 'image-import'\n"
    "mount { destination: '/usr' bind { source: '/usr' } }\n"
    "mount { destination: '/bin' symlink { target: 'usr/bin' } }\n"
    "mount { destination: '/lib' symlink { target: 'usr/lib' } }\n"
    "mount { destination: '/lib64' symlink { target: 'usr/lib64' } }\n"
    "mount { destination: '/dev/null' bind { source: '/dev/null' } allow_devices: true }\n"
    "mount { destination: '/dev/urandom' bind { source: '/dev/urandom' } allow_devices: true }\n"
    "mount { destination: '/proc' proc { } optional: true }\n"
    "mount { destination: '/workspace' scratch { directory: WORK } }\n"
    "mount { destination: '/tmp' scratch { directory: TMP } }\n"
    "env { name: 'PATH' value: '/usr/bin' }\n"
    "env { name: 'HOME' value: '/tmp' }\n"
    "env { name: 'TMPDIR' value: '/workspace/tmp' }\n"
    "env { name: 'GOTRACEBACK' value: 'none' }\n" /* the last line says what was wrong */
    "seccomp {\n"
    "  default_action: NOTIFY\n"
    "  rule { action: ALLOW set: ['@basic-io', '@poll', '@file-read', '@file-write', '@memory', '@thread', "
    "'@execute',\n"
    "         '@process', '@signal', '@time', '@identity-read', '@resources', '@system-info'] }\n"
    "  rule { action: COUNT set: '@file-locks' }\n"
    "  rule { action: ALLOW syscall: 'clone' condition { arg: 0 op: MASKED_EQ mask: 0x7e028000 value: 0 } }\n"
    "  rule { action: ERRNO errno: 'ENOSYS' syscall: 'clone3' }\n"
    "  rule { action: ALLOW syscall: 'mknodat' condition { arg: 2 op: MASKED_EQ mask: 0170000 value: 0010000 "
    "} }\n"
    "  rule { action: ERRNO errno: 'EOPNOTSUPP' syscall: ['setxattr', 'lsetxattr', 'fsetxattr', "
    "'removexattr',\n"
    "         'lremovexattr', 'fremovexattr'] }\n"
    "}\n"
    "rlimit { resource: CORE soft: 0 }\n"
    "rlimit { resource: NOFILE soft: 1024 }\n"
    "limits { memory_bytes: 2147483648 pids: 256 cpu_percent: 400 timeout_ms: 3600000 address_space: false "
    "}\n";

struct unpacker {
    struct host host;
    struct policy *policy;
    uint32_t uid, gid; /* outside */
    bool has_id;
    int directory, work;
};

int unpacker_new(struct unpacker **ret, struct err *reterr)
{
    const struct host_options options = {.cgroup_mode = CGROUP_BEST_EFFORT,
                                         .outer_uid_base = OUTER_UID_BASE + (uint32_t)getpid(),
                                         .n_outer_uids = 1};
    struct unpacker *unpacker = calloc(1, sizeof *unpacker);
    if (!unpacker) {
        return err_errno(reterr, ENOMEM, "preparing to unpack");
    }
    unpacker->directory = unpacker->work = -1;
    host_leave_session_keyring();
    struct policy_spec *spec;
    int r = host_open(&options, &unpacker->host, reterr);
    r = r < 0 ? r : policy_spec_decode_text("image-import", policy_text, strlen(policy_text), &spec, reterr);
    r = r < 0 ? r : policy_compile(spec, &unpacker->policy, reterr);
    if (r == 0 && (r = idmap_take(unpacker->host.ids, &unpacker->uid, &unpacker->gid)) < 0) {
        r = err_errno(reterr, -r, "taking an outer uid");
    }
    unpacker->has_id = r == 0;
    if (r < 0) {
        unpacker_free(unpacker);
        return r;
    }
    *ret = unpacker;
    return 0;
}

void unpacker_free(struct unpacker *unpacker)
{
    if (!unpacker) {
        return;
    }
    if (unpacker->has_id) {
        idmap_give_back(unpacker->host.ids, unpacker->uid);
    }
    fd_closep(&unpacker->directory);
    fd_closep(&unpacker->work);
    policy_free(unpacker->policy);
    host_close(&unpacker->host);
    free(unpacker);
}

static int make_directory(const struct unpacker *unpacker, int at, const char *name, int *ret_fd)
{
    if (mkdirat(at, name, 0755) < 0) {
        return -errno;
    }
    CLEANUP(fd_closep) int fd = image_open_below(at, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    if (unpacker->host.privileged && fchown(fd, unpacker->uid, unpacker->gid) < 0) {
        return -errno;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int unpacker_prepare(struct unpacker *unpacker, int directory, struct err *reterr)
{
    CLEANUP(fd_closep) int tmp = -1;
    unpacker->directory = fcntl(directory, F_DUPFD_CLOEXEC, 3);
    int r =
        unpacker->directory < 0 ? -errno : make_directory(unpacker, directory, UNPACK_WORK, &unpacker->work);
    r = r < 0 ? r : make_directory(unpacker, unpacker->work, "tmp", &tmp);
    return r < 0 ? err_errno(reterr, -r, "making a directory to unpack in") : 0;
}

/* ---- One program ---- */

struct run {
    struct execution *execution;
    int words_fd; /* what it says, not blocking */
    char words[WORDS_BYTES];
    size_t n_words;
    unsigned n_unmeasured; /* times in a row */
    bool too_large;
};

/* Keeps the last of what it says. It may never pause: no more is read than what is there now. */
static void listen_to(struct run *run)
{
    char data[WORDS_BYTES];
    ssize_t n;
    for (size_t reads = io_reads_pending(run->words_fd, sizeof data);
         reads > 0 && (n = read(run->words_fd, data, sizeof data)) > 0; reads--) {
        size_t size = (size_t)n, kept = run->n_words + size > WORDS_BYTES ? WORDS_BYTES - size : run->n_words;
        memmove(run->words, run->words + run->n_words - kept, kept);
        memcpy(run->words + kept, data, size);
        run->n_words = kept + size;
    }
}

/* The last line, without anything that a terminal would obey. */
static void last_line(const struct run *run, char ret[WORDS_BYTES + 1])
{
    size_t end = run->n_words;
    while (end > 0 && run->words[end - 1] == '\n') {
        end--;
    }
    size_t begin = end, len = 0;
    while (begin > 0 && run->words[begin - 1] != '\n') {
        begin--;
    }
    /* skopeo: time="..." level=fatal msg="..." */
    static const char key[] = " msg=\"";
    const char *msg = memmem(run->words + begin, end - begin, key, strlen(key));
    begin = msg ? (size_t)(msg - run->words) + strlen(key) : begin;
    end -= msg && run->words[end - 1] == '"';
    /* umoci: a cross, and blanks around it. */
    while (begin < end && (run->words[begin] <= ' ' || run->words[begin] > '~')) {
        begin++;
    }
    for (; begin < end; begin++) {
        char c = run->words[begin];
        ret[len++] = c >= ' ' && c <= '~' ? c : '?';
    }
    ret[len] = '\0';
}

static int start(struct unpacker *unpacker, const struct policy_program *program, uint64_t file_bytes,
                 int words, struct execution **ret, struct err *reterr)
{
    struct session_workspace session = {.fd = unpacker->directory,
                                        .mount_fd = -1,
                                        .uid = unpacker->uid,
                                        .gid = unpacker->gid,
                                        .file_uid = unpacker->uid,
                                        .file_gid = unpacker->gid,
                                        .inodes = 1};
    struct policy_ceilings ceilings = {.file_bytes = file_bytes};
    host_apply_to_ceilings(&unpacker->host, &ceilings);
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct job *job = calloc(1, sizeof *job);
    char *session_id = strdup("image");
    int r = null < 0 || !job || !session_id
                ? err_errno(reterr, null < 0 ? errno : ENOMEM, "unpacking")
                : hostdir_mount(unpacker->work, NULL, false, &session.mount_fd, reterr);
    if (r < 0) {
        free(session_id);
        free(job);
        return r;
    }
    job->session_id = session_id;
    const struct execution_request request = {
        .host = &unpacker->host,
        .policy = unpacker->policy,
        .ceilings = &ceilings,
        .program = program,
        .job = job,
        .session = &session,
        .fds = {[JAIL_FD_STDIN] = null,
                [JAIL_FD_STDOUT] = words,
                [JAIL_FD_STDERR] = words,
                [JAIL_FD_SCRATCH] = -1,
                [JAIL_FD_INPUT] = -1,
                [JAIL_FD_BRIDGE_IN] = -1,
                [JAIL_FD_BRIDGE_OUT] = -1,
                [JAIL_FD_WORKSPACE] = -1,
                [JAIL_FD_IMAGE... JAIL_FD_BIND_LAST] = -1},
    };
    r = execution_start(&request, ret, reterr);
    fd_closep(&session.mount_fd);
    return r;
}

/* 0 or -errno. No directory is closed to this process: it has the capabilities over them, be it in a user
 * namespace of its own. */
static int measure(const struct unpacker *unpacker, const char *name, const struct tree_limits *limits,
                   bool *over)
{
    struct tree_usage usage = {0};
    CLEANUP(fd_closep) int fd = image_open_below(unpacker->work, name, O_RDONLY | O_DIRECTORY);
    int r = fd < 0 ? fd : tree_measure(fd, limits, &usage);
    *over = *over || (r == 0 && usage.over);
    return r == -ENOENT ? 0 : r;
}

/* `watched` for what it may hold, and all of the directory for what was there before: the input, the layout
 * that was made of it, and what else writes there. What cannot be measured time after time is too large. */
static bool is_too_large(struct run *run, const struct unpacker *unpacker, const char *watched,
                         const struct image_limits *limits)
{
    const struct tree_limits most = {.bytes = limits->bytes, .files = limits->files};
    const struct tree_limits all = {.bytes = limits->bytes > UINT64_MAX / 4 ? UINT64_MAX : 4 * limits->bytes,
                                    .files = limits->files > UINT64_MAX / 4 ? UINT64_MAX : 4 * limits->files};
    int r = measure(unpacker, watched, &most, &run->too_large);
    if (strcmp(watched, ".") != 0 && !run->too_large) {
        int r_all = measure(unpacker, ".", &all, &run->too_large);
        r = r < 0 ? r : r_all;
    }
    run->n_unmeasured = r < 0 ? run->n_unmeasured + 1 : 0;
    run->too_large = run->too_large || run->n_unmeasured > UNMEASURED_MAX;
    return run->too_large;
}

static void wait_for_end(struct run *run, const struct unpacker *unpacker, const char *watched,
                         const struct image_limits *limits)
{
    bool watches = execution_needs_watch(run->execution);
    uint64_t measured_ns = clock_now_ns();
    while (execution_state(run->execution) != EXECUTION_ENDED) {
        struct pollfd polled[] = {{.fd = execution_fd(run->execution), .events = POLLIN},
                                  {.fd = run->words_fd, .events = POLLIN}};
        poll(polled, ARRAY_SIZE(polled), JAIL_WATCH_INTERVAL_MS);
        listen_to(run);
        execution_dispatch(run->execution);
        if (watches) {
            execution_watch(run->execution);
        }
        uint64_t now_ns = clock_now_ns();
        if (now_ns - measured_ns >= MEASURE_INTERVAL_NS) {
            if (is_too_large(run, unpacker, watched, limits)) {
                execution_cancel(run->execution);
            }
            measured_ns = clock_now_ns();
        }
    }
    listen_to(run);
}

static int conclude(const struct run *run, const char *program, const struct image_limits *limits,
                    const struct job_result *result, struct err *reterr)
{
    char line[WORDS_BYTES + 1];
    last_line(run, line);
    /* Where RLIMIT_FSIZE ended it, the file may be gone: umoci removes what it could not unpack. */
    bool at_limit = result->status == JOB_EXECUTION_ERROR && strstr(line, ": file too large");
    if (run->too_large || at_limit) {
        return err_set(reterr, ERR_TOO_LARGE, EFBIG, NULL,
                       "it unpacks to more than %" PRIu64 " bytes (--max-bytes), %" PRIu64
                       " files (--max-files) or %d levels",
                       limits->bytes, limits->files, TREE_DEPTH_MAX);
    }
    if (result->status == JOB_SETUP_ERROR) {
        return err_set(reterr, ERR_SETUP, 0, NULL, "%s", result->error_text ? result->error_text : "no jail");
    }
    if (result->status != JOB_SUCCESS) {
        return err_set(reterr, ERR_INVALID, EBADMSG, NULL, "%s: %.400s", strrchr(program, '/') + 1,
                       line[0]              ? line
                       : result->error_text ? result->error_text
                                            : "failed");
    }
    return 0;
}

int unpacker_run(struct unpacker *unpacker, char *const *argv, size_t n_argv, const char *watched,
                 const struct image_limits *limits, struct err *reterr)
{
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) < 0) {
        return err_errno(reterr, errno, "unpacking");
    }
    CLEANUP(fd_closep) int ours = pipes[0];
    CLEANUP(fd_closep) int its = pipes[1];
    struct run run = {.words_fd = ours};
    const struct policy_program program = {.argv = argv, .n_argv = n_argv};
    struct job_result result = {0};
    int r = fcntl(ours, F_SETFL, O_NONBLOCK) < 0 ? err_errno(reterr, errno, "unpacking") : 0;
    /* A file may be as large as all of it may, and a byte more: where that stops a program, all is too large.
     */
    uint64_t file_bytes = limits->bytes < UINT64_MAX ? limits->bytes + 1 : UINT64_MAX;
    r = r < 0 ? r : start(unpacker, &program, file_bytes, its, &run.execution, reterr);
    fd_closep(&its);
    if (r < 0) {
        return r;
    }
    wait_for_end(&run, unpacker, watched, limits);
    r = execution_finish(run.execution, &result, reterr);
    execution_free(run.execution); /* once all of it has ended: what it wrote is at rest */
    if (r == 0 && result.status != JOB_SUCCESS) {
        is_too_large(&run, unpacker, watched, limits);
    }
    r = r < 0 ? r : conclude(&run, argv[0], limits, &result, reterr);
    job_result_clear(&result);
    return r;
}
