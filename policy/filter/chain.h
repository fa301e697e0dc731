/* Comparisons of arguments, as BPF, for the calls whose rules libseccomp cannot be given together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct filter_entry;
struct policy_spec;
struct sock_filter;

/* True for the entries of one call if libseccomp (2.5) may compile them wrongly. */
bool chain_is_needed(const struct policy_spec *spec, const struct filter_entry *entries, size_t n);

/* Writes what answers the call of these entries: the first rule that holds, or else the default action.
 * Returns how many instructions that takes, whether or not there is `room` for them; what has no room is not
 * written. */
size_t chain_write(const struct policy_spec *spec, const struct filter_entry *entries, size_t n,
                   struct sock_filter *ret, size_t room);
