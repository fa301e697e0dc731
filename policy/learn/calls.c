/* The seccomp rules of a learned policy: for calls that its parent decides nothing about, with the arguments
 * that were seen. What no policy should allow (policy_never()) is quoted and not given; so is what the parent
 * or a set gives with other arguments only. Runs in the command line. Pure. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "config/policy/constants.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "policy/compiled.h"
#include "policy/filter/call_text.h"
#include "policy/filter/conditions.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/hint.h"
#include "policy/learn/learn_internal.h"
#include "policy/learn/observed.h"

#define NAME_BYTES 64
#define TEXT_BYTES 256

/* Calls are sorted by number: those of one. */
struct group {
    const struct observed *observed;
    const struct policy *parent, *answers;
    size_t first, end;
    char name[NAME_BYTES];
};

/* NULL: none of its rules does. */
static const struct filter_entry *deciding(const struct policy *policy, const struct observed_call *call)
{
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        const struct filter_entry *entry = &policy->filter.entries[i];
        const struct seccomp_rule rule = policy_filter_rule(policy->spec, entry);
        bool sure = false;
        if (entry->nr == call->nr && conditions_may_hold(&rule, 0x3f, call->arguments, &sure) && sure) {
            return entry;
        }
    }
    return NULL;
}

static bool decides_some(const struct policy *policy, int nr)
{
    for (size_t i = 0; i < policy->filter.n_entries; i++) {
        if (policy->filter.entries[i].nr == nr) {
            return true;
        }
    }
    return false;
}

/* The bits of an argument that a rule looks at; 0: none does. */
static uint64_t asked_bits(const struct named_argument *argument)
{
    static const char *const unasked[] = {"open", "prot", "map"};
    if (!argument || !argument->kind) {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(unasked); i++) {
        if (strcmp(argument->kind, unasked[i]) == 0) {
            return 0;
        }
    }
    return strcmp(argument->kind, "type") == 0   ? SOCK_TYPE_MASK
           : strcmp(argument->kind, "mode") == 0 ? S_IFMT
           : argument->bits < 64                 ? (UINT64_C(1) << argument->bits) - 1
                                                 : UINT64_MAX;
}

/* What a rule would look at of its arguments. */
static void ask(const char *name, const struct observed_call *call, uint64_t ret[OBSERVED_ARGUMENTS])
{
    for (uint32_t i = 0; i < OBSERVED_ARGUMENTS; i++) {
        ret[i] = call->arguments[i] & asked_bits(argument_at(name, i));
    }
}

static void copy_text(const struct buf *text, char ret[TEXT_BYTES])
{
    snprintf(ret, TEXT_BYTES, "%s", text->data && !text->failed ? text->data : "?");
}

/* "TCGETS", or "CLONE_VM|SIGCHLD": of what a rule would look at. */
static void value_text(const struct named_argument *argument, const struct observed_call *call,
                       char ret[TEXT_BYTES])
{
    uint64_t asked[OBSERVED_ARGUMENTS];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    ask(argument->call, call, asked);
    call_argument_text(argument, asked, &text);
    copy_text(&text, ret);
}

