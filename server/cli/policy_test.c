/* `immure policy test`: what files say of a policy's filter is held against it, and what they say of programs
 * is found out by running them. One line for each case.
 *
 * One process, which makes one jail at a time, as `immure run` does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/policy/policy_test.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/watch.h"
#include "policy/compare/compare.h"
#include "policy/compare/test_call.h"
#include "policy/policy.h"
#include "server/cli/command.h"
#include "server/cli/options.h"
#include "server/cli/run_job.h"
#include "server/cli/tables.h"
#include "server/host/host.h"
#include "server/host/interpreter.h"
#include "server/kit/capture.h"
#include "server/kit/json_out.h"
#include "server/kit/signals.h"
#include "server/run/execution.h"
#include "server/run/verdict.h"

/* Outer uids of these jails as root: this and our own PID, apart from those of `immure run`. */
#define TEST_OUTER_UID_BASE 1908408320u /* 0x71c00000 */

/* Of a program whose test and policy name none: one that hangs is a failure, and not for ever. */
#define TEST_TIMEOUT_MS 60000u
/* What is kept of each stream, and shown of what is not as expected. */
#define OUTPUT_BYTES_MAX (16u << 20)
#define SHOWN_BYTES_MAX  300u

struct test_options {
    bool json;
    const char *cgroup;
};

static const struct option_row test_option_rows[] = {
    {"--json", NULL, "one JSON object instead of lines", OPTION_SWITCH, offsetof(struct test_options, json)},
    {"--cgroup", "MODE",
     "of jails that programs run in: required or best-effort; default: $" CGROUP_VARIABLE ", else required",
     OPTION_TEXT, offsetof(struct test_options, cgroup)},
};

const struct option_table policy_test_table = {
    .command = "policy test",
    .examples = "immure policy test ./mine.test.textproto\n",
    .synopsis = "[--json] [--cgroup MODE] FILE...",
    .about = "Runs tests of policies: system calls that their compiled filters refuse or allow, and programs "
             "that end\n"
             "under them as the files say.",
    .footer = "Exit code: 0 all passed, 1 some failed, 2 a file is not valid, no jails can be made here, or "
              "wrong usage.",
    .rows = test_option_rows,
    .n_rows = ARRAY_SIZE(test_option_rows),
};

struct tests {
    struct test_options options;
    enum cgroup_mode cgroup_mode;
    struct host host;
    bool host_is_open;
    const struct policy_test *test; /* the file's */
    struct policy *policy;
    struct runtime_config interpreter; /* that the policy shows */
    struct buf json, errors;           /* the cases so far, and the files that are not valid */
    unsigned passed, failed;
};

/* A program in its jail. */
struct trial {
    int stdin_fd, input_fd;
    int ends[CAPTURE_STREAMS]; /* that we read from */
    int outlets[CAPTURE_STREAMS];
    struct capture capture;
    struct execution *execution;
    struct job_result result;
};

/* ---- What is said ---- */

/* `why`: empty where the case has passed. */
static void tell(struct tests *tests, const struct source_position *at, const char *kind, const char *name,
                 const struct buf *why)
{
    char place[SOURCE_PLACE_TEXT_MAX];
    bool passed = why->len == 0;
    source_place_text(tests->test->origin, *at, place);
    tests->passed += passed;
    tests->failed += !passed;
    if (!tests->options.json) {
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        policy_put_text(place, "", &line);
        buf_printf(&line, ": %s ", kind);
        policy_put_text(name, "", &line);
        if (!passed) {
            buf_puts(&line, ": ");
            policy_put_text(why->data, "", &line);
        }
        printf("%s %s\n", passed ? "ok  " : "FAIL", line.failed ? place : line.data);
        return;
    }
    json_out_separator(&tests->json);
    buf_putc(&tests->json, '{');
    json_out_text(&tests->json, "file", tests->test->origin);
    json_out_known(&tests->json, "line", at->line != 0, at->line);
    json_out_text(&tests->json, "kind", kind);
    json_out_text(&tests->json, "name", name);
    json_out_bool(&tests->json, "passed", passed);
    json_out_text(&tests->json, "why", passed ? NULL : why->data);
    buf_putc(&tests->json, '}');
}

/* "; " between what is wrong with one case. */
static struct buf *and_also(struct buf *why)
{
    buf_puts(why, why->len > 0 ? "; " : "");
    return why;
}

