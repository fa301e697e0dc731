/* Environment variables: what a policy may set and what a request may ask for. */
#pragma once

#include <stdbool.h>

struct err;
struct jail_plan;
struct jail_step;
struct job;
struct policy_program;
struct policy_spec;

/* One argument or variable, and all together with their pointers: what execve(2) takes whatever the stack
 * limit is above 4 MiB. The kernel refuses more with E2BIG, which would look like a broken jail. */
#define STRING_BYTES_MAX  (128u * 1024 - 1)
#define STRINGS_BYTES_MAX (1u << 20)

/* NULL, or the sentence that says why this cannot be a variable's name. */
const char *env_name_problem(const char *name);

/* True if the policy lets a request set the variable. Variables that choose what code a program loads
 * ("LD_PRELOAD", "PATH", "PYTHONPATH", ...) are never covered by a prefix: a policy that means them names
 * them in full. */
bool env_allowed(const struct policy_spec *spec, const char *name);

/* Why a variable is never covered by a prefix, or NULL. */
const char *env_loader_reason(const char *name);

/* Puts the program's variables into the EXEC step of the plan: the image's, where its proxy is, the policy's
 * with the job's values where it gives any, then the job's own. Nothing is inherited. ERR_INVALID ("env"). */
int env_add(struct jail_plan *plan, const struct policy_spec *spec, const struct policy_program *program,
            const struct job *job, struct jail_step *exec, struct err *reterr);
