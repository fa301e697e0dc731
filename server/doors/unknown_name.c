/* What to write instead of a name that nobody knows: what other interfaces of this kind call the same thing,
 * else the name that is spelt most like it. Runs in the front, on names that a caller chose. */
#include "server/doors/unknown_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/format/json.h"
#include "config/format/textformat.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

/* A row holds where `meant`, or its part before the dot, is among the names that there are; so the first one
 * that fits may be another for `limits` than for the request itself. */
static const struct {
    const char *written, *meant;
    const char *advice; /* NULL: "did you mean" says all */
} words[] = {
    {"source", "code", NULL},
    {"source_code", "code", NULL},
    {"script", "code", NULL},
    {"program", "code", NULL},
    {"snippet", "code", NULL},
    {"code", "source", NULL},
    {"cmd", "args", "the program is `code`, its arguments are `args`"},
    {"command", "args", "the program is `code`, its arguments are `args`"},
    {"argv", "args", NULL},
    {"arguments", "args", NULL},
    {"lang", "language", NULL},
    {"lang", "options.language", NULL},
    {"language", "options.language", NULL},
    {"runtime", "language", NULL},
    {"runtime", "options.language", NULL},
    {"interpreter", "language", NULL},
    {"input", "stdin", NULL},
    {"timeout_s", "timeout", NULL},
    {"timeout_sec", "timeout", NULL},
    {"timeout_seconds", "timeout", NULL},
    {"time_limit", "timeout", NULL},
    {"time_limit", "timeout_ms", NULL},
    {"timeout", "cpu_ms", "it is a field of the request itself"},
    {"timeout_ms", "cpu_ms", "it is a field of the request itself"},
    {"memory", "limits.memory_bytes", NULL},
    {"memory", "options.memoryLimitBytes", NULL},
    {"memory", "memory_bytes", NULL},
    {"memory_limit", "limits.memory_bytes", NULL},
    {"memory_limit", "options.memoryLimitBytes", NULL},
    {"memory_limit", "memory_bytes", NULL},
    {"memory_bytes", "limits.memory_bytes", NULL},
    {"memory_mb", "limits.memory_bytes", NULL},
    {"memory_mb", "memory_bytes", NULL},
    {"mem", "memory_bytes", NULL},
    {"ram", "memory_bytes", NULL},
    {"cpu", "limits.cpu_percent", NULL},
    {"cpu", "cpu_percent", NULL},
    {"cpus", "limits.cpu_percent", NULL},
    {"cpus", "cpu_percent", NULL},
    {"cpu_limit", "limits.cpu_percent", NULL},
    {"cpu_time", "limits.cpu_ms", NULL},
    {"cpu_time", "cpu_ms", NULL},
    {"max_processes", "limits.pids", NULL},
    {"processes", "pids", NULL},
    {"disk", "scratch_bytes", NULL},
    {"max_output", "limits.output_bytes", NULL},
    {"envs", "env", NULL},
    {"env_vars", "env", NULL},
    {"environment_variables", "env", NULL},
    {"output_files", "outputs", NULL},
    {"input_files", "files", NULL},
    {"callback", "callback_url", NULL},
    {"webhook_url", "callback_url", NULL},
    {"packages", "code", "the program installs them itself: install_package(\"NAME\")"},
    {"requirements", "code", "the program installs them itself: install_package(\"NAME\")"},
    {"dependencies", "code", "the program installs them itself: install_package(\"NAME\")"},
    {"stream", "outputs", "ask for events with the header Accept: text/event-stream"},
    {"wait", "outputs", "it is a parameter of the query: ?wait=false"},
    {"async", "outputs", "do not wait for the job with the query ?wait=false"},
    {"async", "wait", "do not wait for the job with ?wait=false"},
    {"stream", "wait", "ask for events with the header Accept: text/event-stream"},
    {"path", "name", NULL},
    {"file", "name", NULL},
    {"filename", "name", NULL},
    {"filename", "options.filename", NULL},
    {"text", "content", NULL},
    {"body", "content", NULL},
    {"base64", "data", NULL},
    {"content_base64", "data", NULL},
    {"type", "mime", NULL},
    {"content_type", "mime", NULL},
};

/* Without regard to case, '_' and '-': "memoryLimit" is "memory_limit". */
static bool same_word(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "_-");
        b += strspn(b, "_-");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return false;
        }
        if (*a == '\0') {
            return true;
        }
    }
}

static bool is_known(const char *name, const char *const *names, size_t n_names)
{
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < n_names; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

int unknown_name(const char *what, const char *prefix, const char *name, const char *const *names,
                 size_t n_names, struct err *reterr)
{
    char item[256];
    const char *meant = NULL, *advice = NULL;
    snprintf(item, sizeof item, "%s%s", prefix, name);
    for (size_t i = 0; i < ARRAY_SIZE(words) && !meant; i++) {
        if (same_word(words[i].written, name) && is_known(words[i].meant, names, n_names)) {
            meant = words[i].meant;
            advice = words[i].advice;
        }
    }
    if (advice) {
        return err_set(reterr, ERR_INVALID, EINVAL, item, "%.200s: unknown %s; %s", item, what, advice);
    }
    meant = meant ? meant : textformat_did_you_mean(name, names, n_names);
    return err_set(reterr, ERR_INVALID, EINVAL, item, "%.200s: unknown %s%s%s%s", item, what,
                   meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

int known_members(const struct json *object, const char *what, const char *prefix, const char *const *names,
                  size_t n_names, const struct json **ret, struct err *reterr)
{
    for (size_t i = 0; i < n_names; i++) {
        ret[i] = NULL;
    }
    for (const struct json *member = json_first(object); member; member = json_next(member)) {
        size_t i = 0;
        while (i < n_names && strcmp(names[i], json_key(member)) != 0) {
            i++;
        }
        if (i == n_names) {
            return unknown_name(what, prefix, json_key(member), names, n_names, reterr);
        }
        ret[i] = json_given(member);
    }
    return 0;
}
