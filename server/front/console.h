/* The console's files, as they are part of the program. */
#pragma once

#include <stddef.h>

struct console_file {
    const char *name, *type; /* its media type */
    const char *data;        /* of this program: there as long as it runs */
    size_t size;
};

/* NULL: there is none of that name, which "" is not either. */
const struct console_file *console_find(const char *name, struct console_file *ret);
