/* The readers: one for each format, from a text to a draft. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clauses;
struct draft;
struct err;
struct import_text;

struct import_format {
    const char *name, *what;
    int (*read)(struct draft *draft, struct err *reterr);
};

int import_nsjail(struct draft *draft, struct err *reterr);
int import_oci(struct draft *draft, struct err *reterr);
int import_systemd(struct draft *draft, struct err *reterr);
int import_minijail(struct draft *draft, struct err *reterr);

/* A text with its name, of what is being read. */
struct import_text {
    const char *file;
    const char *text;
    size_t size;
    unsigned line;
};

/* Whether a text is Kafel, and no configuration of nsjail's. */
bool kafel_is_text(const char *text, size_t size);
/* Kafel's statements, into rules and what becomes of all other calls. */
int import_kafel(struct draft *draft, const struct import_text *text, struct err *reterr);

/* ERR_CONFIG with item FILE:LINE. */
int import_fail(const char *file, unsigned line, struct err *reterr, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Reads a file that lies beside `from`, or where an absolute path says; it lives as long as the draft. */
int import_include(struct draft *draft, const struct import_text *from, unsigned line, const char *name,
                   struct import_text *ret, struct err *reterr);
/* Whether the host has it; true where it may not be looked. */
bool import_host_has(const struct draft *draft, const char *path);
/* A number as C writes it, with a sign or without; false where it is none or too large. */
bool import_number(const char *text, size_t length, uint64_t *ret);
/* A constant of the kernel by its name, of whatever argument. */
bool import_constant(const char *name, size_t length, uint64_t *ret);
/* The groups of system calls that systemd has, as names with blanks between; NULL: no such group. Members
 * that begin with '@' are groups themselves. */
const char *systemd_group(const char *name);
