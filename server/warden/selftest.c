/* The self-test: one small program per runtime, through the very code that runs every job. What it finds is
 * what /readyz says: not ready where the default runtime fails, or one that is not optional; another one is
 * not offered as long as it fails. Runs in the warden, at start and after a reload, beside the jobs that come
 * in meanwhile; as long as it fails, again and again: what was short then may be there now; and when a jail
 * could not be built: it may be that none can any more. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/format/utf8.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/kit/log.h"
#include "server/kit/sentence.h"
#include "server/run/execution.h"
#include "server/run/settings.h"

/* After a failure: 2, 4, 8 … seconds. */
#ifndef AGAIN_NS
#define AGAIN_NS NS_PER_S
#endif
#define DOUBLINGS_MAX 6u

/* Of what a program that fails has said, and of what is told of one runtime. */
#define SAID_BYTES  256u
#define FAULT_BYTES 512u

#define PYTHON "py"

/* The smallest program of a language that shows that it has run, by the extension of its scripts. */
static const struct trial {
    const char *extension, *program, *output;
} trials[] = {
    {PYTHON, "print(6 * 7)\n", "42\n"},
    {"js", "console.log(6 * 7)\n", "42\n"},
    {"sh", "echo $((6 * 7))\n", "42\n"},
};

static struct trial trial_for(const struct runtime_config *runtime)
{
    struct trial trial = {runtime->extension, runtime->self_test, runtime->self_test_output};
    if (trial.program[0] != '\0') {
        return trial;
    }
    if (runtime->evaluator) {
        trial.program = "{\"self_test\": true}"; /* a module, in TypeScript where that can be had */
        return trial;
    }
    for (size_t i = 0; i < ARRAY_SIZE(trials); i++) {
        if (strcmp(trials[i].extension, runtime->extension) == 0) {
            return trials[i];
        }
    }
    trial.program = "\n";
    return trial;
}

/* A descriptor of the program, with the import of what the runtime says can be had without waiting. */
static int write_program(const struct runtime_config *runtime, size_t *ret_size, int *ret_fd)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = buf_puts(&text, trial_for(runtime).program);
    bool python = strcmp(runtime->extension, PYTHON) == 0;
    for (size_t i = 0; r == 0 && python && i < runtime->n_preload; i++) {
        r = buf_printf(&text, "\n__import__('%s')\n", runtime->preload[i]);
    }
    *ret_size = text.len;
    return r < 0 ? r : io_memfd("self-test", text.data, text.len, ret_fd);
}

static struct job *make_job(const struct runtime_config *runtime, size_t code_size)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return NULL;
    }
    job->runtime = strdup(runtime->name);
    job->execution_id = strdup("self-test");
    job->key = strdup("self-test");
    job->code_size = code_size;
    if (!job->runtime || !job->execution_id || !job->key) {
        job_free(job);
        return NULL;
    }
    return job;
}

static void conclude(struct warden *warden)
{
    struct selftest *selftest = &warden->selftest;
    struct msg_state *state = &warden->state;
    bool failed = selftest->why[0] != '\0';
    bool news = strcmp(selftest->why, state->why) != 0 || (!failed && !selftest->doubted);
    unsigned failures = failed ? selftest->failures + 1 : 0;
    state->ready = !selftest->failed;
    memcpy(state->why, selftest->why, sizeof state->why);
    memcpy(state->failing, selftest->failing, sizeof state->failing);
    state->n_failing = selftest->n_failing;
    settings_unref(selftest->settings);
    *selftest = (struct selftest){.failures = failures, .concluded_ns = clock_now_ns()};
    if (news) {
        LOG(warden->log,
            !state->ready ? LOG_ERROR
            : failed      ? LOG_WARNING
                          : LOG_INFO,
            "selftest", LOG_FIELD_BOOL("ready", state->ready), LOG_FIELD_STR("why", state->why));
    }
    if (failed && !warden->draining) {
        unsigned doublings = failures < DOUBLINGS_MAX ? failures : DOUBLINGS_MAX;
        loop_timer_set(warden->selftest_timer, clock_now_ns() + (AGAIN_NS << doublings));
    }
    warden_publish_state(warden);
    warden_tell_ready(warden);
}

/* Copies as much of a text as there is room for, with no character cut in two. */
static void copy_text(char *ret, size_t size, const char *text)
{
    snprintf(ret, size, "%s", text);
    size_t used = strlen(ret);
    ret[used - utf8_unfinished(ret, used)] = '\0';
}

/* The others are tested all the same. No character is cut in two. */
static void note_failure(struct warden *warden, const char *why)
{
    struct selftest *selftest = &warden->selftest;
    const struct server_config *config = selftest->settings->config;
    const struct runtime_config *runtime = &config->runtimes[selftest->runtime];
    size_t used = strlen(selftest->why);
    snprintf(selftest->why + used, sizeof selftest->why - used, "%sself-test of runtime %s: %s",
             used > 0 ? "; " : "", runtime->name, why);
    used = strlen(selftest->why);
    selftest->why[used - utf8_unfinished(selftest->why, used)] = '\0';
    bool needed = !runtime->optional || runtime == server_config_runtime(config, config->default_runtime);
    selftest->failed = selftest->failed || needed;
    if (!needed && selftest->n_failing < MSG_FAILING_MAX) {
        struct msg_failing *failing = &selftest->failing[selftest->n_failing++];
        copy_text(failing->runtime, sizeof failing->runtime, runtime->name);
        copy_text(failing->why, sizeof failing->why, why);
    }
}