/* In quotes, and not all of it. */
static void put_shown(struct buf *ret, const char *data, size_t size)
{
    json_write_string(ret, data ? data : "", size < SHOWN_BYTES_MAX ? size : SHOWN_BYTES_MAX);
    buf_puts(ret, size > SHOWN_BYTES_MAX ? "..." : "");
}

/* ---- Calls ---- */

static int test_calls(struct tests *tests, const struct policy_test_call *calls, size_t n, bool allow,
                      struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        CLEANUP(buf_free) struct buf name = BUF_INIT;
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        r = policy_test_call(tests->policy, &calls[i], allow, &name, &why, reterr);
        if (r == 0) {
            tell(tests, &calls[i].at, allow ? "allow" : "refuse", name.failed ? "" : name.data, &why);
        }
    }
    return r;
}

/* ---- Programs ---- */

static int open_host(struct tests *tests, struct err *reterr)
{
    const struct host_options options = {
        .cgroup_mode = tests->cgroup_mode,
        .best_effort = "--cgroup best-effort",
        .outer_uid_base = TEST_OUTER_UID_BASE + (uint32_t)getpid(),
        .n_outer_uids = 1,
    };
    if (tests->host_is_open) {
        return 0;
    }
    signal(SIGCHLD, SIG_DFL); /* inherited as ignored, a jail's end could not be waited for */
    host_leave_session_keyring();
    int r = host_open(&options, &tests->host, reterr);
    tests->host_is_open = r == 0;
    return r;
}

static void trial_clear(struct trial *trial)
{
    execution_free(trial->execution);
    job_result_clear(&trial->result);
    capture_clear(&trial->capture);
    fd_closep(&trial->stdin_fd);
    fd_closep(&trial->input_fd);
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        fd_closep(&trial->ends[i]);
        fd_closep(&trial->outlets[i]);
    }
}

static int open_streams(struct trial *trial, const struct policy_test_run *run, struct err *reterr)
{
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) {
            return err_errno(reterr, errno, "making a pipe");
        }
        trial->ends[i] = ends[0];
        trial->outlets[i] = ends[1];
        if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
            return err_errno(reterr, errno, "making a pipe");
        }
    }
    int r = io_memfd("stdin", run->stdin_data, run->stdin_size, &trial->stdin_fd);
    return r < 0 ? err_errno(reterr, -r, "preparing the program's input") : 0;
}

/* Their names into the job, their contents into one file. */
static int add_files(struct job *job, const struct policy_test_run *run, int *ret_fd)
{
    CLEANUP(buf_free) struct buf contents = BUF_INIT;
    struct job_file *files = reallocarray(job->files, run->n_files + 1, sizeof files[0]);
    if (!files) {
        return -ENOMEM;
    }
    job->files = files;
    for (size_t i = 0; i < run->n_files; i++) {
        files[i] = (struct job_file){
            .path = strdup(run->files[i].name), .offset = contents.len, .size = run->files[i].size};
        job->n_files = i + 1;
        buf_append(&contents, run->files[i].content, run->files[i].size);
        if (!files[i].path || contents.failed) {
            return -ENOMEM;
        }
    }
    return run->n_files > 0 ? io_memfd("input", contents.data, contents.len, ret_fd) : 0;
}

static int make_job(const struct policy_test_run *run, int *ret_input_fd, struct job **ret,
                    struct err *reterr)
{
    struct run_options options = {.timeout_ms = run->timeout_ms,
                                  .memory_bytes = run->memory_bytes,
                                  .cpu_ms = run->cpu_ms,
                                  .pids = run->pids,
                                  .env.n = run->n_env};
    _Static_assert(JOB_ENV_MAX <= OPTION_LIST_MAX, "variables that are no options");
    for (size_t i = 0; i < run->n_env; i++) {
        options.env.items[i] = run->env[i];
    }
    int r = run_job_make(&options, ret, ret_input_fd, reterr);
    if (r < 0) {
        return r;
    }
    r = add_files(*ret, run, ret_input_fd);
    if (r < 0) {
        job_free(*ret);
        return err_errno(reterr, -r, "preparing a program");
    }
    return 0;
}

/* The policy's interpreter is where the host has it: some policies show it there alone, and no PATH leads to
 * it. */
static char *find_program(const struct tests *tests, char *name)
{
    const char *interpreter = policy_spec(tests->policy)->interpreter;
    bool found = tests->interpreter.interpreter && tests->interpreter.interpreter[0] == '/';
    return found && strcmp(name, interpreter) == 0 ? tests->interpreter.interpreter : name;
}

