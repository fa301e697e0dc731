/* struct draft: collecting what the readers of foreign policies find. Runs in the command line. Everything
 * lives as long as the draft; running out of memory is remembered and told at the end. */
#include "policy/import/draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "config/policy/constants.h"
#include "jail/base/buf.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"
#include "policy/capabilities.h"
#include "policy/import/clauses.h"
#include "policy/import/import.h"
#include "policy/mounts.h"

/* Of what is compared with all that there is of it. */
#define ROWS_MAX  2000u
#define RULES_MAX 50000u

void draft_free(struct draft *draft)
{
    for (size_t i = 0; i < draft->n_blocks; i++) {
        free(draft->blocks[i]);
    }
    free(draft->blocks);
    free(draft->rules);
    free(draft->mounts);
    free(draft->fields);
    free(draft->env);
    free(draft->rlimits);
    free(draft->comments);
    free(draft->limits);
    free(draft->notes);
    free(draft->suggested);
    free(draft->added);
    *draft = (struct draft){.failed = true};
}

/* Room for one more row, or NULL. Arrays double at powers of two. */
static void *grow(struct draft *draft, void *array, size_t n, size_t size)
{
    void **rows = array;
    if ((n & (n - 1)) == 0) {
        void *more = reallocarray(*rows, n == 0 ? 1 : 2 * n, size);
        if (!more) {
            draft->failed = true;
            return NULL;
        }
        *rows = more;
    }
    return (char *)*rows + n * size;
}

void *draft_alloc(struct draft *draft, size_t size)
{
    void **row = grow(draft, &draft->blocks, draft->n_blocks, sizeof *row);
    void *block = row ? calloc(1, size) : NULL;
    if (!block) {
        draft->failed = true;
        return NULL;
    }
    draft->n_blocks++;
    return *row = block;
}

const char *draft_text(struct draft *draft, const char *text, size_t size)
{
    char *copy = draft_alloc(draft, size + 1);
    if (!copy) {
        return "";
    }
    memcpy(copy, text, size);
    return copy;
}

static const char *draft_vprintf(struct draft *draft, const char *fmt, va_list ap)
{
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    if (n < 0) {
        draft->failed = true;
        return "";
    }
    const char *ret = draft_text(draft, text, (size_t)n);
    free(text);
    return ret;
}

const char *draft_printf(struct draft *draft, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *ret = draft_vprintf(draft, fmt, ap);
    va_end(ap);
    return ret;
}

/* One line, whatever is in it. */
static const char *one_line(struct draft *draft, const char *fmt, va_list ap)
{
    char line[400];
    int n = vsnprintf(line, sizeof line, fmt, ap);
    if (n < 0) {
        draft->failed = true;
        return "";
    }
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f) {
            *c = '?';
        }
    }
    return draft_text(draft, line, strlen(line));
}

static void put_note(struct draft *draft, struct draft_note **notes, size_t *n, struct draft_note note)
{
    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*notes)[i].what, note.what) == 0 && strcmp((*notes)[i].why, note.why) == 0) {
            return;
        }
    }
    draft->too_many |= *n >= ROWS_MAX;
    struct draft_note *row = draft->too_many ? NULL : grow(draft, notes, *n, sizeof *row);
    if (row) {
        *row = note;
        (*n)++;
    }
}

void draft_note(struct draft *draft, const char *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_note(draft, &draft->notes, &draft->n_notes,
             (struct draft_note){.what = one_line(draft, fmt, ap), .why = why});
    va_end(ap);
}

void draft_suggest(struct draft *draft, const char *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_note(draft, &draft->suggested, &draft->n_suggested,
             (struct draft_note){.what = one_line(draft, fmt, ap), .why = why});
    va_end(ap);
}

void draft_added(struct draft *draft, const char *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_note(draft, &draft->added, &draft->n_added,
             (struct draft_note){.what = one_line(draft, fmt, ap), .why = why});
    va_end(ap);
}

static void put_field(struct draft *draft, struct draft_field **fields, size_t *n, struct draft_field field)
{
    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*fields)[i].name, field.name) == 0) {
            (*fields)[i] = field;
            return;
        }
    }
    draft->too_many |= *n >= ROWS_MAX;
    struct draft_field *row = draft->too_many ? NULL : grow(draft, fields, *n, sizeof *row);
    if (row) {
        *row = field;
        (*n)++;
    }
}

void draft_field(struct draft *draft, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *value = draft_vprintf(draft, fmt, ap);
    va_end(ap);
    put_field(draft, &draft->fields, &draft->n_fields,
              (struct draft_field){name, draft_printf(draft, "%s: %s", name, value)});
}

void draft_string(struct draft *draft, const char *name, const char *value, size_t size)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_quoted(&text, value, size);
    draft->failed |= text.failed;
    draft_field(draft, name, "%s", text.failed ? "" : text.data);
}

void draft_comment(struct draft *draft, const char *text, size_t size)
{
    const char *copy = draft_text(draft, text, size);
    put_field(draft, &draft->comments, &draft->n_comments, (struct draft_field){copy, copy});
}

void draft_limit(struct draft *draft, const char *name, uint64_t value)
{
    put_field(draft, &draft->limits, &draft->n_limits,
              (struct draft_field){name, draft_printf(draft, "%s: %llu", name, (unsigned long long)value)});
}

