/* A request's program and `files`: checked names, and contents in the one anonymous file that goes to the
 * warden. */
#pragma once

struct err;
struct input;
struct job;
struct json;

/* The array `files` of a request: appends the contents to `input`, and fills job->files. ERR_INVALID names
 * the field: "files[2].name". `files` NULL: none. */
int input_files_decode(const struct json *files, struct input *input, struct job *job, struct err *reterr);

/* 0, or ERR_INVALID for a path with an empty, "." or ".." part, a leading '/', or a part of more than 255
 * bytes. */
int input_path_check(const char *path, const char *field, struct err *reterr);
