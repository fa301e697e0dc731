/* POST /execute: from the body's bytes to a job, the message that carries it to the warden, and the plan that
 * the warden makes of it. What is refused is refused as the caller's fault, by field. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/message/message.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/policy.h"
#include "server/doors/execute.h"
#include "server/doors/input_files.h"
#include "server/kit/ident.h"
#include "server/run/settings.h"
#include "tests/fuzz/fuzz.h"

struct service {
    struct server_config *config;
    const struct policy *policy;
};

/* The shipped configuration and policy, loaded once. */
static const struct service *the_service(void)
{
    static struct service service;
    static struct settings *settings;
    static char local[] = "SANDBOX_EXECUTOR_ENV=test";
    static char *const env[] = {local, NULL};
    if (!service.config) {
        REQUIRE(settings_load(NULL, env, NULL, &settings, NULL) == 0);
        service.config = settings->config;
        service.policy = policy_set_find(settings->policies, "python");
        REQUIRE(service.policy);
    }
    return &service;
}

/* There is nothing more to be cleaned. */
static void require_clean(const char *name, int (*clean)(char *, const char *, struct err *))
{
    CLEANUP(freep) char *copy = strdup(name);
    REQUIRE(copy && clean(copy, "name", NULL) == 0 && strcmp(copy, name) == 0);
}

static void require_input(const struct execute_request *request)
{
    const struct job *job = request->job;
    struct stat st;
    REQUIRE(fstat(request->input.fd, &st) == 0 && (uint64_t)st.st_size == request->input.size);
    REQUIRE(job->code_size > 0 && job->code_size <= request->input.size);
    uint64_t end = job->code_size;
    for (size_t i = 0; i < job->n_files; i++) {
        REQUIRE(job->files[i].offset == end);
        REQUIRE(job->files[i].size <= request->input.size - end);
        end += job->files[i].size;
        require_clean(job->files[i].path, input_path_clean);
    }
    for (size_t i = 0; i < job->n_outputs; i++) {
        require_clean(job->outputs[i], input_pattern_clean);
    }
    REQUIRE(end == request->input.size);
}

/* Each can be made beside the others. */
static void require_distinct(const struct job *job)
{
    for (size_t i = 0; i < job->n_files; i++) {
        const char *path = job->files[i].path;
        size_t len = strlen(path);
        for (size_t j = 0; j < job->n_files; j++) {
            const char *other = job->files[j].path;
            REQUIRE(i == j || strncmp(path, other, len) != 0 || (other[len] != '/' && other[len] != '\0'));
        }
    }
}

static void require_message(struct job *job)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT, again = BUF_INIT;
    struct msg msg = {.type = MSG_JOB, .job = job}, decoded;
    struct err err = {0};
    if (msg_encode(&msg, &packed, &err) < 0) {
        REQUIRE(err.kind == ERR_TOO_LARGE);
        return;
    }
    REQUIRE(packed.len <= MSG_BYTES_MAX);
    REQUIRE(msg_decode(packed.data, packed.len, NULL, 0, &decoded, &err) == 0);
    REQUIRE(msg_encode(&decoded, &again, &err) == 0);
    REQUIRE(packed.len == again.len && memcmp(packed.data, again.data, packed.len) == 0);
    msg_clear(&decoded);
}

static void require_plan(const struct service *service, const struct execute_request *request)
{
    const struct policy_ceilings ceilings = {.default_timeout_ms = 1000,
                                             .max_timeout_ms = service->config->max_timeout_ms};
    const struct policy_program program = {.runtime = request->runtime};
    struct jail_plan *plan = NULL;
    struct err err = {0};
    if (policy_build_plan(service->policy, &ceilings, request->job, &program, &plan, &err) < 0) {
        REQUIRE(err.kind == ERR_INVALID || err.kind == ERR_TOO_LARGE);
        REQUIRE(err.text[0] != '\0');
        return;
    }
    REQUIRE(jail_plan_check(plan, &err) == 0);
    jail_plan_free(plan);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    const struct service *service = the_service();
    struct execute_request request = EXECUTE_REQUEST_INIT;
    struct json_doc *doc = NULL;
    struct err err = {0};
    int r = json_parse((const char *)data, size, &doc, &err);
    if (r < 0) {
        fuzz_require_json_refusal((struct expected_refusal){r, &err, data, size});
        return;
    }
    r = execute_decode(json_root(doc), service->config, &request, &err);
    json_free(doc);
    if (r < 0) {
        REQUIRE(err.kind == ERR_INVALID && err.code == EINVAL && err.text[0] != '\0');
        REQUIRE(!request.job && request.input.fd == -1);
        return;
    }
    REQUIRE(r == 0 && !err_is_set(&err));
    REQUIRE(ident_is_sane(request.job->execution_id));
    REQUIRE(request.job->limits.timeout_ms <= service->config->max_timeout_ms);
    request.job->id = 1;
    require_input(&request);
    require_distinct(request.job);
    require_message(request.job);
    require_plan(service, &request);
    execute_request_clear(&request);
}
