/* What two policies do not have in common, as rows. Pure; runs on the command line. */
#include "policy/compare/compare_internal.h"

#include <errno.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

int policy_compare(const struct policy *a, const struct policy *b, struct policy_differences *ret,
                   struct err *reterr)
{
    CLEANUP(policy_differences_clear) struct policy_differences differences = {0};
    if (compare_settings(a, b, &differences) < 0) {
        return err_errno(reterr, ENOMEM, "comparing policies");
    }
    int r = compare_calls(a, b, &differences, reterr);
    if (r < 0) {
        return r;
    }
    *ret = differences;
    differences = (struct policy_differences){0};
    return 0;
}
