/* Lint of what a policy's compiled filter answers: calls that it should refuse, and calls without which
 * programs fail in ways that do not tell why. On the command line alone. */
#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/socket.h>

#include "jail/base/cleanup.h"
#include "policy/compiled.h"
#include "policy/filter/conditions.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/known_bad.h"
#include "policy/lint/lint_internal.h"
#include "policy/policy.h"

static bool rule_allows(enum seccomp_action_kind action)
{
    return action == ACTION_ALLOW || action == ACTION_LOG;
}

static struct lint_spot rule_spot(const struct lint *lint, const struct filter_entry *entry,
                                  const char *about)
{
    return lint_spot(about, "seccomp.rule[%u]", lint->spec->rules[entry->rule].number - 1);
}

/* A rule that allows a call of a set that no policy should, whatever its arguments. */
static bool allows_danger(const struct lint *lint, const struct filter_entry *entry, const char *name)
{
    const struct seccomp_rule *rule = &lint->spec->rules[entry->rule];
    return rule_allows(rule->action) && rule->n_conditions == 0 && syscall_set_danger(name);
}

static void check_dangers(struct lint *lint)
{
    const struct policy_filter *filter = &lint->policy->filter;
    for (size_t i = 0; i < filter->n_entries; i++) {
        const struct filter_entry *entry = &filter->entries[i];
        char buffer[64];
        const char *name = policy_syscall_name(policy_native_arch(), entry->nr, buffer, sizeof buffer);
        if (allows_danger(lint, entry, name)) {
            const struct syscall_row *danger = syscall_set_danger(name);
            const struct lint_spot spot = rule_spot(lint, entry, name);
            lint_find(lint, LINT_DANGEROUS_SET, &spot, "allows %s of %s: %s", name, danger->name,
                      danger->reason);
        }
    }
}

static bool rule_holds(const struct seccomp_rule *rule, const uint64_t arguments[6])
{
    for (size_t i = 0; i < rule->n_conditions; i++) {
        if (!condition_holds(&rule->conditions[i], arguments[rule->conditions[i].arg])) {
            return false;
        }
    }
    return true;
}

/* The rule that decides about a call; NULL: the default action does. */
static const struct filter_entry *deciding(const struct lint *lint, const char *syscall,
                                           const uint64_t arguments[6])
{
    int nr = policy_syscall_number(syscall, NULL);
    for (size_t i = 0; i < lint->policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &lint->policy->filter.entries[i];
        const struct seccomp_rule rule = policy_filter_rule(lint->spec, entry);
        if (entry->nr == nr && rule_holds(&rule, arguments)) {
            return entry;
        }
    }
    return NULL;
}

static struct lint_spot deciding_spot(const struct lint *lint, const char *call, const uint64_t arguments[6])
{
    const struct filter_entry *entry = deciding(lint, call, arguments);
    return entry ? rule_spot(lint, entry, call) : lint_spot(call, "seccomp.default_action");
}

/* As the kernel reads the call, and with bits set that it does not read. */
static bool passes(const struct policy *policy, const struct known_bad_call *call, uint64_t ret_arguments[6])
{
    memcpy(ret_arguments, call->arguments, sizeof call->arguments);
    if (policy_allows_call(policy, call->syscall, ret_arguments)) {
        return true;
    }
    if (call->narrow >= ARRAY_SIZE(call->arguments)) {
        return false;
    }
    ret_arguments[call->narrow] |= 1ull << 32;
    return policy_allows_call(policy, call->syscall, ret_arguments);
}

/* What the compiled filter says to calls that it should refuse: conditions included, however they are
 * written. */
static void check_known_bad(struct lint *lint)
{
    for (size_t i = 0; i < n_known_bad_calls; i++) {
        const struct known_bad_call *call = &known_bad_calls[i];
        uint64_t arguments[ARRAY_SIZE(call->arguments)];
        if (!passes(lint->policy, call, arguments)) {
            continue;
        }
        const struct filter_entry *entry = deciding(lint, call->syscall, arguments);
        if (!entry || !allows_danger(lint, entry, call->syscall)) {
            const struct lint_spot spot = deciding_spot(lint, call->syscall, arguments);
            lint_find(lint, LINT_KNOWN_BAD, &spot, "allows %s: it %s", call->shown, call->consequence);
        }
    }
}

