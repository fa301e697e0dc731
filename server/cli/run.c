/* `immure run`: one command in a jail, with the caller's own standard descriptors and the command's own exit
 * code; and `immure shell`, the same at a terminal of the jail's own.
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
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/signals.h"
#include "jail/watch.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/report.h"
#include "server/cli/run_files.h"
#include "server/cli/run_job.h"
#include "server/cli/tables.h"
#include "server/host/host.h"
#include "server/host/interpreter.h"
#include "server/image/open.h"
#include "server/kit/signals.h"
#include "server/launch/terminal.h"
#include "server/run/execution.h"
#include "server/run/verdict.h"

/* Outer uids of `immure run` as root: this and our own PID. PIDs are below 2^22, so every launch on a host
 * has another one, without a lock and away from those of a server. */
#define RUN_OUTER_UID_BASE 1895825408u /* 0x71000000 */

#define IMAGES_VARIABLE "SANDBOX_EXECUTOR_IMAGE_DIRECTORY"

#define POLICY_OF_RUN   "command"
#define POLICY_OF_SHELL "shell"

/* A second signal within that time, or so long after a SIGTERM, ends the jail. */
#define SECOND_SIGNAL_NS (2 * NS_PER_S)
#define TERM_GRACE_NS    (5 * NS_PER_S)

#define OPTION(member) offsetof(struct run_options, member)
static const struct option_row run_rows[] = {
    {"--policy", "NAME|FILE",
     "what the command may do: a shipped policy by name, or a file (with a '/', or x.textproto); default: "
     "command for run, shell for shell",
     OPTION_TEXT, OPTION(policy)},
    {"--ro", "DIR[:DEST]", "show a directory or file, read-only, where it is or at DEST; may be repeated",
     OPTION_LIST, OPTION(read_only)},
    {"--rw", "DIR[:DEST]", "the same, to be written to; what is made there belongs to DIR's owner",
     OPTION_LIST, OPTION(writable)},
    {"--cwd", NULL, "show this directory, read-only, and work in it; with --rw . writable", OPTION_SWITCH,
     OPTION(cwd)},
    {"--file", "NAME=PATH", "a copy of PATH as NAME in the jail's working directory; may be repeated",
     OPTION_LIST, OPTION(files)},
    {"--out", "GLOB",
     "files that it leaves in the jail's working directory are copied here, over nothing; may be repeated",
     OPTION_LIST, OPTION(out)},
    {"--env", "NAME[=VALUE]",
     "a variable that the policy admits, with the value that it has here; may be repeated", OPTION_LIST,
     OPTION(env)},
    {"--image", "NAME", "run in that image of $" IMAGES_VARIABLE, OPTION_TEXT, OPTION(image)},
    {"--memory", "BYTES", "memory of the whole jail (1GiB); at most the policy's", OPTION_BYTES,
     OPTION(memory_bytes)},
    {"--pids", "N", "processes and threads; at most the policy's", OPTION_NUMBER, OPTION(pids)},
    {"--cpu", "MS", "CPU time of the whole jail (2s); at most the policy's", OPTION_MS, OPTION(cpu_ms)},
    {"--timeout", "MS", "wall clock (5s); default: the policy's", OPTION_MS, OPTION(timeout_ms)},
    {"--net", "none", "the network: there is none, and nothing else to choose", OPTION_TEXT, OPTION(net)},
    {"--cgroup", "MODE",
     "required: limits are enforced by a cgroup, or nothing runs; best-effort: by rlimits and by watching "
     "where there is none; default: $" CGROUP_VARIABLE ", else best-effort at a terminal, else required",
     OPTION_TEXT, OPTION(cgroup)},
    {"--report", "FILE", "write the verdict there as JSON", OPTION_TEXT, OPTION(report)},
    {"--outer-uid", "UID",
     "as root: the uid outside, which no concurrent jail may share; default: one of its own", OPTION_NUMBER,
     OPTION(outer_uid)},
};

#define EXIT_CODES                                                                                           \
    "Exit code: the command's own; 128+n when signal n ended it; 137 after the deadline or out of memory, "  \
    "152\n"                                                                                                  \
    "when its CPU time was used up, with a sentence on stderr; 125 when immure itself failed and the "       \
    "command\n"                                                                                              \
    "never ran; 1 where it would be 0, but a file of --out could not be copied. --report tells a command's " \
    "own\n"                                                                                                  \
    "125 or 137 from these. Ctrl-C and SIGTERM go to the command; a second one ends the jail."

