/* Lint of the rules as they are written: names, numbers, and rules without an effect. On the command line
 * alone. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/format/textlex.h"
#include "config/policy/constants.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/compiled.h"
#include "policy/filter/conditions.h"
#include "policy/filter/errno_names.h"
#include "policy/filter/filter.h"
#include "policy/filter/names.h"
#include "policy/filter/syscall_sets.h"
#include "policy/lint/lint_internal.h"
#include "policy/mounts.h"

static bool rule_allows(enum seccomp_action_kind action)
{
    return action == ACTION_ALLOW || action == ACTION_LOG;
}

/* A rule that stands once for each of its choices is looked at once. */
static bool is_again(const struct policy_spec *spec, size_t index)
{
    return index > 0 && spec->rules[index - 1].number == spec->rules[index].number;
}

static const char *first_name(const struct seccomp_rule *rule)
{
    return rule->n_syscalls > 0 ? rule->syscalls[0] : rule->sets[0];
}

static void check_conditions(struct lint *lint, const struct seccomp_rule *rule)
{
    bool allows = rule_allows(rule->action), default_allows = rule_allows(lint->spec->seccomp_default);
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        const struct lint_spot spot =
            rule->where ? lint_spot(first_name(rule), "seccomp.rule[%u]", rule->number - 1)
                        : lint_spot(first_name(rule), "seccomp.rule[%u].condition[%zu]", rule->number - 1, i);
        bool wide = condition->op == OP_NE || condition->op == OP_GT || condition->op == OP_GE ||
                    (condition->op == OP_MASKED_NE && condition->mask > UINT32_MAX);
        bool reads_32 = condition->mask != 0 && condition->mask <= UINT32_MAX;
        if ((allows && wide) || (!allows && default_allows && !reads_32)) {
            lint_find(lint, LINT_COMPARES_64, &spot,
                      "argument %u is compared by 64 bits; where the kernel reads 32, a caller can set the "
                      "upper ones and %s",
                      condition->arg, allows ? "pass" : "dodge it");
        }
        const struct named_argument *argument =
            rule->n_syscalls > 0 && !rule->where ? argument_at(rule->syscalls[0], condition->arg) : NULL;
        uint64_t bits = condition->op == OP_MASKED_EQ ? condition->mask : condition->value;
        if (argument && argument->bits < 64 && bits >> argument->bits) {
            lint_find(lint, LINT_WIDE_VALUE, &spot,
                      "%#" PRIx64 " has more bits than the %" PRIu32 " that the kernel reads of %s's %s",
                      bits, argument->bits, rule->syscalls[0], argument->name);
        }
    }
}

/* ---- Numbers that have names ---- */

