/* Interpreters asked about themselves: each started once, as nobody where we are root, with an empty
 * environment and no input, for 10 seconds at most. */
#pragma once

#include <stddef.h>

struct buf;
struct err;

/* Each writes lines of a word and a value into `ret`: `version`, `need` (a path) and `startup` (the file that
 * Python executes when it starts, wherever it is put there). ERR_HOST where it does not answer.
 * `libraries`: a directory that is needed anyway. */
int ask_python(const char *path, const char *libraries, struct buf *ret, struct err *reterr);
int ask_node(const char *path, struct buf *ret, struct err *reterr);
int ask_bash(const char *path, struct buf *ret, struct err *reterr);

/* The same of the packages in `environment`, a directory, once `modules` are imported; for 60 seconds at
 * most. `need` again, `link` (where one lies and where it leads to), `package` (name and version), and
 * `refuse`, the reason why it cannot be used. */
int ask_packages(const char *path, const char *libraries, const char *environment, char *const *modules,
                 size_t n_modules, struct buf *ret, struct err *reterr);
