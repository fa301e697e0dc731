/* Jobs that wait for approval, as the front sees them: requests that submit one, ask about them or decide,
 * and approved jobs that the warden wants to be run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/message/message.h"
#include "server/jobs/dispatch.h"

struct approval;
struct channel;
struct err;
struct execute_request;
struct front;
struct front_approvals;
struct request;
struct submission;

/* `front` and `channel` stay the caller's; takes the list of policies whose jobs may need an approval. */
int front_approvals_new(struct front *front, struct channel *channel, char **held, size_t n_held,
                        struct front_approvals **ret, struct err *reterr);
/* The requests must have ended. Takes NULL. */
void front_approvals_free(struct front_approvals *approvals);

/* Whether a job must be submitted instead of started. */
bool front_approvals_holds(const struct front_approvals *approvals, const struct execute_request *execute);

/* Submits it; the request is answered when the warden has answered, or decided. Takes what `execute` holds
 * where it succeeds. */
int front_approvals_submit(struct request *request, struct execute_request *execute, enum dispatch_way way,
                           uint64_t *ret_retry_after_ms, struct err *reterr);

/* The one, or dispatch_start(). */
int front_approvals_start(struct request *request, struct execute_request *execute, enum dispatch_way way,
                          uint64_t *ret_retry_after_ms, struct err *reterr);

/* Asks on behalf of the key that was shown; `approval_id` NULL: for the list. */
int front_approvals_ask(struct request *request, const struct msg_approval_query *query, struct err *reterr);

/* The request has ended, whatever it waited for. */
void front_approvals_forget(struct request *request);
/* This front leaves: who waits for a decision is told where to ask later. */
void front_approvals_stop_waiting(struct front_approvals *approvals);

/* The warden's words. Descriptors stay the caller's. -ENOENT where it answers what it was not asked. */
int front_approvals_answered(struct front_approvals *approvals, const struct msg_approval_answer *answer,
                             const int *fds, size_t n_fds);
void front_approvals_changed(struct front_approvals *approvals, const struct msg_approval_changed *changed);
int front_approvals_run(struct front_approvals *approvals, const char *approval_id, int fd);
