/* The stock of a runtime whose interpreter cannot be forked: each jail of it starts one of its own, ahead of
 * its job (jail/standby.h). Runs in the warden. There is no template process; struct warm_template is only
 * what its jails have in common, and everything about the stock is as with a template (warm.c). */
#include "server/run/warm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "config/message/job.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/jail.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/scratch.h"
#include "jail/standby.h"
#include "policy/policy.h"
#include "server/host/host.h"

bool warm_is_standby(const struct warm_template *template)
{
    return template->image || template->runtime->standby[0] != '\0';
}

int warm_standby_start(struct warm_template *template, struct err *reterr)
{
    if (template->image) {
        return 0; /* its plan was made of the first job's image */
    }
    struct policy_ceilings ceilings = {0};
    host_apply_to_ceilings(template->host, &ceilings);
    struct job job = {.runtime = template->runtime->name};
    struct policy_program program = {
        .runtime = template->runtime, .bridge = true, .proxy = true, .standby = true};
    jail_plan_free(TAKE_PTR(template->park_plan));
    return policy_build_plan(template->policy, &ceilings, &job, &program, &template->park_plan, reterr);
}

int warm_standby_park(const struct warm_template *template, struct warm_jail *jail, struct err *reterr)
{
    const struct jail_plan *plan = template->park_plan;
    uint64_t script_bytes = warm_jail_has_script(jail) ? SCRIPT_ROOM_BYTES : 0;
    int r = scratch_open(plan->limits.scratch_bytes + script_bytes, plan->limits.scratch_inodes, jail->uid,
                         jail->gid, &jail->scratch_fd, reterr);
    if (r < 0) {
        return r;
    }
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        return err_errno(reterr, errno, "opening /dev/null");
    }
    /* The launcher prints nothing before its job; what it said would be nobody's. */
    /* cppcheck-suppress legacyUninitvar; it cannot read a range of designators */
    struct jail_spawn_options options = {.plan = plan,
                                         .fds = {[JAIL_FD_STDIN] = null,
                                                 [JAIL_FD_STDOUT] = null,
                                                 [JAIL_FD_STDERR] = null,
                                                 [JAIL_FD_SCRATCH] = jail->scratch_fd,
                                                 [JAIL_FD_INPUT] = -1,
                                                 [JAIL_FD_BRIDGE_IN] = null,
                                                 [JAIL_FD_BRIDGE_OUT] = null,
                                                 [JAIL_FD_WORKSPACE] = -1,
                                                 [JAIL_FD_IMAGE... JAIL_FD_BIND_LAST] = -1},
                                         .outer_uid = jail->uid,
                                         .outer_gid = jail->gid,
                                         .standby = true,
                                         .setup_timeout_ms = JAIL_UNHURRIED_SETUP_MS,
                                         .drop_groups = template->host->privileged};
    CLEANUP(fd_closep) int mount = -1;
    CLEANUP(fd_closep) int program = -1;
    if (template->image) {
        r = warm_image_prepare(template, jail, &options, &mount, &program, reterr);
    }
    if (r == 0 && template->host->cgroups) {
        r = jail_cgroup_new(template->host->cgroups, &plan->limits, &options.cgroup, reterr);
    }
    return r < 0 ? r : jail_spawn(&jail->jail, &options, reterr);
}
