/* Small programs that a template runs, so that jobs find everything in place. */
#pragma once

#include <stdio.h>

enum rehearsal {
    REHEARSAL_LIBRARY, /* library.py: what the modules are used for */
    REHEARSAL_JOB,     /* job.py: what short programs do, printing included */
    REHEARSAL_LEAST,   /* least.py: what hardly any program does without */
};

/* Runs one of them `times` times, with its output gone. -1 with a Python exception set where it fails. */
int rehearse(enum rehearsal rehearsal, int times);

/* The script, to be read; NULL with errno set. */
FILE *rehearsal_open(enum rehearsal rehearsal);

/* Puts one end of a new pipe on stdout and returns the other, -1 with errno set. As long as both are open,
 * what is printed goes nowhere. */
int rehearsal_divert_stdout(void);