/* The C library makes threads and processes by clone3, and by clone where that is not there: ENOSYS. */
static void check_clone3(struct lint *lint)
{
    static const uint64_t none[6] = {0};
    bool known;
    uint32_t answer = lint_answer(lint, "clone3", none, &known);
    uint32_t action = answer & SECCOMP_RET_ACTION_FULL, code = answer & SECCOMP_RET_DATA;
    bool good = action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
                (action == SECCOMP_RET_ERRNO && code == ENOSYS);
    if (known && !good && (lint_makes_threads(lint) || lint_makes_processes(lint))) {
        const struct lint_spot spot = deciding_spot(lint, "clone3", none);
        lint_find(
            lint, LINT_CLONE3_ERRNO, &spot,
            "clone3 %s, so that the C library makes no thread and no process, although clone is allowed",
            action == SECCOMP_RET_ERRNO        ? "fails with another error than ENOSYS"
            : action == SECCOMP_RET_USER_NOTIF ? "fails with EPERM"
                                               : "ends the program");
    }
}

static void check_threads(struct lint *lint)
{
    static const uint64_t wake[6] = {0, 1, 1};
    bool interpreter = lint->spec->interpreter[0] && !lint_interprets(lint, "bash");
    if (!policy_allows_call(lint->policy, "futex", wake) && (interpreter || lint_makes_threads(lint))) {
        const struct lint_spot spot = deciding_spot(lint, "futex", wake);
        lint_find(lint, LINT_NO_THREADS, &spot,
                  "futex is refused, without which no thread can wait for another");
    }
}

/* What the C library calls when a program starts, or tries before it falls back. */
static void check_probes(struct lint *lint)
{
    static const char *const calls[] = {
        "rseq",  "set_robust_list", "set_tid_address", "prlimit64",  "getrandom",   "clone3",
        "statx", "newfstatat",      "faccessat2",      "membarrier", "close_range", "get_mempolicy",
    };
    static const uint64_t none[6] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        bool known;
        uint32_t action = lint_answer(lint, calls[i], none, &known) & SECCOMP_RET_ACTION_FULL;
        if (known && (action == SECCOMP_RET_KILL_PROCESS || action == SECCOMP_RET_KILL_THREAD)) {
            const struct lint_spot spot = deciding_spot(lint, calls[i], none);
            lint_find(lint, LINT_KILL_PROBE, &spot,
                      "%s ends the program, which the C library calls or tries by itself", calls[i]);
        }
    }
}

/* By way of the proxy on the jail's own loopback. */
static void check_egress(struct lint *lint)
{
    static const uint64_t tcp[6] = {AF_INET, SOCK_STREAM | SOCK_CLOEXEC}, any[6] = {0};
    const char *refused = !policy_allows_call(lint->policy, "socket", tcp)    ? "socket"
                          : !policy_allows_call(lint->policy, "connect", any) ? "connect"
                                                                              : NULL;
    if (lint->spec->n_egress > 0 && refused) {
        const struct lint_spot spot = lint_spot(refused, "egress[0]");
        lint_find(lint, LINT_EGRESS_BLOCKED, &spot, "the filter refuses %s, so that no host is reached",
                  refused);
    }
}

void lint_check_filter(struct lint *lint)
{
    check_egress(lint);
    const char *mounts = policy_mounting_call(lint->policy);
    struct lint_spot spot = lint_spot(NULL, "seccomp.default_action");
    if (rule_allows(lint->spec->seccomp_default)) {
        lint_find(lint, LINT_DEFAULT_ALLOW, &spot,
                  "allows every call that no rule names, those of future kernels included");
    }
    if (mounts) {
        spot = lint_spot(mounts, "seccomp");
        lint_find(lint, LINT_NO_LANDLOCK, &spot, "without Landlock: allows %s", mounts);
    }
    check_dangers(lint);
    check_known_bad(lint);
    check_clone3(lint);
    check_threads(lint);
    check_probes(lint);
}
