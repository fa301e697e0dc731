/* Environment variables: what a policy may set and what a request may ask for. */
#pragma once

#include <stdbool.h>

struct policy_spec;

/* NULL, or the sentence that says why this cannot be a variable's name. */
const char *env_name_problem(const char *name);

/* True if the policy lets a request set the variable. Variables that choose what code a program loads
 * ("LD_PRELOAD", "PATH", "PYTHONPATH", ...) are never covered by a prefix: a policy that means them names
 * them in full. */
bool env_allowed(const struct policy_spec *spec, const char *name);

/* Why a variable is never covered by a prefix, or NULL. */
const char *env_loader_reason(const char *name);
