/* `immure policy lint --fix`: findings that have one answer, corrected in the text of the file, where they
 * stand; what else is there stays as it is, byte for byte. On the command line alone.
 *
 * What must hold: the policy allows after it what it allowed before. So the new text is read and compiled,
 * and the file is written only where that gives the same filter. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/format/protofile.h"
#include "config/format/textlex.h"
#include "config/shipped.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "policy/compiled.h"
#include "policy/lint/lint_internal.h"
#include "policy/policy.h"

static bool is_text(const char *file)
{
    const char *slash = strrchr(file, '/'), *dot = strrchr(slash ? slash : file, '.');
    return !dot || (strcmp(dot, ".json") != 0 && strcmp(dot, ".binpb") != 0);
}

const struct buf *lint_text(struct lint *lint, const char *file)
{
    const char *shipped = strncmp(file, "shipped:", 8) == 0 ? file + 8 : NULL;
    if (lint->text_of && strcmp(lint->text_of, file) == 0) {
        return &lint->text;
    }
    buf_free(&lint->text);
    free(lint->text_of);
    lint->text_of = NULL;
    if (shipped) {
        const struct shipped_file *row = shipped_policy(shipped);
        row = row ? row : shipped_part(shipped);
        buf_append(&lint->text, row ? row->data : "", row ? row->size : 0);
    } else if (!is_text(file) || protofile_read(file, &lint->text, NULL) < 0) {
        return NULL;
    }
    lint->text_of = strdup(file);
    return lint->text.data && lint->text_of ? &lint->text : NULL;
}

/* Where a column of a line is; columns count characters. NULL: there is no such place. */
static const char *place_of(const struct buf *text, unsigned line, unsigned column)
{
    const char *at = text->data, *end = text->data + text->len;
    for (; line > 1 && at; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    for (; at && at < end && column > 1; column--) {
        do {
            at++;
        } while (at < end && ((unsigned char)*at & 0xc0) == 0x80);
    }
    return at && at < end ? at : NULL;
}

static bool token_at(const struct buf *text, unsigned line, unsigned column, struct text_token *ret)
{
    struct textlex lex;
    const char *at = line > 0 ? place_of(text, line, column) : NULL;
    if (!at || textlex_open(&lex, "", at, (size_t)(text->data + text->len - at), NULL) < 0) {
        return false;
    }
    *ret = lex.token;
    return lex.token.start == at && lex.token.kind != TEXT_END;
}

bool lint_token(struct lint *lint, const char *path, struct text_token *ret)
{
    if (!source_has(&lint->source, path)) {
        return false;
    }
    const struct source_position at = source_position(&lint->source, path);
    const struct buf *text = lint_text(lint, at.file > 0 ? lint->source.files[at.file - 1] : lint->name);
    return text && token_at(text, at.line, at.column, ret);
}

/* A piece of the text that becomes another. */
struct edit {
    size_t from, to;
    const char *text;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The item of a list with the comma that stands before it, or behind it; or a field with its name, and with
 * its line where it stands there alone. False: something else is around it, a comment perhaps. */
static bool widen(const struct buf *text, struct edit *edit)
{
    const char *data = text->data;
    size_t before = edit->from, after = edit->to;
    while (before > 0 && is_blank(data[before - 1])) {
        before--;
    }
    while (after < text->len && is_blank(data[after])) {
        after++;
    }
    char left = before > 0 ? data[before - 1] : '\0', right = after < text->len ? data[after] : '\0';
    if (left == ',' && (right == ',' || right == ']')) {
        edit->from = before - 1;
        return true;
    }
    if (left == '[' && right == ',') {
        edit->to = after + 1;
        while (edit->to < text->len && data[edit->to] == ' ') {
            edit->to++;
        }
        return true;
    }
    if (left != ':') {
        return false;
    }
    for (before--;
         before > 0 && (data[before - 1] == '_' || (data[before - 1] >= 'a' && data[before - 1] <= 'z'));) {
        before--;
    }
    edit->from = before;
    while (before > 0 && (data[before - 1] == ' ' || data[before - 1] == '\t')) {
        before--;
    }
    size_t end = edit->to;
    while (end < text->len && (data[end] == ' ' || data[end] == '\t')) {
        end++;
    }
    bool alone = (before == 0 || data[before - 1] == '\n') && end < text->len && data[end] == '\n';
    edit->to = alone ? end + 1 : end;
    edit->from = alone ? before : edit->from;
    return true;
}

static bool edit_of(const struct buf *text, const struct lint_finding *finding, struct edit *ret)
{
    struct text_token token;
    if (finding->edit == LINT_EDIT_NONE || !token_at(text, finding->line, finding->column, &token)) {
        return false;
    }
    ret->from = (size_t)(token.start - text->data);
    ret->to = ret->from + token.len;
    ret->text = finding->edit == LINT_EDIT_REPLACE ? finding->text : "";
    return finding->edit == LINT_EDIT_REPLACE || widen(text, ret);
}

/* The last one first, so that those before it stay where they are. */
static int compare(const void *a, const void *b)
{
    const struct edit *x = a, *y = b;
    return x->from < y->from ? 1 : x->from > y->from ? -1 : 0;
}

/* Two that touch each other are left for the next time. */
static int apply(struct buf *text, struct edit *edits, size_t n, size_t *ret_n)
{
    size_t limit = text->len;
    if (n > 0) {
        qsort(edits, n, sizeof *edits, compare);
    }
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        struct buf next = BUF_INIT;
        if (edits[i].to > limit) {
            continue;
        }
        buf_append(&next, text->data, edits[i].from);
        buf_puts(&next, edits[i].text);
        buf_append(&next, text->data + edits[i].to, text->len - edits[i].to);
        buf_free(text);
        *text = next;
        limit = edits[i].from;
        ++*ret_n;
    }
    return text->failed ? -ENOMEM : 0;
}

static bool same_filter(const struct policy *a, const struct policy *b)
{
    return a->filter.length == b->filter.length &&
           memcmp(a->filter.instructions, b->filter.instructions,
                  a->filter.length * sizeof *a->filter.instructions) == 0;
}

static int check_same(const struct lint *lint, const struct buf *text, struct err *reterr)
{
    CLEANUP(source_free) struct source source = SOURCE_NAMED(lint->name);
    struct policy_spec *spec = NULL;
    struct policy *policy = NULL;
    int r = policy_spec_read(&source, text->data ? text->data : "", text->len, &spec, reterr);
    r = r < 0 ? r : policy_compile(spec, &policy, reterr);
    if (r == 0 && !same_filter(lint->policy, policy)) {
        r = err_set(reterr, ERR_INTERNAL, EINVAL, lint->name,
                    "would have another filter; nothing was changed");
    }
    policy_free(policy);
    return r;
}

/* As a whole or not at all; owner and mode stay. */
static int write_anew(const char *path, const struct buf *text, struct err *reterr)
{
    struct stat old;
    CLEANUP(freep) char *real = realpath(path, NULL);
    CLEANUP(freep) char *temporary = NULL;
    if (!real || stat(real, &old) < 0 || asprintf(&temporary, "%s.XXXXXX", real) < 0) {
        return err_set(reterr, ERR_CONFIG, errno, path, "cannot be replaced: %s", strerror(errno));
    }
    CLEANUP(fd_closep) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return err_set(reterr, ERR_CONFIG, errno, path, "cannot be replaced: %s", strerror(errno));
    }
    /* Of another's file the owner cannot stay, but for root. */
    int r = fchown(fd, old.st_uid, old.st_gid) < 0 && errno != EPERM ? -errno : 0;
    r = r < 0 ? r : fchmod(fd, old.st_mode & 07777) < 0 ? -errno : io_write_full(fd, text->data, text->len);
    r = r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
    r = r < 0 ? r : rename(temporary, real) < 0 ? -errno : 0;
    if (r < 0) {
        unlink(temporary);
        return err_set(reterr, ERR_CONFIG, -r, path, "cannot be replaced: %s", strerror(-r));
    }
    return 0;
}

int lint_fix(struct lint *lint, size_t *ret_n, struct err *reterr)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(freep) struct edit *edits = calloc(lint->n + 1, sizeof *edits);
    size_t n = 0;
    *ret_n = 0;
    if (strncmp(lint->name, "shipped:", 8) == 0 || !is_text(lint->name)) {
        return err_set(reterr, ERR_INVALID, EINVAL, lint->name, "--fix takes files of text");
    }
    int r = edits ? protofile_read(lint->name, &text, reterr) : err_errno(reterr, ENOMEM, "while correcting");
    for (size_t i = 0; r == 0 && i < lint->n; i++) {
        bool own = strcmp(lint->rows[i].file, lint->name) == 0;
        n += own && edit_of(&text, &lint->rows[i], &edits[n]);
    }
    if (r < 0 || n == 0 || !lint->policy) {
        return r;
    }
    r = apply(&text, edits, n, ret_n) < 0 ? err_errno(reterr, ENOMEM, "while correcting") : 0;
    r = r < 0 ? r : check_same(lint, &text, reterr);
    r = r < 0 ? r : write_anew(lint->name, &text, reterr);
    *ret_n = r < 0 ? 0 : *ret_n;
    return r;
}
