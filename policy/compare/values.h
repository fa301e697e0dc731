/* struct call_values: the values of a system call's arguments that some policy tells apart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/filter/conditions.h"

struct buf;
struct err;
struct named_argument;
struct policy;
struct seccomp_condition;

/* Values of which the same conditions hold: they get the same answer as long as the other arguments stay. */
struct value_class {
    uint64_t least, greatest;
    uint64_t signature; /* of which conditions hold */
};

struct argument_values {
    uint32_t number;
    const struct named_argument *argument; /* NULL: it has no name here */
    struct seccomp_condition
        *conditions; /* that any of the policies has about it, each once; and the given */
    size_t n_conditions;
    struct value_class *classes; /* all that there are, by `least` */
    size_t n;
};

struct call_values {
    struct argument_values arguments[SECCOMP_ARGS];
    size_t n; /* combinations */
};

/* For the call with number `nr`, of the arguments of which all of `given` hold. An argument without
 * conditions has one class. ERR_CONFIG: more is told apart than can be tried. call_values_clear(), also on
 * failure. */
int call_values_find(const struct policy *const *policies, size_t n_policies, int nr, const char *call,
                     const struct seccomp_condition *given, size_t n_given, struct call_values *ret,
                     struct err *reterr);
void call_values_clear(struct call_values *call);

/* The arguments of one combination; the last one's turn fastest. */
void call_values_at(const struct call_values *call, size_t index, uint64_t ret[SECCOMP_ARGS]);

/* The class of a value; `values->n`: it is none of what is given. */
size_t argument_values_class(const struct argument_values *values, uint64_t value);

/* Appends the classes whose `chosen` is set, in words: "family AF_INET or AF_INET6"; "request not TCGETS";
 * "flags such as CLONE_NEWUSER, CLONE_NEWNET" where only examples can be given. */
void argument_values_print(const struct argument_values *values, const bool *chosen, struct buf *ret);

/* How a call is printed: "AF_INET", "0x5401". */
void argument_value_print(const struct named_argument *argument, uint64_t value, struct buf *ret);
