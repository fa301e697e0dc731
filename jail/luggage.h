/* What PID 1 of a jail takes along from its parent's memory: this, and nothing else that the parent has. */
#pragma once

#include <stddef.h>

struct child;
struct jail_plan;

struct luggage {
    void *block; /* NULL: none */
    size_t size;
};

/* A child with its own copy of the plan and the vectors of its EXEC step, zeroed but for these; in a mapping
 * of its own. NULL: see errno. */
struct child *luggage_pack(struct luggage *luggage, const struct jail_plan *plan);
void luggage_free(struct luggage *luggage);
