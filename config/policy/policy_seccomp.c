/* The seccomp part of a policy from its messages. Runs in the warden and the command line. Names of system
 * calls, sets, architectures and errors are looked up by the policy layer; here they only have to look like
 * names.
 *
 * A field of the schema is called `errno`, so this file does without <errno.h>, where that is a macro. */
#include "config/policy/policy_message.h"

#include <stdlib.h>
#include <string.h>

#include "config/format/check.h"
#include "config/policy/policy.pb-c.h"
#include "config/policy/policy_file.h"
#include "jail/base/cleanup.h"

/* The enums of the message count from 1, those of the struct from 0, in the same order. */
_Static_assert((int)IMMURE__SECCOMP_ACTION__ALLOW - 1 == (int)ACTION_ALLOW &&
                   (int)IMMURE__SECCOMP_ACTION__ERRNO - 1 == (int)ACTION_ERRNO &&
                   (int)IMMURE__SECCOMP_ACTION__KILL_PROCESS - 1 == (int)ACTION_KILL_PROCESS &&
                   (int)IMMURE__SECCOMP_ACTION__LOG - 1 == (int)ACTION_LOG &&
                   (int)IMMURE__SECCOMP_ACTION__NOTIFY - 1 == (int)ACTION_NOTIFY &&
                   (int)IMMURE__SECCOMP_ACTION__COUNT - 1 == (int)ACTION_COUNT,
               "actions differ");
_Static_assert((int)IMMURE__SECCOMP_OPERATOR__EQ - 1 == (int)OP_EQ &&
                   (int)IMMURE__SECCOMP_OPERATOR__GE - 1 == (int)OP_GE &&
                   (int)IMMURE__SECCOMP_OPERATOR__MASKED_EQ - 1 == (int)OP_MASKED_EQ,
               "operators differ");

static int action_from_message(struct checker *checker, const char *field, Immure__SeccompAction action,
                               enum seccomp_action_kind *ret)
{
    *ret = (enum seccomp_action_kind)((int)action - 1);
    return (unsigned)action - 1 <= (unsigned)ACTION_COUNT
               ? 0
               : check_fail(checker, field, "there is no such action");
}

/* A name or number of an error, which only the action ERRNO takes. */
static int errno_from_message(struct checker *checker, const char *field, const char *name,
                              enum seccomp_action_kind action, char **ret)
{
    if (!name) {
        return 0;
    }
    if (action != ACTION_ERRNO) {
        return check_fail(checker, field, "has a meaning for the action ERRNO only");
    }
    int r = check_name(checker, field, name, true, "");
    return r < 0 ? r : check_copy(checker, name, ret);
}

static int condition_from_message(struct checker *checker, const Immure__SeccompCondition *message,
                                  struct seccomp_condition *ret)
{
    if ((unsigned)message->op - 1 > (unsigned)OP_MASKED_EQ) {
        return check_fail(checker, "op", "there is no such operator");
    }
    bool masked = message->op == IMMURE__SECCOMP_OPERATOR__MASKED_EQ;
    if (masked != (bool)message->has_mask) {
        return check_fail(checker, "mask",
                          masked ? "is needed for MASKED_EQ" : "has a meaning for MASKED_EQ only");
    }
    if (masked && (message->value & ~message->mask) != 0) {
        return check_fail(checker, "value", "has bits outside the mask, so that it could never be equal");
    }
    *ret = (struct seccomp_condition){
        .arg = message->arg,
        .op = (enum seccomp_op)((int)message->op - 1),
        .value = message->value,
        .mask = message->mask,
    };
    return check_range(checker, "arg", message->arg, 0, 5);
}

static int conditions_from_message(struct checker *checker, const Immure__SeccompRule *message,
                                   struct seccomp_rule *ret)
{
    int r = check_new_array(checker, message->n_condition, sizeof *ret->conditions, &ret->conditions);
    for (size_t i = 0; r == 0 && i < message->n_condition; i++) {
        size_t before = check_enter(checker, "condition", i);
        r = condition_from_message(checker, message->condition[i], &ret->conditions[i]);
        ret->n_conditions = i + 1;
        check_leave(checker, before);
    }
    return r;
}

static int check_sets(struct checker *checker, const Immure__SeccompRule *message)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < message->n_set; i++) {
        const char *set = message->set[i];
        size_t before = check_enter(checker, "set", i);
        r = set[0] == '@' ? check_name(checker, NULL, set + 1, false, "_-")
                          : check_fail(checker, NULL, "a set's name begins with '@': \"@%.40s\"?", set);
        check_leave(checker, before);
    }
    return r;
}

