/* nsjail's configurations, in protobuf's text format, and Kafel by itself. Runs in the command line. What a
 * configuration leaves out has nsjail's own default. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/textlex.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/import/draft.h"
#include "policy/import/formats.h"
#include "policy/import/import.h"

#define MIB       (UINT64_C(1) << 20)
#define DEPTH_MAX 8u

/* What stands in front of a value, and the value: a word, a number, the bytes of a string, or nothing for a
 * message, whose fields then have this depth. */
struct field {
    const char *message, *name, *value;
    size_t size;
    unsigned line;
};

struct reader {
    struct draft *draft;
    struct textlex lex;
    struct err *err;
    struct draft_mount mount;
    const char *prefix_source, *prefix_destination, *content, *fstype, *options;
    bool bind, symlink, writable, optional;
    const char *command, *command_name;
    struct buf command_line, description, kafel;
    const char *kafel_file;
    unsigned kafel_line, kafel_at; /* of the file; at which line the strings are */
    uint64_t rlimits[9];           /* as `rlimit_rows` has them */
    bool given[9], without[9];
    uint64_t time_limit;
    bool has_cwd, no_loopback;
};

/* Those that nsjail sets by itself have a default; unit in bytes. */
static const struct {
    const char *name, *resource;
    uint64_t unit, value;
    bool set;
} rlimit_rows[] = {
    {"rlimit_as", "AS", MIB, 4096, true},
    {"rlimit_core", "CORE", MIB, 0, true},
    {"rlimit_cpu", "CPU", 1, 600, true},
    {"rlimit_fsize", "FSIZE", MIB, 1, true},
    {"rlimit_nofile", "NOFILE", 1, 32, true},
    {"rlimit_stack", "STACK", MIB, 8, false},
    {"rlimit_memlock", "MEMLOCK", 1024, 64, false},
    {"rlimit_rtprio", "RTPRIO", 1, 0, false},
    {"rlimit_msgqueue", "MSGQUEUE", 1, 1024, false},
};
static_assert(ARRAY_SIZE(rlimit_rows) == 9, "as struct reader has them");

static bool is(const struct field *field, const char *name)
{
    return strcmp(field->name, name) == 0;
}

static bool yes(const struct field *field)
{
    return strcmp(field->value, "true") == 0 || strcmp(field->value, "1") == 0;
}

static int bad_value(struct reader *reader, const struct field *field, const char *what)
{
    return import_fail(reader->draft->request->path, field->line, reader->err, "%.60s: %s", field->name,
                       what);
}

static int number_of(struct reader *reader, const struct field *field, uint64_t max, uint64_t *ret)
{
    return import_number(field->value, strlen(field->value), ret) && *ret <= max
               ? 0
               : bad_value(reader, field, "must be a number, and one that is possible");
}

static const char *expand(struct reader *reader, const char *prefix, const char *path)
{
    const char *value = prefix[0] && !reader->draft->request->alone ? getenv(prefix) : NULL;
    return value ? draft_printf(reader->draft, "%s%s", value, path) : path;
}

/* Of a mount's options, the size of a tmpfs has a counterpart. */
static void note_options(struct reader *reader, const char *destination)
{
    bool size = strncmp(reader->options, "size=", 5) == 0 && strcmp(reader->fstype, "tmpfs") == 0 &&
                reader->options[5 + strspn(reader->options + 5, "0123456789")] == '\0';
    if (reader->options[0] != '\0' && !size) {
        draft_note(reader->draft, "no options but the size of a tmpfs", "mount %s: %s", destination,
                   reader->options);
    }
    if (strcmp(reader->fstype, "proc") == 0 && reader->writable) {
        draft_note(reader->draft, "a proc is always read-only", "mount %s: rw", destination);
    }
}

