/* An interpreter that waits for one program, in that program's own jail. */
#pragma once

#include <stdbool.h>

struct python;
struct zygote_run;

/* Whether descriptor 0, as it came, says that this is no template: there is no socket to a parent. */
bool standby_is_wanted(int fd);

/* Returns 0 when there is a program: 0, 1 and 2 are its streams, 3 and 4 its bridge. The strings live as long
 * as the process. -1: this is no jail that waits. Call it with nothing open but 0 to 4. */
int standby_serve(const struct python *python, struct zygote_run *ret);
