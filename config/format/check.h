/* struct checker: a decoded configuration turned into plain structs, field by field, each held to its rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/fieldpath.h"
#include "config/format/source.h"

struct err;

struct checker {
    const struct source *source;
    struct fieldpath path; /* of the message that is being looked at */
    struct err *reterr;
};

/* Goes to item `index` of a repeated field below the current path; returns what check_leave() needs to go
 * back. */
size_t check_enter(struct checker *checker, const char *field, size_t index);
void check_leave(struct checker *checker, size_t before);

/* Where a field is, for errors that are found later; `field` as below. */
struct source_position check_position(struct checker *checker, const char *field);

/* " (FILE:LINE:COLUMN)" where the source is made of several files, or else "": for the other one of two
 * fields. */
const char *check_other_file(const struct checker *checker, struct source_position at,
                             char ret[SOURCE_PLACE_TEXT_MAX]);

/* Each fails with ERR_CONFIG at the field's place in the source. `field` is a name below the current path;
 * NULL: the current path itself. */
int check_fail(struct checker *checker, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int check_memory(struct checker *checker);
/* source_go_on() for what has just failed. */
int check_go_on(struct checker *checker, int r);

int check_range(struct checker *checker, const char *field, uint64_t value, uint64_t min, uint64_t max);
/* Permission bits, which people read in octal. */
int check_mode(struct checker *checker, const char *field, uint32_t mode, uint32_t max);
/* Letters and digits (capitals only where `capitals`) and the characters of `more`; not empty. */
int check_name(struct checker *checker, const char *field, const char *text, bool capitals, const char *more);
/* The same for each item of a repeated field. */
int check_names(struct checker *checker, const char *field, char *const *texts, size_t n, bool capitals,
                const char *more);
/* Begins with '/', no empty part but a final one, no "." or "..". */
int check_absolute_path(struct checker *checker, const char *field, const char *path);

/* Copies. NULL stays NULL. */
int check_copy(struct checker *checker, const char *text, char **ret);
/* Copies all; `*ret` and `*ret_n` can be freed in whatever state a failure leaves them. */
int check_copy_all(struct checker *checker, char *const *texts, size_t n, char ***ret, size_t *ret_n);
/* `n` zeroed items, NULL for none. */
int check_new_array(struct checker *checker, size_t n, size_t size, void *ret);