/* The mount whose fields have been read. */
static int end_mount(struct reader *reader)
{
    struct draft *draft = reader->draft;
    struct draft_mount mount = reader->mount;
    mount.destination = expand(reader, reader->prefix_destination, mount.destination);
    if (reader->prefix_source[0] || reader->prefix_destination[0]) {
        draft_note(draft, "its variable has the value that it has here and now", "mount %s: %s%s",
                   mount.destination, reader->prefix_source, reader->prefix_destination);
    }
    mount.writable = reader->writable;
    note_options(reader, mount.destination);
    if (reader->symlink) {
        mount.kind = POLICY_MOUNT_SYMLINK;
    } else if (reader->content) {
        mount.kind = POLICY_MOUNT_FILE;
        mount.source = reader->content;
    } else if (strcmp(reader->fstype, "tmpfs") == 0) {
        bool tmp = strcmp(mount.destination, "/tmp") == 0, shm = strcmp(mount.destination, "/dev/shm") == 0;
        const char *size = strstr(reader->options, "size=");
        bool number = size && import_number(size + 5, strspn(size + 5, "0123456789"), &mount.size_bytes);
        mount.kind = reader->writable ? POLICY_MOUNT_SCRATCH : POLICY_MOUNT_TMPFS;
        mount.source = tmp ? "tmp" : shm ? "shm" : "work";
        mount.size_bytes = number && mount.size_bytes > 0 ? mount.size_bytes : 4 * MIB;
    } else if (strcmp(reader->fstype, "proc") == 0) {
        mount.kind = POLICY_MOUNT_PROC;
        mount.optional = true;
    } else if (reader->bind) {
        mount.kind = POLICY_MOUNT_BIND;
        mount.source = expand(reader, reader->prefix_source, mount.source);
        mount.optional = reader->optional;
    } else {
        draft_note(draft, "not a file system that a jail has", "mount %s: %s", mount.destination,
                   reader->fstype);
        return 0;
    }
    draft_mount(draft, mount);
    return 0;
}

static int mount_field(struct reader *reader, const struct field *field)
{
    struct draft_mount *mount = &reader->mount;
    const struct {
        const char *name;
        const char **text;
        bool *flag;
    } rows[] = {
        {"src", &mount->source, NULL},
        {"dst", &mount->destination, NULL},
        {"prefix_src_env", &reader->prefix_source, NULL},
        {"prefix_dst_env", &reader->prefix_destination, NULL},
        {"src_content", &reader->content, NULL},
        {"fstype", &reader->fstype, NULL},
        {"options", &reader->options, NULL},
        {"is_bind", NULL, &reader->bind},
        {"rw", NULL, &reader->writable},
        {"is_symlink", NULL, &reader->symlink},
        {"noexec", NULL, &mount->no_exec},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (is(field, rows[i].name)) {
            if (rows[i].flag) {
                *rows[i].flag = yes(field);
            } else if (strlen(field->value) != field->size) {
                return bad_value(reader, field, "a NUL in it cannot be imported");
            } else {
                *rows[i].text = field->value;
            }
            return 0;
        }
    }
    if (is(field, "mandatory")) {
        reader->optional = !yes(field);
    } else if (!is(field, "is_dir") && !is(field, "nosuid") && !is(field, "nodev")) {
        return bad_value(reader, field, "no field of a mount");
    }
    return 0;
}

static int id_field(struct reader *reader, const struct field *field)
{
    const char *id = strcmp(field->message, "uidmap") == 0 ? "uid" : "gid";
    uint64_t number = 0;
    if (is(field, "inside_id") && field->value[0] != '\0') {
        if (import_number(field->value, strlen(field->value), &number) && number > 0 && number < UINT32_MAX) {
            draft_field(reader->draft, id, "%u", (unsigned)number);
        } else {
            draft_note(reader->draft, "no id that a jail has; it is 1000 inside", "%s %s", field->message,
                       field->value);
        }
    } else if (is(field, "outside_id") ? field->value[0] != '\0'
                                       : !is(field, "inside_id") && !is(field, "count")) {
        draft_note(reader->draft, "ids outside are the server's own", "%s: %s %s", field->message,
                   field->name, field->value);
    }
    return 0;
}

