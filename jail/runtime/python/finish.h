/* The end of a job's program. */
#pragma once

struct python;

/* Does what can be seen of Py_FinalizeEx(), then returns the exit code: `code`, or 120 where output was lost.
 * The interpreter cannot be used any more. */
int finish(const struct python *python, int code);
