/* What a policy would have to say so that a call that was denied were allowed, or why none should. Pure; runs
 * in the warden and on the command line.
 *
 * It goes by the call alone, and knows no policy: jobs outlive the policies that they were started with. */
#include "policy/hint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "config/policy/constants.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "policy/filter/conditions.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/known_bad.h"

#define CLONE_NAMESPACES                                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

struct called {
    const char *name;
    const uint64_t *arguments;
};

static uint64_t value_of(const struct called *call, uint32_t number)
{
    const struct named_argument *argument = argument_at(call->name, number);
    return argument ? call_value(argument, call->arguments[number]) : call->arguments[number];
}

/* ---- Calls that no policy should allow ---- */

/* Whether the argument has what makes that call a bad one. */
static bool has_bad_value(const struct called *call, const struct named_argument *argument, uint64_t bad)
{
    uint64_t value = value_of(call, argument->number);
    if (strcmp(argument->kind, "map") == 0) {
        return value & MAP_HUGETLB;
    }
    if (strcmp(argument->kind, "mode") == 0) {
        return (value & S_IFMT) == bad;
    }
    if (strcmp(argument->kind, "type") == 0) {
        return (value & SOCK_TYPE_MASK) == bad;
    }
    return constant_is_flag(argument->kind) && value != UINT32_MAX ? (value & bad) == bad : value == bad;
}

/* The argument that counts is the row's `narrow`; a socket's and its options' are two. */
static bool is_bad(const struct called *call, const struct known_bad_call *bad)
{
    bool all = bad->narrow >= SECCOMP_ARGS || strstr(call->name, "sock") != NULL;
    if (strcmp(bad->syscall, call->name) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < SECCOMP_ARGS; i++) {
        const struct named_argument *argument = argument_at(call->name, i);
        if (!argument || !(all || bad->narrow == i) || (all && !argument->kind)) {
            continue;
        }
        bool whole = bad->arguments[i] == 0 && bad->narrow != i &&
                     !(argument->kind && strcmp(argument->kind, "level") == 0);
        if (argument->kind && !whole && strcmp(argument->kind, "prot") != 0
                ? !has_bad_value(call, argument, bad->arguments[i])
                : !argument->kind && value_of(call, i) != bad->arguments[i]) {
            return false;
        }
    }
    return true;
}

/* Families and protocols of sockets whose kernel code is loaded on demand and rarely looked at. */
static bool is_rare_socket(const struct called *call)
{
    uint64_t family = value_of(call, 0), type = value_of(call, 1) & SOCK_TYPE_MASK,
             protocol = value_of(call, 2);
    if (strcmp(call->name, "socket") != 0 && strcmp(call->name, "socketpair") != 0) {
        return false;
    }
    return family != AF_UNIX && ((family != AF_INET && family != AF_INET6) ||
                                 !((type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) ||
                                   (type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP))));
}

/* Those that a rule may have counted. */
static bool is_lock(const struct called *call)
{
    uint64_t operation = value_of(call, 1);
    return strcmp(call->name, "flock") == 0 ||
           (strcmp(call->name, "fcntl") == 0 && (operation == F_SETLK || operation == F_SETLKW));
}

static const char *why_never(const struct called *call)
{
    if (is_lock(call)) {
        return NULL;
    }
    for (size_t i = 0; i < n_known_bad_calls; i++) {
        if (is_bad(call, &known_bad_calls[i])) {
            return known_bad_calls[i].consequence;
        }
    }
    if (strcmp(call->name, "clone") == 0 && value_of(call, 0) & CLONE_NAMESPACES) {
        return "makes namespaces, in which much of the kernel can be reached that a jail keeps away";
    }
    if (strcmp(call->name, "clone") == 0 && value_of(call, 0) & CLONE_PARENT) {
        return "makes children of PID 1 of the jail";
    }
    if (strncmp(call->name, "mknod", 5) == 0) {
        mode_t mode = (mode_t)value_of(call, call->name[5] ? 2 : 1) & S_IFMT;
        return mode == S_IFCHR || mode == S_IFBLK ? "makes devices" : NULL;
    }
    if (is_rare_socket(call)) {
        return "reaches past the network namespace, or loads seldom used protocols";
    }
    const struct syscall_row *danger = syscall_set_danger(call->name);
    return danger ? danger->reason : NULL;
}

