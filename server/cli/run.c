/* `immure run`: one command in a jail, with the caller's own standard descriptors and the command's own exit
 * code.
 *
 * One process that makes one jail and waits. It is measured in fractions of a millisecond, so nothing is
 * loaded or opened that this one job does not need. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/shipped.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/report.h"
#include "server/cli/run_job.h"
#include "server/host/host.h"
#include "server/host/interpreter.h"
#include "server/kit/signals.h"
#include "server/run/execution.h"
#include "server/run/verdict.h"

/* Outer uids of `immure run` as root: this and our own PID. PIDs are below 2^22, so every launch on a host
 * has another one, without a lock and away from those of a server. */
#define RUN_OUTER_UID_BASE 1895825408u /* 0x71000000 */

#define CGROUP_VARIABLE "SANDBOX_EXECUTOR_CGROUP"

#define OPTION(member) offsetof(struct run_options, member)
static const struct option_row run_rows[] = {
    {"--policy", "NAME|FILE",
     "what the command may do: a shipped policy by name, or a file (with a '/', or x.textproto)", OPTION_TEXT,
     OPTION(policy)},
    {"--cgroup", "MODE",
     "required: limits are enforced by a cgroup, or nothing runs; best-effort: by "
     "rlimits and by watching where there is none; default: $" CGROUP_VARIABLE ", else required",
     OPTION_TEXT, OPTION(cgroup)},
    {"--timeout", "MS", "wall clock, in milliseconds; default: the policy's", OPTION_NUMBER,
     OPTION(timeout_ms)},
    {"--memory", "BYTES", "memory of the whole jail; at most the policy's", OPTION_NUMBER,
     OPTION(memory_bytes)},
    {"--pids", "N", "processes and threads; at most the policy's", OPTION_NUMBER, OPTION(pids)},
    {"--cpu", "MS", "CPU time of the whole jail, in milliseconds; at most the policy's", OPTION_NUMBER,
     OPTION(cpu_ms)},
    {"--env", "NAME=VALUE", "a variable that the policy admits; may be repeated", OPTION_LIST, OPTION(env)},
    {"--file", "NAME=PATH", "a copy of PATH as NAME in the working directory; may be repeated", OPTION_LIST,
     OPTION(files)},
    {"--report", "FILE", "write the verdict there as JSON", OPTION_TEXT, OPTION(report)},
    {"--outer-uid", "UID",
     "as root: the uid outside, which no concurrent jail may share; default: one of its own", OPTION_NUMBER,
     OPTION(outer_uid)},
};

static const struct option_table run_table = {
    .command = "run",
    .synopsis = "--policy NAME|FILE [OPTION...] -- COMMAND [ARGUMENT...]",
    .about = "Runs one command in a fresh jail. Its standard input and output are the caller's own; its "
             "environment is\n"
             "the policy's and what --env adds, nothing is inherited.",
    .footer = "Exit code: the command's own; 128+n when signal n ended it; 137 after the deadline or out of "
              "memory, 152\n"
              "when its CPU time was used up, with a sentence on stderr; 125 when immure itself failed and "
              "the command\n"
              "never ran. --report tells a command's own 125 or 137 from these.",
    .rows = run_rows,
    .n_rows = ARRAY_SIZE(run_rows),
    .stop_at_argument = true,
};

struct run {
    struct run_options options;
    char **argv;
    size_t n_argv;
    enum cgroup_mode cgroup_mode;
    int signal_fd;
    int interrupted_by; /* the signal that cancelled the jail; 0: none */
};

static int no_policy(struct err *reterr)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    for (const struct shipped_file *policy = shipped_policies(); policy->name; policy++) {
        buf_printf(&names, "%s%s", names.len ? ", " : "", policy->name);
    }
    return err_set(reterr, ERR_INVALID, EINVAL, NULL,
                   "say what the command may do: --policy NAME|FILE (shipped: %s)",
                   names.data ? names.data : "none");
}