static int start(struct tests *tests, const struct policy_test_run *run, struct trial *trial,
                 struct err *reterr)
{
    bool ends = policy_spec(tests->policy)->limits.timeout_ms != 0;
    struct policy_ceilings ceilings = {.default_timeout_ms = ends ? 0 : TEST_TIMEOUT_MS};
    CLEANUP(freep) char **argv = calloc(run->n_argv, sizeof *argv);
    struct job *job = NULL;
    int r = argv ? make_job(run, &trial->input_fd, &job, reterr)
                 : err_errno(reterr, ENOMEM, "preparing a program");
    if (r < 0) {
        return r;
    }
    memcpy(argv, run->argv, run->n_argv * sizeof *argv);
    argv[0] = find_program(tests, argv[0]);
    const struct policy_program program = {.argv = argv, .n_argv = run->n_argv};
    host_apply_to_ceilings(&tests->host, &ceilings);
    struct execution_request request = {.host = &tests->host,
                                        .policy = tests->policy,
                                        .ceilings = &ceilings,
                                        .program = &program,
                                        .job = job,
                                        .waits_for_all = true};
    memset(request.fds, 0xff, sizeof request.fds);
    request.fds[JAIL_FD_STDIN] = trial->stdin_fd;
    request.fds[JAIL_FD_STDOUT] = trial->outlets[CAPTURE_STDOUT];
    request.fds[JAIL_FD_STDERR] = trial->outlets[CAPTURE_STDERR];
    request.fds[JAIL_FD_INPUT] = trial->input_fd;
    return execution_start(&request, &trial->execution, reterr);
}

/* Reads what there is; a stream that has ended is closed. */
static void read_streams(struct trial *trial)
{
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        enum capture_read more = trial->ends[i] < 0 ? CAPTURE_EMPTY : CAPTURE_MORE;
        while (more == CAPTURE_MORE) {
            more = capture_read(&trial->capture, (enum capture_stream)i, trial->ends[i]);
        }
        if (more == CAPTURE_END) {
            fd_closep(&trial->ends[i]);
        }
    }
}

static void wait_for_end(struct trial *trial)
{
    bool watched = execution_needs_watch(trial->execution);
    uint64_t look_ns = clock_now_ns();
    while (execution_state(trial->execution) != EXECUTION_ENDED) {
        struct pollfd polled[] = {{.fd = execution_fd(trial->execution), .events = POLLIN},
                                  {.fd = trial->ends[CAPTURE_STDOUT], .events = POLLIN},
                                  {.fd = trial->ends[CAPTURE_STDERR], .events = POLLIN}};
        poll(polled, ARRAY_SIZE(polled), watched ? JAIL_WATCH_INTERVAL_MS : -1);
        read_streams(trial);
        execution_dispatch(trial->execution);
        uint64_t now_ns = clock_now_ns();
        if (watched && now_ns - look_ns >= JAIL_WATCH_INTERVAL_MS * NS_PER_MS) {
            execution_watch(trial->execution);
            look_ns = now_ns;
        }
    }
    read_streams(trial);
}

/* The program's end in `trial->result`, also where its jail could not be built. */
static int run_program(struct tests *tests, const struct policy_test_run *run, struct trial *trial,
                       struct err *reterr)
{
    struct err setup = {0};
    int r = open_streams(trial, run, reterr);
    if (r < 0) {
        return r;
    }
    r = start(tests, run, trial, &setup);
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        fd_closep(&trial->outlets[i]);
    }
    if (r == 0) {
        wait_for_end(trial);
        r = execution_finish(trial->execution, &trial->result, &setup);
    }
    if (r < 0 && verdict_from_setup_error(&setup, &trial->result) < 0) {
        return err_errno(reterr, ENOMEM, "running a program");
    }
    return capture_finish(&trial->capture, 0) < 0 ? err_errno(reterr, ENOMEM, "running a program") : 0;
}

/* ---- Its end against what was expected ---- */

