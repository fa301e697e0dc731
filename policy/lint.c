/* `immure policy lint`: what a policy allows that its author may not have meant. Nothing here stops a policy;
 * what must not be is refused by policy/compile.c and what it calls. Each finding is one line that
 * begins with where it is. */
#include "policy/policy.h"

#include <inttypes.h>
#include <linux/sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/policy/constants.h"
#include "jail/base/buf.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"
#include "policy/capabilities.h"
#include "policy/compiled.h"
#include "policy/env.h"
#include "policy/filter/conditions.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/known_bad.h"
#include "policy/mounts.h"

struct findings {
    struct buf *text;
    int count;
};

__attribute__((format(printf, 2, 3))) static void find(struct findings *findings, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_printf(findings->text, "%s\n", line);
    findings->count++;
}

static void lint_namespaces(const struct policy_spec *spec, struct findings *findings)
{
    static const struct {
        uint64_t bit;
        const char *name, *consequence;
    } rows[] = {
        {CLONE_NEWNET, "NET",
         "the program has the host's network, with its abstract sockets and its loopback"},
        {CLONE_NEWIPC, "IPC", "the program shares System V IPC and message queues with the host"},
        {CLONE_NEWUTS, "UTS", "the program sees the host's name"},
        {CLONE_NEWCGROUP, "CGROUP", "the program sees where in the host's cgroups it is"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!(spec->namespaces & rows[i].bit)) {
            find(findings, "namespace: without %s %s", rows[i].name, rows[i].consequence);
        }
    }
}

static void lint_capabilities(const struct policy_spec *spec, struct findings *findings)
{
    for (size_t i = 0; i < spec->n_capabilities; i++) {
        const char *danger = capability_danger(capability_number(spec->capabilities[i]));
        if (danger) {
            find(findings, "capability %s: %s", spec->capabilities[i], danger);
        }
    }
}

/* Trees of the host that hold secrets or tell of it; all of it, "/", is refused by policy/mounts.c. Of
 * several that a source lies in, the last one speaks. */
static const struct {
    const char *path;
    bool whole; /* what lies below it is no better */
    const char *consequence;
} telling_sources[] = {
    {"/proc", true, "shows the host's processes"},
    {"/sys", true, "shows the host's devices and kernel"},
    {"/sys/fs/cgroup", true, "shows the limits of the host's services"},
    {"/dev", true, "is or shows a device of the host's"},
    {"/root", true, "may hold keys and histories"},
    {"/home", true, "may hold keys and histories"},
    {"/etc", false, "may hold keys and passwords"},
    {"/etc/shadow", true, "holds passwords"},
    {"/etc/gshadow", true, "holds passwords"},
    {"/etc/ssh", true, "holds keys of the host's"},
    {"/etc/ssl/private", true, "holds keys of the host's"},
    {"/etc/sudoers", true, "says who may become root"},
    {"/etc/kubernetes", true, "holds keys of the host's"},
    {"/etc/immure", true, "holds this server's keys"},
    {"/run", true, "holds sockets of the host's services"},
    {"/var/run", true, "holds sockets of the host's services"},
    {"/var/lib", false, "holds the data of the host's services"},
    {"/var/lib/containerd", true, "holds the files of other containers"},
    {"/var/lib/containers", true, "holds the files of other containers"},
    {"/var/lib/docker", true, "holds the files of other containers"},
    {"/var/lib/kubelet", true, "holds the secrets of other containers"},
    {"/var/log", true, "holds the host's logs"},
    {"/var/spool/cron", true, "says what the host runs"},
    {"/boot", true, "shows the host's kernel"},
};