/* From the option, else the variable that sets it for a server, else the stricter one. */
static int choose_cgroup_mode(struct run *run, struct err *reterr)
{
    static const struct {
        const char *name;
        enum cgroup_mode mode;
    } modes[] = {
        {"required", CGROUP_REQUIRED},
        {"best-effort", CGROUP_BEST_EFFORT},
        {"REQUIRED", CGROUP_REQUIRED},
        {"BEST_EFFORT", CGROUP_BEST_EFFORT},
    };
    const char *name = run->options.cgroup ? run->options.cgroup : getenv(CGROUP_VARIABLE);
    run->cgroup_mode = CGROUP_REQUIRED;
    if (!name || name[0] == '\0') {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        if (strcmp(modes[i].name, name) == 0) {
            run->cgroup_mode = modes[i].mode;
            return 0;
        }
    }
    return err_set(reterr, ERR_INVALID, EINVAL, run->options.cgroup ? "--cgroup" : CGROUP_VARIABLE,
                   "'%s' is neither required nor best-effort", name);
}

static int parse(struct run *run, int argc, char **argv, struct err *reterr)
{
    int n_arguments;
    int r = options_parse(&run_table, argc, argv, &run->options, &n_arguments, reterr);
    if (r != 0) {
        return r;
    }
    run->argv = argv + 1;
    run->n_argv = (size_t)n_arguments;
    if (n_arguments == 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL,
                       "no command; `immure run --policy NAME|FILE -- COMMAND`");
    }
    if (!run->options.policy) {
        return no_policy(reterr);
    }
    if (run->options.outer_uid > UINT32_MAX - 1) {
        return err_set(reterr, ERR_INVALID, ERANGE, "--outer-uid", "not a uid");
    }
    return choose_cgroup_mode(run, reterr);
}

/* SIGINT, SIGTERM and SIGHUP end the jail before they end us; but for those that whoever started us has had
 * ignored (nohup, a shell's `&`). */
static int watch_signals(struct run *run, struct err *reterr)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
        struct sigaction inherited;
        if (sigaction(ending[i], NULL, &inherited) < 0 || inherited.sa_handler != SIG_IGN) {
            sigaddset(&set, ending[i]);
        }
    }
    signal(SIGCHLD, SIG_DFL); /* inherited as ignored, the jail's end could not be waited for */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return err_errno(reterr, errno, "blocking signals");
    }
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signal_fd < 0 ? err_errno(reterr, errno, "watching signals") : 0;
}

static int open_host(const struct run *run, struct host *ret, struct err *reterr)
{
    const struct host_options options = {
        .cgroup_mode = run->cgroup_mode,
        .best_effort = "--cgroup best-effort",
        .outer_uid_base = run->options.outer_uid ? (uint32_t)run->options.outer_uid
                                                 : RUN_OUTER_UID_BASE + (uint32_t)getpid(),
        .n_outer_uids = 1,
        .outer_uids_fixed = run->options.outer_uid != 0,
    };
    return host_open(&options, ret, reterr);
}

/* Takes `job` over. */
static int start(const struct run *run, struct host *host, const struct policy *policy, struct job *job,
                 int input_fd, struct execution **ret, struct err *reterr)
{
    struct policy_ceilings ceilings = {0};
    host_apply_to_ceilings(host, &ceilings);
    const struct policy_program program = {.argv = run->argv, .n_argv = run->n_argv};
    struct execution_request request = {.host = host,
                                        .policy = policy,
                                        .ceilings = &ceilings,
                                        .program = &program,
                                        .job = job,
                                        .waits_for_all = true};
    request.fds[JAIL_FD_STDIN] = STDIN_FILENO;
    request.fds[JAIL_FD_STDOUT] = STDOUT_FILENO;
    request.fds[JAIL_FD_STDERR] = STDERR_FILENO;
    request.fds[JAIL_FD_SCRATCH] = -1;
    request.fds[JAIL_FD_INPUT] = input_fd;
    request.fds[JAIL_FD_BRIDGE_IN] = request.fds[JAIL_FD_BRIDGE_OUT] = -1;
    request.fds[JAIL_FD_WORKSPACE] = request.fds[JAIL_FD_IMAGE] = -1;
    return execution_start(&request, ret, reterr);
}