static void judge_end(const struct policy_test_expect *expect, const struct job_result *result,
                      struct buf *why)
{
    char name[SIGNAL_NAME_BYTES] = "none";
    bool given = expect->has_status || expect->has_exit_code || expect->signal;
    int exit_code = expect->has_exit_code ? (int)expect->exit_code : 0;
    if (expect->has_status && result->status != expect->status) {
        buf_printf(and_also(why), "status is %s, not %s", job_status_to_string(result->status),
                   job_status_to_string(expect->status));
    }
    if (result->signal) {
        signal_name(result->signal, name);
    }
    if (expect->signal && strcmp(name, expect->signal) != 0) {
        buf_printf(and_also(why), "signal is %s, not %s", name, expect->signal);
    }
    if ((expect->has_exit_code || !given) && (result->exit_code != exit_code || result->signal)) {
        buf_printf(and_also(why), "exit code is %d, not %d", result->exit_code, exit_code);
    }
    if (why->len > 0 && result->error_text) {
        buf_printf(why, " (%s)", result->error_text);
    }
}

static void judge_output(const char *stream, const struct buf *have, const char *is, size_t size, char **has,
                         size_t n_has, struct buf *why)
{
    if (is && (have->len != size || (size > 0 && memcmp(have->data, is, size) != 0))) {
        buf_printf(and_also(why), "%s is ", stream);
        put_shown(why, have->data, have->len);
        buf_puts(why, ", not ");
        put_shown(why, is, size);
    }
    for (size_t i = 0; i < n_has; i++) {
        if (!memmem(have->data ? have->data : "", have->len, has[i], strlen(has[i]))) {
            buf_printf(and_also(why), "%s has no ", stream);
            put_shown(why, has[i], strlen(has[i]));
            buf_puts(why, ": it is ");
            put_shown(why, have->data, have->len);
        }
    }
}

