/* What the front process may still do once it serves: no file, no outgoing connection, no new program. */
#pragma once

#include <stdbool.h>

struct err;

/* From here on this process can open nothing, connect to nothing and start nothing, whoever runs in it. Needs
 * no_new_privs.
 * `*ret_landlock`: the kernel has Landlock; without it the filter stands alone. Does nothing in builds with
 * sanitizers, whose reports need more. */
int front_sandbox_enter(bool *ret_landlock, struct err *reterr);
