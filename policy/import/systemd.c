/* Service units of systemd. Runs in the command line. A unit begins with all of the host and takes away; a
 * jail begins with nothing: it has the part "debian", what the unit names, and the program of ExecStart=.
 * What a unit takes away is away already. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/filter/errno_names.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"
#include "policy/import/systemd_filter.h"

struct reader {
    struct draft *draft;
    struct unit_filter filter;
    struct err *err;
    const char *file, *key, *value;
    unsigned line;
};

static int bad(const struct reader *reader, const char *what)
{
    return import_fail(reader->file, reader->line, reader->err, "%.60s=: %s", reader->key, what);
}

/* The next word of a value, with quotes and backslashes settled; NULL: no more. */
static const char *next_word(struct reader *reader, const char **rest)
{
    const char *at = *rest + strspn(*rest, " \t");
    CLEANUP(buf_free) struct buf word = BUF_INIT;
    char quote = '\0';
    if (*at == '\0') {
        return NULL;
    }
    buf_puts(&word, "");
    for (; *at && (quote || !strchr(" \t", *at)); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'') {
            quote = quote ? '\0' : *at;
        } else {
            at += at[0] == '\\' && at[1] != '\0';
            buf_putc(&word, *at);
        }
    }
    *rest = at;
    reader->draft->failed |= word.failed;
    return draft_text(reader->draft, word.data ? word.data : "", word.len);
}

/* "/source:/destination:rbind", with a '-' in front where it need not be there. */
static void bind(struct reader *reader, const char *word, bool writable)
{
    struct draft *draft = reader->draft;
    bool optional = word[0] == '-';
    word += optional;
    word += word[0] == '+';
    const char *colon = strchr(word, ':');
    const char *source = colon ? draft_text(draft, word, (size_t)(colon - word)) : word, *destination = word;
    if (colon) {
        const char *end = strchr(colon + 1, ':');
        destination = draft_text(draft, colon + 1, end ? (size_t)(end - colon - 1) : strlen(colon + 1));
    }
    if (strchr(word, '%')) {
        draft_note(draft, "its specifiers are known when a unit starts", "%s=%s", reader->key, word);
        return;
    }
    draft_mount(draft, (struct draft_mount){.kind = POLICY_MOUNT_BIND,
                                            .source = source,
                                            .destination = destination,
                                            .writable = writable,
                                            .optional = optional});
}

static int read_binds(struct reader *reader, bool writable)
{
    const char *rest = reader->value, *word;
    while ((word = next_word(reader, &rest))) {
        bind(reader, word, writable);
    }
    return 0;
}

static int read_only_paths(struct reader *reader)
{
    return read_binds(reader, false);
}

static int read_write_paths(struct reader *reader)
{
    return read_binds(reader, true);
}

/* Nothing of the host is there but what a mount of the policy brings. */
static int inaccessible(struct reader *reader)
{
    const char *rest = reader->value, *word;
    while ((word = next_word(reader, &rest))) {
        word += word[0] == '-';
        word += word[0] == '+';
        draft_mount(reader->draft, (struct draft_mount){.kind = POLICY_MOUNT_TMPFS,
                                                        .destination = word,
                                                        .size_bytes = 4096,
                                                        .no_exec = true});
    }
    return 0;
}

static int temporary(struct reader *reader)
{
    const char *rest = reader->value, *word;
    while ((word = next_word(reader, &rest))) {
        const char *colon = strchr(word, ':'), *options = colon ? colon : "";
        const char *path = colon ? draft_text(reader->draft, word, (size_t)(colon - word)) : word;
        /* An empty directory that nobody writes to is what a jail has there anyway. */
        bool read_only = strstr(options, ":ro") || strstr(options, ",ro");
        if (!read_only && strcmp(path, "/tmp") != 0 && strcmp(path, "/dev/shm") != 0) {
            draft_mount(reader->draft, (struct draft_mount){.kind = POLICY_MOUNT_TMPFS,
                                                            .destination = path,
                                                            .size_bytes = 4 << 20,
                                                            .writable = true});
        }
    }
    return 0;
}

static int environment(struct reader *reader)
{
    const char *rest = reader->value, *word;
    while ((word = next_word(reader, &rest))) {
        const char *equals = strchr(word, '=');
        if (!equals || equals == word) {
            return bad(reader, "NAME=VALUE is expected");
        }
        const char *name = draft_text(reader->draft, word, (size_t)(equals - word));
        draft_env(reader->draft, name, equals + 1, strlen(equals + 1));
    }
    return 0;
}

