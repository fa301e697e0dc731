/* The interpreter of a template, started once. */
#pragma once

#include <stddef.h>

struct python;

/* Starts the interpreter as `argv` (its path, then `argc` - 1 options; ends with NULL) would start, imports
 * `modules` (`n` names) and makes everything ready for fork. What goes wrong is written to `log_fd`; then -1.
 * Nothing of it is ever freed: the process is the interpreter's. */
int python_start(char **argv, size_t argc, char *const *modules, size_t n, int log_fd, struct python *ret);
