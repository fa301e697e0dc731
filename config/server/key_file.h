/* The file with keys alone: read into a configuration, and edited line by line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/message/job.h"

struct Immure__Server;
struct buf;
struct err;
struct source;

/* Adds the keys of the file that the message names, if it names one. ERR_CONFIG naming file, line, column. */
int key_file_append(struct Immure__Server *message, struct source *source, struct err *reterr);

/* "2027-01-31" or "2027-01-31T12:00:00Z", as seconds since the epoch. */
bool key_file_read_time(const char *text, uint64_t *ret);

/* What a key is, for a person. Texts are "" where there is nothing. */
struct key_row {
    char *name, *team, *expires, *policies, *runtimes;
};
struct key_rows {
    struct key_row *rows;
    size_t n;
};
/* ERR_CONFIG where the text is no file of keys, each with a name and a hash of its own. */
int key_file_list(const char *path, const char *text, size_t size, struct key_rows *ret, struct err *reterr);
void key_rows_clear(struct key_rows *rows);

/* Appends a line with a key that nobody had before, and tells the key. */
struct key_wish {
    const char *name, *team, *expires;
    const char *const *policies, *const *runtimes;
    size_t n_policies, n_runtimes;
    uint64_t max_concurrent_jobs, max_jobs_per_minute; /* 0: none */
    struct job_limits max;                             /* the same */
    bool approver;
};
#define KEY_BYTES 72 /* of a key's text, with the NUL */
int key_file_add(const char *path, const struct key_wish *wish, struct buf *text, char ret_key[KEY_BYTES],
                 struct err *reterr);
/* Takes the line of that key out. ERR_NOT_FOUND: there is none; ERR_CONFIG: it is not on one line. */
int key_file_remove(const char *path, const char *name, struct buf *text, struct err *reterr);
