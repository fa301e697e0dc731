/* The scripts that are part of this object. */
#pragma once

enum text {
    TEXT_START,    /* start.py: a format, of which %s is the path of this object */
    TEXT_PREPARE,  /* prepare.py */
    TEXT_LIBRARY,  /* rehearsal/library.py: what the modules are used for */
    TEXT_JOB,      /* rehearsal/job.py: what short programs do, printing included */
    TEXT_PACKAGES, /* rehearsal/packages.py: what packages that are not of the library are used for */
    TEXT_LEAST,    /* rehearsal/least.py: what hardly any program does without */
};

const char *text_of(enum text text);
