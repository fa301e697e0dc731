/* struct server_config from the Server message; load.c is alone in calling this. */
#pragma once

struct Immure__Server;
struct err;
struct server_config;
struct source;

/* Holds every field to its rules; `source` says where each stands. */
int config_from_message(const struct Immure__Server *message, const struct source *source,
                        struct server_config **ret, struct err *reterr);
