/* POST /run-code, the request's half. Runs in the front, on JSON that a caller chose and config/format/json.c
 * has read strictly. Body and options are tables: a name that is in neither is refused, and so is a value of
 * another type. The source and the options then go to the evaluator as the caller wrote them, as one JSON
 * text: that is the job's program. */
#include "server/doors/run_code.h"

#include <ctype.h>
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
#include "server/doors/execute.h"
#include "server/kit/function_ids.h"
#include "server/doors/run_code_values.h"
#include "server/doors/unknown_name.h"
#include "server/kit/ident.h"

/* What the evaluator takes before there is a source. */
#define EVALUATOR_BYTES (96ull << 20)

#define FILENAME_BYTES_MAX 255

/* Arguments, modules of each kind, exports of one, globals. */
#define MEMBERS_MAX 1024u

struct decoder {
    const struct server_config *config;
    struct execute_request *request;
    struct job *job;
    struct function_ids functions; /* that the module is given */
};

typedef int (*decode_fn)(struct decoder *decoder, const struct json *value, struct err *reterr);

/* Of one object. */
#define ROWS_MAX 16

/* One member of the body or of `options`; `field` is its name in errors. */
struct row {
    const char *name, *field;
    enum json_type type; /* JSON_ABSENT: any */
    decode_fn decode;    /* NULL: its type is all */
};

static int bad(struct err *reterr, const char *field, const char *why)
{
    return err_set(reterr, ERR_INVALID, EINVAL, field, "%s: %s", field, why);
}

static int no_memory(struct err *reterr)
{
    return err_errno(reterr, ENOMEM, "reading a request");
}

