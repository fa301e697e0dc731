/* The package indexes of the server's configuration. */
#pragma once

struct checker;
struct server_config;

/* Also fills `egress`: the hosts and ports that are named. What a failure leaves is freed with the rest. */
int package_indexes_check(struct checker *checker, struct server_config *config);