/* Devices without memory of their own, which every program may have. */
static bool is_harmless_device(const char *path)
{
    static const char *const rows[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(path, rows[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void lint_source(const struct policy_mount *mount, struct findings *findings)
{
    const char *consequence = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(telling_sources); i++) {
        bool same = strcmp(mount->source, telling_sources[i].path) == 0;
        if (same || (telling_sources[i].whole && path_is_below(mount->source, telling_sources[i].path))) {
            consequence = telling_sources[i].consequence;
        }
    }
    if (consequence && !is_harmless_device(mount->source)) {
        find(findings, "mount %s: source %s %s", mount->destination, mount->source, consequence);
    }
    size_t len = strlen(mount->source);
    if (len > 5 && strcmp(mount->source + len - 5, ".sock") == 0) {
        find(findings, "mount %s: source %s is a socket: whoever listens to it trusts its callers",
             mount->destination, mount->source);
    }
}

static void lint_bind(const struct policy_mount *mount, struct findings *findings)
{
    const char *where = mount->destination;
    lint_source(mount, findings);
    if (!mount->read_only) {
        find(findings, "mount %s: is writable: the program changes the host's %s", where, mount->source);
    }
    if (mount->allow_devices && !path_is_below(mount->source, "/dev")) {
        find(findings, "mount %s: allow_devices on a tree that is not below /dev", where);
    }
}

static void lint_mounts(const struct policy_spec *spec, bool strict, struct findings *findings)
{
    bool work = false;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct policy_mount *mount = &spec->mounts[i];
        work |= mount->kind == POLICY_MOUNT_SCRATCH && strcmp(mount->source, "work") == 0;
        if (mount->kind == POLICY_MOUNT_BIND) {
            lint_bind(mount, findings);
        }
        if (mount->kind == POLICY_MOUNT_TMPFS && !mount->read_only) {
            find(findings,
                 "mount %s: without cgroup v2 what is written there is not counted as the job's memory",
                 mount->destination);
        }
        if (mount->kind == POLICY_MOUNT_PROC && (!mount->subset_pid || !mount->hidepid)) {
            find(findings, "mount %s: without %s the program sees %s", mount->destination,
                 mount->subset_pid ? "hidepid" : "subset_pid",
                 mount->subset_pid ? "PID 1 of the jail" : "the host's memory, CPUs and kernel");
        }
        if (strict && mount->kind == POLICY_MOUNT_SCRATCH && !mount->no_exec) {
            find(findings, "mount %s: programs that the job writes can be run; no_exec forbids it",
                 mount->destination);
        }
    }
    if (strict && !work) {
        find(findings, "mount: no scratch directory WORK, so that requests cannot bring files");
    }
}

static bool rule_allows(enum seccomp_action_kind action)
{
    return action == ACTION_ALLOW || action == ACTION_LOG;
}

static void lint_conditions(const struct seccomp_rule *rule, enum seccomp_action_kind otherwise,
                            struct findings *findings)
{
    bool allows = rule_allows(rule->action), default_allows = rule_allows(otherwise);
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        bool wide = condition->op == OP_NE || condition->op == OP_GT || condition->op == OP_GE ||
                    (condition->op == OP_MASKED_NE && condition->mask > UINT32_MAX);
        if (allows && wide) {
            find(findings,
                 "seccomp rule %u: condition on argument %u compares 64 bits; where the kernel reads 32, a "
                 "caller can set "
                 "the upper ones and pass",
                 rule->number, condition->arg);
        }
        bool reads_32 = condition->mask != 0 && condition->mask <= UINT32_MAX;
        if (!allows && default_allows && !reads_32) {
            find(findings,
                 "seccomp rule %u: condition on argument %u compares 64 bits; where the kernel reads 32, a "
                 "caller can set "
                 "the upper ones and dodge it: use MASKED_EQ with a mask of 32 bits",
                 rule->number, condition->arg);
        }
    }
}

/* A number where the kernel has a name, in a condition or in a `where`. 0 is everything's. */
static void lint_bare_numbers(const struct seccomp_rule *rule, struct findings *findings)
{
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        const char *name = condition->value == 0 ? NULL : condition_constant(rule, condition);
        if (name && !(rule->where && strstr(rule->where, name))) {
            find(findings, "seccomp rule %" PRIu32 ": %#" PRIx64 " is %s: where { arg: \"%s\" in: \"%s\" }",
                 rule->number, condition->value, name, argument_at(rule->syscalls[0], condition->arg)->name,
                 name);
        }
    }
}

