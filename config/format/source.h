/* struct source: where the fields of a configuration came from, so that what is found wrong later can still
 * be pointed at. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct source_place;

/* Of a field in its file; line 0: not known, as in a binary file. */
struct source_position {
    unsigned line, column;
    unsigned file; /* 0: the source's own; else 1 more than the index into its `files` */
};

struct source {
    const char *name; /* the file's, or "shipped:server"; not owned */
    struct source_place *places;
    size_t n_places;
    char **files; /* others that fields have come from */
    size_t n_files;
};

#define SOURCE_NAMED(text) ((struct source){.name = (text)})

void source_free(struct source *source);

/* Remembers that the field at `path` ("mount[3].bind.source") stands at line and column of the file. 0 or
 * -ENOMEM. */
int source_note(struct source *source, const char *path, unsigned line, unsigned column);
/* The same for a field that an environment variable has set instead. */
int source_note_variable(struct source *source, const char *path, const char *variable);

/* The field at `path` has come from another source, which has it at `other_path`: it and what is in it is
 * pointed at where it was written, by the names that it has there. `cut`: not all of it has come. */
int source_adopt(struct source *source, const char *path, const struct source *other, const char *other_path,
                 bool cut);
/* What `other` has at `other_path` was adopted before, and whole, from wherever `other` itself may have it.
 */
bool source_has_adopted(const struct source *source, const struct source *other, const char *other_path);

/* Where the field was written, or else the nearest one around it. */
struct source_position source_position(const struct source *source, const char *path);
/* The same for people: "FILE:LINE:COLUMN", or FILE alone. */
#define SOURCE_PLACE_TEXT_MAX 256
const char *source_where(const struct source *source, struct source_position at,
                         char ret[SOURCE_PLACE_TEXT_MAX]);

/* "FILE:LINE:COLUMN", or FILE alone. */
const char *source_place_text(const char *file, struct source_position at, char ret[SOURCE_PLACE_TEXT_MAX]);

/* ERR_CONFIG: item is the field's place ("FILE:LINE:COLUMN" or the variable), or else the nearest field's
 * around it, or the file; text is "PATH: " and the sentence. */
int source_fail(const struct source *source, const char *path, struct err *reterr, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
