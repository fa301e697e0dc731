/* Messages of every kind, filled in; packed and unpacked. */
#pragma once

#include "config/message/message.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/message.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static inline struct job *a_job(void)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->id = 7;
    job->runtime = strdup("python");
    job->execution_id = strdup("e-1");
    job->key = strdup("default");
    job->session_id = strdup("s-1");
    job->session_kept = true;
    job->results = true;
    job->image = strdup("debian");
    job->announce = true;
    job->early_ms = 100;
    job->code_size = 100;
    job->n_files = 2;
    job->files = calloc(2, sizeof *job->files);
    job->files[0] = (struct job_file){.path = strdup("data/\xff.csv"), .offset = 100, .size = 5};
    job->files[1] = (struct job_file){.path = strdup("empty"), .offset = 105, .size = 0};
    job->n_args = 2;
    job->args = calloc(2, sizeof *job->args);
    job->args[0] = strdup("");
    job->args[1] = strdup("--x");
    job->n_env = 1;
    job->env = calloc(1, sizeof *job->env);
    job->env[0] = (struct job_env){.name = strdup("LANG"), .value = strdup("")};
    job->n_outputs = 1;
    job->outputs = calloc(1, sizeof *job->outputs);
    job->outputs[0] = strdup("*.png");
    job->limits = (struct job_limits){.memory_bytes = UINT64_MAX, .timeout_ms = 1};
    return job;
}

static inline struct job_result a_result(void)
{
    struct job_result result = {
        .id = UINT64_MAX,
        .status = JOB_TIMEOUT,
        .exit_code = -1,
        .signal = 9,
        .killed = true,
        .kernel = JOB_KERNEL_KEPT,
        .session = JOB_SESSION_NEW,
        .setup_ns = 1,
        .duration_ns = 2,
        .has_cpu = true,
        .cpu_ns = 0,
        .has_pids_peak = true,
        .pids_peak = 3,
        .limits = {.pids = 64},
        .policy = strdup("python"),
        .policy_sha256 = strdup("00"),
        .image = strdup("debian@sha256:00"),
        .error_text = strdup("Execution timed out after 1 seconds."),
    };
    result.n_denied = 1;
    result.denied = calloc(1, sizeof *result.denied);
    result.denied[0] = (struct job_denied){.name = strdup("mount"), .count = 3};
    result.denied[0].n_calls = 1;
    result.denied[0].calls = calloc(1, sizeof *result.denied[0].calls);
    result.denied[0].calls[0] = (struct job_denied_call){.call = strdup("mount()"), .count = 2};
    result.hint = strdup("denied");
    result.n_files = 3;
    result.files = calloc(3, sizeof *result.files);
    result.files[0] =
        (struct job_output_file){.path = strdup("a"), .size = 1, .fd = 41, .asked = true, .written = true};
    result.files[1] = (struct job_output_file){.path = strdup("b"), .size = 2, .fd = -1, .asked = true};
    result.files[2] = (struct job_output_file){.path = strdup("c"), .size = 3, .fd = 43, .asked = true};
    return result;
}

/* The descriptors of a_result() are mere numbers; nothing may close them. */
static inline void forget(struct msg *msg)
{
    for (size_t i = 0; msg->type == MSG_DONE && i < msg->done.n_files; i++) {
        msg->done.files[i].fd = -1;
    }
    msg_clear(msg);
}

static inline void encode(const struct msg *msg, struct buf *ret)
{
    struct err err = {0};
    if (msg_encode(msg, ret, &err) != 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
}

static inline void decode(const struct buf *buf, const int *fds, size_t n_fds, struct msg *ret)
{
    struct err err = {0};
    if (msg_decode(buf->data, buf->len, fds, n_fds, ret, &err) != 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
}
