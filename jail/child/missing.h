/* Why there is no such file: what an exec was refused for is not always the file that it names. */
#pragma once

#include "jail/child/message.h"

struct child;
struct jail_step;

/* After an EXEC step that failed with ENOENT: what is missing, as PID 1 finds it in the new root, into
 * `ret->missing` and `ret->path`. Runs nothing, and reads nothing but links and the beginning of programs. */
void missing_find(const struct child *child, const struct jail_step *exec, struct child_message *ret);