/* A rule that allows a call of a set that no policy should, whatever its arguments. */
static bool allows_danger(const struct policy *policy, const struct filter_entry *entry, const char *name)
{
    const struct seccomp_rule *rule = &policy->spec->rules[entry->rule];
    return rule_allows(rule->action) && rule->n_conditions == 0 && syscall_set_danger(name);
}

static void lint_dangers(const struct policy *policy, struct findings *findings)
{
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &policy->filter.entries[i];
        char buffer[64];
        const char *name = policy_syscall_name(policy_native_arch(), entry->nr, buffer, sizeof buffer);
        if (allows_danger(policy, entry, name)) {
            const struct syscall_row *danger = syscall_set_danger(name);
            find(findings, "seccomp rule %u: allows %s of %s: %s", policy->spec->rules[entry->rule].number,
                 name, danger->name, danger->reason);
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

/* The rule that lets a call pass; NULL: the default action does. */
static const struct filter_entry *allowing(const struct policy *policy, const char *syscall,
                                           const uint64_t arguments[6])
{
    int nr = policy_syscall_number(syscall, NULL);
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &policy->filter.entries[i];
        const struct seccomp_rule rule = policy_filter_rule(policy->spec, entry);
        if (entry->nr == nr && rule_allows(rule.action) && rule_holds(&rule, arguments)) {
            return entry;
        }
    }
    return NULL;
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
static void lint_known_bad(const struct policy *policy, struct findings *findings)
{
    for (size_t i = 0; i < n_known_bad_calls; i++) {
        const struct known_bad_call *call = &known_bad_calls[i];
        uint64_t arguments[ARRAY_SIZE(call->arguments)];
        if (!passes(policy, call, arguments)) {
            continue;
        }
        const struct filter_entry *entry = allowing(policy, call->syscall, arguments);
        if (!entry) {
            find(findings, "seccomp default_action: allows %s: it %s", call->shown, call->consequence);
        } else if (!allows_danger(policy, entry, call->syscall)) {
            find(findings, "seccomp rule %u: allows %s: it %s", policy->spec->rules[entry->rule].number,
                 call->shown, call->consequence);
        }
    }
}

static void lint_filter(const struct policy *policy, bool strict, struct findings *findings)
{
    const struct policy_spec *spec = policy->spec;
    if (rule_allows(spec->seccomp_default)) {
        find(
            findings,
            "seccomp: default_action allows every call that no rule names, those of future kernels included");
    }
    const char *mounts = policy_mounting_call(policy);
    if (mounts) {
        find(findings, "seccomp: without Landlock: allows %s", mounts);
    }
    lint_dangers(policy, findings);
    lint_known_bad(policy, findings);
    for (size_t i = 0; i < spec->n_rules; i++) {
        lint_conditions(&spec->rules[i], spec->seccomp_default, findings);
        if (strict) {
            lint_bare_numbers(&spec->rules[i], findings);
        }
        bool again = i > 0 && spec->rules[i - 1].number == spec->rules[i].number;
        if (strict && !spec->rules[i].reason && !again) {
            find(findings, "seccomp rule %u: has no reason", spec->rules[i].number);
        }
    }
}

static void lint_environment(const struct policy_spec *spec, struct findings *findings)
{
    for (size_t i = 0; i < spec->n_env_allow; i++) {
        const char *reason = env_loader_reason(spec->env_allow[i]);
        if (reason && !strchr(spec->env_allow[i], '*')) {
            find(findings, "env_allow %s: %s", spec->env_allow[i], reason);
        }
    }
}

int policy_lint(const struct policy *policy, bool strict, struct buf *ret)
{
    struct findings findings = {.text = ret};
    lint_namespaces(policy->spec, &findings);
    lint_capabilities(policy->spec, &findings);
    lint_mounts(policy->spec, strict, &findings);
    lint_environment(policy->spec, &findings);
    lint_filter(policy, strict, &findings);
    return findings.count;
}
