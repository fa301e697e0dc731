/* What the front process may still do once it serves: no file, no outgoing connection, no new program. */
#pragma once

#include <stdbool.h>

struct err;

/* From here on this process can open nothing, connect to nothing and start nothing, whoever runs in it. Needs
 * no_new_privs.
 * `*ret_listener`: where denied calls wait for an answer (front_denials.h), to be given away and closed; -1:
 * they fail without anybody's help.
 * `*ret_landlock`: the kernel has Landlock; without it the filter stands alone. Does nothing in builds with
 * sanitizers, whose reports need more. */
int front_sandbox_enter(int *ret_listener, bool *ret_landlock, struct err *reterr);

/* The two layers, each alone. `ret_listener` may be NULL. */
int front_sandbox_deny_access(bool *ret_landlock, struct err *reterr);
int front_sandbox_deny_calls(int *ret_listener, struct err *reterr);
