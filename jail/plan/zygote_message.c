/* What the parent says to a template and to the processes parked by it, taken apart. Runs inside the template
 * and in parked processes. The parent is the one that confines, and yet is held to its words: a message that
 * was mangled must not become a jail with steps missing. */
#include "jail/plan/zygote_message.h"

#include <errno.h>
#include <string.h>

#include "jail/base/io.h"
#include "jail/plan/plan.h"

int zygote_decode_header(const void *message, size_t size, struct zygote_header *ret)
{
    struct zygote_header header;
    if (size < sizeof header) {
        return -EBADMSG;
    }
    memcpy(&header, message, sizeof header);
    if (header.kind > ZYGOTE_RUN || !io_is_bool(&header.drop_groups) || !io_is_bool(&header.is_awaited) ||
        !io_is_bool(&header.filter_early) || !io_is_bool(&header.has_workspace) ||
        !io_is_bool(&header.files_late)) {
        return -EBADMSG;
    }
    *ret = header;
    return 0;
}

int zygote_decode_plan(const void *message, size_t size, struct jail_plan **ret)
{
    const size_t offset = sizeof(struct zygote_header);
    struct jail_plan *plan = NULL;
    if (size < offset) {
        return -EBADMSG;
    }
    int r = jail_plan_decode((const char *)message + offset, size - offset, &plan);
    if (r < 0) {
        return r;
    }
    /* The rules see to it that RUN is the last step, where there is one. */
    if (jail_plan_check(plan, NULL) < 0 || plan->steps[plan->n_steps - 1].kind != JAIL_STEP_RUN) {
        jail_plan_free(plan);
        return -EBADMSG;
    }
    *ret = plan;
    return 0;
}