static int exec_field(struct reader *reader, const struct field *field)
{
    if (is(field, "path")) {
        reader->command = field->value[0] ? field->value : reader->command;
    } else if (is(field, "arg0")) {
        reader->command_name = field->value;
    } else if (is(field, "arg")) {
        buf_printf(&reader->command_line, " %s", field->value);
    }
    return 0;
}

static void variable(struct reader *reader, const struct field *field)
{
    const char *equals = memchr(field->value, '=', field->size);
    if (!equals) {
        draft_note(reader->draft, "nothing is inherited; name a value, or env_allow it", "envar %s",
                   field->value);
        return;
    }
    const char *name = draft_text(reader->draft, field->value, (size_t)(equals - field->value));
    draft_env(reader->draft, name, equals + 1, field->size - (size_t)(equals + 1 - field->value));
}

static int rlimit_field(struct reader *reader, const struct field *field, bool *ret_done)
{
    *ret_done = true;
    for (size_t i = 0; i < ARRAY_SIZE(rlimit_rows); i++) {
        size_t n = strlen(rlimit_rows[i].name);
        if (strncmp(field->name, rlimit_rows[i].name, n) != 0) {
            continue;
        }
        if (field->name[n] == '\0') {
            reader->given[i] = true;
            return number_of(reader, field, UINT64_MAX / rlimit_rows[i].unit, &reader->rlimits[i]);
        }
        if (strcmp(field->name + n, "_type") == 0) {
            bool value = strcmp(field->value, "VALUE") == 0 || strcmp(field->value, "0") == 0;
            reader->without[i] = !value;
            reader->given[i] |= value && !rlimit_rows[i].set;
            if (!value && (rlimit_rows[i].set || strcmp(field->value, "SOFT") != 0)) {
                draft_note(reader->draft, "as immure has it by itself", "%s: %s", field->name, field->value);
            }
            return 0;
        }
    }
    *ret_done = false;
    return 0;
}

static int limit_field(struct reader *reader, const struct field *field, bool *ret_done)
{
    static const struct {
        const char *name, *limit;
        uint64_t min, max;
    } rows[] = {{"cgroup_mem_max", "memory_bytes", 1, UINT64_MAX},
                {"cgroup_pids_max", "pids", 1, UINT32_MAX},
                {"cgroup_cpu_ms_per_sec", "cpu_percent", 10, 1000000}};
    uint64_t number;
    *ret_done = true;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (is(field, rows[i].name)) {
            int r = number_of(reader, field, rows[i].max, &number);
            uint64_t unit = rows[i].min == 10 ? 10 : 1;
            if (r == 0 && number >= rows[i].min) {
                draft_limit(reader->draft, rows[i].limit, number / unit);
            }
            return r;
        }
    }
    if (is(field, "time_limit")) {
        return number_of(reader, field, UINT32_MAX, &reader->time_limit);
    }
    return rlimit_field(reader, field, ret_done);
}

/* Fields that a policy has in another way, or has always. True: it was one. */
static bool plain_field(struct reader *reader, const struct field *field)
{
    struct draft *draft = reader->draft;
    if (is(field, "name")) {
        draft->name = field->value;
    } else if (is(field, "description")) {
        buf_printf(&reader->description, "%s%s", reader->description.len > 0 ? " " : "", field->value);
    } else if (is(field, "hostname")) {
        draft_string(draft, "hostname", field->value, field->size);
    } else if (is(field, "cwd")) {
        draft->working_directory = field->value;
    } else if (is(field, "envar")) {
        variable(reader, field);
    } else if (is(field, "cap")) {
        draft_capability(draft, field->value);
    } else if (is(field, "mount_proc") && yes(field)) {
        draft_mount(
            draft, (struct draft_mount){.destination = "/proc", .kind = POLICY_MOUNT_PROC, .optional = true});
    } else if (is(field, "use_core_scheduling") && yes(field)) {
        draft_field(draft, "core_sharing", "IF_OFFERED");
    } else if (is(field, "iface_no_lo")) {
        reader->no_loopback = yes(field);
    } else if (is(field, "seccomp_policy_file")) {
        reader->kafel_file = field->value;
        reader->kafel_line = field->line;
    } else if (is(field, "clone_newtime") && yes(field)) {
        draft_field(draft, "namespace", "[USER, MOUNT, PID, NET, IPC, UTS, CGROUP, TIME]");
    } else {
        return false;
    }
    return true;
}

