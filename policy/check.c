/* What a policy's plain values must keep beyond the schema, whose own rules config/ holds them to: here is
 * what takes knowledge of the kernel's names or of what a plan can express. What is wrong stops the policy
 * from being loaded; nothing is corrected or ignored. Mounts have a file of their own, policy/mounts.c, and
 * so has the filter. */
#include "policy/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/policy/policy_file.h"
#include "jail/base/err.h"

int policy_bad(const struct policy_spec *spec, const struct source_position *at, struct err *reterr,
               const char *fmt, ...)
{
    char text[sizeof reterr->text], place[SOURCE_PLACE_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    source_place_text(spec->origin, at ? *at : (struct source_position){0}, place);
    return err_set(reterr, ERR_CONFIG, EINVAL, place, "%s", text);
}

const char *policy_no_such(const char *what, const char *near, char ret[POLICY_NO_SUCH_MAX])
{
    snprintf(ret, POLICY_NO_SUCH_MAX, "no such %s%s%s%s", what, near ? "; did you mean " : "",
             near ? near : "", near ? "?" : "");
    return ret;
}

int policy_check_spec(const struct policy_spec *spec, struct err *reterr)
{
    int r = policy_check_mounts(spec, reterr);
    if (r < 0) {
        return r;
    }
    if (!spec->has_seccomp) {
        return policy_bad(
            spec, NULL, reterr,
            "seccomp: missing; a policy without a filter says so: seccomp { default_action: ALLOW }");
    }
    return 0;
}