static void handle_signal(struct run *run, struct execution *execution)
{
    struct signalfd_siginfo info;
    if (read(run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        run->interrupted_by = (int)info.ssi_signo;
        execution_cancel(execution);
    }
}

/* Between two looks of the watch, what the jail has to say is listened to alone: its end above all. */
static void wait_for_end(struct run *run, struct execution *execution)
{
    bool watched = execution_needs_watch(execution);
    uint64_t look_ns = clock_now_ns();
    while (execution_state(execution) != EXECUTION_ENDED) {
        struct pollfd polled[] = {{.fd = run->signal_fd, .events = POLLIN},
                                  {.fd = execution_fd(execution), .events = POLLIN}};
        poll(polled, ARRAY_SIZE(polled), watched ? JAIL_WATCH_INTERVAL_MS : -1);
        if (polled[0].revents) {
            handle_signal(run, execution);
        }
        execution_dispatch(execution);
        uint64_t now_ns = watched ? clock_now_ns() : 0;
        if (watched && now_ns - look_ns >= JAIL_WATCH_INTERVAL_MS * NS_PER_MS) {
            execution_watch(execution);
            look_ns = now_ns;
        }
    }
}

/* What the caller may have got wrong comes first, before anything is made. */
static int run_in_jail(struct run *run, struct job_result *ret, struct err *reterr)
{
    struct job *job = NULL;
    CLEANUP(fd_closep) int input_fd = -1;
    struct policy *policy = NULL;
    struct runtime_config interpreter = {0};
    struct host host = {0};
    struct execution *execution = NULL;
    int r = run_job_make(&run->options, &job, &input_fd, reterr);
    if (r == 0) {
        r = policy_resolve(run->options.policy, &policy, reterr);
    }
    if (r == 0) {
        interpreter_show(policy, &interpreter);
    }
    if (r == 0) {
        r = watch_signals(run, reterr);
    }
    if (r == 0) {
        host_leave_session_keyring();
        r = open_host(run, &host, reterr);
    }
    if (r == 0) {
        r = start(run, &host, policy, TAKE_PTR(job), input_fd, &execution, reterr);
    }
    if (r == 0) {
        wait_for_end(run, execution);
        r = execution_finish(execution, ret, reterr);
    }
    execution_free(execution);
    host_close(&host);
    policy_free(policy);
    runtime_config_forget(&interpreter);
    job_free(job);
    return r;
}

static int write_report(int fd, const struct job_result *result, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (fd < 0) {
        return 0;
    }
    report_write(result, &text);
    int r = text.failed ? -ENOMEM : io_write_full(fd, text.data, text.len);
    return r < 0 ? err_errno(reterr, -r, "writing the report") : 0;
}

/* The exit code for a verdict, and the sentence where the code alone would not tell. */
static int conclude(const struct run *run, const struct job_result *result)
{
    if (result->status == JOB_SETUP_ERROR) {
        fprintf(stderr, "immure run: %s\n", result->error_text);
        return EXIT_CODE_LAUNCHER;
    }
    if (result->status == JOB_CANCELLED) {
        char name[SIGNAL_NAME_BYTES];
        fprintf(stderr, "immure run: cancelled by %s\n", signal_name(run->interrupted_by, name));
        return 128 + run->interrupted_by;
    }
    if (result->error_text) {
        fprintf(stderr, "immure run: %s\n", result->error_text);
    }
    return result->exit_code >= 0 ? result->exit_code : 128 + SIGKILL;
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.signal_fd = -1};
    struct err err = {0};
    int r = parse(&run, argc, argv, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&run_table, stdout);
        return EXIT_CODE_OK;
    }
    CLEANUP(fd_closep) int report_fd = -1;
    if (r == 0 && run.options.report) {
        report_fd = open(run.options.report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        r = report_fd < 0 ? err_errno(&err, errno, "opening %s for the report", run.options.report) : 0;
    }
    if (r < 0) {
        return command_fail("run", &err, EXIT_CODE_LAUNCHER);
    }
    struct job_result result = {0};
    r = run_in_jail(&run, &result, &err);
    fd_closep(&run.signal_fd);
    if (r < 0 && verdict_from_setup_error(&err, &result) == 0) {
        write_report(report_fd, &result, NULL);
    }
    int code = r < 0 ? command_fail("run", &err, EXIT_CODE_LAUNCHER) : conclude(&run, &result);
    if (r == 0 && write_report(report_fd, &result, &err) < 0) {
        /* Said, but the code stays the program's: it has run, and must not be taken for one that has not. */
        command_fail("run", &err, EXIT_CODE_LAUNCHER);
    }
    job_result_clear(&result);
    return code;
}