const struct option_table run_command_table = {
    .command = "run",
    .synopsis = "[OPTION...] COMMAND [ARGUMENT...]",
    .about = "Runs one command in a fresh jail. Its standard input and output are the caller's own; its "
             "environment is\n"
             "the policy's and what --env adds, nothing is inherited. Without --policy and --cwd, files that "
             "its\n"
             "arguments name are there for it.",
    .footer = EXIT_CODES,
    .examples = "immure run python3 script.py\n"
                "immure run --ro src --out 'build/*' --memory 1GiB --timeout 5m make -C \"$PWD/src\" "
                "O=/workspace/build\n"
                "immure run --policy python --cgroup required -- python3 -c 'print(6 * 7)'\n",
    .rows = run_rows,
    .n_rows = ARRAY_SIZE(run_rows),
    .stop_at_argument = true,
};

const struct option_table shell_command_table = {
    .command = "shell",
    .synopsis = "[OPTION...] [COMMAND [ARGUMENT...]]",
    .about = "Runs a shell (bash, or the command) in a fresh jail, at a terminal of the jail's own that is "
             "shown on this one.",
    .footer = EXIT_CODES,
    .examples = "immure shell --cwd\n"
                "immure shell --rw . --cwd --memory 1GiB\n"
                "immure shell python3\n",
    .rows = run_rows,
    .n_rows = ARRAY_SIZE(run_rows),
    .stop_at_argument = true,
};

struct run {
    const struct option_table *table;
    struct run_options options;
    char **argv;
    size_t n_argv;
    char shell[sizeof "bash"], *shell_argv[2];
    const char *policy;
    enum cgroup_mode cgroup_mode;
    bool mode_is_chosen;
    struct run_files files;
    struct terminal terminal;
    bool is_shell;
    struct image *image; /* while it is open, its files stay; NULL: the jail is in none */
    int signal_fd;
    int interrupted_by;             /* the last signal; 0: none */
    uint64_t signalled_ns, kill_ns; /* when it came; when the jail is ended for it; 0: never */
};

/* The stricter one where nothing says it, but for a person, who reads what that means. */
static int choose_cgroup_mode(struct run *run, struct err *reterr)
{
    run->cgroup_mode = isatty(STDERR_FILENO) ? CGROUP_BEST_EFFORT : CGROUP_REQUIRED;
    int r = run_cgroup_mode(run->options.cgroup, &run->cgroup_mode, reterr);
    run->mode_is_chosen = r == 1;
    return r < 0 ? r : 0;
}

static int parse(struct run *run, int argc, char **argv, struct err *reterr)
{
    int n_arguments;
    int r = options_parse(run->table, argc, argv, &run->options, &n_arguments, reterr);
    if (r != 0) {
        return r;
    }
    bool is_default = run->is_shell && n_arguments == 0;
    run->argv = is_default ? run->shell_argv : argv + 1;
    run->n_argv = is_default ? 1 : (size_t)n_arguments;
    if (run->n_argv == 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL,
                       "no command; `immure run ls`, and `immure run --help` tells the rest");
    }
    const char *usual = run->is_shell ? POLICY_OF_SHELL : POLICY_OF_RUN;
    run->policy = run->options.policy ? run->options.policy : usual;
    if (run->options.outer_uid > UINT32_MAX - 1) {
        return err_set(reterr, ERR_INVALID, ERANGE, "--outer-uid", "not a uid");
    }
    if (run->options.net && strcmp(run->options.net, "none") != 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, "--net",
                       "'%s': a command has no network, and there is nothing to choose but none",
                       run->options.net);
    }
    r = run->is_shell ? terminal_check(reterr) : 0;
    return r < 0 ? r : choose_cgroup_mode(run, reterr);
}

/* What these signals mean for the jail is decided before they end us; but for those that whoever started us
 * has had ignored (nohup, a shell's `&`). */
static int watch_signals(struct run *run, struct err *reterr)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    sigset_t set = signals_to_heed(ending, ARRAY_SIZE(ending));
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
    int r = host_open(&options, ret, reterr);
    if (r == 0 && !ret->cgroups && !run->mode_is_chosen) {
        fprintf(stderr,
                "immure %s: no cgroup holds the limits here, but rlimits and a watch (best-effort); "
                "--cgroup chooses\n",
                run->table->command);
    }
    return r;
}

/* NULL where the job runs in none. Not on the stack, which every start would touch. */
static int open_image(const struct policy *policy, const struct job *job, struct image **ret,
                      struct err *reterr)
{
    const char *name;
    const char *directory = getenv(IMAGES_VARIABLE);
    int r = policy_image_for(policy, job, &name, reterr);
    if (r < 0 || !name) {
        return r;
    }
    if (!directory) {
        return err_set(reterr, ERR_INVALID, ENOENT, "--image",
                       "where are the images? " IMAGES_VARIABLE " names their directory");
    }
    *ret = malloc(sizeof **ret);
    if (!*ret) {
        return err_errno(reterr, ENOMEM, "opening an image");
    }
    **ret = IMAGE_CLOSED;
    return image_open(directory, name, NULL, *ret, reterr);
}

