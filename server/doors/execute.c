/* POST /execute, the request's half. Runs in the front, on JSON that a caller chose and config/format/json.c
 * has read strictly. The fields are a table: a name that is not in it is refused, and so is a value of
 * another type. */
#include "server/doors/execute.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/doors/input_files.h"
#include "server/doors/unknown_name.h"
#include "server/kit/ident.h"

enum field_name {
    FIELD_CODE,
    FIELD_LANGUAGE,
    FIELD_RUNTIME,
    FIELD_STDIN,
    FIELD_TIMEOUT_MS,
    FIELD_TIMEOUT,
    FIELD_FILES,
    FIELD_OUTPUTS,
    FIELD_SESSION_ID,
    FIELD_SESSION,
    FIELD_CALLBACK_URL,
    FIELD_CALLS,
    FIELD_RESULTS,
    FIELD_EXECUTION_ID,
    FIELD_ARGS,
    FIELD_ENV,
    FIELD_POLICY,
    FIELD_LIMITS,
    FIELD_ENVIRONMENT,
    FIELD_IMAGE,
    FIELD_WAIT_MS,
    FIELD_QUEUE_MS,
    FIELD_COUNT,
};

struct decoder {
    const struct server_config *config;
    const struct json *fields[FIELD_COUNT];
    struct execute_request *request;
    struct job *job;
};

typedef int (*decode_fn)(struct decoder *decoder, const struct json *value, struct err *reterr);

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

static int bad_type(struct err *reterr, const char *field, const char *wanted, const struct json *value)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: must be %s, not %s", field, wanted,
                   json_type_to_string(json_type_of(value)));
}

static int no_memory(struct err *reterr)
{
    return err_errno(reterr, ENOMEM, "reading a request");
}

static int copy_string(const struct json *value, char **ret, struct err *reterr)
{
    *ret = strdup(json_string(value));
    return *ret ? 0 : no_memory(reterr);
}

/* Absent and empty are the same to the caller: there is no program. */
static int decode_code(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    size_t size = json_string_length(value);
    if (size == 0) {
        return err_set(reterr, ERR_INVALID, EINVAL, "code", "code is required");
    }
    int r = input_new(&decoder->request->input, reterr);
    if (r < 0) {
        return r;
    }
    decoder->job->code_size = size;
    sha256_hex_of(json_string(value), size, decoder->request->code_sha256);
    return input_append(&decoder->request->input, json_string(value), size, reterr);
}

static int unsupported_runtime(const struct server_config *config, const char *field, const char *name,
                               struct err *reterr)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (!config->runtimes[i].evaluator) {
            buf_printf(&names, "%s%s", names.len > 0 ? ", " : "", config->runtimes[i].name);
        }
    }
    return err_set(reterr, ERR_INVALID, EINVAL, field, "unsupported runtime: %.100s; supported: %s", name,
                   names.data && !names.failed ? names.data : "");
}

int execute_check_offered(const struct runtime_config *runtime, const char *field, struct err *reterr)
{
    if (!runtime->absent) {
        return 0;
    }
    bool named = !runtime->evaluator;
    return err_set(reterr, named ? ERR_INVALID : ERR_NOT_FOUND, ENOENT, named ? field : NULL,
                   "the runtime '%.64s' is not offered, because its self-test fails: %.300s", runtime->name,
                   runtime->absent);
}

/* `runtime` and `language` are two words for one thing; both may be there if they mean the same. An empty one
 * is none. */
static int decode_runtime(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    const struct json *language = decoder->fields[FIELD_LANGUAGE];
    const struct server_config *config = decoder->config;
    const struct json *words[] = {value, language};
    static const char *const fields[] = {"runtime", "language"};
    const struct runtime_config *found = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (json_string_length(words[i]) == 0) {
            continue;
        }
        const struct runtime_config *runtime = server_config_runtime(config, json_string(words[i]));
        if (!runtime || runtime->evaluator) {
            return unsupported_runtime(config, fields[i], json_string(words[i]), reterr);
        }
        if (found && found != runtime) {
            return bad(reterr, "language", "differs from `runtime`; give one of them");
        }
        found = runtime;
    }
    if (!found) {
        found = server_config_runtime(config, config->default_runtime);
    }
    if (!found) {
        return err_set(reterr, ERR_CONFIG, EINVAL, "default_runtime", "no such runtime: %s",
                       config->default_runtime);
    }
    decoder->request->runtime = found;
    decoder->job->runtime = strdup(found->name);
    return decoder->job->runtime ? 0 : no_memory(reterr);
}

static int decode_stdin(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    if (json_string_length(value) == 0) {
        return 0;
    }
    decoder->request->stdin_size = json_string_length(value);
    return copy_string(value, &decoder->request->stdin_data, reterr);
}

