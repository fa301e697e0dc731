/* What a key may use: GET /runtimes, GET /policies. Runs in the front; of what a key may not use it is told
 * nothing. Policies are as the warden has described them when this front was started. */
#include "server/front/catalogue.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/message_policy.h"
#include "config/policy/policy_file.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "server/callers/auth.h"
#include "server/doors/dify.h"
#include "server/doors/piston.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"
#include "server/kit/json_out.h"

/* By the extension of its scripts. */
static const char *language_of(const struct runtime_config *runtime)
{
    static const char *const known[][2] = {
        {"py", "python"}, {"js", "javascript"}, {"ts", "typescript"}, {"sh", "bash"}};
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (strcmp(known[i][0], runtime->extension) == 0) {
            return known[i][1];
        }
    }
    return runtime->extension;
}

static bool may_use_runtime(const struct request *request, const struct runtime_config *runtime)
{
    return !runtime->absent && auth_may_use_runtime(request->front->config, &request->caller, runtime);
}

static bool may_use(const struct request *request, const struct runtime_config *runtime,
                    const struct msg_policy *policy)
{
    return may_use_runtime(request, runtime) &&
           auth_may_use_policy(request->front->config, &request->caller, runtime, policy->name);
}

static void put_elements(struct buf *ret, char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_out_separator(ret);
        json_write_string(ret, texts[i], strlen(texts[i]));
    }
}

static void put_texts(struct buf *ret, const char *key, char *const *texts, size_t n)
{
    json_out_open(ret, key, '[');
    put_elements(ret, texts, n);
    buf_putc(ret, ']');
}

static void put_list(struct buf *ret, const char *key, bool known, char *const *texts, size_t n)
{
    if (known) {
        put_texts(ret, key, texts, n);
    } else {
        json_out_null(ret, key);
    }
}

/* Its own policy; NULL: none of that name. */
static const struct msg_policy *policy_of(const struct front *front, const struct runtime_config *runtime)
{
    for (size_t i = 0; i < front->n_policies; i++) {
        if (strcmp(front->policies[i].name, runtime->policy) == 0) {
            return &front->policies[i];
        }
    }
    return NULL;
}

static bool may_keep_kernel(const struct request *request, const struct runtime_config *runtime)
{
    const struct front *front = request->front;
    for (size_t i = 0; runtime->kernel[0] != '\0' && i < front->n_policies; i++) {
        if (front->policies[i].kernel && may_use(request, runtime, &front->policies[i])) {
            return true;
        }
    }
    return false;
}

/* What its sessions can keep. */
static void put_states(const struct request *request, const struct runtime_config *runtime, struct buf *ret)
{
    json_out_open(ret, "states", '[');
    if (!runtime->evaluator) {
        buf_puts(ret, may_keep_kernel(request, runtime) ? "\"workspace\",\"kernel\"" : "\"workspace\"");
    }
    buf_putc(ret, ']');
}

/* What its policy preloads, where that is known, and what it does itself. */
static void put_preload(const struct runtime_config *runtime, const struct msg_policy *policy,
                        struct buf *ret)
{
    if (!policy || !policy->has_lists) {
        json_out_null(ret, "preload");
        return;
    }
    json_out_open(ret, "preload", '[');
    put_elements(ret, policy->preload, policy->n_preload);
    put_elements(ret, runtime->preload, runtime->n_preload);
    buf_putc(ret, ']');
}

/* Each is "NAME VERSION". */
static void put_packages(const struct runtime_config *runtime, struct buf *ret)
{
    json_out_open(ret, "packages", '[');
    for (size_t i = 0; i < runtime->n_packages; i++) {
        const char *name = runtime->packages[i], *end = strrchr(name, ' ');
        json_out_separator(ret);
        buf_putc(ret, '{');
        json_out_bytes(ret, "name", name, end ? (size_t)(end - name) : strlen(name));
        json_out_text(ret, "version", end ? end + 1 : NULL);
        buf_putc(ret, '}');
    }
    buf_putc(ret, ']');
}

static void put_runtime(const struct request *request, const struct runtime_config *runtime, struct buf *ret)
{
    const struct front *front = request->front;
    const struct msg_policy *policy = policy_of(front, runtime);
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "name", runtime->name);
    put_texts(ret, "aliases", runtime->aliases, runtime->n_aliases);
    json_out_text(ret, "language", language_of(runtime));
    json_out_text(ret, "interpreter", runtime->interpreter);
    json_out_text(ret, "version", runtime->version[0] ? runtime->version : NULL);
    json_out_bool(ret, "default",
                  server_config_runtime(front->config, front->config->default_runtime) == runtime);
    json_out_text(ret, "path", runtime->evaluator ? "/run-code" : "/execute");
    json_out_text(ret, "policy", runtime->policy);
    put_states(request, runtime, ret);
    put_preload(runtime, policy, ret);
    put_packages(runtime, ret);
    buf_putc(ret, '}');
}