static bool number_of(const struct text_token *token, uint64_t *ret)
{
    char text[32], *end;
    bool quoted = token->kind == TEXT_STRING;
    size_t length = token->len - (quoted ? 2 : 0);
    if (token->len < (quoted ? 3 : 1) || length >= sizeof text) {
        return false;
    }
    memcpy(text, token->start + (quoted ? 1 : 0), length);
    text[length] = '\0';
    *ret = strtoull(text, &end, 0);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

/* The kind of constants of a `where`'s argument, as its rule's first call has it. */
static const char *kind_of(struct lint *lint, const struct seccomp_rule *rule, size_t where)
{
    char path[SOURCE_PATH_TEXT_MAX], name[40];
    struct text_token token;
    snprintf(path, sizeof path, "seccomp.rule[%u].where[%zu].arg", rule->number - 1, where);
    if (!lint_token(lint, path, &token)) {
        return NULL;
    }
    bool quoted = token.kind == TEXT_STRING;
    int length = (int)(token.len < sizeof name ? token.len : sizeof name - 1) - (quoted ? 2 : 0);
    snprintf(name, sizeof name, "%.*s", length, token.start + (quoted ? 1 : 0));
    const struct named_argument *argument =
        rule->n_syscalls > 0 ? argument_find(rule->syscalls[0], name) : NULL;
    return argument ? argument->kind : NULL;
}

/* 0 is everything's. */
static void check_number(struct lint *lint, const char *path, const char *kind, const char *call)
{
    char remedy[120], text[80];
    struct text_token token;
    uint64_t value;
    const char *name = lint_token(lint, path, &token) && number_of(&token, &value) && value != 0
                           ? constant_name(kind, value)
                           : NULL;
    if (name) {
        struct lint_spot spot = lint_spot(call, "%s", path);
        snprintf(remedy, sizeof remedy, "write %s", name);
        snprintf(text, sizeof text, "\"%s\"", name);
        spot.remedy = remedy;
        spot.edit = LINT_EDIT_REPLACE;
        spot.text = text;
        lint_find(lint, LINT_BARE_NUMBER, &spot, "%#" PRIx64 " is %s", value, name);
    }
}

static void check_where_numbers(struct lint *lint, const struct seccomp_rule *rule)
{
    static const char *const lists[] = {"in", "not_in", "all_of", "none_of"};
    for (size_t w = 0; w < 16; w++) {
        char path[SOURCE_PATH_TEXT_MAX];
        const char *kind = kind_of(lint, rule, w);
        for (size_t k = 0; kind && k < ARRAY_SIZE(lists); k++) {
            for (size_t i = 0; i < 64; i++) {
                snprintf(path, sizeof path, "seccomp.rule[%u].where[%zu].%s[%zu]", rule->number - 1, w,
                         lists[k], i);
                if (!source_has(&lint->source, path)) {
                    break;
                }
                check_number(lint, path, kind, rule->syscalls[0]);
            }
        }
    }
}

/* In a `condition`, for which `where` has to be written. */
static void check_condition_numbers(struct lint *lint, const struct seccomp_rule *rule)
{
    for (size_t i = 0; i < rule->n_conditions && !rule->where; i++) {
        const struct seccomp_condition *condition = &rule->conditions[i];
        const char *name = condition->value == 0 ? NULL : condition_constant(rule, condition);
        if (name) {
            char remedy[160];
            struct lint_spot spot =
                lint_spot(first_name(rule), "seccomp.rule[%u].condition[%zu]", rule->number - 1, i);
            snprintf(remedy, sizeof remedy, "where { arg: \"%s\" in: \"%s\" }",
                     argument_at(rule->syscalls[0], condition->arg)->name, name);
            spot.remedy = remedy;
            lint_find(lint, LINT_BARE_NUMBER, &spot, "%#" PRIx64 " is %s", condition->value, name);
        }
    }
}

static void check_errno(struct lint *lint, const char *path, const char *name)
{
    uint32_t number = policy_errno_number(name);
    const char *known = strerrorname_np((int)number);
    struct lint_spot spot = lint_spot(name, "%s", path);
    if (!name) {
        return;
    }
    if (!known) {
        lint_find(lint, LINT_ERRNO_ODD, &spot, "%s is no error that programs know", name);
    } else if (number == EINTR) {
        lint_find(lint, LINT_ERRNO_ODD, &spot, "after %s programs try the call again, for ever", known);
    }
    if (known && name[0] >= '0' && name[0] <= '9') {
        char text[40];
        snprintf(text, sizeof text, "\"%s\"", known);
        spot.edit = LINT_EDIT_REPLACE;
        spot.text = text;
        lint_find(lint, LINT_BARE_NUMBER, &spot, "%s is %s", name, known);
    }
}

/* ---- What comes twice ---- */

static void check_twice(struct lint *lint, const char *path, char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(names[i], names[k]) == 0) {
                struct lint_spot spot = lint_spot(names[i], "%s[%zu]", path, i);
                spot.edit = LINT_EDIT_REMOVE;
                lint_find(lint, LINT_DUPLICATE, &spot, "%s stands there already", names[i]);
                break;
            }
        }
    }
}

static void check_lists(struct lint *lint)
{
    const struct policy_spec *spec = lint->spec;
    check_twice(lint, "env_allow", spec->env_allow, spec->n_env_allow);
    check_twice(lint, "preload", spec->preload, spec->n_preload);
    check_twice(lint, "images", spec->images, spec->n_images);
    check_twice(lint, "seccomp.architecture", spec->architectures, spec->n_architectures);
    for (size_t i = 0; i < spec->n_rules; i++) {
        const struct seccomp_rule *rule = &spec->rules[i];
        char path[SOURCE_PATH_TEXT_MAX];
        if (!is_again(spec, i)) {
            snprintf(path, sizeof path, "seccomp.rule[%u].syscall", rule->number - 1);
            check_twice(lint, path, rule->syscalls, rule->n_syscalls);
            snprintf(path, sizeof path, "seccomp.rule[%u].set", rule->number - 1);
            check_twice(lint, path, rule->sets, rule->n_sets);
        }
    }
}

/* ---- Rules without an effect ---- */

/* A policy serves every architecture that this program is built for. */
static bool is_foreign(const char *call)
{
    return policy_syscall_number(call, NULL) < 0 && !policy_syscall_is_of("x86_64", call) &&
           !policy_syscall_is_of("aarch64", call);
}

static void check_foreign(struct lint *lint, const struct seccomp_rule *rule)
{
    for (size_t i = 0; i < rule->n_syscalls; i++) {
        if (is_foreign(rule->syscalls[i])) {
            const struct lint_spot spot =
                lint_spot(rule->syscalls[i], "seccomp.rule[%u].syscall[%zu]", rule->number - 1, i);
            lint_find(lint, LINT_FOREIGN_CALL, &spot,
                      "%s is a call of other architectures; here it does nothing", rule->syscalls[i]);
        }
    }
}

static bool decides_something(const struct lint *lint, uint32_t number)
{
    const struct policy_filter *filter = &lint->policy->filter;
    for (size_t i = 0; i < filter->n_entries; i++) {
        if (lint->spec->rules[filter->entries[i].rule].number == number) {
            return true;
        }
    }
    return false;
}

static bool has_native_call(const struct seccomp_rule *rule)
{
    bool any = rule->n_sets > 0;
    for (size_t i = 0; i < rule->n_syscalls; i++) {
        any |= policy_syscall_number(rule->syscalls[i], NULL) >= 0;
    }
    return any;
}

