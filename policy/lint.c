/* `immure policy lint`: what a policy allows that its author may not have meant. Nothing here stops a policy;
 * what must not be is refused by policy/check.c and policy/filter.c. Each finding is one line that begins
 * with where it is. */
#include "policy/policy.h"

#include <linux/sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/capability.h"
#include "jail/base/cleanup.h"
#include "policy/capabilities.h"
#include "policy/check.h"
#include "policy/compiled.h"
#include "policy/env.h"
#include "policy/seccomp.h"
#include "policy/syscall_sets.h"

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

/* Trees of the host that hold secrets or tell of it; all of it, "/", is refused by policy/mounts.c. */
static const struct {
    const char *path, *consequence;
} telling_sources[] = {
    {"/proc", "shows the host's processes"},
    {"/sys", "shows the host's devices and kernel"},
    {"/dev", "shows the host's devices"},
    {"/root", "may hold keys and histories"},
    {"/home", "may hold keys and histories"},
    {"/etc", "may hold keys and passwords"},
    {"/run", "holds sockets of the host's services"},
    {"/var/run", "holds sockets of the host's services"},
    {"/var/lib", "holds the data of the host's services"},
    {"/boot", "shows the host's kernel"},
};

static void lint_bind(const struct policy_mount *mount, struct findings *findings)
{
    const char *where = mount->destination;
    for (size_t i = 0; i < ARRAY_SIZE(telling_sources); i++) {
        if (strcmp(mount->source, telling_sources[i].path) == 0) {
            find(findings, "mount %s: source %s %s", where, mount->source, telling_sources[i].consequence);
        }
    }
    size_t len = strlen(mount->source);
    if (len > 5 && strcmp(mount->source + len - 5, ".sock") == 0) {
        find(findings, "mount %s: source %s is a socket: whoever listens to it trusts its callers", where,
             mount->source);
    }
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

static void lint_conditions(const struct seccomp_rule *rule, size_t index, enum seccomp_action_kind otherwise,
                            struct findings *findings)
{
    bool allows = rule->action == ACTION_ALLOW || rule->action == ACTION_LOG;
    bool default_allows = otherwise == ACTION_ALLOW || otherwise == ACTION_LOG;
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        bool wide = condition->op == OP_NE || condition->op == OP_GT || condition->op == OP_GE;
        if (allows && wide) {
            find(findings,
                 "seccomp rule %zu: condition on argument %u compares 64 bits; where the kernel reads 32, a "
                 "caller can set "
                 "the upper ones and pass",
                 index + 1, condition->arg);
        }
        bool reads_32 = condition->op == OP_MASKED_EQ && condition->mask <= UINT32_MAX;
        if (!allows && default_allows && !reads_32) {
            find(findings,
                 "seccomp rule %zu: condition on argument %u compares 64 bits; where the kernel reads 32, a "
                 "caller can set "
                 "the upper ones and dodge it: use MASKED_EQ with a mask of 32 bits",
                 index + 1, condition->arg);
        }
    }
}

/* Calls that are in no set because some of their arguments reach further than the rest. */
static const struct {
    const char *name, *consequence;
} many_calls_in_one[] = {
    {"clone", "makes user namespaces, which bring every capability back"},
    {"clone3",
     "makes user namespaces, which bring every capability back; no condition can look at its flags"},
    {"fcntl", "tells when others read files (F_NOTIFY), and makes them wait (F_SETLEASE)"},
    {"ioctl", "types into a terminal (TIOCSTI), and speaks to whatever devices there are"},
    {"prlimit64",
     "changes the limits of PID 1 of the jail, and of cores, which a handler of the host's reads as root"},
    {"setrlimit", "changes the limit of cores, which a handler of the host's reads as root"},
    {"socket", "loads seldom used protocols, and reaches past the network namespace (AF_VSOCK)"},
};

static void lint_call(const struct filter_entry *entry, const char *name, struct findings *findings)
{
    const struct syscall_row *danger = syscall_set_danger(name);
    if (danger) {
        find(findings, "seccomp rule %u: allows %s of %s: %s", entry->rule + 1, name, danger->name,
             danger->reason);
    }
    for (size_t i = 0; i < ARRAY_SIZE(many_calls_in_one); i++) {
        if (strcmp(name, many_calls_in_one[i].name) == 0) {
            find(findings, "seccomp rule %u: allows %s whatever its arguments: it also %s", entry->rule + 1,
                 name, many_calls_in_one[i].consequence);
        }
    }
}

static void lint_filter(const struct policy *policy, bool strict, struct findings *findings)
{
    const struct policy_spec *spec = policy->spec;
    bool default_allows = spec->seccomp_default == ACTION_ALLOW || spec->seccomp_default == ACTION_LOG;
    if (default_allows) {
        find(
            findings,
            "seccomp: default_action allows every call that no rule names, those of future kernels included");
    }
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &policy->filter.entries[i];
        const struct seccomp_rule *rule = &spec->rules[entry->rule];
        bool allows = rule->action == ACTION_ALLOW || rule->action == ACTION_LOG;
        if (allows && rule->n_conditions == 0) {
            char name[64];
            lint_call(entry, policy_syscall_name(policy_native_arch(), entry->nr, name, sizeof name),
                      findings);
        }
    }
    for (size_t i = 0; i < spec->n_rules; i++) {
        lint_conditions(&spec->rules[i], i, spec->seccomp_default, findings);
        if (strict && !spec->rules[i].reason) {
            find(findings, "seccomp rule %zu: has no reason", i + 1);
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