static int bad_type(struct err *reterr, const struct row *row, const struct json *value)
{
    static const char *const wanted[] = {
        [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",  [JSON_STRING] = "a string",
        [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
    };
    return err_set(reterr, ERR_INVALID, EINVAL, row->field, "%s: must be %s, not %s", row->field,
                   wanted[row->type], json_type_to_string(json_type_of(value)));
}

static int decode_members(struct decoder *decoder, const struct row *rows, size_t n, const char *prefix,
                          const struct json *object, struct err *reterr)
{
    const char *names[ROWS_MAX];
    const struct json *members[ROWS_MAX];
    for (size_t i = 0; i < n; i++) {
        names[i] = rows[i].name;
    }
    int r = known_members(object, "field", prefix, names, n, members, reterr);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (members[i] && rows[i].type != JSON_ABSENT && json_type_of(members[i]) != rows[i].type) {
            return bad_type(reterr, &rows[i], members[i]);
        }
        r = members[i] && rows[i].decode ? rows[i].decode(decoder, members[i], reterr) : 0;
    }
    return r;
}

/* ---- options ---- */

/* A value that the module is given, and with it the functions in there. */
static int take_value(struct decoder *decoder, const struct json *value, const char *field,
                      struct err *reterr)
{
    int r = run_code_check_value(value, field, reterr);
    return r < 0 ? r : function_ids_collect(&decoder->functions, value, reterr);
}

static int decode_fn_name(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    (void)decoder;
    return json_string_length(value) > 0 ? 0 : bad(reterr, "options.execute.fn", "must not be empty");
}

static int decode_args(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    int r = execute_check_count(value, "options.execute.args", MEMBERS_MAX, reterr);
    return r < 0 ? r : take_value(decoder, value, "options.execute.args", reterr);
}

static const struct row execute_rows[] = {
    {"fn", "options.execute.fn", JSON_STRING, decode_fn_name},
    {"args", "options.execute.args", JSON_ARRAY, decode_args},
};

static int decode_execute(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return decode_members(decoder, execute_rows, ARRAY_SIZE(execute_rows), "options.execute.", value, reterr);
}

static bool is_relative(const char *specifier)
{
    return strncmp(specifier, "./", 2) == 0 || strncmp(specifier, "../", 3) == 0;
}

/* A name by itself, or @scope/name; neither a path nor a URL. */
static bool is_bare(const char *specifier)
{
    return *specifier && *specifier != '.' && *specifier != '/' && *specifier != '#' &&
           !strpbrk(specifier, ":\\?");
}

static int decode_imports(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    int r = execute_check_count(value, "options.imports", MEMBERS_MAX, reterr);
    if (r < 0) {
        return r;
    }
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        char field[256];
        snprintf(field, sizeof field, "options.imports.%.200s", json_key(member));
        if (!is_bare(json_key(member))) {
            return bad(reterr, field, "must be a bare specifier: a name, or @scope/name");
        }
        if (json_type_of(member) != JSON_OBJECT) {
            return bad(reterr, field, "must be an object of exports");
        }
        r = execute_check_count(member, field, MEMBERS_MAX, reterr);
        for (const struct json *export = json_first(member); export && r == 0; export = json_next(export)) {
            char name[256];
            snprintf(name, sizeof name, "%.180s.%.60s", field, json_key(export));
            r = take_value(decoder, export, name, reterr);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int decode_modules(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    (void)decoder;
    int r = execute_check_count(value, "options.modules", MEMBERS_MAX, reterr);
    if (r < 0) {
        return r;
    }
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        char field[256];
        snprintf(field, sizeof field, "options.modules.%.200s", json_key(member));
        if (!is_relative(json_key(member))) {
            return bad(reterr, field, "must be a relative specifier, which begins with ./ or ../");
        }
        if (json_type_of(member) != JSON_STRING) {
            return bad(reterr, field, "must be a module's source, a string");
        }
    }
    return 0;
}

/* What a declaration in strict code may not be called. */
static bool is_reserved(const char *name)
{
    static const char words[] = " arguments await break case catch class const continue debugger default "
                                "delete do else enum eval export "
                                "extends false finally for function if implements import in instanceof "
                                "interface let new null package "
                                "private protected public return static super switch this throw true try "
                                "typeof undefined var void while "
                                "with yield Infinity NaN ";
    char word[24];
    int n = snprintf(word, sizeof word, " %s ", name);
    return n < (int)sizeof word && strstr(words, word);
}

/* Letters beyond ASCII are left to the evaluator. */
static bool is_identifier(const char *name)
{
    for (const char *c = name; *c; c++) {
        bool digit = isdigit((unsigned char)*c);
        if (!(isalpha((unsigned char)*c) || *c == '_' || *c == '$' || (unsigned char)*c >= 0x80 ||
              (digit && c > name))) {
            return false;
        }
    }
    return *name && !is_reserved(name);
}

static int decode_globals(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    int r = execute_check_count(value, "options.globals", MEMBERS_MAX, reterr);
    if (r < 0) {
        return r;
    }
    for (const struct json *member = json_first(value); member; member = json_next(member)) {
        char field[256];
        snprintf(field, sizeof field, "options.globals.%.200s", json_key(member));
        if (!is_identifier(json_key(member))) {
            return bad(reterr, field, "must be an identifier");
        }
        r = take_value(decoder, member, field, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int decode_language(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    (void)decoder;
    const char *text = json_string(value);
    return !*text || strcmp(text, "typescript") == 0 || strcmp(text, "javascript") == 0
               ? 0
               : bad(reterr, "options.language", "must be typescript or javascript");
}

/* The policy's limit is for all of the jail; this one is what the source may have of it. */
static int decode_memory(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    uint64_t bytes;
    if (!json_u64(value, &bytes) || bytes == 0) {
        return bad(reterr, "options.memoryLimitBytes", "must be a whole number from 1 up");
    }
    bool too_large = __builtin_add_overflow(bytes, EVALUATOR_BYTES, &decoder->job->limits.memory_bytes);
    return too_large ? bad(reterr, "options.memoryLimitBytes", "is too large") : 0;
}

static bool rename_refusal(const char *item, const char *why, struct err *ret)
{
    if (strcmp(item, "limits.memory_bytes") != 0) {
        return false;
    }
    snprintf(ret->item, sizeof ret->item, "options.memoryLimitBytes");
    snprintf(ret->text, sizeof ret->text, "%s: with the %llu bytes that are the evaluator's it %.200s",
             ret->item, EVALUATOR_BYTES, why);
    return true;
}

static int decode_filename(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    (void)decoder;
    const char *text = json_string(value);
    if (!*text || json_string_length(value) > FILENAME_BYTES_MAX || strpbrk(text, "\n\r")) {
        return bad(reterr, "options.filename", "must be a line of 1 to 255 bytes");
    }
    return 0;
}

static int decode_report(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    if (json_type_of(value) == JSON_BOOL && json_bool(value)) {
        return 0;
    }
    int r = run_code_check_function(value, "options.report", reterr);
    return r < 0 ? r : function_ids_collect(&decoder->functions, value, reterr);
}

static const struct row option_rows[] = {
    {"execute", "options.execute", JSON_OBJECT, decode_execute},
    {"imports", "options.imports", JSON_OBJECT, decode_imports},
    {"modules", "options.modules", JSON_OBJECT, decode_modules},
    {"globals", "options.globals", JSON_OBJECT, decode_globals},
    {"language", "options.language", JSON_STRING, decode_language},
    {"memoryLimitBytes", "options.memoryLimitBytes", JSON_NUMBER, decode_memory},
    {"filename", "options.filename", JSON_STRING, decode_filename},
    {"report", "options.report", JSON_ABSENT, decode_report},
};

/* ---- The body ---- */

static int decode_options(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return decode_members(decoder, option_rows, ARRAY_SIZE(option_rows), "options.", value, reterr);
}

static int decode_execution_id(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    if (!ident_is_sane(json_string(value))) {
        return bad(reterr, "execution_id", "must be 1 to 128 of A-Z a-z 0-9 . _ - : / + = @ ~");
    }
    free(decoder->job->execution_id);
    decoder->job->execution_id = strdup(json_string(value));
    return decoder->job->execution_id ? 0 : no_memory(reterr);
}

static int decode_callback(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return execute_decode_callback(json_string(value), decoder->config, &decoder->request->callback_url,
                                   reterr);
}

static int decode_timeout(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    uint64_t timeout_ms, most = decoder->config->max_timeout_ms;
    if (!json_u64(value, &timeout_ms)) {
        return bad(reterr, "timeout_ms", "must be a whole number from 1 up");
    }
    decoder->job->limits.timeout_ms = timeout_ms > most ? most : timeout_ms;
    return 0;
}

static int decode_queue(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    return json_u64(value, &decoder->request->queue_ms)
               ? 0
               : bad(reterr, "queue_ms", "must be a whole number from 0 up");
}

static int decode_stream(struct decoder *decoder, const struct json *value, struct err *reterr)
{
    (void)reterr;
    decoder->request->stream = json_bool(value);
    return 0;
}

/* `callback_url` may come behind it. */
static int decode_calls(struct decoder *decoder, const struct json *root, struct err *reterr)
{
    return execute_decode_calls(json_string(json_get(root, "calls")), decoder->request, reterr);
}

static const struct row body_rows[] = {
    {"source", "source", JSON_STRING, NULL},
    {"options", "options", JSON_OBJECT, decode_options},
    {"execution_id", "execution_id", JSON_STRING, decode_execution_id},
    {"callback_url", "callback_url", JSON_STRING, decode_callback},
    {"calls", "calls", JSON_STRING, NULL},
    {"timeout_ms", "timeout_ms", JSON_NUMBER, decode_timeout},
    {"queue_ms", "queue_ms", JSON_NUMBER, decode_queue},
    {"stream", "stream", JSON_BOOL, decode_stream},
};

static int find_evaluator(struct decoder *decoder, struct err *reterr)
{
    const struct server_config *config = decoder->config;
    for (size_t i = 0; i < config->n_runtimes; i++) {
        if (config->runtimes[i].evaluator) {
            decoder->request->runtime = &config->runtimes[i];
            decoder->job->runtime = strdup(config->runtimes[i].name);
            return decoder->job->runtime ? 0 : no_memory(reterr);
        }
    }
    return err_set(reterr, ERR_NOT_FOUND, ENOENT, NULL,
                   "this server has no evaluator: none is configured, or its Node is not installed");
}

/* {"source": ..., "options": ...}: the two as they came. */
static int write_program(struct decoder *decoder, const char *text, size_t size, struct err *reterr)
{
    static const char *const names[] = {"source", "options"};
    struct json_slice parts[ARRAY_SIZE(names)];
    struct execute_request *request = decoder->request;
    const char *why;
    if (json_split(text, size, names, ARRAY_SIZE(names), parts, &why) < 0) {
        return bad(reterr, "source", why);
    }
    CLEANUP(buf_free) struct buf program = BUF_INIT;
    buf_puts(&program, "{\"source\":");
    buf_append(&program, parts[0].text, parts[0].size);
    buf_puts(&program, ",\"options\":");
    if (parts[1].type == JSON_OBJECT) {
        buf_append(&program, parts[1].text, parts[1].size);
    } else {
        buf_puts(&program, "{}");
    }
    buf_putc(&program, '}');
    int r = program.failed ? no_memory(reterr) : input_new(&request->input, reterr);
    r = r < 0 ? r : input_append(&request->input, program.data, program.len, reterr);
    decoder->job->code_size = program.len;
    return r < 0 ? r : input_seal(&request->input, reterr);
}

static int decode_body(struct decoder *decoder, const struct json *root, struct err *reterr)
{
    if (json_type_of(root) != JSON_OBJECT) {
        return err_set(reterr, ERR_INVALID, EINVAL, NULL, "the body must be an object, not %s",
                       json_type_to_string(json_type_of(root)));
    }
    int r = decode_members(decoder, body_rows, ARRAY_SIZE(body_rows), "", root, reterr);
    r = r < 0 ? r : decode_calls(decoder, root, reterr);
    const struct json *source = json_given(json_get(root, "source"));
    if (r == 0 && !source) {
        return err_set(reterr, ERR_INVALID, EINVAL, "source", "source is required");
    }
    if (r == 0) {
        sha256_hex_of(json_string(source), json_string_length(source), decoder->request->code_sha256);
    }
    if (r == 0 && !decoder->job->execution_id) {
        char id[IDENT_BYTES];
        ident_fresh(id);
        decoder->job->execution_id = strdup(id);
        r = decoder->job->execution_id ? 0 : no_memory(reterr);
    }
    return r;
}

int run_code_decode(const struct json *root, const char *text, size_t size,
                    const struct server_config *config, struct execute_request *ret, struct err *reterr)
{
    CLEANUP(execute_request_clear) struct execute_request request = EXECUTE_REQUEST_INIT;
    struct run_code *run = NULL;
    request.door = &run_code_door;
    request.job = calloc(1, sizeof *request.job);
    struct decoder decoder = {.config = config, .request = &request, .job = request.job};
    int r = request.job ? decode_body(&decoder, root, reterr) : no_memory(reterr);
    r = r < 0 ? r : find_evaluator(&decoder, reterr);
    r = r < 0 ? r : write_program(&decoder, text, size, reterr);
    r = r < 0 ? r : run_code_new(&decoder.functions, &run, reterr);
    function_ids_clear(&decoder.functions);
    if (r < 0) {
        return r;
    }
    request.state = run;
    request.functions = run_code_functions(run);
    *ret = request;
    request = EXECUTE_REQUEST_INIT;
    return 0;
}

const struct door run_code_door = {
    .evaluator = true,
    .reply_event = "result",
    .decode = run_code_decode,
    .encode = run_code_encode,
    .rename_refusal = rename_refusal,
    .note = run_code_note,
    .state_free = run_code_free,
};
