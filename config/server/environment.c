/* Environment variables over the server's configuration: a table with a row for each. Runs in the warden, at
 * start and on SIGHUP, and in `immure check`.
 *
 * Every variable NAME may be given as NAME_FILE instead, the path of a file that holds the value. A setting
 * that is spelt in two ways with two values is refused: which one was meant cannot be known. Values pass
 * through buffers that are overwritten before they are freed, since one of them is the key. */
#include "config/server/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/amount.h"
#include "config/format/builder.h"
#include "config/format/digest.h"
#include "config/format/source.h"
#include "config/format/suggest.h"
#include "config/server/server.pb-c.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"

#define PREFIX          "SANDBOX_EXECUTOR_"
#define OLD_PREFIX      "SANDBOX_"
#define FILE_SUFFIX     "_FILE"
#define VALUE_BYTES_MAX 65536

/* The value of a setting, and which of its spellings it was found under. */
struct value {
    char spelling[64]; /* empty: not set */
    struct buf text;
};

/* What a row's `apply` works on. */
struct overrides {
    Immure__Server *message;
    struct source *source;
    struct err *reterr;
};

struct variable {
    const char *name, *alias; /* NULL: no other spelling */
    const char *field;        /* of Server; for an interpreter: the name of its runtime */
    int (*apply)(const struct overrides *overrides, const struct variable *variable, struct value *value);
    bool secret;
};

static int apply_field(const struct overrides *overrides, const struct variable *variable,
                       struct value *value);
static int apply_key(const struct overrides *overrides, const struct variable *variable, struct value *value);
static int apply_callbacks(const struct overrides *overrides, const struct variable *variable,
                           struct value *value);
static int apply_index(const struct overrides *overrides, const struct variable *variable,
                       struct value *value);
static int apply_interpreter(const struct overrides *overrides, const struct variable *variable,
                             struct value *value);
static int apply_session_ttl(const struct overrides *overrides, const struct variable *variable,
                             struct value *value);
static int apply_nothing(const struct overrides *overrides, const struct variable *variable,
                         struct value *value);

enum { CONFIG_ROW, KEY_ROW };

static const struct variable variables[] = {
    [CONFIG_ROW] = {PREFIX "CONFIG", NULL, NULL, apply_nothing, false}, /* environment_config_path() */
    [KEY_ROW] = {PREFIX "SERVICE_API_KEY", NULL, "key", apply_key, true},
    {PREFIX "ENV", NULL, "environment", apply_field, false},
    {PREFIX "ADDR", "SANDBOX_ADDR", "listen", apply_field, false},
    {PREFIX "DEFAULT_TIMEOUT_MS", NULL, "default_timeout_ms", apply_field, false},
    {PREFIX "MAX_TIMEOUT_MS", NULL, "max_timeout_ms", apply_field, false},
    {PREFIX "MAX_CONCURRENT_JOBS", "SANDBOX_MAX_CONCURRENT", "max_concurrent_jobs", apply_field, false},
    {PREFIX "CGROUP", NULL, "cgroup", apply_field, false},
    {PREFIX "IMAGE_DIRECTORY", NULL, "image_directory", apply_field, false},
    {PREFIX "CALLBACK_URLS", NULL, "callback", apply_callbacks, false},
    {PREFIX "PIP_INDEX_URL", NULL, "pip_index", apply_index, false},
    {PREFIX "NPM_REGISTRY_URL", NULL, "npm_registry", apply_index, false},
    {"SANDBOX_MAX_OUTPUT", NULL, "max_output_bytes", apply_field, false},
    {"SANDBOX_PYTHON_BIN", NULL, "python", apply_interpreter, false},
    {"SANDBOX_NODE_BIN", NULL, "node", apply_interpreter, false},
    {"SANDBOX_WORKSPACE", NULL, "session_directory", apply_field, false},
    {"SANDBOX_SESSION_TTL", NULL, "session_ttl_ms", apply_session_ttl, false},
};

static void value_clear(struct value *value)
{
    if (value->text.data) {
        explicit_bzero(value->text.data, value->text.cap);
    }
    buf_free(&value->text);
    value->spelling[0] = '\0';
}

