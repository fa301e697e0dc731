/* The warden: the process behind `immure serve`. It alone makes jails; it never sees HTTP, JSON or a
 * program's output. */
#pragma once

#include <stdbool.h>

struct err;

struct warden_options {
    const char *config_path; /* NULL: from the environment, else shipped */
    bool check_only;         /* load everything, say so, and stop */
};

/* Runs until told to stop; an error is why it could not start, or gave up. */
int warden_run(const struct warden_options *options, struct err *reterr);
