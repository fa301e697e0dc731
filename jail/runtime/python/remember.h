/* What is remembered of a started interpreter: the second half of struct python. */
#pragma once

struct _object;
struct python;

/* Fills in everything from `magic` on but __main__; `preparation` is the namespace of prepare.py. -1 with a
 * Python exception set. */
int remember(struct python *python, struct _object *preparation);

/* Last of all: from now on nothing is imported but by a job. */
void remember_imported(struct python *python);

/* An attribute of a module, as a new reference. A module that was not imported does not look so afterwards.
 */
struct _object *remember_attribute(const char *module, const char *name);