static bool is_denied(const struct job_result *result, const char *name)
{
    for (size_t i = 0; i < result->n_denied; i++) {
        if (strcmp(result->denied[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_expected(const struct policy_test_expect *expect, const char *name)
{
    for (size_t i = 0; i < expect->n_denied; i++) {
        if (strcmp(expect->denied[i], name) == 0) {
            return true;
        }
    }
    return expect->any_denied;
}

static void judge_denied(const struct policy_test_expect *expect, const struct job_result *result,
                         struct buf *why)
{
    for (size_t i = 0; i < result->n_denied; i++) {
        if (!is_expected(expect, result->denied[i].name)) {
            buf_printf(and_also(why), "%s was denied", result->denied[i].name);
        }
    }
    for (size_t i = 0; i < expect->n_denied; i++) {
        if (!is_denied(result, expect->denied[i])) {
            buf_printf(and_also(why), "%s was not denied", expect->denied[i]);
        }
    }
}

static void judge(const struct policy_test_expect *expect, const struct trial *trial, struct buf *why)
{
    const struct buf *streams = trial->capture.streams;
    if (trial->result.status == JOB_SETUP_ERROR) {
        buf_printf(why, "the program was not run: %s",
                   trial->result.error_text ? trial->result.error_text : "");
        return;
    }
    judge_end(expect, &trial->result, why);
    bool ended_otherwise = why->len > 0;
    judge_output("stdout", &streams[CAPTURE_STDOUT], expect->stdout_is, expect->stdout_size,
                 expect->stdout_has, expect->n_stdout_has, why);
    judge_output("stderr", &streams[CAPTURE_STDERR], expect->stderr_is, expect->stderr_size,
                 expect->stderr_has, expect->n_stderr_has, why);
    judge_denied(expect, &trial->result, why);
    if (ended_otherwise && streams[CAPTURE_STDERR].len > 0) {
        buf_puts(why, "; stderr is ");
        put_shown(why, streams[CAPTURE_STDERR].data, streams[CAPTURE_STDERR].len);
    }
}

static void put_command(const struct policy_test_run *run, struct buf *ret)
{
    for (size_t i = 0; i < run->n_argv; i++) {
        size_t length = strcspn(run->argv[i], "\n");
        buf_printf(ret, "%s%.*s%s", i > 0 ? " " : "", (int)length, run->argv[i],
                   run->argv[i][length] ? "..." : "");
    }
}

static int test_run(struct tests *tests, const struct policy_test_run *run, struct err *reterr)
{
    CLEANUP(buf_free) struct buf command = BUF_INIT;
    CLEANUP(buf_free) struct buf why = BUF_INIT;
    CLEANUP(trial_clear)
    struct trial trial = {.stdin_fd = -1, .input_fd = -1, .ends = {-1, -1}, .outlets = {-1, -1}};
    capture_init(&trial.capture, OUTPUT_BYTES_MAX);
    int r = open_host(tests, reterr);
    r = r < 0 ? r : run_program(tests, run, &trial, reterr);
    if (r < 0) {
        return r;
    }
    judge(&run->expect, &trial, &why);
    put_command(run, &command);
    tell(tests, &run->at, "run", run->name ? run->name : command.data, &why);
    return 0;
}

/* ---- Files ---- */

/* What is wrong with the policy is told with the policy's own place; that there is none, with the test's. */
static int resolve(struct tests *tests, struct err *reterr)
{
    char place[SOURCE_PLACE_TEXT_MAX];
    struct err err = {0};
    int r = policy_resolve(tests->test->policy, &tests->policy, &err);
    if (r < 0) {
        source_place_text(tests->test->origin, tests->test->policy_at, place);
        err_set(reterr, ERR_CONFIG, EINVAL, place, "policy: %s: %s", err.item, err.text);
    }
    return r;
}

static int test_file(struct tests *tests, const char *path, struct err *reterr)
{
    struct policy_test *test = NULL;
    int r = policy_test_load(path, &test, reterr);
    tests->test = test;
    r = r < 0 ? r : policy_test_check(test, reterr);
    r = r < 0 ? r : resolve(tests, reterr);
    r = r < 0 ? r : test_calls(tests, test->refuse, test->n_refuse, false, reterr);
    r = r < 0 ? r : test_calls(tests, test->allow, test->n_allow, true, reterr);
    if (r == 0 && test->n_runs > 0) {
        interpreter_show(tests->policy, &tests->interpreter);
    }
    for (size_t i = 0; r == 0 && i < test->n_runs; i++) {
        r = test_run(tests, &test->runs[i], reterr);
    }
    policy_free(tests->policy);
    tests->policy = NULL;
    tests->test = NULL;
    runtime_config_forget(&tests->interpreter);
    tests->interpreter = (struct runtime_config){0};
    policy_test_free(test);
    return r;
}

/* A file that is not valid, or whose programs cannot be run here. */
static void tell_error(struct tests *tests, const char *path, const struct err *err)
{
    fflush(stdout);
    command_fail("policy test", err, EXIT_CODE_USAGE);
    json_out_separator(&tests->errors);
    buf_putc(&tests->errors, '{');
    json_out_text(&tests->errors, "file", path);
    json_out_text(&tests->errors, "at", *err->item ? err->item : NULL);
    json_out_text(&tests->errors, "why", err->text);
    buf_putc(&tests->errors, '}');
}

static int conclude(struct tests *tests, bool broken)
{
    if (tests->options.json) {
        printf("{\"tests\":[%s],\"errors\":[%s],\"passed\":%u,\"failed\":%u}\n",
               tests->json.data ? tests->json.data : "", tests->errors.data ? tests->errors.data : "",
               tests->passed, tests->failed);
    } else {
        printf("%u passed, %u failed\n", tests->passed, tests->failed);
    }
    return broken || tests->json.failed || tests->errors.failed ? EXIT_CODE_USAGE
           : tests->failed > 0                                  ? EXIT_CODE_FAILED
                                                                : EXIT_CODE_OK;
}

int policy_test_main(int argc, char **argv)
{
    struct tests tests = {0};
    struct err err = {0};
    int n_arguments;
    int r = options_parse(&policy_test_table, argc, argv, &tests.options, &n_arguments, &err);
    if (r == OPTIONS_HELP) {
        options_print_help(&policy_test_table, stdout);
        return EXIT_CODE_OK;
    }
    if (r == 0 && n_arguments == 0) {
        r = err_set(&err, ERR_INVALID, 0, NULL, "which file? `immure policy test FILE...`");
    }
    tests.cgroup_mode = CGROUP_REQUIRED;
    r = r < 0 ? r : run_cgroup_mode(tests.options.cgroup, &tests.cgroup_mode, &err);
    if (r < 0) {
        return command_fail("policy test", &err, EXIT_CODE_USAGE);
    }
    bool broken = false;
    for (int i = 1; i <= n_arguments; i++) {
        struct err of_file = {0};
        if (test_file(&tests, argv[i], &of_file) < 0) {
            tell_error(&tests, argv[i], &of_file);
            broken = true;
        }
    }
    if (tests.host_is_open) {
        host_close(&tests.host);
    }
    int code = conclude(&tests, broken);
    buf_free(&tests.json);
    buf_free(&tests.errors);
    return code;
}