const char *policy_never(const char *name, const uint64_t arguments[6])
{
    const struct called call = {.name = name, .arguments = arguments};
    return why_never(&call);
}

/* ---- Rules ---- */

static void begin_rule(const char *action, const struct called *call, struct buf *ret)
{
    buf_printf(ret, "    rule { action: %s syscall: \"%s\"", action, call->name);
}

/* Flags of these say how, not what: the rule is for the call. */
static bool is_compared(const struct named_argument *argument)
{
    return argument->kind && (!constant_is_flag(argument->kind) || strcmp(argument->kind, "mode") == 0 ||
                              strcmp(argument->kind, "persona") == 0);
}

/* Of an argument's value, some bits: `mask`, by name or as a number; NULL: all. The list stays open. */
static void open_where(const struct called *call, uint32_t number, const char *mask, struct buf *ret)
{
    const struct named_argument *argument = argument_at(call->name, number);
    if (argument) {
        buf_printf(ret, " where { arg: \"%s\"", argument->name);
    } else {
        buf_printf(ret, " where { arg: \"%" PRIu32 "\"", number);
    }
    if (mask) {
        buf_printf(ret, " mask: \"%s\"", mask);
    }
    buf_puts(ret, " in: ");
}

/* A value that stands in the place of the call's own. */
static void put_value(const struct called *call, uint32_t number, uint64_t value, struct buf *ret)
{
    const struct named_argument unknown = {.call = call->name, .number = number, .bits = 64};
    const struct named_argument *argument = argument_at(call->name, number);
    uint64_t arguments[SECCOMP_ARGS];
    memcpy(arguments, call->arguments, sizeof arguments);
    arguments[number] = value;
    buf_putc(ret, '"');
    call_argument_text(argument ? argument : &unknown, arguments, ret);
    buf_putc(ret, '"');
}

static void put_where(const struct called *call, const struct named_argument *argument, struct buf *ret)
{
    const char *mask = strcmp(argument->kind, "type") == 0   ? "SOCK_TYPE_MASK"
                       : strcmp(argument->kind, "mode") == 0 ? "S_IFMT"
                                                             : NULL;
    uint64_t bits = UINT64_MAX;
    if (mask) {
        constant_find(argument->kind, mask, strlen(mask), &bits);
    }
    open_where(call, argument->number, mask, ret);
    put_value(call, argument->number, value_of(call, argument->number) & bits, ret);
    buf_puts(ret, " }");
}

/* The narrowest that lets it be made again. */
static void put_own_rule(const struct called *call, struct buf *ret)
{
    begin_rule("ALLOW", call, ret);
    if (strcmp(call->name, "clone") == 0) {
        buf_puts(ret, " where { arg: \"flags\" none_of: [\"CLONE_PARENT\", \"CLONE_NEWNS\", "
                      "\"CLONE_NEWCGROUP\", \"CLONE_NEWUTS\", \"CLONE_NEWIPC\", \"CLONE_NEWUSER\", "
                      "\"CLONE_NEWPID\", \"CLONE_NEWNET\"] }");
    }
    if (strcmp(call->name, "prlimit64") == 0) {
        buf_printf(ret, " where { arg: \"pid\" in: \"%" PRIu64 "\" }", value_of(call, 0));
    }
    for (uint32_t i = 0; i < SECCOMP_ARGS; i++) {
        const struct named_argument *argument = argument_at(call->name, i);
        if (argument && is_compared(argument)) {
            put_where(call, argument, ret);
        }
    }
    buf_puts(ret, " }\n");
}

static void open_condition(const struct called *call, const struct seccomp_condition *condition,
                           struct buf *ret)
{
    char mask[32];
    const struct named_argument *argument = argument_at(call->name, condition->arg);
    uint64_t all = argument ? call_value(argument, UINT64_MAX) : UINT64_MAX;
    snprintf(mask, sizeof mask, "0x%" PRIx64, condition->mask);
    open_where(call, condition->arg, (condition->mask & all) == all ? NULL : mask, ret);
}

/* Whether they differ in the last value alone: then one rule says both. */
static bool is_alike(const struct syscall_row *a, const struct syscall_row *b)
{
    bool alike = !b->reason && b->name && strcmp(a->name, b->name) == 0 && a->n_conditions == b->n_conditions;
    for (size_t i = 0; alike && i < a->n_conditions; i++) {
        const struct seccomp_condition *x = &a->conditions[i], *y = &b->conditions[i];
        alike = x->arg == y->arg && x->mask == y->mask && (i + 1 == a->n_conditions || x->value == y->value);
    }
    return alike;
}