/* A rule without conditions that allows what this one, with conditions, allows; NULL: there is none. */
static const struct seccomp_rule *covering(const struct lint *lint, const struct seccomp_rule *rule,
                                           const char *call)
{
    int nr = policy_syscall_number(call, NULL);
    const struct policy_filter *filter = &lint->policy->filter;
    for (size_t i = 0; i < filter->n_entries && nr >= 0; i++) {
        const struct seccomp_rule *other = &lint->spec->rules[filter->entries[i].rule];
        if (filter->entries[i].nr == nr && filter->entries[i].direct && other->n_conditions == 0 &&
            other->number != rule->number) {
            return other;
        }
    }
    return NULL;
}

static void check_effect(struct lint *lint, const struct seccomp_rule *rule)
{
    size_t before = lint->n;
    for (size_t i = 0; i < rule->n_syscalls && rule->n_conditions > 0; i++) {
        const struct seccomp_rule *other = covering(lint, rule, rule->syscalls[i]);
        if (other) {
            char place[SOURCE_PLACE_TEXT_MAX];
            const struct lint_spot spot =
                lint_spot(rule->syscalls[i], "seccomp.rule[%u].syscall[%zu]", rule->number - 1, i);
            lint_find(lint, LINT_RULE_IDLE, &spot,
                      "has no effect: %s decides about %s already, whatever its arguments",
                      policy_where(lint->spec, &other->at, place), rule->syscalls[i]);
        }
    }
    if (lint->n == before && !decides_something(lint, rule->number) && has_native_call(rule)) {
        const struct lint_spot spot = lint_spot(first_name(rule), "seccomp.rule[%u]", rule->number - 1);
        lint_find(lint, LINT_RULE_IDLE, &spot,
                  "has no effect: rules that name its calls themselves decide about them");
    }
}

void lint_check_rules(struct lint *lint)
{
    const struct policy_spec *spec = lint->spec;
    check_lists(lint);
    check_errno(lint, "seccomp.default_errno", spec->seccomp_default_errno);
    for (size_t i = 0; i < spec->n_rules; i++) {
        const struct seccomp_rule *rule = &spec->rules[i];
        char path[SOURCE_PATH_TEXT_MAX];
        check_conditions(lint, rule);
        if (is_again(spec, i)) {
            continue;
        }
        snprintf(path, sizeof path, "seccomp.rule[%u].errno", rule->number - 1);
        check_errno(lint, path, rule->errno_name);
        check_foreign(lint, rule);
        check_effect(lint, rule);
        check_where_numbers(lint, rule);
        check_condition_numbers(lint, rule);
        if (!rule->reason) {
            const struct lint_spot spot = lint_spot(first_name(rule), "seccomp.rule[%u]", rule->number - 1);
            lint_find(lint, LINT_NO_REASON, &spot, "has no reason");
        }
    }
}

/* ---- Names that are none ---- */

static void check_name(struct lint *lint, const char *path, const char *what, const char *name,
                       const char *near)
{
    char words[POLICY_NO_SUCH_MAX];
    struct lint_spot spot = lint_spot(name, "%s", path);
    policy_no_such(what, NULL, words);
    char remedy[100];
    snprintf(remedy, sizeof remedy, "did you mean %s?", near ? near : "");
    spot.remedy = near ? remedy : NULL;
    lint_find(lint, LINT_INVALID, &spot, "%s: %s", name, words);
}

void lint_check_names(struct lint *lint, const struct policy_spec *spec)
{
    char path[SOURCE_PATH_TEXT_MAX];
    for (size_t i = 0; i < spec->n_rules; i++) {
        const struct seccomp_rule *rule = &spec->rules[i];
        bool known = true;
        for (size_t k = 0; k < rule->n_syscalls && !is_again(spec, i); k++) {
            policy_syscall_number(rule->syscalls[k], &known);
            if (!known) {
                snprintf(path, sizeof path, "seccomp.rule[%u].syscall[%zu]", rule->number - 1, k);
                check_name(lint, path, "system call", rule->syscalls[k],
                           syscall_set_did_you_mean(rule->syscalls[k]));
            }
        }
        for (size_t k = 0; k < rule->n_sets && !is_again(spec, i); k++) {
            if (!syscall_set_find(rule->sets[k])) {
                snprintf(path, sizeof path, "seccomp.rule[%u].set[%zu]", rule->number - 1, k);
                check_name(lint, path, "set", rule->sets[k], syscall_set_did_you_mean(rule->sets[k]));
            }
        }
        if (!is_again(spec, i) && policy_errno_number(rule->errno_name) == 0) {
            snprintf(path, sizeof path, "seccomp.rule[%u].errno", rule->number - 1);
            check_name(lint, path, "errno", rule->errno_name, policy_errno_did_you_mean(rule->errno_name));
        }
    }
    for (size_t i = 0; i < spec->n_mounts; i++) {
        struct err err = {0};
        if (policy_check_mount(spec, i, &err) < 0) {
            lint_find_error(lint, &err);
        }
    }
}
