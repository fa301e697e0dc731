/* Where a path leads: each symbolic link on its way, and what stands at its end. Only trace.c calls it. */
#pragma once

#include <stdbool.h>

struct observed;

/* `text` is relative to `base` (absolute) or absolute itself; `how`: PATH_*. What is not there is not written
 * down, unless it is about to be made. `follow`: also a link at the end. */
void walk_path(struct observed *observed, const char *base, const char *text, unsigned how, bool follow);
