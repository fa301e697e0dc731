/* The end of a job's program. */
#pragma once

struct python;

/* Versions of namespaces when the program began. */
struct finish_versions {
    unsigned long long sys, threading;
};
void finish_prepare(const struct python *python, struct finish_versions *ret);

/* Does what can be seen of Py_FinalizeEx(), then returns the exit code: `code`, or 120 where output was lost.
 * The interpreter cannot be used any more. */
int finish(const struct python *python, const struct finish_versions *begun, int code);
