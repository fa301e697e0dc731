/* struct proxy: the way out of jails to the hosts that their policies name, and to nothing else: an HTTP
 * proxy on a listening socket of each such jail. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct egress_policies;
struct egress_rule;
struct err;
struct log;
struct loop;
struct proxy;
struct proxy_job;
struct server_config;
struct tools;

#define PROXY_CONNECTIONS_MAX 32u /* of one job, at once */

/* What a job's connections can hold at most: each a timer, a socket, and two to a host of which both kinds of
 * addresses are tried; the job a timer, and the socket that they come to. */
#define PROXY_FDS_PER_JOB (4 * PROXY_CONNECTIONS_MAX + 2)

/* Looks up the names of hosts and reads certificates: what this process cannot do once it is confined. Loop
 * and configuration stay the caller's and outlive it; of the policies it keeps copies. */
int proxy_new(struct loop *loop, struct log *log, const struct server_config *config,
              const struct egress_policies *policies, struct proxy **ret, struct err *reterr);
void proxy_free(struct proxy *proxy); /* takes NULL */
/* After each round of the loop. */
void proxy_run(struct proxy *proxy);

/* Serves what connects to `listen_fd`, which is the job's from here on, by `rules`; `who` and `rules` outlive
 * it. NULL: out of memory; the descriptor is closed. */
struct proxy_job *proxy_job_new(struct proxy *proxy, const struct tools *who, const struct egress_rule *rules,
                                size_t n_rules, int listen_fd);
/* Ends what is open. Takes NULL. */
void proxy_job_free(struct proxy_job *job);
