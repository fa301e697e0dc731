/* Asynchronous jobs: what GET and DELETE /jobs/{job_id} find. Each belongs to the key that started it. */
#pragma once

#include <stddef.h>

struct buf;
struct caller;
struct err;
struct front;
struct kept_job;
struct kept_jobs;
struct request;
struct running;

int kept_jobs_new(struct front *front, struct kept_jobs **ret, struct err *reterr);
/* Takes NULL. */
void kept_jobs_free(struct kept_jobs *kept);

/* One that is about to run. Where there are as many as there may be, one that has ended makes room, the
 * key's own first; ERR_BUSY: none can. */
int kept_job_new(struct kept_jobs *kept, struct running *running, const struct caller *caller,
                 const char *execution_id, struct kept_job **ret, struct err *reterr);
/* The same for one that has been approved, under the approval's id. It is kept however many there are. */
int kept_job_new_approved(struct kept_jobs *kept, struct running *running, const struct caller *caller,
                          const char *execution_id, const char *approval_id, struct kept_job **ret,
                          struct err *reterr);
/* 202: it runs. */
void kept_job_reply_accepted(const struct kept_job *job, struct request *request);
/* It has ended: `status` is a constant; takes the reply, an empty one if it was lost. */
void kept_job_end(struct kept_job *job, const char *status, struct buf *reply);
/* It never ran. Takes NULL. */
void kept_job_drop(struct kept_job *job);

/* A job of this caller's key. NULL: it has none of that id. */
struct kept_job *kept_job_find(struct kept_jobs *kept, const struct caller *caller, const char *id);
/* NULL: it has ended. */
struct running *kept_job_running(const struct kept_job *job);
/* Appends its JSON. */
void kept_job_write(const struct kept_job *job, struct buf *ret);