/* Each string keeps its line, for messages. */
static void kafel_string(struct reader *reader, const struct field *field)
{
    do {
        buf_putc(&reader->kafel, '\n');
    } while (++reader->kafel_at < field->line);
    buf_append(&reader->kafel, field->value, field->size);
    for (size_t i = 0; i < field->size; i++) {
        reader->kafel_at += field->value[i] == '\n';
    }
}

/* What is so in every jail, or says how nsjail itself goes about it. */
static void other_field(struct reader *reader, const struct field *field)
{
    static const char *const held[] = {"mode",   "skip_setsid", "use_cgroupv2", "detect_cgroupv2", "exec_fd",
                                       "log_fd", "log_file",    "log_level",    "mount_proc",      "silent"};
    bool plain_false = strcmp(field->value, "false") == 0, network = strstr(field->name, "iface") ||
                                                                     strstr(field->name, "macvlan") ||
                                                                     strstr(field->name, "user_net");
    bool namespaces = strncmp(field->name, "clone_new", 9) == 0;
    for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
        if (is(field, held[i]) && !(i == 0 && !strstr("ONCE RERUN EXECVE", field->value))) {
            return;
        }
    }
    if (namespaces && plain_false) {
        draft_note(reader->draft, "a jail always has a namespace of its own", "%s: false", field->name);
    } else if (network) {
        draft_note(reader->draft, "a jail has no interface but lo", "%s", field->name);
    } else if (!namespaces && !plain_false) {
        draft_note(reader->draft, "no counterpart", "%s", field->name);
    }
}

static int read_field(struct reader *reader, const struct field *field)
{
    bool done = false;
    if (strcmp(field->message, "mount") == 0) {
        return mount_field(reader, field);
    }
    if (strcmp(field->message, "uidmap") == 0 || strcmp(field->message, "gidmap") == 0) {
        return id_field(reader, field);
    }
    if (strcmp(field->message, "exec_bin") == 0) {
        return exec_field(reader, field);
    }
    if (field->message[0] != '\0') {
        return 0;
    }
    if (is(field, "seccomp_string")) {
        kafel_string(reader, field);
        return 0;
    }
    int r = limit_field(reader, field, &done);
    if (r == 0 && !done && !plain_field(reader, field)) {
        other_field(reader, field);
    }
    return r;
}

static int read_fields(struct reader *reader, const char *message, unsigned depth);

static int read_message(struct reader *reader, const struct field *field, unsigned depth)
{
    bool angle = textlex_at_symbol(&reader->lex, '<');
    if (depth == DEPTH_MAX) {
        return textlex_fail(&reader->lex, reader->err, "nested too deep");
    }
    bool top = depth == 0, mount = top && is(field, "mount"), exec = top && is(field, "exec_bin");
    if (mount) {
        reader->mount = (struct draft_mount){.source = "", .destination = ""};
        reader->prefix_source = reader->prefix_destination = reader->fstype = reader->options = "";
        reader->content = NULL;
        reader->bind = reader->symlink = reader->writable = reader->optional = false;
    } else if (top && !exec && !is(field, "uidmap") && !is(field, "gidmap")) {
        other_field(reader, field);
    }
    int r = textlex_next(&reader->lex, reader->err);
    r = r < 0 ? r : read_fields(reader, top ? field->name : "inner", depth + 1);
    if (r == 0 && !textlex_at_symbol(&reader->lex, angle ? '>' : '}')) {
        return textlex_fail(&reader->lex, reader->err, "the end of %.60s is missing", field->name);
    }
    r = r < 0 ? r : textlex_next(&reader->lex, reader->err);
    return r < 0 || !mount ? r : end_mount(reader);
}

