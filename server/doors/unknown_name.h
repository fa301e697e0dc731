/* A name that no field, argument or parameter has: the refusal, with what may have been meant. */
#pragma once

#include <stddef.h>

struct err;
struct json;

/* Fails with ERR_INVALID and the item PREFIXname: "PREFIXname: unknown WHAT; did you mean 'x'?". `names` are
 * those that there are. */
int unknown_name(const char *what, const char *prefix, const char *name, const char *const *names,
                 size_t n_names, struct err *reterr);

/* Finds the members of an object: `ret[i]` is that of `names[i]`, NULL where it is absent or null. Fails as
 * above for one with another name. */
int known_members(const struct json *object, const char *what, const char *prefix, const char *const *names,
                  size_t n_names, const struct json **ret, struct err *reterr);
