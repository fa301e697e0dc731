/* What a compiled filter answers, and what its rules say that it should. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "config/policy/policy_file.h"
#include "policy/compiled.h"
#include "jail/base/bpf_run.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "tests/unit/policy/helper.h"

/* A policy around a seccomp block that lets the launch through. */
#define FILTER(rules)                                                                                        \
    "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' }\n" rules " }"

static inline uint32_t answer(const struct policy *policy, int nr, uint64_t arg0, uint64_t arg1)
{
    struct seccomp_data data = {.nr = nr, .arch = policy_native_arch(), .args = {arg0, arg1}};
    return bpf_run(policy->filter.instructions, policy->filter.length, &data);
}

static inline uint32_t return_value(enum seccomp_action_kind action, const char *errno_name)
{
    switch (action) {
    case ACTION_ALLOW:
        return SECCOMP_RET_ALLOW;
    case ACTION_ERRNO:
        return SECCOMP_RET_ERRNO | policy_errno_number(errno_name);
    case ACTION_KILL_PROCESS:
        return SECCOMP_RET_KILL_PROCESS;
    case ACTION_LOG:
        return SECCOMP_RET_LOG;
    case ACTION_NOTIFY:
    case ACTION_COUNT:
        return SECCOMP_RET_USER_NOTIF;
    }
    return UINT32_MAX;
}

/* What the rules say, read the slow way. */
static inline uint32_t expected(const struct policy *policy, const struct seccomp_data *data)
{
    const struct policy_spec *spec = policy->spec;
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct seccomp_rule rule = policy_filter_rule(spec, &policy->filter.entries[i]);
        bool holds = policy->filter.entries[i].nr == data->nr;
        for (size_t n = 0; n < rule.n_conditions; n++) {
            holds = holds && condition_holds(&rule.conditions[n], data->args[rule.conditions[n].arg]);
        }
        if (holds) {
            return return_value(rule.action, rule.errno_name);
        }
    }
    return return_value(spec->seccomp_default, spec->seccomp_default_errno);
}

static inline uint64_t interesting_argument(const struct policy_spec *spec)
{
    const struct seccomp_rule *rule = &spec->rules[(size_t)random() % spec->n_rules];
    uint64_t value = rule->n_conditions ? rule->conditions[(size_t)random() % rule->n_conditions].value : 0;
    switch (random() % 5) {
    case 0:
        return value + 1;
    case 1:
        return value | 1ull << 32;
    case 2:
        return (uint64_t)random();
    default:
        return value;
    }
}