static int whole_number(const struct json *value, const char *field, uint64_t least, uint64_t *ret,
                        struct err *reterr)
{
    if (!json_u64(value, ret) || *ret < least) {
        return bad(reterr, field, "must be a whole number from 1 up");
    }
    return 0;
}

/* 0 is the server's default, like no value at all; the warden clamps to the maximum. */
static int decode_timeout(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    const struct json *seconds = decoder->fields[FIELD_TIMEOUT];
    if (value && seconds) {
        return bad(reterr, "timeout", "give either `timeout` (seconds) or `timeout_ms`, not both");
    }
    uint64_t number = 0;
    int r = 0;
    if (value) {
        r = whole_number(value, "timeout_ms", 0, &number, reterr);
    } else if (seconds) {
        r = whole_number(seconds, "timeout", 0, &number, reterr);
    }
    if (r < 0) {
        return r;
    }
    if (seconds && __builtin_mul_overflow(number, 1000, &number)) {
        number = UINT64_MAX;
    }
    uint64_t most = decoder->config->max_timeout_ms;
    decoder->job->limits.timeout_ms = number > most ? most : number;
    return 0;
}

static int decode_files(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return input_files_decode(value, &decoder->request->input, decoder->job, reterr);
}

static int copy_strings(const struct json *array, const char *field, bool empty_allowed, char ***ret,
                        size_t *ret_n, struct err *reterr)
{
    if (json_count(array) == 0) {
        return 0;
    }
    *ret = calloc(json_count(array), sizeof **ret);
    if (!*ret) {
        return no_memory(reterr);
    }
    for (const struct json *item = json_first(array); item; item = json_next(item)) {
        char name[64];
        snprintf(name, sizeof name, "%s[%zu]", field, *ret_n);
        if (json_type_of(item) != JSON_STRING) {
            return bad_type(reterr, name, "a string", item);
        }
        if (!empty_allowed && json_string_length(item) == 0) {
            return bad(reterr, name, "must not be empty");
        }
        int r = copy_string(item, &(*ret)[*ret_n], reterr);
        if (r < 0) {
            return r;
        }
        ++*ret_n;
    }
    return 0;
}

static int decode_outputs(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    struct job *job = decoder->job;
    int r = copy_strings(value, "outputs", false, &job->outputs, &job->n_outputs, reterr);
    for (size_t i = 0; r == 0 && i < job->n_outputs; i++) {
        char field[64];
        snprintf(field, sizeof field, "outputs[%zu]", i);
        r = input_pattern_clean(job->outputs[i], field, reterr);
    }
    return r;
}

static int decode_args(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return copy_strings(value, "args", true, &decoder->job->args, &decoder->job->n_args, reterr);
}

static int decode_session_id(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    if (json_string_length(value) == 0) {
        return 0;
    }
    if (!session_id_is_valid(json_string(value))) {
        return bad(reterr, "session_id", SESSION_ID_RULE);
    }
    return copy_string(value, &decoder->job->session_id, reterr);
}

/* "kept": the job is for what a session has, and for no other. */
static int decode_session(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    if (!value) {
        return 0;
    }
    if (strcmp(json_string(value), "kept") != 0) {
        return bad(reterr, "session", "must be \"kept\", or left out");
    }
    if (!decoder->job->session_id) {
        return bad(reterr, "session", "goes with `session_id`");
    }
    decoder->job->session_kept = true;
    return 0;
}

/* The operator says where tool calls may go. */
int execute_decode_callback(const char *text, const struct server_config *config, char **ret,
                            struct err *reterr)
{
    struct callback_url url;
    const char *why;
    if (!text || !*text) {
        return 0;
    }
    if (callback_url_parse(text, &url, &why) < 0) {
        return bad(reterr, "callback_url", why);
    }
    if (!server_config_allows_callback(config, &url, text)) {
        return bad(reterr, "callback_url", "this server's configuration does not allow calls to it");
    }
    *ret = strdup(text);
    return *ret ? 0 : no_memory(reterr);
}

static int decode_callback(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return execute_decode_callback(json_string(value), decoder->config, &decoder->request->callback_url,
                                   reterr);
}

int execute_decode_calls(const char *text, struct execute_request *ret, struct err *reterr)
{
    bool held = text && strcmp(text, "stream") == 0;
    if (text && !held && strcmp(text, "callback") != 0) {
        return bad(reterr, "calls", "must be \"callback\" or \"stream\"");
    }
    if (held && ret->callback_url) {
        return bad(reterr, "calls", "\"stream\" goes without `callback_url`");
    }
    ret->calls_held = held;
    return 0;
}

static int decode_calls(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return execute_decode_calls(json_string(value), decoder->request, reterr);
}

