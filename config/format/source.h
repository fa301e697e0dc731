/* struct source: where the fields of a configuration came from, so that what is found wrong later can still
 * be pointed at. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct source_place;

/* What is wrong with a file, where reading goes on behind it. */
struct source_errors {
    struct err *rows;
    size_t n;
    bool incomplete; /* what was read cannot be looked at further: more than an unknown field is missing */
};

#define SOURCE_PATH_TEXT_MAX 256

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
    struct source_errors *errors; /* not owned; NULL: reading ends at the first */
};

#define SOURCE_NAMED(text) ((struct source){.name = (text)})

void source_free(struct source *source);

/* Remembers that the field at `path` ("mount[3].bind.source") stands at line and column of the file. 0 or
 * -ENOMEM. */
int source_note(struct source *source, const char *path, unsigned line, unsigned column);
/* The same for a field that an environment variable has set instead. */
int source_note_variable(struct source *source, const char *path, const char *variable);

/* The field that was noted last is written with a unit (config/format/amount.h). */
void source_note_unit(struct source *source, unsigned unit);
/* That unit; 0: none. */
unsigned source_unit(const struct source *source, const char *path);

/* The field at `path` has come from another source, which has it at `other_path`: it and what is in it is
 * pointed at where it was written, by the names that it has there. `cut`: not all of it has come. */
int source_adopt(struct source *source, const char *path, const struct source *other, const char *other_path,
                 bool cut);
/* What `other` has at `other_path` was adopted before, and whole, from wherever `other` itself may have it.
 */
bool source_has_adopted(const struct source *source, const struct source *other, const char *other_path);

/* Whether reading goes on: an error about a file is moved from `reterr` to `source->errors`, where there is
 * that, and 0 returned; else `r`. */
int source_go_on(const struct source *source, struct err *reterr, int r);
void source_errors_clear(struct source_errors *errors);

/* Where the field was written, or else the nearest one around it. */
struct source_position source_position(const struct source *source, const char *path);
/* Whether the field itself was written, or what is in it. */
bool source_has(const struct source *source, const char *path);
/* The field's name in the file that wrote it, into `ret`. */
const char *source_own_path(const struct source *source, const char *path, char ret[SOURCE_PATH_TEXT_MAX]);
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
