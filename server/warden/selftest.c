/* The self-test: one trivial program per runtime, through the very code that runs every job. What it finds is
 * what /readyz says. Runs in the warden, at start and after a reload, beside the jobs that come in meanwhile;
 * as long as it fails, again and again: what was short then may be there now; and when a jail could not be
 * built: it may be that none can any more. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/server/config.h"
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

/* The smallest program of a language, by the extension of its scripts. */
static const struct {
    const char *extension, *program;
} programs[] = {
    {"py", "pass\n"},
    {"js", ";\n"},
    {"sh", ":\n"},
};

static const char *program_for(const struct runtime_config *runtime)
{
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
        if (strcmp(programs[i].extension, runtime->extension) == 0) {
            return programs[i].program;
        }
    }
    return "\n";
}

static struct job *make_job(const struct runtime_config *runtime)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return NULL;
    }
    job->runtime = strdup(runtime->name);
    job->execution_id = strdup("self-test");
    job->key = strdup("self-test");
    job->code_size = strlen(program_for(runtime));
    if (!job->runtime || !job->execution_id || !job->key) {
        job_free(job);
        return NULL;
    }
    return job;
}

static void conclude(struct warden *warden, const char *why)
{
    struct selftest *selftest = &warden->selftest;
    bool news = why[0] == '\0' ? !selftest->doubted : strcmp(why, warden->state.why) != 0;
    settings_unref(selftest->settings);
    *selftest = (struct selftest){.failures = why[0] == '\0' ? 0 : selftest->failures + 1,
                                  .concluded_ns = clock_now_ns()};
    warden->state.ready = why[0] == '\0';
    snprintf(warden->state.why, sizeof warden->state.why, "%s", why);
    if (news) {
        LOG(warden->log, warden->state.ready ? LOG_INFO : LOG_ERROR, "selftest",
            LOG_FIELD_BOOL("ready", warden->state.ready), LOG_FIELD_STR("why", warden->state.why));
    }
    if (!warden->state.ready && !warden->draining) {
        unsigned doublings = selftest->failures < DOUBLINGS_MAX ? selftest->failures : DOUBLINGS_MAX;
        loop_timer_set(warden->selftest_timer, clock_now_ns() + (AGAIN_NS << doublings));
    }
    warden_publish_state(warden);
    warden_tell_ready(warden);
}

static void conclude_failed(struct warden *warden, const char *why)
{
    char sentence[512];
    const struct selftest *selftest = &warden->selftest;
    snprintf(sentence, sizeof sentence, "self-test of runtime %s: %.400s",
             selftest->settings->config->runtimes[selftest->runtime].name, why);
    conclude(warden, sentence);
}

static void on_end(struct warden *warden, const struct job_result *result);

static int start_runtime(struct warden *warden, struct err *reterr)
{
    struct selftest *selftest = &warden->selftest;
    const struct runtime_config *runtime = &selftest->settings->config->runtimes[selftest->runtime];
    const char *program = program_for(runtime);
    char absent[ABSENT_INTERPRETER_BYTES];
    if (settings_interpreter_absent(selftest->settings, runtime, absent)) {
        return err_set(reterr, ERR_HOST, ENOENT, NULL, "%s", absent);
    }
    CLEANUP(fd_closep) int input = -1;
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = null < 0 ? -errno : io_memfd("self-test", program, strlen(program), &input);
    if (r < 0) {
        return err_errno(reterr, -r, "preparing the self-test");
    }
    struct job *job = make_job(runtime);
    if (!job) {
        return err_errno(reterr, ENOMEM, "preparing the self-test");
    }
    const int fds[MSG_JOB_FDS] = {input, null, null, null, -1, -1};
    return job_start_selftest(warden, selftest->settings, job, fds, on_end, &selftest->job, reterr);
}

/* Starts the next runtime's test, or concludes. */
static void advance(struct warden *warden)
{
    if (warden->selftest.runtime == warden->selftest.settings->config->n_runtimes) {
        conclude(warden, "");
        return;
    }
    struct err err = {0};
    if (start_runtime(warden, &err) < 0) {
        char sentence[SENTENCE_BYTES];
        sentence_of(&err, sentence);
        conclude_failed(warden, sentence);
    }
}

void selftest_stop(struct warden *warden)
{
    struct selftest *selftest = &warden->selftest;
    if (selftest->job) {
        job_discard(selftest->job);
    }
    settings_unref(selftest->settings);
    *selftest = (struct selftest){0};
    if (warden->selftest_timer) {
        loop_timer_set(warden->selftest_timer, 0);
    }
}

void selftest_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    if (!warden->draining) {
        warden->selftest.doubted = warden->state.ready;
        warden->selftest.settings = settings_ref(warden->settings);
        advance(warden);
    }
}

void selftest_start(struct warden *warden)
{
    selftest_stop(warden);
    warden->selftest.settings = settings_ref(warden->settings);
    advance(warden);
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
    bool required = !warden->settings->config->cgroup_best_effort;
    if (required && !(result->enforced_by_cgroup && result->has_cpu && result->has_pids_peak)) {
        return "the limits are not enforced by a cgroup";
    }
    return NULL;
}

static void on_end(struct warden *warden, const struct job_result *result)
{
    char buffer[512];
    warden->selftest.job = NULL;
    const char *why = result ? fault(warden, result, buffer, sizeof buffer) : "its verdict could not be read";
    if (why) {
        conclude_failed(warden, why);
        return;
    }
    warden->selftest.runtime++;
    advance(warden);
}