/* The beginning of what the program has said on stderr, as text. */
static void read_said(struct selftest *selftest, char ret[SAID_BYTES])
{
    ssize_t n = read(selftest->said, ret, SAID_BYTES - 1);
    size_t size = n > 0 ? (size_t)n : 0;
    size -= utf8_unfinished(ret, size);
    bool valid;
    for (size_t at = 0, length; at < size; at += length) {
        length = utf8_sequence(ret + at, size - at, &valid);
        if (!valid || (length == 1 && (unsigned char)ret[at] < ' ' && ret[at] != '\n')) {
            memset(ret + at, ' ', length);
        }
    }
    while (size > 0 && (ret[size - 1] == '\n' || ret[size - 1] == ' ')) {
        size--;
    }
    ret[size] = '\0';
}

static int make_pipe(int *ret_ours, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    *ret_ours = ends[0];
    *ret_theirs = ends[1];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static void close_pipes(struct selftest *selftest)
{
    fd_closep(&selftest->said);
    fd_closep(&selftest->printed);
}

/* Whether the program has printed what it should, and nothing else. */
static bool has_printed(const struct selftest *selftest)
{
    char printed[SELF_TEST_OUTPUT_MAX_BYTES + 1];
    const char *output = trial_for(&selftest->settings->config->runtimes[selftest->runtime]).output;
    if (selftest->printed < 0) {
        return true;
    }
    ssize_t n = read(selftest->printed, printed, sizeof printed);
    return n == (ssize_t)strlen(output) && memcmp(printed, output, (size_t)n) == 0;
}

static void on_end(struct warden *warden, const struct job_result *result);

static int start_runtime(struct warden *warden, struct err *reterr)
{
    struct selftest *selftest = &warden->selftest;
    const struct runtime_config *runtime = &selftest->settings->config->runtimes[selftest->runtime];
    size_t code_size = 0;
    char absent[ABSENT_INTERPRETER_BYTES];
    if (settings_interpreter_absent(selftest->settings, runtime, absent)) {
        return err_set(reterr, ERR_HOST, ENOENT, NULL, "%s", absent);
    }
    CLEANUP(fd_closep) int input = -1;
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP(fd_closep) int says = -1;
    CLEANUP(fd_closep) int prints = -1;
    int r = null < 0 ? -errno : write_program(runtime, &code_size, &input);
    r = r < 0 ? r : make_pipe(&selftest->said, &says);
    if (r == 0 && trial_for(runtime).output[0] != '\0') {
        r = make_pipe(&selftest->printed, &prints);
    }
    if (r < 0) {
        return err_errno(reterr, -r, "preparing the self-test");
    }
    struct job *job = make_job(runtime, code_size);
    if (!job) {
        return err_errno(reterr, ENOMEM, "preparing the self-test");
    }
    const int fds[MSG_JOB_FDS] = {input, null, prints < 0 ? null : prints, says, -1, -1};
    return job_start_selftest(warden, selftest->settings, job, fds, on_end, &selftest->job, reterr);
}

/* Starts the next runtime's test, or concludes. */
static void advance(struct warden *warden)
{
    struct selftest *selftest = &warden->selftest;
    for (; selftest->runtime < selftest->settings->config->n_runtimes; selftest->runtime++) {
        struct err err = {0};
        if (start_runtime(warden, &err) == 0) {
            return;
        }
        char sentence[SENTENCE_BYTES];
        sentence_of(&err, sentence);
        note_failure(warden, sentence);
        close_pipes(selftest);
    }
    conclude(warden);
}

void selftest_stop(struct warden *warden)
{
    struct selftest *selftest = &warden->selftest;
    if (selftest->job) {
        job_discard(selftest->job);
    }
    if (selftest->settings) {
        close_pipes(selftest);
    }
    settings_unref(selftest->settings);
    *selftest = (struct selftest){0};
    if (warden->selftest_timer) {
        loop_timer_set(warden->selftest_timer, 0);
    }
}

static void begin(struct warden *warden)
{
    warden->selftest.settings = settings_ref(warden->settings);
    warden->selftest.said = -1;
    warden->selftest.printed = -1;
    advance(warden);
}

void selftest_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    if (!warden->draining) {
        warden->selftest.doubted = warden->state.ready;
        begin(warden);
    }
}

void selftest_start(struct warden *warden)
{
    selftest_stop(warden);
    begin(warden);
}

/* NULL, or what is wrong with a verdict that should be a plain success under every configured limit. */
static const char *fault(const struct warden *warden, const struct job_result *result, char *buffer,
                         size_t size)
{
    if (result->status != JOB_SUCCESS) {
        snprintf(buffer, size, "%s%s%s", job_status_to_string(result->status), result->error_text ? ": " : "",
                 result->error_text ? result->error_text : "");
        if (!result->error_text) {
            snprintf(buffer, size, "the program ended with exit code %d", result->exit_code);
        }
        return buffer;
    }
    if (!has_printed(&warden->selftest)) {
        return "the program ended with exit code 0, but has not printed what it should";
    }
    bool required = !warden->settings->config->cgroup_best_effort;
    if (required && !(result->enforced_by_cgroup && result->has_cpu && result->has_pids_peak)) {
        return "the limits are not enforced by a cgroup";
    }
    return NULL;
}

static void on_end(struct warden *warden, const struct job_result *result)
{
    char buffer[FAULT_BYTES], said[SAID_BYTES], sentence[FAULT_BYTES + SAID_BYTES + 2];
    struct selftest *selftest = &warden->selftest;
    selftest->job = NULL;
    const char *why = result ? fault(warden, result, buffer, sizeof buffer) : "its verdict could not be read";
    if (why) {
        read_said(selftest, said);
        snprintf(sentence, sizeof sentence, "%s%s%s", why, *said ? ": " : "", said);
        note_failure(warden, sentence);
    }
    close_pipes(selftest);
    selftest->runtime++;
    advance(warden);
}