static const char *why_failing(const struct msg_state *state, const struct runtime_config *runtime)
{
    for (size_t i = 0; i < state->n_failing; i++) {
        if (strcmp(state->failing[i].runtime, runtime->name) == 0) {
            return state->failing[i].why;
        }
    }
    return NULL;
}

void catalogue_take_state(struct front *front)
{
    for (size_t i = 0; i < front->config->n_runtimes; i++) {
        struct runtime_config *runtime = &front->config->runtimes[i];
        const char *why = why_failing(&front->state, runtime);
        if (why && runtime->absent && strcmp(why, runtime->absent) == 0) {
            continue;
        }
        free(runtime->absent);
        runtime->absent = why ? strdup(why) : NULL;
    }
}

void handle_runtimes(struct request *request)
{
    const struct server_config *config = request->front->config;
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_open(&body, "runtimes", '[');
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (may_use_runtime(request, &config->runtimes[i])) {
            put_runtime(request, &config->runtimes[i], &body);
        }
    }
    buf_puts(&body, "]}\n");
    request_reply(request, 200, "application/json", &body);
}

/* The smaller of two limits, where 0 is none. */
static uint64_t tighter(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The most that a job of this key can have; what nothing holds it to is 0. */
static struct job_limits limits_of(const struct request *request, const struct msg_policy *policy)
{
    static const struct job_limits none;
    const struct server_config *config = request->front->config;
    const struct job_limits *own = &policy->limits;
    const struct job_limits *key = request->caller.key ? &request->caller.key->max : &none;
    return (struct job_limits){
        .memory_bytes = tighter(own->memory_bytes, key->memory_bytes),
        .pids = tighter(own->pids, key->pids),
        .cpu_percent =
            request->front->state.enforced_by_cgroup ? tighter(own->cpu_percent, key->cpu_percent) : 0,
        .cpu_ms = tighter(own->cpu_ms, key->cpu_ms),
        .scratch_bytes = tighter(own->scratch_bytes, key->scratch_bytes),
        .output_bytes = tighter(tighter(own->output_bytes, config->max_output_bytes), key->output_bytes),
        .timeout_ms = tighter(tighter(own->timeout_ms, config->max_timeout_ms), key->timeout_ms),
    };
}

static void put_policy(const struct request *request, const struct msg_policy *policy, struct buf *ret)
{
    static const char *const approvals[] = {
        [APPROVAL_NEVER] = "never", [APPROVAL_ALWAYS] = "always", [APPROVAL_FIRST_USE] = "first_use"};
    const struct job_limits limits = limits_of(request, policy);
    json_out_separator(ret);
    buf_putc(ret, '{');
    json_out_text(ret, "name", policy->name);
    json_out_text(ret, "sha256", policy->sha256);
    json_out_open(ret, "limits", '{');
    json_out_limits(ret, &limits);
    buf_putc(ret, '}');
    json_out_text(ret, "image", policy->image[0] != '\0' ? policy->image : NULL);
    put_list(ret, "images", policy->has_lists, policy->images, policy->n_images);
    json_out_text(ret, "approval", approvals[policy->approval]);
    json_out_text(ret, "network", policy->egress ? "egress" : policy->loopback ? "loopback" : "none");
    json_out_text(ret, "state", policy->kernel ? "kernel" : "workspace");
    put_list(ret, "preload", policy->has_lists, policy->preload, policy->n_preload);
    buf_putc(ret, '}');
}

void handle_policies(struct request *request)
{
    const struct front *front = request->front;
    struct buf body = BUF_INIT;
    buf_putc(&body, '{');
    json_out_open(&body, "policies", '[');
    for (size_t i = 0; i < front->n_policies; i++) {
        bool usable = false;
        for (size_t j = 0; !usable && j < front->config->n_runtimes; j++) {
            usable = may_use(request, &front->config->runtimes[j], &front->policies[i]);
        }
        if (usable) {
            put_policy(request, &front->policies[i], &body);
        }
    }
    buf_puts(&body, "]}\n");
    request_reply(request, 200, "application/json", &body);
}

void handle_piston_runtimes(struct request *request)
{
    const struct server_config *config = request->front->config;
    struct buf body = BUF_INIT;
    buf_putc(&body, '[');
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (!config->runtimes[i].evaluator && may_use_runtime(request, &config->runtimes[i])) {
            piston_write_runtime(&config->runtimes[i], &body);
        }
    }
    buf_puts(&body, "]\n");
    request_reply(request, 200, "application/json", &body);
}

void handle_dify_dependencies(struct request *request)
{
    struct buf body = BUF_INIT;
    dify_write_dependencies(&body);
    request_reply(request, 200, "application/json", &body);
}
