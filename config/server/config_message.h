/* struct server_config to and from the Server message; load.c is alone in calling this. */
#pragma once

struct Immure__Server;
struct err;
struct pool;
struct server_config;
struct source;

/* Holds every field to its rules; `source` says where each stands. */
int config_from_message(const struct Immure__Server *message, const struct source *source,
                        struct server_config **ret, struct err *reterr);
/* Texts stay the configuration's own. A failure sticks in the pool. */
void config_to_message(const struct server_config *config, struct pool *pool, struct Immure__Server *ret);