static int decode_results(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    const struct runtime_config *runtime = decoder->request->runtime;
    decoder->job->results = json_bool(value);
    for (size_t i = 0; i < runtime->n_preludes; i++) {
        if (strstr(runtime->preludes[i].file, PRELUDE_RESULTS)) {
            return 0;
        }
    }
    return decoder->job->results
               ? err_set(reterr, ERR_INVALID, EOPNOTSUPP, "results",
                         "results: the runtime '%.64s' shows no values; let it print them", runtime->name)
               : 0;
}

static int decode_execution_id(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    char id[IDENT_BYTES];
    if (value && json_string_length(value) > 0 && !ident_is_sane(json_string(value))) {
        return bad(reterr, "execution_id", "must be 1 to 128 of A-Z a-z 0-9 . _ - : / + = @ ~");
    }
    ident_choose(json_string(value), id);
    decoder->job->execution_id = strdup(id);
    return decoder->job->execution_id ? 0 : no_memory(reterr);
}

static int decode_env(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    struct job *job = decoder->job;
    if (json_count(value) == 0) {
        return 0;
    }
    job->env = calloc(json_count(value), sizeof job->env[0]);
    if (!job->env) {
        return no_memory(reterr);
    }
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        const char *name = json_key(member);
        char field[256];
        snprintf(field, sizeof field, "env.%s", name);
        if (json_type_of(member) != JSON_STRING) {
            return bad_type(reterr, field, "a string", member);
        }
        if (name[0] == '\0' || strchr(name, '=')) {
            return bad(reterr, "env", "a variable's name must not be empty or hold '='");
        }
        struct job_env *env = &job->env[job->n_env++];
        env->name = strdup(name);
        int r = env->name ? copy_string(member, &env->value, reterr) : no_memory(reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int decode_policy(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    if (!value) {
        return 0;
    }
    if (json_string_length(value) == 0) {
        return bad(reterr, "policy", "must not be empty");
    }
    return copy_string(value, &decoder->job->policy, reterr);
}

/* "image": the files of an image are the root. Which one the warden looks up, and whether the policy lets it.
 */
static int decode_environment(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    const char *name = json_string(decoder->fields[FIELD_IMAGE]);
    if (!value) {
        return name ? bad(reterr, "image", "goes with `environment`: \"image\"") : 0;
    }
    if (strcmp(json_string(value), "image") != 0) {
        return bad(reterr, "environment", "must be \"image\", or left out");
    }
    if (name && !image_name_is_valid(name)) {
        return bad(reterr, "image", IMAGE_NAME_RULE);
    }
    decoder->job->image = strdup(name ? name : "");
    return decoder->job->image ? 0 : no_memory(reterr);
}

static int decode_limits(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    struct job_limits *limits = &decoder->job->limits;
    static const char *const names[] = {"memory_bytes", "pids",          "cpu_percent",
                                        "cpu_ms",       "scratch_bytes", "output_bytes"};
    uint64_t *const to[] = {&limits->memory_bytes, &limits->pids,          &limits->cpu_percent,
                            &limits->cpu_ms,       &limits->scratch_bytes, &limits->output_bytes};
    const struct json *members[ARRAY_SIZE(names)];
    int r = known_members(value, "field", "limits.", names, ARRAY_SIZE(names), members, reterr);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
        char field[64];
        snprintf(field, sizeof field, "limits.%s", names[i]);
        r = members[i] ? whole_number(members[i], field, 1, to[i], reterr) : 0;
    }
    return r;
}

/* For the decision, where the job needs one. */
static int decode_wait(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return value ? whole_number(value, "wait_ms", 0, &decoder->request->wait_ms, reterr) : 0;
}

/* Longer than the server's maximum is that. */
static int decode_queue(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return value ? whole_number(value, "queue_ms", 0, &decoder->request->queue_ms, reterr) : 0;
}

/* In the order in which they are decoded; `files` needs the input that `code` made. Absent fields are decoded
 * too. */
static const struct {
    const char *name;
    enum json_type type;
    decode_fn decode; /* NULL: done with another */
    size_t most;      /* items or members; 0: it has none */
} fields[FIELD_COUNT] = {
    [FIELD_CODE] = {"code", JSON_STRING, decode_code, 0},
    [FIELD_LANGUAGE] = {"language", JSON_STRING, NULL, 0},
    [FIELD_RUNTIME] = {"runtime", JSON_STRING, decode_runtime, 0},
    [FIELD_STDIN] = {"stdin", JSON_STRING, decode_stdin, 0},
    [FIELD_TIMEOUT_MS] = {"timeout_ms", JSON_NUMBER, decode_timeout, 0},
    [FIELD_TIMEOUT] = {"timeout", JSON_NUMBER, NULL, 0},
    [FIELD_FILES] = {"files", JSON_ARRAY, decode_files, JOB_FILES_MAX},
    [FIELD_OUTPUTS] = {"outputs", JSON_ARRAY, decode_outputs, JOB_OUTPUTS_MAX},
    [FIELD_SESSION_ID] = {"session_id", JSON_STRING, decode_session_id, 0},
    [FIELD_SESSION] = {"session", JSON_STRING, decode_session, 0},
    [FIELD_CALLBACK_URL] = {"callback_url", JSON_STRING, decode_callback, 0},
    [FIELD_CALLS] = {"calls", JSON_STRING, decode_calls, 0},
    [FIELD_RESULTS] = {"results", JSON_BOOL, decode_results, 0},
    [FIELD_EXECUTION_ID] = {"execution_id", JSON_STRING, decode_execution_id, 0},
    [FIELD_ARGS] = {"args", JSON_ARRAY, decode_args, JOB_ARGS_MAX},
    [FIELD_ENV] = {"env", JSON_OBJECT, decode_env, JOB_ENV_MAX},
    [FIELD_POLICY] = {"policy", JSON_STRING, decode_policy, 0},
    [FIELD_LIMITS] = {"limits", JSON_OBJECT, decode_limits, 0},
    [FIELD_ENVIRONMENT] = {"environment", JSON_STRING, decode_environment, 0},
    [FIELD_IMAGE] = {"image", JSON_STRING, NULL, 0},
    [FIELD_WAIT_MS] = {"wait_ms", JSON_NUMBER, decode_wait, 0},
    [FIELD_QUEUE_MS] = {"queue_ms", JSON_NUMBER, decode_queue, 0},
};

static int wrong_type(const char *name, enum json_type type, const struct json *value, struct err *reterr)
{
    static const char *const wanted[] = {[JSON_STRING] = "a string",
                                         [JSON_BOOL] = "true or false",
                                         [JSON_ARRAY] = "an array",
                                         [JSON_OBJECT] = "an object"};
    return type == JSON_NUMBER ? bad(reterr, name, "must be a whole number from 1 up")
                               : bad_type(reterr, name, wanted[type], value);
}

int execute_check_count(const struct json *value, const char *field, size_t most, struct err *reterr)
{
    size_t n = json_count(value);
    if (n > most) {
        return err_set(reterr, ERR_INVALID, E2BIG, field, "%s: must have at most %zu %s, not %zu", field,
                       most, json_type_of(value) == JSON_OBJECT ? "members" : "items", n);
    }
    return 0;
}

/* Before anything is made of any of them. */
static int collect_fields(struct decoder *decoder, const struct json *root, struct err *reterr)
{
    const char *names[FIELD_COUNT];
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        names[i] = fields[i].name;
    }
    int r = known_members(root, "field", "", names, FIELD_COUNT, decoder->fields, reterr);
    for (size_t i = 0; r == 0 && i < FIELD_COUNT; i++) {
        const struct json *member = decoder->fields[i];
        if (member && json_type_of(member) != fields[i].type) {
            return wrong_type(fields[i].name, fields[i].type, member, reterr);
        }
        r = fields[i].most > 0 ? execute_check_count(member, fields[i].name, fields[i].most, reterr) : 0;
    }
    return r;
}

