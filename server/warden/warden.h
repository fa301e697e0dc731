/* The warden: the process behind `immure serve`. It alone makes jails; it never sees HTTP, JSON or a
 * program's output. */
#pragma once

#include <stdbool.h>

struct warden_options {
    const char *config_path; /* NULL: from the environment, else shipped */
    bool check_only;         /* load everything, say so, and stop */
};

/* Runs until told to stop. Returns the exit code of the process. */
int warden_main(const struct warden_options *options);
