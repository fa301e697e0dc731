/* The names of errno(3). Runs wherever a policy is read. Pure. */
#include "policy/filter/errno_names.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "config/format/suggest.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"

#define ERRNO_MAX 4095u /* as a filter can return it */

/* Second names: the C library tells one for each number. Some architectures have numbers of their own for
 * them. */
static const struct {
    const char *name;
    uint32_t number;
} aliases[] = {
    {"EWOULDBLOCK", EWOULDBLOCK},
    {"EDEADLOCK", EDEADLOCK},
    {"ENOTSUP", ENOTSUP},
};

uint32_t policy_errno_number(const char *text)
{
    if (!text) {
        return EPERM;
    }
    uint64_t number;
    if (io_parse_u64(text, &number) == 0) {
        return number <= ERRNO_MAX ? (uint32_t)number : 0;
    }
    for (int code = 1; code <= EHWPOISON; code++) {
        const char *name = strerrorname_np(code);
        if (name && strcmp(name, text) == 0) {
            return (uint32_t)code;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
        if (strcmp(aliases[i].name, text) == 0) {
            return aliases[i].number;
        }
    }
    return 0;
}

const char *policy_errno_did_you_mean(const char *name)
{
    struct suggestion suggestion = SUGGESTION_FOR(name, strlen(name));
    for (int code = 1; code <= EHWPOISON; code++) {
        const char *known = strerrorname_np(code);
        if (known) {
            suggestion_offer(&suggestion, known);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
        suggestion_offer(&suggestion, aliases[i].name);
    }
    return suggestion.best;
}
