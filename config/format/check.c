/* The checks that server and policy configuration share. Runs wherever configuration is read. */
#include "config/format/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/format/source.h"
#include "jail/base/err.h"

size_t check_enter(struct checker *checker, const char *field, size_t index)
{
    size_t before = fieldpath_push(&checker->path, field);
    fieldpath_push_index(&checker->path, index);
    return before;
}

void check_leave(struct checker *checker, size_t before)
{
    fieldpath_pop(&checker->path, before);
}

struct source_position check_position(struct checker *checker, const char *field)
{
    size_t before = field ? fieldpath_push(&checker->path, field) : checker->path.len;
    struct source_position at = source_position(checker->source, checker->path.text);
    fieldpath_pop(&checker->path, before);
    return at;
}

const char *check_other_file(const struct checker *checker, struct source_position at,
                             char ret[SOURCE_PLACE_TEXT_MAX])
{
    char place[SOURCE_PLACE_TEXT_MAX - 4];
    ret[0] = '\0';
    if (checker->source->n_files > 0) {
        snprintf(place, sizeof place, "%s", source_where(checker->source, at, ret));
        snprintf(ret, SOURCE_PLACE_TEXT_MAX, " (%s)", place);
    }
    return ret;
}

int check_fail(struct checker *checker, const char *field, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t before = field ? fieldpath_push(&checker->path, field) : checker->path.len;
    int r = source_fail(checker->source, checker->path.text, checker->reterr, "%s", text);
    fieldpath_pop(&checker->path, before);
    return r;
}

int check_go_on(struct checker *checker, int r)
{
    return source_go_on(checker->source, checker->reterr, r);
}

int check_memory(struct checker *checker)
{
    return err_errno(checker->reterr, ENOMEM, "while reading %s", checker->source->name);
}

int check_range(struct checker *checker, const char *field, uint64_t value, uint64_t min, uint64_t max)
{
    if (value >= min && value <= max) {
        return 0;
    }
    if (max == UINT64_MAX) {
        return check_fail(checker, field, "must be at least %" PRIu64 ", not %" PRIu64, min, value);
    }
    return check_fail(checker, field, "must be %" PRIu64 " to %" PRIu64 ", not %" PRIu64, min, max, value);
}

int check_mode(struct checker *checker, const char *field, uint32_t mode, uint32_t max)
{
    return mode <= max ? 0 : check_fail(checker, field, "must be 0 to %#o, not %#o", max, mode);
}

int check_name(struct checker *checker, const char *field, const char *text, bool capitals, const char *more)
{
    static const size_t len_max = 64;
    size_t len = strlen(text);
    if (len == 0) {
        return check_fail(checker, field, "must not be empty");
    }
    if (len > len_max) {
        return check_fail(checker, field, "must not be longer than %zu characters", len_max);
    }
    for (const char *c = text; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (capitals && *c >= 'A' && *c <= 'Z');
        bool digit = *c >= '0' && *c <= '9';
        if (!letter && !digit && !strchr(more, *c)) {
            const char *letters = capitals ? "letters" : "small letters";
            return *more ? check_fail(checker, field, "may hold %s, digits and any of \"%s\", nothing else",
                                      letters, more)
                         : check_fail(checker, field, "may hold %s and digits, nothing else", letters);
        }
    }
    return 0;
}

int check_names(struct checker *checker, const char *field, char *const *texts, size_t n, bool capitals,
                const char *more)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t before = check_enter(checker, field, i);
        r = check_name(checker, NULL, texts[i], capitals, more);
        check_leave(checker, before);
    }
    return r;
}

int check_absolute_path(struct checker *checker, const char *field, const char *path)
{
    static const size_t len_max = 1024;
    if (path[0] != '/') {
        return check_fail(checker, field, "must be an absolute path");
    }
    if (strlen(path) > len_max) {
        return check_fail(checker, field, "must not be longer than %zu bytes", len_max);
    }
    for (const char *part = path + 1; *part;) {
        size_t len = strcspn(part, "/");
        if (len == 0) {
            return check_fail(checker, field, "must not hold an empty part (\"//\")");
        }
        if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.')) {
            return check_fail(checker, field, "must not hold \".\" or \"..\"");
        }
        part += part[len] == '/' ? len + 1 : len;
    }
    return 0;
}

int check_copy(struct checker *checker, const char *text, char **ret)
{
    if (text && !(*ret = strdup(text))) {
        return check_memory(checker);
    }
    return 0;
}

int check_new_array(struct checker *checker, size_t n, size_t size, void *ret)
{
    void *items = n > 0 ? calloc(n, size) : NULL;
    if (n > 0 && !items) {
        return check_memory(checker);
    }
    memcpy(ret, &items, sizeof items);
    return 0;
}

int check_copy_all(struct checker *checker, char *const *texts, size_t n, char ***ret, size_t *ret_n)
{
    int r = check_new_array(checker, n, sizeof **ret, ret);
    for (size_t i = 0; r == 0 && i < n; i++) {
        *ret_n = i + 1;
        r = check_copy(checker, texts[i], &(*ret)[i]);
    }
    return r;
}
