/* A job's program, run in the interpreter that the template has started. */
#pragma once

#include <stdbool.h>

struct python;
struct script;
struct zygote_run;

/* In a process that is about to be parked. */
void job_park(const struct python *python, bool is_awaited);

/* Runs the script as `INTERPRETER FILE` would, to its end. Returns what the process is to exit with. */
int job_run(const struct python *python, const struct zygote_run *run, const struct script *script);

/* In the template, at last: watches a fork of it be parked and run warmup.py. */
void job_rehearse(struct python *python);
