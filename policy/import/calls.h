/* What a draft says about system calls, as rules of a policy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct clause;
struct draft;
struct err;
struct policy_spec;

/* The parts that the policy is made of, as a list for `use`. */
const char *calls_parts(const struct draft *draft);
/* These parts, put together; policy_spec_free(). */
int calls_base(const struct draft *draft, struct policy_spec **ret, struct err *reterr);
/* Appends the field `seccomp`, and the names for `without { syscall }` to `ret_without`, with commas.
 * ERR_CONFIG where no program could be started. */
int calls_text(struct draft *draft, const struct policy_spec *base, struct buf *ret, struct buf *ret_without,
               struct err *reterr);

/* Appends the values of a clause as `where { ... }`, in the kernel's names. */
void where_write(const char *call, const struct clause *clause, struct buf *ret);
/* Whether the two differ in nothing but the value of their one comparison; and those of the clauses up to
 * `end` of which that is so with the first, as one `where`. */
bool where_is_choice(const char *call, const struct clause *a, const struct clause *b);
void where_write_choice(const char *call, const struct clause *first, const struct clause *end,
                        struct buf *ret);
/* How many bits the kernel reads of each argument, as masks. */
void where_bits(const char *call, uint64_t ret[6]);
