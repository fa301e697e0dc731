/* Which rule of a policy decides about which system call. Pure but for the numbers, which
 * policy/filter/names.c knows. Runs in the warden and on the command line, never in a jail.
 *
 * What must hold: no rule is silently lost. libseccomp drops the conditional rules of a call that also has an
 * unconditional one, and leaves open which of two overlapping rules wins; so a policy in which two rules
 * could contradict each other about one call is refused here, before libseccomp sees it. */
#include "policy/filter/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/plan/plan.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"

static int bad_rule(const struct policy_spec *spec, size_t rule, const char *call, const char *words,
                    struct err *reterr)
{
    return policy_bad(spec, &spec->rules[rule].at, reterr, "seccomp rule %u%s%s%s: %s",
                      spec->rules[rule].number, call ? " (" : "", call ? call : "", call ? ")" : "", words);
}

static int unknown_name(const struct policy_spec *spec, size_t rule, const char *what, const char *name,
                        const char *near, struct err *reterr)
{
    char words[POLICY_NO_SUCH_MAX];
    return bad_rule(spec, rule, name, policy_no_such(what, near, words), reterr);
}

static int add_entry(struct policy_filter *filter, struct filter_entry entry)
{
    /* Grows by doubling whenever the count reaches a power of two. */
    if ((filter->n_entries & (filter->n_entries - 1)) == 0) {
        size_t room = filter->n_entries ? 2 * filter->n_entries : 1;
        struct filter_entry *entries = realloc(filter->entries, room * sizeof *entries);
        if (!entries) {
            return -ENOMEM;
        }
        filter->entries = entries;
    }
    filter->entries[filter->n_entries++] = entry;
    return 0;
}

/* A policy serves every architecture: a call that only others have is skipped, as in sets. */
static int collect_named(const struct policy_spec *spec, size_t index, struct policy_filter *filter,
                         struct err *reterr)
{
    const struct seccomp_rule *rule = &spec->rules[index];
    for (size_t i = 0; i < rule->n_syscalls; i++) {
        bool known;
        int nr = policy_syscall_number(rule->syscalls[i], &known);
        if (!known) {
            return unknown_name(spec, index, "system call", rule->syscalls[i],
                                syscall_set_did_you_mean(rule->syscalls[i]), reterr);
        }
        const struct filter_entry entry = {.nr = nr, .direct = true, .rule = (uint32_t)index};
        if (nr >= 0 && add_entry(filter, entry) < 0) {
            return err_errno(reterr, ENOMEM, "compiling the filter");
        }
    }
    return 0;
}

static bool rule_allows(const struct seccomp_rule *rule)
{
    return rule->action == ACTION_ALLOW || rule->action == ACTION_LOG;
}

/* What a set holds with conditions is refused whole: a rule that denies a set leaves none of its calls. */
static int collect_set(const struct policy_spec *spec, size_t index, const struct syscall_row *set,
                       struct policy_filter *filter, struct err *reterr)
{
    const struct seccomp_rule *rule = &spec->rules[index];
    for (const struct syscall_row *row = syscall_set_next(set); row; row = syscall_set_next(row)) {
        bool conditional = row->n_conditions > 0 && (rule_allows(rule) || set->kind == SET_PARTIAL);
        if (conditional && rule->n_conditions > 0) {
            return bad_rule(spec, index, row->name,
                            "a rule with conditions names calls, not a set that has conditions of its own",
                            reterr);
        }
        const struct filter_entry entry = {.nr = policy_syscall_number(row->name, NULL),
                                           .rule = (uint32_t)index,
                                           .row = conditional ? (uint32_t)(row - syscall_sets()) : 0};
        if (entry.nr >= 0 && add_entry(filter, entry) < 0) {
            return err_errno(reterr, ENOMEM, "compiling the filter");
        }
    }
    return 0;
}

static int collect_sets(const struct policy_spec *spec, size_t index, struct policy_filter *filter,
                        struct err *reterr)
{
    const struct seccomp_rule *rule = &spec->rules[index];
    for (size_t i = 0; i < rule->n_sets; i++) {
        const struct syscall_row *row = syscall_set_find(rule->sets[i]);
        if (!row) {
            return unknown_name(spec, index, "set", rule->sets[i], syscall_set_did_you_mean(rule->sets[i]),
                                reterr);
        }
        int r = collect_set(spec, index, row, filter, reterr);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int collect(const struct policy_spec *spec, struct policy_filter *filter, struct err *reterr)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < spec->n_rules; i++) {
        const struct seccomp_rule *rule = &spec->rules[i];
        if (policy_errno_number(rule->errno_name) == 0) {
            return unknown_name(spec, i, "errno", rule->errno_name,
                                policy_errno_did_you_mean(rule->errno_name), reterr);
        }
        const char *problem = conditions_problem(rule);
        if (problem) {
            return bad_rule(spec, i, NULL, problem, reterr);
        }
        r = collect_named(spec, i, filter, reterr);
        r = r < 0 ? r : collect_sets(spec, i, filter, reterr);
    }
    return r;
}