/* The content of the file, without a final end of line. */
static int read_file(const char *spelling, const char *path, struct buf *ret, struct err *reterr)
{
    int r = io_read_file_at(AT_FDCWD, path, VALUE_BYTES_MAX, ret);
    if (r < 0) {
        char why[IO_PATH_ERROR_BYTES];
        return err_set(reterr, ERR_CONFIG, -r, spelling, "\"%.200s\" cannot be read: %s", path,
                       io_path_error(path, -r, why));
    }
    for (const char *end = "\n\r"; *end; end++) {
        if (ret->len > 0 && ret->data[ret->len - 1] == *end) {
            ret->data[--ret->len] = '\0';
        }
    }
    if (ret->len == 0) {
        return err_set(reterr, ERR_CONFIG, EINVAL, spelling, "\"%s\" is empty", path);
    }
    if (strlen(ret->data) != ret->len) {
        return err_set(reterr, ERR_CONFIG, EINVAL, spelling, "\"%s\" holds a NUL", path);
    }
    return 0;
}

/* Takes what the environment says under this spelling. The first value stays; a later one must be the same.
 */
static int offer(const char *spelling, bool is_path, const char *given, struct value *ret, struct err *reterr)
{
    CLEANUP(value_clear) struct value later = {0};
    bool first = !ret->spelling[0];
    struct value *value = first ? ret : &later;
    snprintf(value->spelling, sizeof value->spelling, "%s", spelling);
    int r = is_path ? read_file(spelling, given, &value->text, reterr) : buf_puts(&value->text, given);
    if (r < 0) {
        return r == -ENOMEM ? err_errno(reterr, ENOMEM, "while reading %s", spelling) : r;
    }
    if (!first && strcmp(ret->text.data, later.text.data) != 0) {
        return err_set(reterr, ERR_CONFIG, EINVAL, spelling,
                       "and %s have different values for the same setting", ret->spelling);
    }
    return 0;
}

