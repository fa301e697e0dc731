/* What CPython has behind its limited API, where that can be found and tried out. All of it is optional:
 * where it is not there, the same is done in a way that costs more, or left out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct _object;

struct internals {
    struct _object *(*run_file)(FILE *file, const char *path, int start, struct _object *globals,
                                struct _object *locals, int close, void *flags); /* PyRun_FileExFlags */
    void (*say_unraisable)(const char *format, ...); /* PyErr_FormatUnraisable, from 3.13 on; else NULL */
    bool has_versions;                               /* a dict has a number that changes with it */
    struct _object **modules; /* where the interpreter itself keeps what sys.modules names; NULL: unknown */
    uintptr_t *finalizing;    /* the thread that ends the interpreter; NULL: unknown */
};

/* Looks for all that in the interpreter of this process. -1 with an exception set where what cannot be done
 * without is not there. */
int internals_find(int minor, struct internals *ret);

/* Of a dict; 0 where it has none. */
unsigned long long internals_version(const struct internals *internals, const struct _object *dict);

/* What gc.get_stats() says. */
#define INTERNALS_GENERATIONS 3
struct internals_statistics {
    intptr_t numbers[INTERNALS_GENERATIONS * 3];
};

/* False where it says something else. */
bool internals_read_statistics(struct internals_statistics *ret);

/* Makes it say that again, where the place can be found. */
void internals_write_statistics(const struct internals_statistics *wanted);
