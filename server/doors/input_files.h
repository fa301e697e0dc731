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

/* Takes empty parts and "." out of a path: "./a//b" becomes "a/b". ERR_INVALID for a path that is absolute,
 * has a part "..", names a directory, is too long, or has a part of more than 255 bytes. */
int input_path_clean(char *path, const char *field, struct err *reterr);
/* The same for a name or pattern of `outputs`, where what lies outside the workspace gets a sentence of its
 * own. */
int input_pattern_clean(char *pattern, const char *field, struct err *reterr);
