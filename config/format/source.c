/* Where fields came from. Runs wherever configuration is read. A flat list: it is searched when something is
 * wrong, and for the few places that are kept for those who look later. */
#include "config/format/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/err.h"

struct source_place {
    char *path;
    char *variable; /* or another file; NULL: a place in the file */
    char *own_path; /* what that other file calls it; NULL: the same */
    unsigned line, column;
};

void source_free(struct source *source)
{
    for (size_t i = 0; i < source->n_places; i++) {
        free(source->places[i].path);
        free(source->places[i].variable);
        free(source->places[i].own_path);
    }
    free(source->places);
    source->places = NULL;
    source->n_places = 0;
}

/* The capacity is the power of two that holds the count. */
static struct source_place *add(struct source *source, const char *path)
{
    size_t n = source->n_places;
    if ((n & (n - 1)) == 0) {
        struct source_place *larger = reallocarray(source->places, n == 0 ? 1 : 2 * n, sizeof *larger);
        if (!larger) {
            return NULL;
        }
        source->places = larger;
    }
    source->places[n] = (struct source_place){.path = strdup(path)};
    if (!source->places[n].path) {
        return NULL;
    }
    source->n_places++;
    return &source->places[n];
}

int source_note(struct source *source, const char *path, unsigned line, unsigned column)
{
    struct source_place *place = add(source, path);
    if (!place) {
        return -ENOMEM;
    }
    place->line = line;
    place->column = column;
    return 0;
}

int source_note_variable(struct source *source, const char *path, const char *variable)
{
    struct source_place *place = add(source, path);
    if (!place || !(place->variable = strdup(variable))) {
        return -ENOMEM;
    }
    return 0;
}

/* `from` NULL: the file alone is known. */
static int adopt_place(struct source *source, const char *path, const char *file, const char *own_path,
                       const struct source_place *from)
{
    struct source_place *place = add(source, path);
    if (!place) {
        return -ENOMEM;
    }
    place->variable = strdup(file);
    place->own_path = strdup(own_path);
    place->line = from ? from->line : 0;
    place->column = from ? from->column : 0;
    return place->variable && place->own_path ? 0 : -ENOMEM;
}

int source_adopt(struct source *source, const char *path, const struct source *other, const char *own_path)
{
    size_t len = strlen(own_path);
    int r = adopt_place(source, path, other->name, own_path, NULL);
    for (size_t i = 0; r == 0 && i < other->n_places; i++) {
        const struct source_place *from = &other->places[i];
        char there[256];
        if (strncmp(from->path, own_path, len) != 0 || (from->path[len] != '\0' && from->path[len] != '.')) {
            continue;
        }
        snprintf(there, sizeof there, "%s%s", path, from->path + len);
        r = adopt_place(source, there, other->name, from->path, from);
    }
    return r;
}

/* The last note wins: a variable overrides the file. */
static const struct source_place *find(const struct source *source, const char *path, size_t len)
{
    for (size_t i = source->n_places; i > 0; i--) {
        const struct source_place *place = &source->places[i - 1];
        if (strlen(place->path) == len && memcmp(place->path, path, len) == 0) {
            return place;
        }
    }
    return NULL;
}

/* The field's own place or that of the message around it. */
static const struct source_place *find_nearest(const struct source *source, const char *path)
{
    for (size_t len = strlen(path); len > 0; len--) {
        if (path[len] == '\0' || path[len] == '.' || path[len] == '[') {
            const struct source_place *place = find(source, path, len);
            if (place) {
                return place;
            }
        }
    }
    return NULL;
}

struct source_position source_position(const struct source *source, const char *path)
{
    const struct source_place *place = find_nearest(source, path);
    bool here = place && !place->variable;
    return (struct source_position){.line = here ? place->line : 0, .column = here ? place->column : 0};
}

const char *source_place_text(const char *file, struct source_position at, char ret[SOURCE_PLACE_TEXT_MAX])
{
    if (at.line > 0) {
        snprintf(ret, SOURCE_PLACE_TEXT_MAX, "%.200s:%u:%u", file, at.line, at.column);
    } else {
        snprintf(ret, SOURCE_PLACE_TEXT_MAX, "%s", file);
    }
    return ret;
}

int source_fail(const struct source *source, const char *path, struct err *reterr, const char *fmt, ...)
{
    char item[SOURCE_PLACE_TEXT_MAX], text[sizeof reterr->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct source_place *place = find_nearest(source, path);
    const char *name = place && place->variable ? place->variable : source->name;
    struct source_position at = {.line = place ? place->line : 0, .column = place ? place->column : 0};
    source_place_text(name, at, item);
    const char *own = place && place->own_path ? place->own_path : "";
    const char *rest = *own ? path + strlen(place->path) : path;
    return err_set(reterr, ERR_CONFIG, EINVAL, item, "%s%s%s%s", own, rest, *path ? ": " : "", text);
}
