/* Finds an interpreter on the host and asks it what it needs there. Runs in the warden, when the
 * configuration is read, and on the command line; never in the front. */
#pragma once

#include <stdbool.h>

struct err;
struct policy;
struct runtime_config;

/* Turns `runtime->interpreter`, a name or a path, into the file that runs; the path is the host's. A name is
 * looked for in /usr/bin, /usr/local/bin and /bin, then along PATH. A script in the place of Python or Node
 * is started, and the program that it starts is the one. ERR_HOST says where it was looked for. */
int interpreter_locate(struct runtime_config *runtime, struct err *reterr);

/* After interpreter_locate(): fills `needs`, and with `ask` `version` and `startup` too, for which Python and
 * Node are started once, for some seconds at most and with an empty environment. Without, an interpreter of
 * the host's own in /usr is not started: its place tells what it needs. ERR_HOST where it cannot be started.
 */
int interpreter_examine(struct runtime_config *runtime, bool ask, struct err *reterr);

/* Takes over what interpreter_examine() has found for the same file in an earlier reading of the
 * configuration. False: it is not the same. */
bool interpreter_remember(struct runtime_config *runtime, const struct runtime_config *before);

/* For the command line, where there is no runtime: jails of the policy show the interpreter that it names, as
 * far as that is to be had here. `ret` must outlive them; runtime_config_forget(). */
void interpreter_show(struct policy *policy, struct runtime_config *ret);