/* Strings that stand beside each other are one. */
static int read_scalar(struct reader *reader, struct field *field)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct textlex *lex = &reader->lex;
    int r = 0;
    if (lex->token.kind == TEXT_STRING) {
        for (; r == 0 && lex->token.kind == TEXT_STRING; r = textlex_next(lex, reader->err)) {
            textlex_unescape(&lex->token, &text);
        }
    } else {
        if (textlex_at_symbol(lex, '-')) {
            buf_putc(&text, '-');
            r = textlex_next(lex, reader->err);
        }
        if (r == 0 && (lex->token.kind == TEXT_END || lex->token.kind == TEXT_SYMBOL)) {
            return textlex_fail(lex, reader->err, "%.60s: a value is missing", field->name);
        }
        buf_append(&text, lex->token.start, r < 0 ? 0 : lex->token.len);
        r = r < 0 ? r : textlex_next(lex, reader->err);
    }
    reader->draft->failed |= text.failed;
    field->value = draft_text(reader->draft, text.data ? text.data : "", text.len);
    field->size = text.len;
    return r < 0 ? r : read_field(reader, field);
}

static int read_value(struct reader *reader, struct field *field, unsigned depth)
{
    if (textlex_at_symbol(&reader->lex, '{') || textlex_at_symbol(&reader->lex, '<')) {
        return read_message(reader, field, depth);
    }
    return read_scalar(reader, field);
}

static int read_values(struct reader *reader, struct field *field, unsigned depth)
{
    if (!textlex_at_symbol(&reader->lex, '[')) {
        return read_value(reader, field, depth);
    }
    int r = textlex_next(&reader->lex, reader->err);
    while (r == 0 && !textlex_at_symbol(&reader->lex, ']')) {
        r = read_value(reader, field, depth);
        if (r == 0 && textlex_at_symbol(&reader->lex, ',')) {
            r = textlex_next(&reader->lex, reader->err);
        } else if (r == 0 && !textlex_at_symbol(&reader->lex, ']')) {
            return textlex_fail(&reader->lex, reader->err, "%.60s: ',' or ']' is expected", field->name);
        }
    }
    return r < 0 ? r : textlex_next(&reader->lex, reader->err);
}

static int read_fields(struct reader *reader, const char *message, unsigned depth)
{
    struct textlex *lex = &reader->lex;
    int r = 0;
    while (r == 0 && lex->token.kind == TEXT_IDENTIFIER) {
        struct field field = {.message = message,
                              .name = draft_text(reader->draft, lex->token.start, lex->token.len),
                              .value = "",
                              .line = lex->token.line};
        r = textlex_next(lex, reader->err);
        if (r == 0 && textlex_at_symbol(lex, ':')) {
            r = textlex_next(lex, reader->err);
        } else if (r == 0 && !textlex_at_symbol(lex, '{') && !textlex_at_symbol(lex, '<')) {
            return textlex_fail(lex, reader->err, "':' is missing behind %.60s", field.name);
        }
        r = r < 0 ? r : read_values(reader, &field, depth);
        bool more = r == 0 && (textlex_at_symbol(lex, ',') || textlex_at_symbol(lex, ';'));
        r = more ? textlex_next(lex, reader->err) : r;
    }
    return r;
}

