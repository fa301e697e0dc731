/* What units say about system calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/import/draft.h"

struct unit_calls;
struct err;

/* A word of `SystemCallFilter=`, or what stands for one. */
struct unit_call {
    const char *name;
    bool listed;
    uint32_t code; /* 0: as SystemCallErrorNumber= says, or the end of the program */
};

struct unit_filter {
    struct draft *draft;
    struct unit_call *calls;
    size_t n_calls;
    bool given, allow_list;
    uint32_t code; /* SystemCallErrorNumber=; 0: the program is ended */
};

/* One setting of SystemCallFilter=. 0, or -EINVAL: `*ret_what` says what is wrong. */
int unit_filter_add(struct unit_filter *filter, const char *value, const char **ret_what);
/* RestrictAddressFamilies=, RestrictNamespaces= and the switches that are filters. False: it is none. */
bool unit_restrict(struct draft *draft, const char *key, const char *value);
/* Into rules, behind those of unit_restrict(). */
void unit_filter_end(struct unit_filter *filter);
bool unit_yes(const char *value);
