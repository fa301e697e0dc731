/* Environment variables that override fields of the server's configuration. */
#pragma once

struct Immure__Server;
struct err;
struct source;

/* Refuses every SANDBOX_EXECUTOR_* variable that does not exist, with "did you mean", and SANDBOX_* and
 * IMMURE_* where they are nearly one of ours. What Kubernetes says of a service of that name passes.
 * ERR_CONFIG with the variable as item. */
int environment_check(char *const *env, struct err *reterr);

/* SANDBOX_EXECUTOR_CONFIG (or _FILE), to be freed; NULL where it is not set. */
int environment_config_path(char *const *env, char **ret, struct err *reterr);

/* SANDBOX_EXECUTOR_SERVICE_API_KEY (or _FILE), for whoever calls a server; "" where it is not set. To be
 * wiped and freed. */
int environment_key(char *const *env, char **ret, struct err *reterr);

/* Sets the fields for which there is a variable, and notes in `source` which. The message's memory is
 * malloc's. */
int environment_apply(char *const *env, struct Immure__Server *message, struct source *source,
                      struct err *reterr);
