/* What the front process may still do once it serves: no file, no outgoing connection, no new program. */
#pragma once

#include <stdbool.h>

struct egress_policies;
struct err;
struct server_config;

/* From here on this process can open nothing, start nothing and connect to nothing, but to the ports of
 * callback URLs, package indexes and the hosts of policies where there are any, whoever runs in it. Needs
 * no_new_privs. `config` and `policies` may be NULL: none of them.
 * `start_thread` (NULL: there is none) makes the threads that there will be, all in the same sandbox; later
 * ones cannot be made.
 * `*ret_listener`: where denied calls wait for an answer (front_denials.h), to be given away and closed; -1:
 * they fail without anybody's help.
 * `*ret_landlock`: the kernel has Landlock; without it the filter stands alone. Does nothing in builds with
 * sanitizers, whose reports need more. */
int front_sandbox_enter(const struct server_config *config, const struct egress_policies *policies,
                        int (*start_thread)(void *arg, struct err *reterr), void *arg, int *ret_listener,
                        bool *ret_landlock, struct err *reterr);

/* The two layers, each alone. `ret_listener` may be NULL. */
int front_sandbox_deny_access(const struct server_config *config, const struct egress_policies *policies,
                              bool *ret_landlock, struct err *reterr);
int front_sandbox_deny_calls(const struct server_config *config, const struct egress_policies *policies,
                             int *ret_listener, struct err *reterr);