static int find_value(char *const *env, const struct variable *variable, struct value *ret,
                      struct err *reterr)
{
    const char *const names[] = {variable->name, variable->alias};
    for (size_t i = 0; i < 2 * ARRAY_SIZE(names); i++) {
        const char *name = names[i / 2];
        bool is_path = i % 2 == 1;
        char spelling[sizeof ret->spelling];
        if (!name) {
            continue;
        }
        size_t len = (size_t)snprintf(spelling, sizeof spelling, "%s%s", name, is_path ? FILE_SUFFIX : "");
        for (char *const *entry = env; *entry; entry++) {
            if (strncmp(*entry, spelling, len) != 0 || (*entry)[len] != '=') {
                continue;
            }
            int r = offer(spelling, is_path, *entry + len + 1, ret, reterr);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

static bool is_spelling_of(const char *known_name, const char *name, size_t len)
{
    size_t known = strlen(known_name), suffix = strlen(FILE_SUFFIX);
    if (strncmp(name, known_name, len < known ? len : known) != 0) {
        return false;
    }
    return len == known || (len == known + suffix && memcmp(name + known, FILE_SUFFIX, suffix) == 0);
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Kubernetes tells containers of the services beside them: of one called sandbox-executor by
 * SANDBOX_EXECUTOR_SERVICE_HOST, _SERVICE_PORT, _SERVICE_PORT_HTTP, _PORT, _PORT_9099_TCP and the like. */
static bool is_of_a_service(const char *rest, size_t len)
{
    static const char *const words[] = {"SERVICE_HOST", "SERVICE_PORT", "PORT"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t known = strlen(words[i]);
        if (begins_with(rest, words[i]) && (len == known || (i > 0 && rest[known] == '_'))) {
            return true;
        }
    }
    return false;
}

static bool is_known(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        const char *alias = variables[i].alias;
        if (is_spelling_of(variables[i].name, name, len) || (alias && is_spelling_of(alias, name, len))) {
            return true;
        }
    }
    return false;
}

/* Whose variables are looked at. All with the first prefix are ours. Other programs have names with the other
 * two: there it is what is one letter away from one of ours, or has only the prefix wrong. */
static const struct {
    const char *prefix;
    bool ours;
} prefixes[] = {{PREFIX, true}, {OLD_PREFIX, false}, {"IMMURE_", false}};

/* The variable that `rest`, which follows that prefix, is nearest to; NULL: none. */
static const char *nearest(size_t which, const char *rest, size_t len)
{
    struct suggestion suggestion = SUGGESTION_FOR(rest, len);
    const char *ret = NULL;
    for (size_t i = 0; i < 2 * ARRAY_SIZE(variables); i++) {
        const char *name = i % 2 ? variables[i / 2].alias : variables[i / 2].name;
        bool is_old = name && !begins_with(name, PREFIX);
        if (!name || (which < 2 && is_old != (which == 1))) {
            continue;
        }
        const char *own = name + strlen(is_old ? OLD_PREFIX : PREFIX);
        suggestion_offer(&suggestion, own);
        ret = suggestion.best == own ? name : ret;
    }
    return ret && (prefixes[which].ours || suggestion.distance <= 1) ? ret : NULL;
}

static int check_variable(const char *entry, struct err *reterr)
{
    size_t len = strcspn(entry, "="), which = 0, suffix = strlen(FILE_SUFFIX);
    while (which < ARRAY_SIZE(prefixes) && !begins_with(entry, prefixes[which].prefix)) {
        which++;
    }
    if (which == ARRAY_SIZE(prefixes) || is_known(entry, len)) {
        return 0;
    }
    size_t prefix = strlen(prefixes[which].prefix);
    if (len < prefix || is_of_a_service(entry + prefix, len - prefix)) {
        return 0;
    }
    bool is_path = len > prefix + suffix && memcmp(entry + len - suffix, FILE_SUFFIX, suffix) == 0;
    const char *meant = nearest(which, entry + prefix, len - prefix - (is_path ? suffix : 0));
    if (!meant && !prefixes[which].ours) {
        return 0;
    }
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(len < 120 ? len : 120), entry);
    return err_set(reterr, ERR_CONFIG, EINVAL, name, "there is no such variable%s%s%s%s",
                   meant ? "; did you mean " : "", meant ? meant : "", meant && is_path ? FILE_SUFFIX : "",
                   meant ? "?" : "");
}

int environment_check(char *const *env, struct err *reterr)
{
    int r = 0;
    for (; r == 0 && *env; env++) {
        r = check_variable(*env, reterr);
    }
    return r;
}

int environment_config_path(char *const *env, char **ret, struct err *reterr)
{
    CLEANUP(value_clear) struct value value = {0};
    int r = find_value(env, &variables[CONFIG_ROW], &value, reterr);
    if (r < 0) {
        return r;
    }
    if (!value.spelling[0]) {
        *ret = NULL;
        return 0;
    }
    if (value.text.len == 0) {
        return err_set(reterr, ERR_CONFIG, EINVAL, value.spelling, "is empty");
    }
    char *path = buf_steal(&value.text);
    if (!path) {
        return err_errno(reterr, ENOMEM, "while reading %s", value.spelling);
    }
    *ret = path;
    return 0;
}

static int no_memory(const struct overrides *overrides, const struct value *value)
{
    return err_errno(overrides->reterr, ENOMEM, "while reading %s", value->spelling);
}

static int fail_empty(const struct overrides *overrides, const struct value *value)
{
    return err_set(overrides->reterr, ERR_CONFIG, EINVAL, value->spelling, "is empty");
}

static int replace_text(const struct overrides *overrides, const struct value *value,
                        const void *default_value, char **field)
{
    char *copy = strdup(value->text.data);
    if (!copy) {
        return no_memory(overrides, value);
    }
    if (*field != default_value) {
        free(*field);
    }
    *field = copy;
    return 0;
}

static int put_number(const struct overrides *overrides, const ProtobufCFieldDescriptor *field,
                      const struct value *value, void *slot)
{
    uint64_t number;
    const char *wrong = amount_parse(field->name, value->text.data, value->text.len, &number);
    if (!wrong && builder_put_integer(field, slot, false, number)) {
        return 0;
    }
    return err_set(overrides->reterr, ERR_CONFIG, EINVAL, value->spelling, "\"%.60s\" %s", value->text.data,
                   wrong ? wrong : AMOUNT_TOO_LARGE);
}

/* In any case, and with - for _, as variables are written. A file is held to its format. */
static int put_enum(const struct overrides *overrides, const ProtobufCFieldDescriptor *field,
                    const struct value *value, void *slot)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT;
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    struct suggestion suggestion = SUGGESTION_FOR(value->text.data, value->text.len);
    char text[SUGGESTION_TEXT_MAX];
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        suggestion_offer(&suggestion, descriptor->values[i].name);
        buf_printf(&names, "%s%s", i > 0 ? " or " : "", descriptor->values[i].name);
    }
    if (suggestion.best && suggestion.distance == 0) {
        builder_put_enum_name(field, slot, suggestion.best, strlen(suggestion.best));
        return 0;
    }
    return err_set(overrides->reterr, ERR_CONFIG, EINVAL, value->spelling, "\"%.60s\" is not %s%s",
                   value->text.data, names.failed ? "known" : names.data,
                   suggestion_text(&suggestion, "", text));
}

