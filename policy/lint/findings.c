/* Findings of lint, and the table of its rules. On the command line alone. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/source.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/lint/lint.h"
#include "policy/lint/lint_internal.h"

static const struct lint_rule rules[] = {
#define RULE(name, id, severity, summary, remedy) [LINT_##name] = {id, LINT_##severity, summary, remedy},
#include "policy/lint/rules.def"
#undef RULE
};

const struct lint_rule *lint_rule_row(size_t index)
{
    return index < ARRAY_SIZE(rules) ? &rules[index] : NULL;
}

void lint_finding_clear(struct lint_finding *finding)
{
    char *const texts[] = {finding->file,    finding->field, finding->about,
                           finding->message, finding->fix,   finding->text};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        free(texts[i]);
    }
}

void lint_findings_clear(struct lint *lint)
{
    for (size_t i = 0; i < lint->n; i++) {
        lint_finding_clear(&lint->rows[i]);
    }
    free(lint->rows);
    lint->rows = NULL;
    lint->n = 0;
}

struct lint_spot lint_spot(const char *about, const char *path, ...)
{
    struct lint_spot spot = {.about = about};
    va_list ap;
    va_start(ap, path);
    vsnprintf(spot.path, sizeof spot.path, path, ap);
    va_end(ap);
    return spot;
}

static char *copy(struct lint *lint, const char *text)
{
    char *copied = text ? strdup(text) : NULL;
    lint->failed |= text && !copied;
    return copied;
}

static struct lint_finding *add(struct lint *lint, enum lint_id id)
{
    struct lint_finding *larger = reallocarray(lint->rows, lint->n + 1, sizeof *larger);
    if (!larger) {
        lint->failed = true;
        return NULL;
    }
    lint->rows = larger;
    larger[lint->n] = (struct lint_finding){.rule = &rules[id]};
    return &larger[lint->n++];
}

static const char *file_of(const struct lint *lint, struct source_position at)
{
    return at.file > 0 ? lint->source.files[at.file - 1] : lint->name;
}

void lint_find(struct lint *lint, enum lint_id id, const struct lint_spot *spot, const char *fmt, ...)
{
    struct lint_finding *finding = add(lint, id);
    if (!finding) {
        return;
    }
    char message[512], field[SOURCE_PATH_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    struct source_position at = source_position(&lint->source, spot->path);
    /* About what is nowhere written: the policy as a whole. */
    at = at.line > 0 ? at : source_position(&lint->source, "name");
    finding->file = copy(lint, file_of(lint, at));
    finding->line = at.line;
    finding->column = at.column;
    finding->field = copy(lint, source_own_path(&lint->source, spot->path, field));
    finding->about = copy(lint, spot->about);
    finding->message = copy(lint, message);
    finding->fix = copy(lint, spot->remedy ? spot->remedy : rules[id].remedy);
    finding->edit = spot->edit;
    finding->text = copy(lint, spot->text);
}

/* An error of reading or compiling: its item is "FILE:LINE:COLUMN", its text mostly begins with the field. */
void lint_find_error(struct lint *lint, const struct err *err)
{
    struct lint_finding *finding = add(lint, LINT_INVALID);
    const char *text = err->text, *colon = strstr(text, ": ");
    size_t field = colon && !memchr(text, ' ', (size_t)(colon - text)) ? (size_t)(colon - text) : 0;
    const char *message = field > 0 ? colon + 2 : text, *remedy = strstr(message, "; ");
    char file[sizeof err->item], *end = file + strlen(err->item);
    if (!finding) {
        return;
    }
    memcpy(file, err->item, sizeof file);
    unsigned numbers[2] = {0, 0};
    for (size_t i = 2; i-- > 0;) {
        char *before = strrchr(file, ':');
        if (before && before + 1 < end && strspn(before + 1, "0123456789") == strlen(before + 1)) {
            numbers[i] = (unsigned)strtoul(before + 1, NULL, 10);
            *before = '\0';
        }
    }
    finding->file = copy(lint, *file ? file : lint->name);
    finding->line = numbers[0];
    finding->column = numbers[1];
    finding->field = strndup(text, field);
    if (finding->line == 0 && finding->field && strcmp(file, lint->name) == 0) {
        /* About the whole file, or about what is nowhere written. */
        struct source_position at = source_position(&lint->source, finding->field);
        at = at.line > 0 ? at : source_position(&lint->source, "name");
        finding->line = at.file == 0 ? at.line : 0;
        finding->column = at.file == 0 ? at.column : 0;
    }
    finding->message = strndup(message, remedy ? (size_t)(remedy - message) : strlen(message));
    finding->fix = copy(lint, remedy ? remedy + 2 : rules[LINT_INVALID].remedy);
    lint->failed |= !finding->field || !finding->message;
}
