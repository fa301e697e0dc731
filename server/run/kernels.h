/* struct kernels: interpreters that live on between the jobs of their sessions, each in a jail of its own
 * (jail/standby.h). Runs in the warden.
 *
 * A session has one kernel at most, and a kernel runs one call at a time. Whose it is, is the session's
 * affair: who may enter that has its kernel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/message/job.h"

struct err;
struct floor_account;
struct floor_candidate;
struct host;
struct jail;
struct jail_plan;
struct kernel;
struct kernels;
struct log;
struct loop;
struct policy;
struct runtime_config;
struct server_config;
struct session;
struct session_workspace;

struct kernels_options {
    struct host *host;
    struct loop *loop;
    struct log *const *log;     /* replaced at a reload */
    void (*changed)(void *arg); /* after the number of kernels has changed */
    void *arg;
};
int kernels_new(const struct kernels_options *options, struct kernels **ret, struct err *reterr);
/* Their calls must have ended. Takes NULL. */
void kernels_free(struct kernels *kernels);
size_t kernels_count(const struct kernels *kernels); /* takes NULL */

/* Begins a call in the kernel of a session that the caller has entered; it is made where there is none, or
 * only one of an earlier text of the policy. ERR_BUSY: it runs another call, or one kernel more would be too
 * many; `*ret_retry_after_ms` (0: unknown) says when to try again. ERR_RATE: too many of that key.
 * ERR_INVALID: the runtime has none, or the session has one of another runtime or policy. */
int kernel_enter(struct kernels *kernels, const struct server_config *config, const char *key,
                 struct session *session, const struct runtime_config *runtime, const struct policy *policy,
                 struct kernel **ret, uint64_t *ret_retry_after_ms, struct err *reterr);
/* Whether it would be ERR_BUSY or ERR_RATE now; nothing is begun. `session` NULL: one that is to be made. */
int kernel_try(const struct kernels *kernels, const struct server_config *config, const char *key,
               const struct session *session, const struct policy *policy, struct err *reterr);
/* The call has ended, or never began: the kernel waits for the next one; or is freed, with a jail that has
 * ended or was never parked. Takes NULL. */
void kernel_leave(struct kernel *kernel);

/* Starts its interpreter. Takes the plan, on failure too: all of a call's but the script and the arguments,
 * which come with each call. */
int kernel_start(struct kernel *kernel, struct jail_plan *plan, const struct session_workspace *session,
                 struct err *reterr);
/* One that is started: ERR_INVALID where the plan of a call has limits or variables that it was not started
 * with. */
int kernel_fits(const struct kernel *kernel, const struct jail_plan *plan, struct err *reterr);
/* Its jail (NULL: it is not started), the plan which that was made with, and its scratch (-1: it has none).
 * They stay the kernel's. */
struct jail *kernel_jail(const struct kernel *kernel);
const struct jail_plan *kernel_plan(const struct kernel *kernel);
int kernel_scratch(const struct kernel *kernel);

/* With the call's verdict: what has become of it. One that has ended is its session's no more. */
enum job_kernel kernel_end_call(struct kernel *kernel);

/* Those that no call has, with what they hold; at most `room`. */
size_t kernels_idle(struct kernels *kernels, struct floor_candidate *ret, size_t room);
void kernel_end_idle(struct kernel *kernel);
struct floor_account *kernel_account(struct kernel *kernel);

/* The session is over, or its workspace is over its limits: its kernel is killed, whatever it does; or, not
 * `at_once`, when the call has ended that it runs. */
void kernels_end_session(struct kernels *kernels, const struct session *session, bool at_once);
