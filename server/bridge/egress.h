/* struct egress: the way out of jails to package indexes, and to nothing else: connections that a job's
 * program asks for over its bridge (jail/runtime/README.md). */
#pragma once

#include <stddef.h>

struct bridge;
struct egress;
struct egress_job;
struct err;
struct log;
struct loop;
struct server_config;
struct tools;

#define EGRESS_CONNECTIONS_MAX 32u    /* of one job, at once */
#define EGRESS_WINDOW_BYTES    65536u /* of one connection and direction, on their way */

/* What a job's connections can hold at most. */
#define EGRESS_FDS_PER_JOB   (2 * EGRESS_CONNECTIONS_MAX)
#define EGRESS_WAITING_BYTES (EGRESS_CONNECTIONS_MAX * (EGRESS_WINDOW_BYTES + 4096u))

/* Looks up the names of hosts and reads certificates: what this process cannot do once it is confined. Where
 * there is no package index, it refuses all connections. Loop and configuration stay the caller's and outlive
 * it. */
int egress_new(struct loop *loop, struct log *log, const struct server_config *config, struct egress **ret,
               struct err *reterr);
void egress_free(struct egress *egress); /* takes NULL */

/* Those of one job; `who` and `bridge` are the job's. NULL: out of memory. */
struct egress_job *egress_job_new(const struct egress *egress, const struct tools *who,
                                  struct bridge *bridge);
/* Ends what is open. Takes NULL. */
void egress_job_free(struct egress_job *job);

/* A frame of the program's. Returns NULL, or why the bridge is to be closed. */
const char *egress_take(struct egress_job *job, const char *data, size_t size);
