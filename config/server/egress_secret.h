/* Secrets that the proxy of jobs puts into headers. */
#pragma once

struct Immure__Server;
struct checker;
struct err;
struct server_config;
struct source;

/* Reads the files that the message names into it. */
int egress_secrets_read(struct Immure__Server *message, const struct source *source, struct err *reterr);
/* Overwrites what they held. */
void egress_secrets_wipe(struct Immure__Server *message);

int egress_secrets_check(struct checker *checker, const struct server_config *config);