int execute_decode(const struct json *root, const struct server_config *config, struct execute_request *ret,
                   struct err *reterr)
{
    if (json_type_of(root) != JSON_OBJECT) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the body must be an object, not %s",
                       json_type_to_string(json_type_of(root)));
    }
    CLEANUP(execute_request_clear) struct execute_request request = EXECUTE_REQUEST_INIT;
    request.door = &execute_door;
    request.job = calloc(1, sizeof *request.job);
    if (!request.job) {
        return no_memory(reterr);
    }
    struct decoder decoder = {.config = config, .request = &request, .job = request.job};
    int r = collect_fields(&decoder, root, reterr);
    for (size_t i = 0; i < FIELD_COUNT && r == 0; i++) {
        r = fields[i].decode ? fields[i].decode(&decoder, decoder.fields[i], reterr) : 0;
    }
    if (r == 0) {
        r = input_seal(&request.input, reterr);
    }
    if (r < 0) {
        return r;
    }
    *ret = request;
    request = EXECUTE_REQUEST_INIT;
    return 0;
}

static int decode(const struct json *root, const char *text, size_t size, const struct server_config *config,
                  struct execute_request *ret, struct err *reterr)
{
    (void)text;
    (void)size;
    return execute_decode(root, config, ret, reterr);
}

const struct door execute_door = {
    .keeps = true,
    .tells_output = true,
    .reply_event = "result",
    .decode = decode,
    .encode = execute_encode,
};