static void forget_image(struct image *image)
{
    if (image) {
        image_close(image);
        free(image);
    }
}

static void await_input(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    poll(&polled, 1, -1);
}

/* Takes `job` over. */
static int start(struct run *run, struct host *host, const struct policy *policy, struct job *job,
                 int input_fd, struct execution **ret, struct err *reterr)
{
    struct policy_ceilings ceilings = {0};
    host_apply_to_ceilings(host, &ceilings);
    int r = run_files_open(&run->files, host, reterr);
    r = r < 0 ? r : open_image(policy, job, &run->image, reterr);
    const struct policy_program program = {.argv = run->argv,
                                           .n_argv = run->n_argv,
                                           .image = run->image ? &run->image->policy : NULL,
                                           .binds = run->files.binds.rows,
                                           .n_binds = run->files.binds.n_rows,
                                           .working_directory = run->files.working_directory,
                                           .terminal = run->is_shell};
    struct execution_request request = {.host = host,
                                        .policy = policy,
                                        .ceilings = &ceilings,
                                        .program = &program,
                                        .job = job,
                                        .list_outputs = job->n_outputs > 0,
                                        .waits_for_all = true};
    memset(request.fds, 0xff, sizeof request.fds);
    request.fds[JAIL_FD_STDIN] = run->is_shell ? run->terminal.slave : STDIN_FILENO;
    request.fds[JAIL_FD_STDOUT] = run->is_shell ? run->terminal.slave : STDOUT_FILENO;
    request.fds[JAIL_FD_STDERR] = run->is_shell ? run->terminal.slave : STDERR_FILENO;
    request.fds[JAIL_FD_INPUT] = input_fd;
    request.fds[JAIL_FD_IMAGE] = run->image ? run->image->mount_fd : -1;
    for (size_t i = 0; i < run->files.binds.n_rows; i++) {
        request.fds[run->files.binds.rows[i].slot] = run->files.binds.fds[i];
    }
    if (r < 0) {
        job_free(job);
        return r;
    }
    if (policy_spec(policy)->n_egress > 0) {
        fprintf(stderr,
                "immure %s: the policy names hosts (egress), which only a server's jobs can reach: it keeps "
                "the proxy to them\n",
                run->table->command);
    }
    r = execution_start(&request, ret, reterr);
    if (r == 1) {
        await_input(execution_filler_fd(*ret));
        r = execution_go_on(*ret, reterr);
    }
    terminal_given(&run->terminal);
    return r;
}

/* The program hears of it first, as at a terminal; another one soon after ends the jail, and so does what
 * cannot reach the program. */
