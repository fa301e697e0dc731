/* struct kept_jobs: asynchronous jobs and what became of them, for callers that ask later. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/digest.h"
#include "config/message/message_kept.h"
#include "server/kit/deadline.h"

struct err;
struct front;
struct kept_jobs;
struct kept_share;
struct loop;
struct server_config;

struct kept_job {
    struct deadline deadline; /* joined when it has ended */
    struct kept_jobs *kept;
    struct kept_job *previous, *next; /* latest first */
    struct kept_share *share;         /* of the key that it belongs to */
    struct front *front;              /* who says what it has come to; NULL: it has ended */
    uint64_t number;                  /* under which that front knows it */
    struct kept_row row;
    char *reason; /* why its caller ends it; NULL: none was given */
    int reply_fd; /* -1: there is none */
    size_t reply_bytes;
};

/* `config` is in force until the next kept_jobs_configure(). */
int kept_jobs_new(struct loop *loop, const struct server_config *config, struct kept_jobs **ret,
                  struct err *reterr);
/* Takes NULL. */
void kept_jobs_free(struct kept_jobs *kept);
/* Other settings are in force: what belongs to a key that is no longer there is forgotten, and ended by
 * `cancel` if it runs. */
void kept_jobs_configure(struct kept_jobs *kept, const struct server_config *config,
                         void (*cancel)(struct front *front, uint64_t number));

/* One that is about to run, of the key with this hash (zeros: the server is open); `row` says what it is
 * called. Where there are as many as there may be, one that has ended makes room, the key's own first.
 * ERR_BUSY: none can, unless it is to be kept `in_any_case`. */
int kept_job_new(struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES], const struct kept_row *row,
                 bool in_any_case, struct kept_job **ret, struct err *reterr);
/* It has ended. Takes the descriptor of its reply; -1: that is lost. */
void kept_job_end(struct kept_job *job, const char *status, int reply_fd, size_t reply_bytes);
/* Takes NULL. */
void kept_job_drop(struct kept_job *job);
/* What that front has not said the end of is lost. */
void kept_jobs_lose_front(struct kept_jobs *kept, const struct front *front);

/* NULL: that front has none of that number which has not ended. */
struct kept_job *kept_job_of_front(const struct kept_jobs *kept, const struct front *front, uint64_t number);
/* NULL: there is none. */
struct kept_job *kept_job_named(const struct kept_jobs *kept, const char *job_id);
/* The same of one key's. */
struct kept_job *kept_job_find(const struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES],
                               const char *job_id);
/* The latest `most` of one key's, latest first; returns how many. */
size_t kept_jobs_list(const struct kept_jobs *kept, const unsigned char owner[SHA256_BYTES],
                      struct kept_row *ret, size_t most);