/* Returns the last of the rows that the rule says. */
static const struct syscall_row *put_rows(const char *action, const struct called *call,
                                          const struct syscall_row *row, struct buf *ret)
{
    struct called said = *call;
    uint64_t arguments[SECCOMP_ARGS] = {0};
    said.arguments = arguments;
    begin_rule(action, call, ret);
    for (size_t i = 0; i < row->n_conditions; i++) {
        const struct seccomp_condition *condition = &row->conditions[i];
        bool last = i + 1 == row->n_conditions, list = last && is_alike(row, row + 1);
        arguments[condition->arg] = condition->value;
        open_condition(&said, condition, ret);
        buf_puts(ret, list ? "[" : "");
        put_value(&said, condition->arg, condition->value, ret);
        for (; last && is_alike(row, row + 1); row++) {
            buf_puts(ret, ", ");
            put_value(&said, condition->arg, row[1].conditions[i].value, ret);
        }
        buf_puts(ret, list ? "] }" : " }");
    }
    buf_puts(ret, " }\n");
    return row;
}

static bool row_holds(const struct called *call, const struct syscall_row *row)
{
    for (size_t i = 0; i < row->n_conditions; i++) {
        if (!condition_holds(&row->conditions[i], call->arguments[row->conditions[i].arg])) {
            return false;
        }
    }
    return true;
}

/* What the sets have of a call that are no danger. `*ret_covered`: this call is among it. Returns false if
 * that is the call whatever its arguments. */
static bool put_sets(const struct called *call, bool *ret_covered, struct buf *ret)
{
    const struct syscall_row *set = syscall_sets();
    for (const struct syscall_row *row = set; row->name; row++) {
        set = row->reason ? row : set;
        bool counted = strcmp(set->name, "@file-locks") == 0;
        const char *action = counted ? "COUNT" : "ALLOW";
        if (row == set || set->kind == SET_DANGER || (set->kind == SET_PARTIAL && !counted) ||
            strcmp(row->name, call->name) != 0) {
            continue;
        }
        if (row->n_conditions == 0) {
            ret->len = 0;
            begin_rule(action, call, ret);
            buf_puts(ret, " }\n");
            return false;
        }
        const struct syscall_row *first = row;
        row = put_rows(action, call, row, ret);
        for (; first <= row; first++) {
            *ret_covered = *ret_covered || row_holds(call, first);
        }
    }
    return true;
}

/* A rule that names a call takes the place of what sets say of it; so these say it again. */
static void put_rules(const struct called *call, struct buf *ret)
{
    CLEANUP(buf_free) struct buf sets = BUF_INIT;
    bool covered = false;
    if (put_sets(call, &covered, &sets) && !covered) {
        put_own_rule(call, ret);
        if (!ret->data || !strstr(ret->data, " where ")) {
            return; /* it allows what they do */
        }
    }
    if (sets.len > 0) {
        buf_append(ret, sets.data, sets.len);
    }
    ret->failed = ret->failed || sets.failed;
}

void policy_hint(uint32_t arch, int nr, const uint64_t arguments[6], uint64_t count, struct buf *ret)
{
    char name[64];
    CLEANUP(buf_free) struct buf rules = BUF_INIT;
    const struct called call = {.name = policy_syscall_name(arch, nr, name, sizeof name),
                                .arguments = arguments};
    buf_puts(ret, "denied ");
    call_text(arch, nr, arguments, ret);
    if (count > 1) {
        buf_printf(ret, ", %" PRIu64 " times", count);
    }
    if (arch != policy_native_arch() || policy_syscall_number(name, NULL) < 0) {
        buf_puts(ret, "; no rule can name it\n");
        return;
    }
    const char *why = why_never(&call);
    if (why) {
        buf_printf(ret, "; no policy should allow it: %s\n", why);
        return;
    }
    put_rules(&call, &rules);
    if (ret->data && rules.data && strstr(ret->data, rules.data)) {
        buf_puts(ret, "; the same rule would allow it\n");
        return;
    }
    buf_puts(ret, is_lock(&call) ? "; a policy's seccomp allows as many as limits.file_locks says with\n"
                                 : "; a policy's seccomp would allow it with\n");
    buf_append(ret, rules.data, rules.len);
    ret->failed = ret->failed || rules.failed;
}