/* A number with systemd's suffix: K, M, G and T are powers of 1024, or of time. */
static bool amount(const char *text, bool time, uint64_t *ret)
{
    static const struct {
        const char *suffix;
        uint64_t bytes, ms;
    } rows[] = {{"", 1, 1000},
                {"K", 1024, 0},
                {"M", 1 << 20, 0},
                {"G", 1 << 30, 0},
                {"T", UINT64_C(1) << 40, 0},
                {"ms", 0, 1},
                {"s", 0, 1000},
                {"sec", 0, 1000},
                {"m", 0, 60000},
                {"min", 0, 60000},
                {"h", 0, 3600000},
                {"hr", 0, 3600000},
                {"d", 0, 86400000}};
    uint64_t sum = 0;
    do {
        size_t digits = strspn(text, "0123456789"), n = 0;
        uint64_t number, unit = 0;
        if (digits == 0 || !import_number(text, digits, &number)) {
            return false;
        }
        text += digits;
        n = strcspn(text, " 0123456789");
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
            if (strlen(rows[i].suffix) == n && memcmp(rows[i].suffix, text, n) == 0) {
                unit = time ? rows[i].ms : rows[i].bytes;
            }
        }
        if (unit == 0 || number > (UINT64_MAX - sum) / unit) {
            return false;
        }
        sum += number * unit;
        text += n;
        text += strspn(text, " ");
    } while (time && *text);
    *ret = sum;
    return *text == '\0';
}

static int limit(struct reader *reader)
{
    static const struct {
        const char *key, *limit;
        bool time;
    } rows[] = {{"MemoryMax", "memory_bytes", false},
                {"MemoryLimit", "memory_bytes", false},
                {"TasksMax", "pids", false},
                {"RuntimeMaxSec", "timeout_ms", true}};
    uint64_t number;
    if (strcmp(reader->value, "infinity") == 0 || strchr(reader->value, '%')) {
        draft_note(reader->draft, "not a number; a jail has immure's own limit", "%s=%s", reader->key,
                   reader->value);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i].key, reader->key) == 0) {
            if (!amount(reader->value, rows[i].time, &number) || number == 0) {
                return bad(reader, "a number, with or without a unit, is expected");
            }
            draft_limit(reader->draft, rows[i].limit, number);
        }
    }
    return 0;
}

static int cpu_quota(struct reader *reader)
{
    uint64_t percent;
    size_t digits = strspn(reader->value, "0123456789");
    if (strcmp(reader->value + digits, "%") != 0 || !import_number(reader->value, digits, &percent) ||
        percent == 0) {
        return bad(reader, "a percentage is expected");
    }
    draft_limit(reader->draft, "cpu_percent", percent);
    return 0;
}

/* LimitNOFILE=1024:4096; the part "limits" has most of them already. */
static int rlimit(struct reader *reader)
{
    static const char *const resources[] = {"CORE",     "NOFILE",     "FSIZE", "STACK",  "MEMLOCK",
                                            "MSGQUEUE", "SIGPENDING", "NICE",  "RTPRIO", "AS",
                                            "CPU",      "DATA",       "RSS",   "RTTIME"};
    const char *name = reader->key + strlen("Limit"), *colon = strchr(reader->value, ':');
    const char *soft_text =
        colon ? draft_text(reader->draft, reader->value, (size_t)(colon - reader->value)) : reader->value;
    const char *hard_text = colon ? colon + 1 : reader->value;
    uint64_t soft, hard;
    bool time = strcmp(name, "CPU") == 0, known = false;
    for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
        known |= strcmp(resources[i], name) == 0;
    }
    if (!known || strcmp(soft_text, "infinity") == 0 || strcmp(hard_text, "infinity") == 0) {
        draft_note(reader->draft, "a jail has immure's own limit", "%s=%s", reader->key, reader->value);
        return 0;
    }
    if (!amount(soft_text, time, &soft) || !amount(hard_text, time, &hard) || soft > hard) {
        return bad(reader, "a number, or two with ':' between them, is expected");
    }
    draft_rlimit(reader->draft, name, time ? soft / 1000 : soft, time ? hard / 1000 : hard);
    return 0;
}

