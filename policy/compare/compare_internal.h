/* The halves of a comparison: each appends its rows. */
#pragma once

#include "policy/compare/compare.h"

/* Takes copies; -ENOMEM. */
int differences_add(struct policy_differences *differences, const struct policy_difference *row);

int compare_settings(const struct policy *a, const struct policy *b, struct policy_differences *ret);
int compare_calls(const struct policy *a, const struct policy *b, struct policy_differences *ret,
                  struct err *reterr);