struct seccomp_rule policy_filter_rule(const struct policy_spec *spec, const struct filter_entry *entry)
{
    struct seccomp_rule rule = spec->rules[entry->rule];
    if (entry->row > 0) {
        const struct syscall_row *row = &syscall_sets()[entry->row];
        /* Read as long as the view lives, and never written. */
        rule.conditions = (struct seccomp_condition *)row->conditions;
        rule.n_conditions = row->n_conditions;
    }
    return rule;
}

/* By number, those named directly first, then in the policy's order. */
static int compare_entries(const void *a, const void *b)
{
    const struct filter_entry *x = a, *y = b;
    if (x->nr != y->nr) {
        return x->nr < y->nr ? -1 : 1;
    }
    if (x->direct != y->direct) {
        return x->direct ? -1 : 1;
    }
    if (x->rule != y->rule) {
        return x->rule < y->rule ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

static int contradiction(const struct policy_spec *spec, const struct filter_entry *a,
                         const struct filter_entry *b, struct err *reterr)
{
    char name[64], words[128 + SOURCE_PLACE_TEXT_MAX], other[SOURCE_PLACE_TEXT_MAX];
    bool files = spec->n_files > 0;
    policy_where(spec, &spec->rules[a->rule].at, other);
    snprintf(words, sizeof words, "rule %u%s%s%s decides differently about the same calls",
             spec->rules[a->rule].number, files ? " (" : "", files ? other : "", files ? ")" : "");
    return bad_rule(spec, b->rule, policy_syscall_name(policy_native_arch(), b->nr, name, sizeof name), words,
                    reterr);
}

static bool same_action(const struct seccomp_rule *a, const struct seccomp_rule *b)
{
    return a->action == b->action && (a->action != ACTION_ERRNO || policy_errno_number(a->errno_name) ==
                                                                       policy_errno_number(b->errno_name));
}

/* Leaves, of the entries of one call, those that decide: the direct ones if there are any; of equal ones the
 * first; of several with one action an unconditional one alone. Returns how many, or an error where two can
 * contradict. */
static int decide_call(const struct policy_spec *spec, struct filter_entry *entries, size_t n,
                       struct err *reterr)
{
    size_t kept = 0;
    for (size_t i = 0; i < n && entries[i].direct == entries[0].direct; i++) {
        const struct seccomp_rule rule = policy_filter_rule(spec, &entries[i]);
        bool covered = false;
        for (size_t k = 0; k < kept && !covered; k++) {
            const struct seccomp_rule other = policy_filter_rule(spec, &entries[k]);
            if (same_action(&rule, &other)) {
                covered = rule.conditions == other.conditions || other.n_conditions == 0;
            } else if (!conditions_disjoint(&rule, &other)) {
                return contradiction(spec, &entries[k], &entries[i], reterr);
            }
        }
        if (covered) {
            continue;
        }
        if (rule.n_conditions == 0) {
            /* The same action without conditions: the others, all of the same action, say nothing more. */
            kept = 0;
        }
        entries[kept++] = entries[i];
    }
    return (int)kept;
}

static int decide(const struct policy_spec *spec, struct policy_filter *filter, struct err *reterr)
{
    if (filter->n_entries == 0) {
        return 0;
    }
    qsort(filter->entries, filter->n_entries, sizeof *filter->entries, compare_entries);
    size_t kept = 0;
    for (size_t start = 0, end; start < filter->n_entries; start = end) {
        for (end = start; end < filter->n_entries && filter->entries[end].nr == filter->entries[start].nr;
             end++) {
        }
        int n = decide_call(spec, &filter->entries[start], end - start, reterr);
        if (n < 0) {
            return n;
        }
        memmove(&filter->entries[kept], &filter->entries[start], (size_t)n * sizeof *filter->entries);
        kept += (size_t)n;
    }
    filter->n_entries = kept;
    return 0;
}

/* Without execve the program could never be started: the filter is in force when it is. */
static int check_launch(const struct policy_spec *spec, const struct policy_filter *filter,
                        struct err *reterr)
{
    int nr = policy_syscall_number("execve", NULL);
    enum seccomp_action_kind action = spec->seccomp_default;
    bool conditional = false;
    for (size_t i = 0; i < filter->n_entries; i++) {
        if (filter->entries[i].nr == nr) {
            const struct seccomp_rule rule = policy_filter_rule(spec, &filter->entries[i]);
            action = rule.action;
            conditional = rule.n_conditions > 0;
        }
    }
    if (conditional || (action != ACTION_ALLOW && action != ACTION_LOG)) {
        return policy_bad(spec, &spec->seccomp_at, reterr,
                          "seccomp: execve is not allowed, so that no program could be started");
    }
    return 0;
}

/* Which locks a rule has counted: PID 1 of the jail, which is handed them like what is denied, must be able
 * to tell them from that. JAIL_LOCK_*; 0: it cannot. */
static uint32_t counted_locks(const struct seccomp_rule *rule, int nr)
{
    if (nr == policy_syscall_number("flock", NULL)) {
        return rule->n_conditions == 0 ? JAIL_LOCK_FLOCK : 0;
    }
    if (nr != policy_syscall_number("fcntl", NULL) || rule->n_conditions != 1 ||
        rule->conditions[0].arg != 1) {
        return 0;
    }
    const struct seccomp_condition *condition = &rule->conditions[0];
    if (condition->op == OP_MASKED_EQ && condition->mask != UINT32_MAX) {
        return (uint32_t)condition->mask == ~1u && condition->value == F_SETLK
                   ? JAIL_LOCK_SETLK | JAIL_LOCK_SETLKW
                   : 0;
    }
    return condition->op != OP_EQ && condition->op != OP_MASKED_EQ ? 0
           : condition->value == F_SETLK                           ? JAIL_LOCK_SETLK
           : condition->value == F_SETLKW                          ? JAIL_LOCK_SETLKW
                                                                   : 0;
}

static int check_counted(const struct policy_spec *spec, struct policy_filter *filter, struct err *reterr)
{
    if (spec->seccomp_default == ACTION_COUNT) {
        return policy_bad(spec, &spec->seccomp_at, reterr,
                          "seccomp default_action: COUNT is for file locks alone");
    }
    for (size_t i = 0; i < filter->n_entries; i++) {
        const struct filter_entry *entry = &filter->entries[i];
        const struct seccomp_rule rule = policy_filter_rule(spec, entry);
        uint32_t locks = rule.action == ACTION_COUNT ? counted_locks(&rule, entry->nr) : 0;
        if (rule.action == ACTION_COUNT && locks == 0) {
            char name[64];
            return bad_rule(
                spec, entry->rule, policy_syscall_name(policy_native_arch(), entry->nr, name, sizeof name),
                "COUNT is for the set @file-locks: for flock without conditions, and for fcntl with the one "
                "condition that argument 1 is F_SETLK (6), F_SETLKW (7) or either (mask 0xfffffffe, value 6)",
                reterr);
        }
        filter->locks |= locks;
    }
    return 0;
}

/* Whether PID 1 of the jail hears of it. */
static bool is_told(enum seccomp_action_kind action)
{
    return action == ACTION_NOTIFY || action == ACTION_KILL_PROCESS;
}

static bool notifies(const struct policy_spec *spec, const struct policy_filter *filter)
{
    bool notify = is_told(spec->seccomp_default) || filter->locks != 0;
    for (size_t i = 0; i < filter->n_entries; i++) {
        notify |= is_told(spec->rules[filter->entries[i].rule].action);
    }
    return notify;
}

int policy_filter_decide(const struct policy_spec *spec, struct policy_filter *ret, struct err *reterr)
{
    CLEANUP(policy_filter_clear) struct policy_filter filter = {0};
    int r = collect(spec, &filter, reterr);
    r = r < 0 ? r : decide(spec, &filter, reterr);
    r = r < 0 ? r : check_launch(spec, &filter, reterr);
    r = r < 0 ? r : check_counted(spec, &filter, reterr);
    if (r < 0) {
        return r;
    }
    filter.notify = notifies(spec, &filter);
    *ret = filter;
    filter = (struct policy_filter){0};
    return 0;
}

void policy_filter_clear(struct policy_filter *filter)
{
    free(filter->instructions);
    free(filter->entries);
    *filter = (struct policy_filter){0};
}