static int identity(struct reader *reader)
{
    uint64_t id;
    bool user = strcmp(reader->key, "User") == 0;
    if (import_number(reader->value, strlen(reader->value), &id) && id > 0 && id < UINT32_MAX) {
        draft_field(reader->draft, user ? "uid" : "gid", "%u", (unsigned)id);
    } else {
        draft_note(reader->draft, "no id that a jail has; it is 1000 inside", "%s=%s", reader->key,
                   reader->value);
    }
    return 0;
}

static int ambient(struct reader *reader)
{
    const char *rest = reader->value, *word;
    while ((word = next_word(reader, &rest))) {
        draft_capability(reader->draft, word);
    }
    return 0;
}

static int umask_of(struct reader *reader)
{
    char *end;
    unsigned long mask = strtoul(reader->value, &end, 8);
    if (*end != '\0' || end == reader->value || mask > 0777) {
        return bad(reader, "an octal number is expected");
    }
    draft_field(reader->draft, "umask", "0%lo", mask);
    return 0;
}

static int description(struct reader *reader)
{
    reader->draft->description = reader->value;
    return 0;
}

static int directory(struct reader *reader)
{
    reader->draft->working_directory = reader->value + (reader->value[0] == '-');
    return 0;
}

/* The first command's program; how it is called is for whoever runs it. */
static int start(struct reader *reader)
{
    const char *rest = reader->value + strspn(reader->value, "@-:+!"), *program = next_word(reader, &rest);
    draft_note(reader->draft, "a policy names no program; it is what follows `immure run ... --`",
               "%s=%.200s", reader->key, reader->value);
    if (program && program[0] == '/' && !reader->draft->program) {
        reader->draft->program = program;
    }
    return 0;
}

static int system_calls(struct reader *reader)
{
    const char *what = "";
    return unit_filter_add(&reader->filter, reader->value, &what) < 0 ? bad(reader, what) : 0;
}

static int error_number(struct reader *reader)
{
    bool kill = strcmp(reader->value, "kill") == 0;
    reader->filter.code = kill ? 0 : policy_errno_number(reader->value);
    return kill || reader->filter.code != 0 ? 0 : bad(reader, "no such error");
}

static int restriction(struct reader *reader)
{
    unit_restrict(reader->draft, reader->key, reader->value);
    return 0;
}

static int network(struct reader *reader)
{
    if (!unit_yes(reader->value)) {
        draft_note(reader->draft, "a jail has no network", "PrivateNetwork=%s", reader->value);
    }
    return 0;
}

/* What every jail has, whatever the unit says; a switch that is off is noted. */
static int held(struct reader *reader)
{
    static const char *const off[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
        if (strcasecmp(reader->value, off[i]) == 0) {
            draft_note(reader->draft, "every jail has it", "%s=%s", reader->key, reader->value);
        }
    }
    return 0;
}

static const struct {
    const char *key;
    int (*read)(struct reader *);
} settings[] = {
    {"SystemCallFilter", system_calls},
    {"SystemCallErrorNumber", error_number},
    {"RestrictAddressFamilies", restriction},
    {"RestrictNamespaces", restriction},
    {"RestrictRealtime", restriction},
    {"MemoryDenyWriteExecute", restriction},
    {"LockPersonality", restriction},
    {"ReadOnlyPaths", read_only_paths},
    {"ReadOnlyDirectories", read_only_paths},
    {"BindReadOnlyPaths", read_only_paths},
    {"ReadWritePaths", read_write_paths},
    {"ReadWriteDirectories", read_write_paths},
    {"BindPaths", read_write_paths},
    {"InaccessiblePaths", inaccessible},
    {"InaccessibleDirectories", inaccessible},
    {"TemporaryFileSystem", temporary},
    {"Environment", environment},
    {"MemoryMax", limit},
    {"MemoryLimit", limit},
    {"TasksMax", limit},
    {"RuntimeMaxSec", limit},
    {"CPUQuota", cpu_quota},
    {"User", identity},
    {"Group", identity},
    {"AmbientCapabilities", ambient},
    {"UMask", umask_of},
    {"Description", description},
    {"WorkingDirectory", directory},
    {"ExecStart", start},
    {"PrivateNetwork", network},
    {"SystemCallArchitectures", held},
    {"ProtectSystem", held},
    {"ProtectHome", held},
    {"ProtectProc", held},
    {"ProcSubset", held},
    {"ProtectClock", held},
    {"ProtectHostname", held},
    {"ProtectKernelTunables", held},
    {"ProtectKernelModules", held},
    {"ProtectKernelLogs", held},
    {"ProtectControlGroups", held},
    {"PrivateTmp", held},
    {"PrivateDevices", held},
    {"PrivateUsers", held},
    {"PrivateIPC", held},
    {"PrivateMounts", held},
    {"NoNewPrivileges", held},
    {"RestrictSUIDSGID", held},
    {"RemoveIPC", held},
    {"DynamicUser", held},
    {"KeyringMode", held},
    {"DevicePolicy", held},
    {"CapabilityBoundingSet", held},
    {"IPAddressDeny", held},
    {"MemoryAccounting", held},
    {"TasksAccounting", held},
    {"CPUAccounting", held},
};

