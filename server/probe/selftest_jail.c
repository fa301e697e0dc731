/* The trial jail of `immure check`: the same execution as any job, in a child process. */
#include "server/probe/selftest_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/host/host.h"
#include "server/kit/sentence.h"
#include "server/run/execution.h"

/* Outer uids of trial jails as root: apart from those of `immure run` and of servers. */
#define CHECK_OUTER_UID_BASE 1904214016u /* 0x71800000 */

static void wait_for_end(struct execution *execution)
{
    while (execution_state(execution) != EXECUTION_ENDED) {
        struct pollfd polled = {.fd = execution_fd(execution), .events = POLLIN};
        poll(&polled, 1, JAIL_WATCH_INTERVAL_MS);
        execution_watch(execution);
        execution_dispatch(execution);
    }
}

static int start(struct host *host, const struct policy *policy, const char *const argv[],
                 struct execution **ret, struct err *reterr)
{
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct job *job = calloc(1, sizeof *job);
    if (!job || null < 0) {
        job_free(job);
        return err_errno(reterr, job ? errno : ENOMEM, "preparing a trial jail");
    }
    job->limits.timeout_ms = 10000;
    struct policy_ceilings ceilings = {0};
    host_apply_to_ceilings(host, &ceilings);
    char *words[4] = {NULL};
    struct policy_program program = {.argv = words};
    while (program.n_argv < ARRAY_SIZE(words) - 1 && argv[program.n_argv]) {
        words[program.n_argv] = (char *)(uintptr_t)argv[program.n_argv];
        program.n_argv++;
    }
    const struct execution_request request = {
        .host = host,
        .policy = policy,
        .ceilings = &ceilings,
        .program = &program,
        .job = job,
        .fds = {[JAIL_FD_STDIN] = null,
                [JAIL_FD_STDOUT] = null,
                [JAIL_FD_STDERR] = null,
                [JAIL_FD_SCRATCH] = -1,
                [JAIL_FD_INPUT] = -1,
                [JAIL_FD_BRIDGE_IN] = -1,
                [JAIL_FD_BRIDGE_OUT] = -1,
                [JAIL_FD_WORKSPACE] = -1,
                [JAIL_FD_IMAGE... JAIL_FD_BIND_LAST] = -1},
    };
    return execution_start(&request, ret, reterr);
}

/* Appends why the verdict is not a success; nothing if it is. */
static void judge(const struct job_result *result, struct buf *why)
{
    if (result->status == JOB_SUCCESS) {
        return;
    }
    if (result->error_text) {
        buf_printf(why, "%s: %s", job_status_to_string(result->status), result->error_text);
    } else {
        buf_printf(why, "the program ended with exit code %d", result->exit_code);
    }
}

static void run(const char *policy_name, enum cgroup_mode mode, const struct runtime_config *interpreter,
                const char *const argv[], struct buf *why)
{
    struct err err = {0};
    struct host host = {0};
    struct policy *policy = NULL;
    struct execution *execution = NULL;
    struct job_result result = {0};
    const struct host_options options = {.cgroup_mode = mode,
                                         .best_effort = "BEST_EFFORT",
                                         .outer_uid_base = CHECK_OUTER_UID_BASE + (uint32_t)getpid(),
                                         .n_outer_uids = 1};
    int r = policy_resolve(policy_name, &policy, &err);
    if (r == 0) {
        policy_set_interpreter(policy, interpreter);
        r = host_open(&options, &host, &err);
    }
    if (r == 0) {
        r = start(&host, policy, argv, &execution, &err);
    }
    if (r == 0) {
        wait_for_end(execution);
        r = execution_finish(execution, &result, &err);
    }
    if (r == 0) {
        judge(&result, why);
    } else {
        char sentence[SENTENCE_BYTES];
        sentence_of(&err, sentence);
        buf_puts(why, sentence);
    }
    job_result_clear(&result);
    execution_free(execution);
    host_close(&host);
    policy_free(policy);
}

int selftest_jail(const char *policy, enum cgroup_mode mode, const struct runtime_config *interpreter,
                  const char *const argv[], char *ret, size_t size)
{
    int ends[2];
    snprintf(ret, size, "the trial could not be started");
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -1;
    }
    CLEANUP(fd_closep) int read_end = ends[0];
    CLEANUP(fd_closep) int write_end = ends[1];
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        return -1;
    }
    if (pid == 0) {
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        run(policy, mode, interpreter, argv, &why);
        io_write_full(write_end, why.data ? why.data : "", why.len);
        _exit(why.len > 0);
    }
    fd_closep(&write_end);
    ssize_t n = io_read_full(read_end, ret, size - 1);
    ret[n > 0 ? n : 0] = '\0';
    int status;
    if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status)) {
        snprintf(ret, size, "the trial died");
        return -1;
    }
    return WEXITSTATUS(status) == 0 ? 0 : -1;
}
