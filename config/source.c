/* Where fields came from. Runs wherever configuration is read. A flat list, searched only when something is
 * wrong. */
#include "config/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/err.h"

struct source_place {
    char *path;
    char *variable; /* NULL: a place in the file */
    unsigned line, column;
};

void source_free(struct source *source)
{
    for (size_t i = 0; i < source->n_places; i++) {
        free(source->places[i].path);
        free(source->places[i].variable);
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

int source_fail(const struct source *source, const char *path, struct err *reterr, const char *fmt, ...)
{
    char item[256], text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct source_place *place = find_nearest(source, path);
    if (!place) {
        snprintf(item, sizeof item, "%s", source->name);
    } else if (place->variable) {
        snprintf(item, sizeof item, "%s", place->variable);
    } else {
        snprintf(item, sizeof item, "%.200s:%u:%u", source->name, place->line, place->column);
    }
    return err_set(reterr, ERR_CONFIG, EINVAL, item, "%s%s%s", path, *path ? ": " : "", text);
}
