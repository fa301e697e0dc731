/* What a test says of system calls, held against a compiled filter. */
#pragma once

#include <stdbool.h>

struct buf;
struct err;
struct policy;
struct policy_test;
struct policy_test_call;

/* ERR_CONFIG with the place of a name of a system call, a set or an answer that does not exist. */
int policy_test_check(const struct policy_test *test, struct err *reterr);

/* After policy_test_check(). Appends to `ret_name` what is tested ("clone(CLONE_NEWUSER)"), and where it does
 * not hold to `ret_why` the first call that is answered otherwise. `allow`: else it is to be refused.
 * ERR_CONFIG: there are too many values to be tried. */
int policy_test_call(const struct policy *policy, const struct policy_test_call *call, bool allow,
                     struct buf *ret_name, struct buf *ret_why, struct err *reterr);