/* The field named in the row, which is a singular string, whole number or enum. */
static int apply_field(const struct overrides *overrides, const struct variable *variable,
                       struct value *value)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(&immure__server__descriptor, variable->field);
    char *base = (char *)overrides->message;
    void *slot = base + field->offset;
    if (value->text.len == 0) {
        return fail_empty(overrides, value);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        return replace_text(overrides, value, field->default_value, slot);
    }
    *(protobuf_c_boolean *)(base + field->quantifier_offset) = true;
    return field->type == PROTOBUF_C_TYPE_ENUM ? put_enum(overrides, field, value, slot)
                                               : put_number(overrides, field, value, slot);
}

static bool is_sendable(const char *key)
{
    for (const char *c = key; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* What a failure leaves half-built in the message is freed with it. */
static int append_key(Immure__Server *message, const char *sha256_hex)
{
    Immure__Key **larger = reallocarray(message->key, message->n_key + 1, sizeof *larger);
    if (!larger) {
        return -ENOMEM;
    }
    message->key = larger;
    Immure__Key *key = malloc(sizeof *key);
    if (!key) {
        return -ENOMEM;
    }
    immure__key__init(key);
    message->key[message->n_key++] = key;
    key->name = strdup("default");
    key->sha256 = strdup(sha256_hex);
    key->policy = calloc(1, sizeof *key->policy);
    if (!key->name || !key->sha256 || !key->policy) {
        return -ENOMEM;
    }
    key->policy[0] = strdup("*");
    key->n_policy = 1;
    return key->policy[0] ? 0 : -ENOMEM;
}

static int append_callback(Immure__Server *message, const char *url, size_t size)
{
    Immure__Callback **larger = reallocarray(message->callback, message->n_callback + 1, sizeof *larger);
    if (!larger) {
        return -ENOMEM;
    }
    message->callback = larger;
    Immure__Callback *callback = malloc(sizeof *callback);
    if (!callback) {
        return -ENOMEM;
    }
    immure__callback__init(callback);
    message->callback[message->n_callback++] = callback;
    callback->url = strndup(url, size);
    return callback->url ? 0 : -ENOMEM;
}

/* Adds each of a list. What is no URL is found later, like one of the file's. */
static int apply_callbacks(const struct overrides *overrides, const struct variable *variable,
                           struct value *value)
{
    (void)variable;
    for (const char *at = value->text.data; *at;) {
        size_t length = strcspn(at, ",");
        char path[64];
        snprintf(path, sizeof path, "callback[%zu]", overrides->message->n_callback);
        if (append_callback(overrides->message, at, length) < 0 ||
            source_note_variable(overrides->source, path, value->spelling) < 0) {
            return no_memory(overrides, value);
        }
        at += length + (at[length] == ',');
    }
    return 0;
}

int environment_key(char *const *env, char **ret, struct err *reterr)
{
    CLEANUP(value_clear) struct value value = {0};
    int r = find_value(env, &variables[KEY_ROW], &value, reterr);
    if (r < 0) {
        return r;
    }
    if (value.text.len > 0 && !is_sendable(value.text.data)) {
        return err_set(reterr, ERR_CONFIG, EINVAL, value.spelling,
                       "holds a blank or a control character, which no caller can send");
    }
    *ret = strdup(value.text.data ? value.text.data : "");
    return *ret ? 0 : err_errno(reterr, ENOMEM, "while reading %s", value.spelling);
}

/* The URL of the index named in the row; what else the file says of that index stays. */
static int apply_index(const struct overrides *overrides, const struct variable *variable,
                       struct value *value)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(&immure__server__descriptor, variable->field);
    Immure__PackageIndex **slot = (Immure__PackageIndex **)((char *)overrides->message + field->offset);
    if (value->text.len == 0) {
        return fail_empty(overrides, value);
    }
    if (!*slot) {
        *slot = malloc(sizeof **slot);
        if (!*slot) {
            return no_memory(overrides, value);
        }
        immure__package_index__init(*slot);
    }
    char path[64];
    snprintf(path, sizeof path, "%s.url", variable->field);
    int r = replace_text(overrides, value, NULL, &(*slot)->url);
    return r == 0 && source_note_variable(overrides->source, path, value->spelling) < 0
               ? no_memory(overrides, value)
               : r;
}

/* Adds a key that may use everything. An empty one adds none, which only a local environment then accepts. */
static int apply_key(const struct overrides *overrides, const struct variable *variable, struct value *value)
{
    (void)variable;
    char hex[SHA256_HEX];
    if (value->text.len == 0) {
        return 0;
    }
    if (!is_sendable(value->text.data)) {
        return err_set(overrides->reterr, ERR_CONFIG, EINVAL, value->spelling,
                       "holds a blank or a control character, which a caller cannot send");
    }
    sha256_hex_of(value->text.data, value->text.len, hex);
    char path[64];
    snprintf(path, sizeof path, "key[%zu]", overrides->message->n_key);
    if (append_key(overrides->message, hex) < 0 ||
        source_note_variable(overrides->source, path, value->spelling) < 0) {
        return no_memory(overrides, value);
    }
    return 0;
}

static int apply_interpreter(const struct overrides *overrides, const struct variable *variable,
                             struct value *value)
{
    if (value->text.len == 0) {
        return fail_empty(overrides, value);
    }
    bool applied = false;
    for (size_t i = 0; i < overrides->message->n_runtime; i++) {
        Immure__Runtime *runtime = overrides->message->runtime[i];
        bool is_named = strcmp(runtime->name, variable->field) == 0;
        /* The shipped evaluator says "node", as the runtime of that name does. */
        if (!is_named && !(runtime->evaluator && strcmp(runtime->interpreter, variable->field) == 0)) {
            continue;
        }
        char path[64];
        snprintf(path, sizeof path, "runtime[%zu].interpreter", i);
        int r = replace_text(overrides, value, NULL, &runtime->interpreter);
        if (r == 0 && source_note_variable(overrides->source, path, value->spelling) < 0) {
            return no_memory(overrides, value);
        }
        if (r < 0) {
            return r;
        }
        /* Whoever names an interpreter wants it. */
        runtime->has_optional = true;
        runtime->optional = runtime->optional && !is_named;
        applied = applied || is_named;
    }
    return applied ? 0
                   : err_set(overrides->reterr, ERR_CONFIG, EINVAL, value->spelling,
                             "the configuration has no runtime named \"%s\"", variable->field);
}

/* "90s", "30m", "1h". A number alone, which others take for seconds, is refused. */
static int apply_session_ttl(const struct overrides *overrides, const struct variable *variable,
                             struct value *value)
{
    const char *text = value->text.len > 0 ? value->text.data : "";
    bool has_unit = strspn(text, "0123456789") < value->text.len;
    if (has_unit &&
        !amount_parse(variable->field, text, value->text.len, &overrides->message->session_ttl_ms)) {
        overrides->message->has_session_ttl_ms = true;
        return 0;
    }
    return err_set(overrides->reterr, ERR_CONFIG, EINVAL, value->spelling,
                   "\"%.60s\" is not a time such as 90s, 30m or 1h", text);
}

static int apply_nothing(const struct overrides *overrides, const struct variable *variable,
                         struct value *value)
{
    (void)overrides, (void)variable, (void)value;
    return 0;
}

int environment_apply(char *const *env, Immure__Server *message, struct source *source, struct err *reterr)
{
    const struct overrides overrides = {.message = message, .source = source, .reterr = reterr};
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        const struct variable *variable = &variables[i];
        CLEANUP(value_clear) struct value value = {0};
        int r = find_value(env, variable, &value, reterr);
        if (r == 0 && value.spelling[0]) {
            r = variable->apply(&overrides, variable, &value);
        }
        if (r < 0) {
            return r;
        }
        if (value.spelling[0] && (variable->apply == apply_field || variable->apply == apply_session_ttl) &&
            source_note_variable(source, variable->field, value.spelling) < 0) {
            return no_memory(&overrides, &value);
        }
    }
    return 0;
}

/* The value's bytes are overwritten where they lie, so that /proc/PID/environ and a core dump do not show
 * them. */
static void scrub(const char *name)
{
    size_t len = strlen(name);
    for (char **entry = environ; entry && *entry; entry++) {
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=') {
            explicit_bzero(*entry + len + 1, strlen(*entry + len + 1));
        }
    }
    unsetenv(name);
}

void server_config_scrub_environment(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        if (variables[i].secret) {
            scrub(variables[i].name);
        }
    }
}