static int read_setting(struct reader *reader)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (strcmp(settings[i].key, reader->key) == 0) {
            return settings[i].read(reader);
        }
    }
    if (strncmp(reader->key, "Limit", 5) == 0) {
        return rlimit(reader);
    }
    draft_note(reader->draft, "no counterpart", "%.60s=", reader->key);
    return 0;
}

/* A line without its end, or several that a backslash joins. */
static const char *next_line(struct draft *draft, const char **text, const char *end, unsigned *line)
{
    CLEANUP(buf_free) struct buf joined = BUF_INIT;
    bool more = true;
    buf_puts(&joined, "");
    while (more && *text < end) {
        const char *newline = memchr(*text, '\n', (size_t)(end - *text));
        size_t length = (size_t)((newline ? newline : end) - *text);
        size_t kept = length > 0 && (*text)[length - 1] == '\r' ? length - 1 : length;
        more = kept > 0 && (*text)[kept - 1] == '\\';
        buf_append(&joined, *text, kept - more);
        if (more) {
            buf_putc(&joined, ' ');
        }
        *text += length + (newline != NULL);
        ++*line;
    }
    draft->failed |= joined.failed;
    return draft_text(draft, joined.data ? joined.data : "", joined.len);
}

static int read_line(struct reader *reader, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        return import_fail(reader->file, reader->line, reader->err, "KEY=VALUE or [SECTION] is expected");
    }
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    size_t key = (size_t)(equals - text), n = strlen(value);
    while (key > 0 && strchr(" \t", text[key - 1])) {
        key--;
    }
    while (n > 0 && strchr(" \t", value[n - 1])) {
        n--;
    }
    reader->key = draft_text(reader->draft, text, key);
    reader->value = draft_text(reader->draft, value, n);
    if (strchr(reader->value, '%') && reader->value[n - 1] != '%') {
        draft_note(reader->draft, "specifiers are known when a unit starts, and stay as they are", "%s=%s",
                   reader->key, reader->value);
    }
    return read_setting(reader);
}

/* The sections that a jail has nothing to do with say when and why a unit starts. */
static int read_lines(struct reader *reader, const char *text, size_t size)
{
    const char *end = text + size;
    bool service = false, unit = false;
    unsigned line = 1;
    int r = 0;
    while (r == 0 && text < end) {
        reader->line = line;
        const char *one = next_line(reader->draft, &text, end, &line);
        one += strspn(one, " \t");
        if (one[0] == '[') {
            service = strncmp(one, "[Service]", 9) == 0;
            unit = strncmp(one, "[Unit]", 6) == 0;
            if (!service && !unit && strncmp(one, "[Install]", 9) != 0) {
                draft_note(reader->draft, "a section of another kind of unit", "%.60s", one);
            }
        } else if (one[0] != '\0' && !strchr("#;", one[0]) &&
                   (service || (unit && strncmp(one, "Description=", 12) == 0))) {
            r = read_line(reader, one);
        }
    }
    return r;
}

int import_systemd(struct draft *draft, struct err *reterr)
{
    struct reader reader = {
        .draft = draft, .filter = {.draft = draft}, .err = reterr, .file = draft->request->path};
    draft->host_files = true;
    int r = read_lines(&reader, draft->request->text, draft->request->size);
    unit_filter_end(&reader.filter);
    return r;
}