static void handle_signal(struct run *run, struct execution *execution)
{
    struct signalfd_siginfo info;
    if (read(run->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    int number = (int)info.ssi_signo;
    if (number == SIGWINCH) {
        terminal_resize(&run->terminal);
        return;
    }
    uint64_t now_ns = clock_now_ns();
    bool again = run->interrupted_by != 0 && now_ns - run->signalled_ns < SECOND_SIGNAL_NS;
    run->interrupted_by = number;
    run->signalled_ns = now_ns;
    if (again || number == SIGHUP || execution_signal(execution, number) < 0) {
        execution_cancel(execution);
    } else if (number == SIGTERM) {
        run->kill_ns = now_ns + TERM_GRACE_NS;
    }
}

static int wait_ms(const struct run *run, bool watched)
{
    uint64_t now_ns = run->kill_ns ? clock_now_ns() : 0;
    uint64_t left_ms = run->kill_ns > now_ns ? (run->kill_ns - now_ns) / NS_PER_MS + 1 : 0;
    if (watched) {
        return JAIL_WATCH_INTERVAL_MS;
    }
    return run->kill_ns ? (int)left_ms : -1;
}

/* Between two looks of the watch, what the jail has to say is listened to alone: its end above all. */
static void wait_for_end(struct run *run, struct execution *execution)
{
    bool watched = execution_needs_watch(execution);
    uint64_t look_ns = clock_now_ns();
    while (execution_state(execution) != EXECUTION_ENDED) {
        enum { SIGNALS, JAIL, TERMINAL, ALL = TERMINAL + 2 };
        struct pollfd polled[ALL] = {{.fd = run->signal_fd, .events = POLLIN},
                                     {.fd = execution_fd(execution), .events = POLLIN}};
        terminal_watch(&run->terminal, &polled[TERMINAL]);
        poll(polled, ARRAY_SIZE(polled), wait_ms(run, watched));
        terminal_relay(&run->terminal, &polled[TERMINAL]);
        execution_dispatch(execution);
        /* The program may have begun, and said so, before we heard of it. */
        if (polled[SIGNALS].revents && execution_state(execution) != EXECUTION_ENDED) {
            handle_signal(run, execution);
        }
        uint64_t now_ns = watched || run->kill_ns ? clock_now_ns() : 0;
        if (watched && now_ns - look_ns >= JAIL_WATCH_INTERVAL_MS * NS_PER_MS) {
            execution_watch(execution);
            look_ns = now_ns;
        }
        if (run->kill_ns && now_ns >= run->kill_ns) {
            run->kill_ns = 0;
            execution_cancel(execution);
        }
    }
}

static int finish(struct execution *execution, struct job_result *ret, struct err *reterr)
{
    int r;
    while ((r = execution_finish(execution, ret, reterr)) == 1) {
        await_input(execution_files_fd(execution));
    }
    return r;
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
    int r = policy_resolve(run->policy, &policy, reterr);
    r = r < 0 ? r : run_files_find(&run->files, &run->options, policy, run->argv, run->n_argv, reterr);
    r = r < 0 ? r : run_job_make(&run->options, &job, &input_fd, reterr);
    if (r == 0) {
        interpreter_show(policy, &interpreter);
        r = watch_signals(run, reterr);
    }
    if (r == 0) {
        host_leave_session_keyring();
        r = open_host(run, &host, reterr);
    }
    r = r < 0 || !run->is_shell ? r : terminal_open(&run->terminal, reterr);
    if (r == 0) {
        r = start(run, &host, policy, TAKE_PTR(job), input_fd, &execution, reterr);
    }
    if (r == 0) {
        wait_for_end(run, execution);
        r = finish(execution, ret, reterr);
    }
    execution_free(execution);
    terminal_close(&run->terminal);
    host_close(&host);
    policy_free(policy);
    runtime_config_forget(&interpreter);
    job_free(job);
    run_files_clear(&run->files);
    forget_image(run->image);
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

/* Each with our name before it, but for the rules below them, which are to be copied. */
static void print_hint(const char *hint)
{
    while (hint && *hint) {
        size_t length = strcspn(hint, "\n") + 1;
        fprintf(stderr, "%s%.*s", *hint == ' ' ? "" : "immure run: ", (int)length, hint);
        hint += length;
    }
}

/* The exit code for a verdict, and the sentence where the code alone would not tell. */
static int conclude(const struct run *run, const struct job_result *result)
{
    if (result->status == JOB_SETUP_ERROR) {
        fprintf(stderr, "immure %s: %s\n", run->table->command, result->error_text);
        return EXIT_CODE_LAUNCHER;
    }
    if (result->status == JOB_CANCELLED) {
        char name[SIGNAL_NAME_BYTES];
        fprintf(stderr, "immure %s: cancelled by %s\n", run->table->command,
                signal_name(run->interrupted_by, name));
        return 128 + run->interrupted_by;
    }
    if (result->error_text) {
        fprintf(stderr, "immure %s: %s\n", run->table->command, result->error_text);
    }
    print_hint(result->hint);
    return result->exit_code >= 0 ? result->exit_code : 128 + SIGKILL;
}

static int run_main(struct run *run, int argc, char **argv)
{
    const char *name = run->table->command;
    struct err err = {0};
    int r = parse(run, argc, argv, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(run->table, stdout);
        return EXIT_CODE_OK;
    }
    CLEANUP(fd_closep) int report_fd = -1;
    if (r == 0 && run->options.report) {
        report_fd = open(run->options.report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        r = report_fd < 0 ? err_errno(&err, errno, "opening %s for the report", run->options.report) : 0;
    }
    if (r < 0) {
        return command_fail(name, &err, EXIT_CODE_LAUNCHER);
    }
    struct job_result result = {0};
    r = run_in_jail(run, &result, &err);
    fd_closep(&run->signal_fd);
    if (r < 0 && verdict_from_setup_error(&err, &result) == 0) {
        write_report(report_fd, &result, NULL);
    }
    int code = r < 0 ? command_fail(name, &err, EXIT_CODE_LAUNCHER) : conclude(run, &result);
    if (r == 0 && !run_files_take(name, &run->options, &result) && code == EXIT_CODE_OK) {
        code = EXIT_CODE_FAILED;
    }
    if (r == 0 && write_report(report_fd, &result, &err) < 0) {
        /* Said, but the code stays the program's: it has run, and must not be taken for one that has not. */
        command_fail(name, &err, EXIT_CODE_LAUNCHER);
    }
    job_result_clear(&result);
    return code;
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.table = &run_command_table, .signal_fd = -1, .terminal = TERMINAL_NONE};
    return run_main(&run, argc, argv);
}

int cmd_shell(int argc, char **argv)
{
    struct run run = {.table = &shell_command_table,
                      .is_shell = true,
                      .shell = "bash",
                      .signal_fd = -1,

                      .terminal = TERMINAL_NONE};
    run.shell_argv[0] = run.shell;
    return run_main(&run, argc, argv);
}
