/* The interpreter of a template, made ready. */
#pragma once

struct python;

/* In an interpreter that has just started, with nothing of a program: imports the modules that sys.argv names
 * behind the script, and makes everything ready for fork. What goes wrong is written to `log_fd`; then -1.
 * Nothing of it is ever freed: the process is the interpreter's. */
int python_start(struct python *ret);
