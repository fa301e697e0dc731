/* What callers may know of a policy, which only the warden has read; message.c is alone in calling the
 * functions here but for the last. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/message/job.h"

struct Immure__MsgPolicy;
struct err;
struct pool;

/* Texts are the warden's own; received: owned. */
struct msg_policy {
    char *name;
    char *sha256;
    char *image;              /* "": none */
    struct job_limits limits; /* 0: none */
    unsigned approval;        /* enum approval_mode of config/policy */
    bool kernel, loopback;
    bool has_lists; /* they were short enough to be told */
    char **images, **preload;
    size_t n_images, n_preload;
};
#define MSG_POLICIES_MAX 256

/* Bytes of all lists together, so that the largest message has room for them. */
#define MSG_POLICY_LISTS_MAX (24u << 10)

/* In the pool, where a failure sticks. */
struct Immure__MsgPolicy **policies_to_messages(const struct msg_policy *policies, size_t n,
                                                struct pool *pool);
int policies_from_messages(struct Immure__MsgPolicy *const *messages, size_t n, struct msg_policy **ret,
                           struct err *reterr);
/* Of one that was received. */
void msg_policies_free(struct msg_policy *policies, size_t n);
