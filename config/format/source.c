/* Where fields came from. Runs wherever configuration is read. A flat list: it is searched when something is
 * wrong, and for the few places that are kept for those who look later. */
#include "config/format/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/err.h"

struct source_place {
    char *path;
    char *variable; /* that has set the field; NULL: a file */
    char *own_path; /* what another file calls it; NULL: the same */
    unsigned unit;
    bool cut; /* not all that stands there was adopted */
    struct source_position at;
};

void source_free(struct source *source)
{
    for (size_t i = 0; i < source->n_places; i++) {
        free(source->places[i].path);
        free(source->places[i].variable);
        free(source->places[i].own_path);
    }
    free(source->places);
    for (size_t i = 0; i < source->n_files; i++) {
        free(source->files[i]);
    }
    free(source->files);
    *source = (struct source){.name = source->name, .errors = source->errors};
}

int source_go_on(const struct source *source, struct err *reterr, int r)
{
    struct source_errors *errors = source->errors;
    if (r >= 0 || !errors || !reterr || reterr->kind != ERR_CONFIG) {
        return r;
    }
    struct err *larger = reallocarray(errors->rows, errors->n + 1, sizeof *larger);
    if (!larger) {
        return r;
    }
    errors->rows = larger;
    larger[errors->n++] = *reterr;
    err_clear(reterr);
    return 0;
}

void source_errors_clear(struct source_errors *errors)
{
    free(errors->rows);
    *errors = (struct source_errors){0};
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
    place->at = (struct source_position){.line = line, .column = column};
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

void source_note_unit(struct source *source, unsigned unit)
{
    source->places[source->n_places - 1].unit = unit;
}

static const char *file_of(const struct source *source, struct source_position at)
{
    return at.file > 0 ? source->files[at.file - 1] : source->name;
}

/* The number of a file, which gets one; negative: out of memory. */
static int number_of(struct source *source, const char *file)
{
    if (strcmp(file, source->name) == 0) {
        return 0;
    }
    for (size_t i = 0; i < source->n_files; i++) {
        if (strcmp(file, source->files[i]) == 0) {
            return (int)i + 1;
        }
    }
    char **larger = reallocarray(source->files, source->n_files + 1, sizeof *larger);
    if (!larger) {
        return -ENOMEM;
    }
    source->files = larger;
    larger[source->n_files] = strdup(file);
    return larger[source->n_files] ? (int)++source->n_files : -ENOMEM;
}

static int adopt_place(struct source *source, const char *path, int file, const char *own_path,
                       struct source_position at, bool cut, unsigned unit)
{
    struct source_place *place = file < 0 ? NULL : add(source, path);
    if (!place) {
        return -ENOMEM;
    }
    place->own_path = strdup(own_path);
    place->cut = cut;
    place->unit = unit;
    place->at = (struct source_position){.line = at.line, .column = at.column, .file = (unsigned)file};
    return place->own_path ? 0 : -ENOMEM;
}

static const char *own_path_of(const struct source_place *place)
{
    return place->own_path ? place->own_path : place->path;
}

static const struct source_place *find(const struct source *source, const char *path, size_t len);

int source_adopt(struct source *source, const char *path, const struct source *other, const char *other_path,
                 bool cut)
{
    size_t len = strlen(other_path);
    /* What is packed, and has no places, is known by its file at least. */
    int r = find(other, other_path, len) ? 0
                                         : adopt_place(source, path, number_of(source, other->name),
                                                       other_path, (struct source_position){0}, cut, 0);
    for (size_t i = 0; r == 0 && i < other->n_places; i++) {
        const struct source_place *from = &other->places[i];
        char there[256];
        if (strncmp(from->path, other_path, len) != 0 || !strchr(".[", from->path[len])) {
            continue;
        }
        snprintf(there, sizeof there, "%s%s", path, from->path + len);
        r = adopt_place(source, there, number_of(source, file_of(other, from->at)), own_path_of(from),
                        from->at, from->cut || (cut && from->path[len] == '\0'), from->unit);
    }
    return r;
}

bool source_has_adopted(const struct source *source, const struct source *other, const char *other_path)
{
    const struct source_place *from = find(other, other_path, strlen(other_path));
    const char *file = from ? file_of(other, from->at) : other->name;
    const char *own_path = from ? own_path_of(from) : other_path;
    if (from && from->cut) {
        return false;
    }
    for (size_t i = 0; i < source->n_places; i++) {
        const struct source_place *place = &source->places[i];
        if (place->own_path && !place->cut && strcmp(place->own_path, own_path) == 0 &&
            strcmp(file_of(source, place->at), file) == 0) {
            return true;
        }
    }
    return false;
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
    return place && !place->variable ? place->at : (struct source_position){0};
}

unsigned source_unit(const struct source *source, const char *path)
{
    const struct source_place *place = find(source, path, strlen(path));
    return place ? place->unit : 0;
}

bool source_has(const struct source *source, const char *path)
{
    return find(source, path, strlen(path)) != NULL;
}

const char *source_own_path(const struct source *source, const char *path, char ret[SOURCE_PATH_TEXT_MAX])
{
    const struct source_place *place = find_nearest(source, path);
    bool other = place && place->own_path;
    snprintf(ret, SOURCE_PATH_TEXT_MAX, "%s%s", other ? place->own_path : "",
             other ? path + strlen(place->path) : path);
    return ret;
}

const char *source_where(const struct source *source, struct source_position at,
                         char ret[SOURCE_PLACE_TEXT_MAX])
{
    return source_place_text(file_of(source, at), at, ret);
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
    struct source_position at = place ? place->at : (struct source_position){0};
    source_place_text(place && place->variable ? place->variable : file_of(source, at), at, item);
    char own[SOURCE_PATH_TEXT_MAX];
    source_own_path(source, path, own);
    return err_set(reterr, ERR_CONFIG, EINVAL, item, "%s%s%s", own, *path ? ": " : "", text);
}