static int check_calls(struct checker *checker, const Immure__SeccompRule *message)
{
    if (message->n_syscall == 0 && message->n_set == 0) {
        return check_fail(checker, NULL, "names no system call and no set");
    }
    int r = check_names(checker, "syscall", message->syscall, message->n_syscall, false, "_");
    return r < 0 ? r : check_sets(checker, message);
}

static int rule_from_message(struct checker *checker, const Immure__SeccompRule *message,
                             struct seccomp_rule *ret)
{
    ret->at = check_position(checker, NULL);
    int r = action_from_message(checker, "action", message->action, &ret->action);
    r = r < 0 ? r : check_calls(checker, message);
    r = r < 0 ? r : errno_from_message(checker, "errno", message->errno, ret->action, &ret->errno_name);
    r = r < 0
            ? r
            : check_copy_all(checker, message->syscall, message->n_syscall, &ret->syscalls, &ret->n_syscalls);
    r = r < 0 ? r : check_copy_all(checker, message->set, message->n_set, &ret->sets, &ret->n_sets);
    r = r < 0 ? r : conditions_from_message(checker, message, ret);
    return r < 0 ? r : check_copy(checker, message->reason, &ret->reason);
}

static int copy_choice(struct checker *checker, const struct where_choices *choices, size_t choice,
                       struct seccomp_rule *rule)
{
    int r = check_new_array(checker, choices->n_conditions, sizeof *rule->conditions, &rule->conditions);
    if (r == 0 && choices->n_conditions > 0) {
        memcpy(rule->conditions, choices->rows[choice], choices->n_conditions * sizeof *rule->conditions);
        rule->n_conditions = choices->n_conditions;
    }
    return r;
}

/* A rule for each choice that its `where` gives. */
static int choices_from_message(struct checker *checker, const Immure__SeccompRule *message, uint32_t number,
                                struct policy_spec *spec)
{
    struct where_choices choices;
    CLEANUP(freep) char *words = NULL;
    int r = policy_where_from_message(checker, message, &choices, &words);
    struct seccomp_rule *rules =
        r < 0 ? NULL : reallocarray(spec->rules, spec->n_rules + choices.n, sizeof *rules);
    if (!rules) {
        return r < 0 ? r : check_memory(checker);
    }
    spec->rules = rules;
    for (size_t i = 0; r == 0 && i < choices.n; i++) {
        struct seccomp_rule *rule = &spec->rules[spec->n_rules++];
        *rule = (struct seccomp_rule){.number = number};
        r = rule_from_message(checker, message, rule);
        r = r < 0 || message->n_where == 0 ? r : copy_choice(checker, &choices, i, rule);
        r = r < 0 ? r : check_copy(checker, words, &rule->where);
    }
    return r;
}

static int rules_from_message(struct checker *checker, const Immure__Seccomp *message,
                              struct policy_spec *spec)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < message->n_rule; i++) {
        size_t before = check_enter(checker, "rule", i);
        r = check_go_on(checker, choices_from_message(checker, message->rule[i], (uint32_t)i + 1, spec));
        check_leave(checker, before);
    }
    return r;
}

int policy_seccomp_from_message(struct checker *checker, const Immure__Policy *policy,
                                struct policy_spec *spec)
{
    const Immure__Seccomp *message = policy->seccomp;
    if (!message) {
        return 0;
    }
    size_t before = fieldpath_push(&checker->path, "seccomp");
    spec->has_seccomp = true;
    spec->seccomp_at = check_position(checker, NULL);
    spec->default_errno_at = check_position(checker, "default_errno");
    spec->architectures_at = check_position(checker, "architecture[0]");
    int r = action_from_message(checker, "default_action", message->default_action, &spec->seccomp_default);
    r = r < 0 ? r
              : errno_from_message(checker, "default_errno", message->default_errno, spec->seccomp_default,
                                   &spec->seccomp_default_errno);
    r = r < 0 ? r
              : check_names(checker, "architecture", message->architecture, message->n_architecture, false,
                            "_");
    r = r < 0 ? r
              : check_copy_all(checker, message->architecture, message->n_architecture, &spec->architectures,
                               &spec->n_architectures);
    r = r < 0 ? r : rules_from_message(checker, message, spec);
    fieldpath_pop(&checker->path, before);
    return r;
}

static void texts_free(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(texts[i]);
    }
    free(texts);
}

void policy_seccomp_free(struct policy_spec *spec)
{
    free(spec->seccomp_default_errno);
    texts_free(spec->architectures, spec->n_architectures);
    for (size_t i = 0; i < spec->n_rules; i++) {
        texts_free(spec->rules[i].syscalls, spec->rules[i].n_syscalls);
        texts_free(spec->rules[i].sets, spec->rules[i].n_sets);
        free(spec->rules[i].errno_name);
        free(spec->rules[i].conditions);
        free(spec->rules[i].reason);
        free(spec->rules[i].where);
    }
    free(spec->rules);
}
