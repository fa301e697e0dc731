/* Interpreters asked about themselves: each started once, as our own user, with an empty environment and no
 * input, for 10 seconds at most. */
#pragma once

struct buf;
struct err;

/* Each writes lines of a word and a value into `ret`: `version`, `need` (a path) and `startup` (the file that
 * Python executes when it starts, wherever it is put there). ERR_HOST where it does not answer.
 * `libraries`: a directory that is needed anyway. */
int ask_python(const char *path, const char *libraries, struct buf *ret, struct err *reterr);
int ask_node(const char *path, struct buf *ret, struct err *reterr);
int ask_bash(const char *path, struct buf *ret, struct err *reterr);
