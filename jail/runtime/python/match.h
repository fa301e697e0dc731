/* May this process run that program, or must the interpreter be started anew? */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct python;
struct zygote_run;

/* A script that may run here. */
struct script {
    FILE *file;
    const char *path; /* absolute, as the command line has it */
    char *directory;  /* where it really lies */
    char **argv;      /* `path` and what follows it; ends with NULL */
    bool same_environment;
    bool same_timezone;
};

/* Opens the script. False wherever a fresh interpreter could turn out another than the one in `python`;
 * nothing is reported then, the fresh one will say what there is to say. Calls nothing of CPython. */
bool match_run(const struct python *python, const struct zygote_run *run, struct script *ret);