void put_quoted(struct buf *ret, const char *text, size_t size)
{
    buf_putc(ret, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            buf_printf(ret, "\\%c", c);
        } else if (c == '\n') {
            buf_puts(ret, "\\n");
        } else if (c < ' ' || c >= 0x7f) {
            buf_printf(ret, "\\%03o", c);
        } else {
            buf_putc(ret, (char)c);
        }
    }
    buf_putc(ret, '"');
}

void draft_env(struct draft *draft, const char *name, const char *value, size_t value_size)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_puts(&text, "env { name: ");
    put_quoted(&text, name, strlen(name));
    buf_puts(&text, " value: ");
    put_quoted(&text, value, value_size);
    buf_puts(&text, " }");
    draft->failed |= text.failed;
    put_field(draft, &draft->env, &draft->n_env,
              (struct draft_field){name, text.failed ? "" : draft_text(draft, text.data, text.len)});
}

void draft_rlimit(struct draft *draft, const char *resource, uint64_t soft, uint64_t hard)
{
    const char *text = draft_printf(draft, "rlimit { resource: %s soft: %llu hard: %llu }", resource,
                                    (unsigned long long)soft, (unsigned long long)hard);
    struct rlimit own;
    uint64_t number;
    char name[32];
    snprintf(name, sizeof name, "RLIMIT_%s", resource);
    if (!draft->request->alone && constant_find("resource", name, strlen(name), &number) &&
        getrlimit((__rlimit_resource_t)number, &own) == 0 && hard > own.rlim_max) {
        draft_note(draft, "above the hard limit here; it is immure's own", "rlimit %s %llu", resource,
                   (unsigned long long)hard);
        return;
    }
    if (hard == soft) {
        text = draft_printf(draft, "rlimit { resource: %s soft: %llu }", resource, (unsigned long long)soft);
    }
    put_field(draft, &draft->rlimits, &draft->n_rlimits, (struct draft_field){resource, text});
}

void draft_capability(struct draft *draft, const char *name)
{
    int number = capability_number(name);
    if (number < 0) {
        draft_note(draft, "no such capability", "capability %s", name);
    } else if (capability_danger(number)) {
        draft_note(draft, "not given: it would be one over the jail itself", "capability %s", name);
    } else {
        const char *text = draft_printf(draft, "capability: \"%s\"", name);
        put_field(draft, &draft->fields, &draft->n_fields, (struct draft_field){name, text});
    }
}

/* Without double slashes and one at its end. */
static const char *clean_path(struct draft *draft, const char *path)
{
    char *copy = draft_alloc(draft, strlen(path) + 1);
    size_t n = 0;
    for (; copy && *path; path++) {
        if (*path != '/' || n == 0 || copy[n - 1] != '/') {
            copy[n++] = *path;
        }
    }
    if (copy && n > 1 && copy[n - 1] == '/') {
        copy[n - 1] = '\0';
    }
    return copy ? copy : "";
}

void draft_mount(struct draft *draft, struct draft_mount mount)
{
    mount.destination = clean_path(draft, mount.destination);
    const char *problem = path_problem(mount.destination);
    if (!problem && mount.kind == POLICY_MOUNT_BIND) {
        mount.source = clean_path(draft, mount.source);
        problem = strcmp(mount.source, "/") == 0
                      ? "its source would be the host's root; name the directories that are needed"
                      : path_problem(mount.source);
    }
    if (!problem && path_is_at_or_below(mount.destination, "/immure")) {
        problem = "is where scripts are put";
    }
    if (problem) {
        draft_note(draft, problem, "mount %s", mount.destination);
        return;
    }
    bool harmless = mount.kind == POLICY_MOUNT_BIND && path_is_below(mount.source, "/dev");
    mount.devices |= harmless;
    mount.writable &= !harmless;
    for (size_t i = 0; i < draft->n_mounts; i++) {
        if (strcmp(draft->mounts[i].destination, mount.destination) == 0) {
            draft_note(draft, "what is mounted there later takes its place", "an earlier mount %s",
                       mount.destination);
            draft->mounts[i] = mount;
            return;
        }
    }
    draft->too_many |= draft->n_mounts >= ROWS_MAX;
    struct draft_mount *row =
        draft->too_many ? NULL : grow(draft, &draft->mounts, draft->n_mounts, sizeof *row);
    if (row) {
        *row = mount;
        draft->n_mounts++;
    }
}

void draft_repeat(struct draft *draft, struct call_rule rule)
{
    draft->too_many |= draft->n_rules >= RULES_MAX;
    struct call_rule *row = draft->too_many ? NULL : grow(draft, &draft->rules, draft->n_rules, sizeof *row);
    if (row) {
        rule.order = draft->n_rules++;
        *row = rule;
    }
}

void draft_rule(struct draft *draft, const char *call, struct verdict verdict, const struct clauses *when)
{
    struct call_rule rule = {.call = call, .verdict = verdict};
    rule.always = !when || clauses_always(when);
    rule.inexact = when && when->inexact;
    if (!rule.always && !rule.inexact && when->n > 0) {
        struct clause *copy = draft_alloc(draft, when->n * sizeof *copy);
        if (!copy) {
            return;
        }
        memcpy(copy, when->rows, when->n * sizeof *copy);
        rule.when = copy;
        rule.n_when = when->n;
    }
    draft_repeat(draft, rule);
}

const char *errno_text(uint32_t code, char ret[32])
{
    const char *name = strerrorname_np((int)code);
    if (name) {
        return name;
    }
    snprintf(ret, 32, "%u", code);
    return ret;
}
