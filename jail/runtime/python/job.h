/* A job's program, run in the interpreter that the template has started. */
#pragma once

struct python;
struct script;
struct zygote_run;

/* Runs the script as `INTERPRETER FILE` would, to its end. Returns what the process is to exit with, by
 * exit(). */
int job_run(const struct python *python, const struct zygote_run *run, const struct script *script);