/* Settings of terminals and descriptors, and questions: of the others many are a driver's own. */
static bool is_harmless_request(const struct observed_call *call)
{
    static const char *const begins[] = {"TCGET",      "TCSET",     "TCFLSH",   "TCXONC", "TCSBRK", "TIOCG",
                                         "TIOCSWINSZ", "TIOCSPGRP", "TIOCOUTQ", "FIO",    "SIOCG"};
    const char *name = constant_name("request", (uint32_t)call->arguments[1]);
    for (size_t i = 0; name && i < ARRAY_SIZE(begins); i++) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* What the sets that are no danger say of a call: nothing, or which rows of theirs hold for it. */
struct sets_say {
    const char *set;     /* NULL: no row holds */
    bool known, unasked; /* by an argument that no rule of ours names */
};

static struct sets_say ask_sets(const char *name, const struct observed_call *call)
{
    struct sets_say say = {0};
    const char *set = NULL;
    for (const struct syscall_row *row = syscall_sets(); row->name; row++) {
        set = row->reason ? (row->kind == SET_DANGER ? NULL : row->name) : set;
        if (!set || row->reason || strcmp(row->name, name) != 0) {
            continue;
        }
        bool holds = true, unasked = false;
        for (size_t i = 0; i < row->n_conditions; i++) {
            uint32_t number = row->conditions[i].arg;
            holds = holds && condition_holds(&row->conditions[i], call->arguments[number]);
            unasked |= asked_bits(argument_at(name, number)) == 0;
        }
        say.known = true;
        if (holds && !say.set) {
            say.set = set;
            say.unasked = unasked;
        }
    }
    return say;
}

/* Why the call is not given; NULL: it is. What a parent or a set gives with conditions is left out there on
 * purpose with others, but that all dangers of clone are known. */
static const char *why_not(const struct group *group, const struct observed_call *call)
{
    const char *danger = policy_never(group->name, call->arguments);
    bool request = strcmp(group->name, "ioctl") == 0;
    if (danger) {
        return danger;
    }
    if (request && !is_harmless_request(call)) {
        return "not known to be harmless, whatever the descriptor is";
    }
    if (!request && strcmp(group->name, "clone") != 0 && decides_some(group->parent, call->nr)) {
        return "what it uses gives this call with other arguments only";
    }
    struct sets_say say = ask_sets(group->name, call);
    return say.known && !say.set ? "sets of system calls have it with other arguments only" : NULL;
}

static void note(struct learn_section *section, const char *name, const struct observed_call *call,
                 const char *why)
{
    uint64_t asked[OBSERVED_ARGUMENTS];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    ask(name, call, asked);
    call_text(policy_native_arch(), call->nr, asked, &text);
    buf_printf(section->notes, "#   %s, %" PRIu64 " %s: %s\n", text.data ? text.data : name, call->count,
               call->count == 1 ? "time" : "times", why);
}

/* Nothing else was done with sockets. */
static bool asks_nscd(const struct group *group)
{
    return !group->observed->sockets && strcmp(group->name, "socket") == 0;
}

/* A lock is the kernel's memory: not allowed, but counted. */
static bool is_lock(const char *name, const struct observed_call *call)
{
    return strcmp(name, "flock") == 0 ||
           (strcmp(name, "fcntl") == 0 && (call->arguments[1] == F_SETLK || call->arguments[1] == F_SETLKW));
}

/* True if the parent leaves it open; what it refuses, or may not have, is noted. */
static bool is_missing(const struct group *group, size_t index, struct learn_section *section)
{
    const struct policy_spec *spec = group->parent->spec;
    const struct observed_call *call = &group->observed->calls[index];
    const struct filter_entry *entry = deciding(group->parent, call);
    enum seccomp_action_kind action = entry ? spec->rules[entry->rule].action : spec->seccomp_default;
    if (entry && (action == ACTION_NOTIFY || action == ACTION_KILL_PROCESS)) {
        const char *reason = spec->rules[entry->rule].reason;
        note(section, group->name, call, reason ? reason : "what it uses refuses it");
        return false;
    }
    if (entry || action == ACTION_ALLOW || action == ACTION_LOG) {
        return false;
    }
    const struct filter_entry *answer = deciding(group->answers, call);
    if ((answer && group->answers->spec->rules[answer->rule].action == ACTION_ERRNO) || asks_nscd(group)) {
        return true;
    }
    if (is_lock(group->name, call)) {
        section->locks = true;
        return false;
    }
    if (!group->observed->sockets && strcmp(group->name, "connect") == 0) {
        return false;
    }
    const char *why = why_not(group, call);
    if (why) {
        note(section, group->name, call, why);
    }
    return !why;
}

/* The errno that the call was answered with meanwhile, or may as well be; NULL: with none. */
static const char *answered(const struct group *group, const struct observed_call *call)
{
    if (asks_nscd(group)) {
        return "EACCES";
    }
    const struct filter_entry *answer = deciding(group->answers, call);
    const struct seccomp_rule *rule = answer ? &group->answers->spec->rules[answer->rule] : NULL;
    return rule && rule->action == ACTION_ERRNO ? (rule->errno_name ? rule->errno_name : "EPERM") : NULL;
}

static void put_rule_head(struct buf *ret, const char *errno_name, const char *what, const char *names)
{
    buf_printf(ret, "  rule { action: %s%s%s%s %s: %s", errno_name ? "ERRNO errno: \"" : "ALLOW",
               errno_name ? errno_name : "", errno_name ? "\"" : "", "", what, names);
}

/* The same in all arguments that a rule looks at, but for the one numbered `but`. */
static bool alike(const char *name, const struct observed_call *a, const struct observed_call *b,
                  uint32_t but)
{
    for (uint32_t i = 0; i < ARRAY_SIZE(a->arguments); i++) {
        uint64_t bits = i == but ? 0 : asked_bits(argument_at(name, i));
        if ((a->arguments[i] & bits) != (b->arguments[i] & bits)) {
            return false;
        }
    }
    return true;
}

/* The last argument that a rule looks at: its values stand in one list. 6: there is none. */
static uint32_t listed_argument(const char *name)
{
    uint32_t listed = 6;
    for (uint32_t i = 0; i < 6; i++) {
        listed = asked_bits(argument_at(name, i)) ? i : listed;
    }
    return listed;
}

static void put_where(struct buf *ret, const struct named_argument *argument, const char *values)
{
    bool type = strcmp(argument->kind, "type") == 0, mode = strcmp(argument->kind, "mode") == 0;
    buf_printf(ret, " where { arg: \"%s\"%s in: [%s] }", argument->name,
               type   ? " mask: \"SOCK_TYPE_MASK\""
               : mode ? " mask: \"S_IFMT\""
                      : "",
               values);
}

/* One rule for those of the missing calls that are like `first` but in the last argument. */
static void put_conditions(const struct group *group, const bool *missing, bool *done, size_t first,
                           struct learn_section *section)
{
    const struct observed_call *calls = group->observed->calls;
    uint32_t listed = listed_argument(group->name);
    const char *errno_name = answered(group, &calls[first]);
    char value[TEXT_BYTES], quoted[NAME_BYTES + 2];
    CLEANUP(buf_free) struct buf values = BUF_INIT, counts = BUF_INIT;
    const struct named_argument *last = argument_at(group->name, listed);
    for (size_t i = first; i < group->end; i++) {
        bool same = missing[i - group->first] && alike(group->name, &calls[first], &calls[i], listed) &&
                    answered(group, &calls[i]) == errno_name;
        if (!same || done[i - group->first]) {
            continue;
        }
        done[i - group->first] = true;
        value_text(last, &calls[i], value);
        const char *known = values.data ? strstr(values.data, value) : NULL;
        if (!known || known[strlen(value)] != '"') {
            buf_printf(&values, "%s\"%s\"", values.len ? ", " : "", value);
        }
        buf_printf(&counts, "%s%s %" PRIu64, counts.len ? ", " : "", value, calls[i].count);
    }
    buf_printf(section->fields, "  # %s: %s\n", group->name, counts.data ? counts.data : "");
    snprintf(quoted, sizeof quoted, "\"%s\"", group->name);
    put_rule_head(section->fields, errno_name, "syscall", quoted);
    for (uint32_t i = 0; i < listed; i++) {
        const struct named_argument *argument = argument_at(group->name, i);
        if (asked_bits(argument)) {
            char text[TEXT_BYTES + 2];
            value_text(argument, &calls[first], value);
            snprintf(text, sizeof text, "\"%s\"", value);
            put_where(section->fields, argument, text);
        }
    }
    put_where(section->fields, last, values.data ? values.data : "");
    buf_puts(section->fields, " reason: \"learned\" }\n");
    section->n_fields++;
}

/* Names in one rule, with counts in a comment before it. */
struct listing {
    struct buf names, counts;
};

static void list(struct listing *listing, const char *name, uint64_t count)
{
    const char *known = listing->names.data ? strstr(listing->names.data, name) : NULL;
    if (!known || known[-1] != '"' || known[strlen(name)] != '"') {
        buf_printf(&listing->names, "%s\"%s\"", listing->names.len ? ", " : "", name);
    }
    if (count > 0) {
        buf_printf(&listing->counts, "%s%s %" PRIu64, listing->counts.len ? ", " : "", name, count);
    }
}

static void put_listing(struct listing *listing, const char *errno_name, const char *what,
                        struct learn_section *section)
{
    if (listing->names.data) {
        if (listing->counts.data) {
            buf_printf(section->fields, "  # %s\n", listing->counts.data);
        }
        buf_puts(&listing->names, "]");
        put_rule_head(section->fields, errno_name, what, "[");
        buf_printf(section->fields, "%s reason: \"learned\" }\n", listing->names.data);
        section->n_fields++;
    }
    buf_free(&listing->names);
    buf_free(&listing->counts);
}

/* What was seen of one call: into lists where its arguments are nobody's matter. */
static void write_group(const struct group *group, struct listing *calls, struct listing *sets,
                        struct learn_section *section)
{
    size_t n = group->end - group->first;
    CLEANUP(freep) bool *missing = calloc(n, sizeof *missing), *done = calloc(n, sizeof *done);
    uint64_t count = 0;
    for (size_t i = 0; missing && done && i < n; i++) {
        missing[i] = is_missing(group, group->first + i, section);
        count += missing[i] ? group->observed->calls[group->first + i].count : 0;
    }
    bool listed = false;
    for (size_t i = 0; count > 0 && i < n; i++) {
        const char *errno_name = answered(group, &group->observed->calls[group->first + i]);
        if (!missing[i] || done[i]) {
            continue;
        }
        struct sets_say say = ask_sets(group->name, &group->observed->calls[group->first + i]);
        if (!errno_name && say.set && say.unasked) {
            list(sets, say.set, 0);
        } else if (listed_argument(group->name) < 6 && !asks_nscd(group)) {
            put_conditions(group, missing, done, group->first + i, section);
        } else if (!errno_name) {
            list(calls, group->name, listed ? 0 : count);
            listed = true;
        } else if (!listed) {
            listed = true;
            char quoted[NAME_BYTES + 2];
            snprintf(quoted, sizeof quoted, "\"%s\"", group->name);
            put_rule_head(section->fields, errno_name, "syscall", quoted);
            buf_printf(section->fields, " reason: \"%s\" }\n",
                       asks_nscd(group) ? "only to ask nscd for names: done without" : "done without");
            section->n_fields += !asks_nscd(group); /* what gives nothing costs nothing */
        }
    }
}

void calls_write(const struct observed *observed, const struct policy *parent, const struct policy *answers,
                 struct learn_section *ret)
{
    struct listing calls = {BUF_INIT, BUF_INIT}, sets = {BUF_INIT, BUF_INIT};
    struct group group = {.observed = observed, .parent = parent, .answers = answers};
    while (group.first < observed->n_calls) {
        int nr = observed->calls[group.first].nr;
        group.end = group.first + 1;
        while (group.end < observed->n_calls && observed->calls[group.end].nr == nr) {
            group.end++;
        }
        char buffer[NAME_BYTES];
        snprintf(group.name, sizeof group.name, "%s",
                 policy_syscall_name(policy_native_arch(), nr, buffer, sizeof buffer));
        write_group(&group, &calls, &sets, ret);
        group.first = group.end;
    }
    put_listing(&sets, NULL, "set", ret);
    put_listing(&calls, NULL, "syscall", ret);
    if (ret->locks) {
        buf_puts(ret->fields, "  rule { action: COUNT set: \"@file-locks\" reason: \"learned\" }\n");
        ret->n_fields++;
    }
}
