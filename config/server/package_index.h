/* The package indexes of the server's configuration, between messages and plain structs. */
#pragma once

struct checker;
struct pool;
struct server_config;
struct Immure__Server;

/* Also fills `egress`: the hosts and ports that are named. What a failure leaves is freed with the rest. */
int package_indexes_from_message(struct checker *checker, const struct Immure__Server *message,
                                 struct server_config *config);
void package_indexes_to_message(const struct server_config *config, struct pool *pool,
                                struct Immure__Server *ret);
