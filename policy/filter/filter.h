/* A policy's seccomp rules: which of them decides, and the filter that says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/policy/policy_file.h"

struct err;
struct sock_filter;

/* Which rule of the policy decides about a call. A call may have several, with conditions that exclude each
 * other. */
struct filter_entry {
    int nr;        /* of the native architecture */
    bool direct;   /* named by the rule itself, not through a set */
    uint32_t rule; /* index into the spec's rules */
    uint32_t row;  /* of syscall_sets(), whose conditions hold; 0, a set's own row: the rule's */
};

struct policy_filter {
    struct sock_filter *instructions;
    uint32_t length;
    bool notify;                  /* PID 1 of the jail is asked about some call, or kills for one */
    uint32_t locks;               /* JAIL_LOCK_*: of those, the ones that are counted, not denied */
    struct filter_entry *entries; /* sorted by number; calls without an entry get the default action */
    size_t n_entries;
};

/* Decides which rule answers each call; no instructions yet. Who decides about a call: the rules that name
 * it; else the rules whose sets hold it; else the default action. Rules that could contradict each other are
 * ERR_CONFIG, as is a filter under which nothing could be started. */
int policy_filter_decide(const struct policy_spec *spec, struct policy_filter *ret, struct err *reterr);
/* What an entry says, by itself: its rule, with the conditions of the set through which it names the call. A
 * view: it owns nothing, and holds as long as `spec` does. */
struct seccomp_rule policy_filter_rule(const struct policy_spec *spec, const struct filter_entry *entry);
void policy_filter_clear(struct policy_filter *filter);
