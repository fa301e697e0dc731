/* struct callback_hosts: to which addresses tool calls may connect, found before the front is confined. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct callback_config;
struct callback_hosts;
struct callback_url;
struct err;
struct log;

/* Looks up the names of `entries`, the configuration's callbacks or the hosts of its package indexes. Blocks.
 * What cannot be looked up, and addresses that are not allowed, are logged. */
int callback_hosts_new(const struct callback_config *entries, size_t n_entries, struct log *log,
                       struct callback_hosts **ret, struct err *reterr);
void callback_hosts_free(struct callback_hosts *hosts); /* takes NULL */

/* Whether any of them is to be checked against certificates. */
bool callback_hosts_use_https(const struct callback_config *entries, size_t n_entries);

/* "HOST:PORT:ADDRESS,ADDRESS" for each name that has any, ending with NULL. */
const char *const *callback_hosts_resolved(const struct callback_hosts *hosts);

/* The addresses of an entry's host, with its port; returns how many, at most `max`. */
size_t callback_hosts_addresses(const struct callback_hosts *hosts, const struct callback_url *url,
                                struct sockaddr_storage *ret, size_t max);

/* Whether a call to `url`, which the configuration allows, may connect there. */
bool callback_hosts_may_connect(const struct callback_hosts *hosts, const struct callback_url *url,
                                const struct sockaddr *address);

/* Whether an address belongs to the internet at large: not to this host, a private or local network, a group,
 * a translation of one of these, or documentation. */
bool callback_address_is_public(const struct sockaddr *address);