static int read_kafel(struct reader *reader)
{
    struct import_text text = {.file = reader->draft->request->path,
                               .text = reader->kafel.data,
                               .size = reader->kafel.len,
                               .line = 1};
    if (reader->kafel_file) {
        const struct import_text from = text;
        int r =
            import_include(reader->draft, &from, reader->kafel_line, reader->kafel_file, &text, reader->err);
        return r < 0 ? r : import_kafel(reader->draft, &text, reader->err);
    }
    reader->draft->otherwise.kind = ACTION_ALLOW;
    return reader->kafel.data ? import_kafel(reader->draft, &text, reader->err) : 0;
}

/* A tmpfs for writing is the scratch's: one for the working directory, or else the first; others are of their
 * own. */
static void settle_scratch(struct draft *draft)
{
    struct draft_mount *work = NULL;
    const char *cwd = draft->working_directory;
    for (size_t i = 0; i < draft->n_mounts; i++) {
        struct draft_mount *mount = &draft->mounts[i];
        if (mount->kind == POLICY_MOUNT_SCRATCH && strcmp(mount->source, "work") == 0) {
            bool here = strcmp(mount->destination, cwd) == 0;
            work = here || !work ? mount : work;
        }
    }
    for (size_t i = 0; i < draft->n_mounts; i++) {
        struct draft_mount *mount = &draft->mounts[i];
        if (mount != work && mount->kind == POLICY_MOUNT_SCRATCH && strcmp(mount->source, "work") == 0) {
            mount->kind = POLICY_MOUNT_TMPFS;
            mount->writable = true;
        }
    }
}

static void settle(struct reader *reader)
{
    struct draft *draft = reader->draft;
    for (size_t i = 0; i < ARRAY_SIZE(rlimit_rows); i++) {
        if ((rlimit_rows[i].set || reader->given[i]) && !reader->without[i]) {
            uint64_t value =
                (reader->given[i] ? reader->rlimits[i] : rlimit_rows[i].value) * rlimit_rows[i].unit;
            draft_rlimit(draft, rlimit_rows[i].resource, value, value);
        }
    }
    if (reader->time_limit > 0) {
        draft_limit(draft, "timeout_ms", reader->time_limit * 1000);
    }
    if (!reader->no_loopback) {
        draft_field(draft, "loopback", "true");
    }
    draft->description = reader->description.len > 0
                             ? draft_text(draft, reader->description.data, reader->description.len)
                             : NULL;
    const char *program = reader->command ? reader->command : reader->command_name;
    if (program) {
        draft->program = program[0] == '/' ? program : NULL;
        draft_note(draft, "a policy names no program; it is what follows `immure run ... --`",
                   "exec_bin %s%s", program, reader->command_line.data ? reader->command_line.data : "");
    }
    settle_scratch(draft);
}

int import_nsjail(struct draft *draft, struct err *reterr)
{
    const struct import_request *request = draft->request;
    if (kafel_is_text(request->text, request->size)) {
        const struct import_text text = {
            .file = request->path, .text = request->text, .size = request->size, .line = 1};
        draft->host_files = true;
        return import_kafel(draft, &text, reterr);
    }
    struct reader reader = {.draft = draft, .err = reterr, .time_limit = 600, .kafel_at = 1};
    draft->working_directory = "/";
    int r = textlex_open(&reader.lex, request->path, request->text, request->size, reterr);
    r = r < 0 ? r : read_fields(&reader, "", 0);
    if (r == 0 && textlex_at_symbol(&reader.lex, '{')) {
        r = textlex_fail(&reader.lex, reterr, "is JSON; of nsjail's two forms the text is read");
    }
    if (r == 0 && reader.lex.token.kind != TEXT_END) {
        r = textlex_fail(&reader.lex, reterr, "neither a field of nsjail's configuration nor Kafel");
    }
    if (r == 0) {
        settle(&reader);
        r = read_kafel(&reader);
    }
    draft->failed |= reader.command_line.failed || reader.description.failed || reader.kafel.failed;
    buf_free(&reader.command_line);
    buf_free(&reader.description);
    buf_free(&reader.kafel);
    return r;
}
