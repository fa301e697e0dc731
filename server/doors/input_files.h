/* A request's program and `files`: checked names, and contents in the one anonymous file that goes to the
 * warden. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct job;
struct json;

/* Contents one behind the other; the program's text is the first. */
struct input {
    int fd; /* -1 before input_new() */
    uint64_t size;
};
int input_new(struct input *ret, struct err *reterr);
int input_append(struct input *input, const void *data, size_t size, struct err *reterr);
/* Nobody can change the contents any more. */
int input_seal(struct input *input, struct err *reterr);
void input_clear(struct input *input);

/* The array `files` of a request: appends the contents to `input`, and fills job->files. ERR_INVALID names
 * the field: "files[2].name". `files` NULL: none. */
int input_files_decode(const struct json *files, struct input *input, struct job *job, struct err *reterr);

/* 0, or ERR_INVALID for a path with an empty, "." or ".." part, a leading '/', or a part of more than 255
 * bytes. */
int input_path_check(const char *path, const char *field, struct err *reterr);
