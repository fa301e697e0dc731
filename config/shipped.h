/* The configuration, the policies and the runtimes' preludes that are part of the binary, so that it needs no
 * file to start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct shipped_file {
    const char *name; /* "server", "python", ... */
    const char *data;
    size_t size;
};

const struct shipped_file *shipped_server(void);
/* Ends with a row whose name is NULL. */
const struct shipped_file *shipped_policies(void);
const struct shipped_file *shipped_policy(const char *name); /* NULL: none */
/* Whether servers have it; those of the command line alone give a program more than a caller should have. */
bool shipped_policy_is_for_servers(const struct shipped_file *policy);
/* Files that policies use (`part: true`); the same. */
const struct shipped_file *shipped_parts(void);
const struct shipped_file *shipped_part(const char *name);
const struct shipped_file *shipped_prelude(const char *name); /* "python/immure.pth"; NULL: none */
