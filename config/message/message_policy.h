/* What callers may know of a policy, which only the warden has read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/format/bind.h"
#include "config/message/job.h"

/* Texts are the warden's own; received: owned. */
struct msg_policy {
    char *name;
    char *sha256;
    char *image;              /* "": none */
    struct job_limits limits; /* 0: none */
    unsigned approval;        /* enum approval_mode of config/policy */
    bool kernel, loopback, egress;
    bool has_lists; /* they were short enough to be told */
    char **images, **preload;
    size_t n_images, n_preload;
};
#define MSG_POLICIES_MAX 256

/* Bytes of all lists together, so that the largest message has room for them. */
#define MSG_POLICY_LISTS_MAX (24u << 10)

extern const struct bind_table policy_table;

/* Of those that were received. */
void msg_policies_free(struct msg_policy *policies, size_t n);
