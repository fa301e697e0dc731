/* The verdict on a jail: what its end, its cgroup and PID 1's last words say together. Runs in the parent
 * (the warden, `immure run`), once the jail has ended or a kernel's program has. */
#include "jail/jail_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "jail/base/clock.h"
#include "jail/child/denied.h"
#include "jail/resources/cgroup.h"

const char *jail_state_to_string(enum jail_state state)
{
    static const char *const names[] = {[JAIL_BUILDING] = "building",
                                        [JAIL_PARKED] = "parked",
                                        [JAIL_RUNNING] = "running",
                                        [JAIL_ENDED] = "ended"};
    return names[state];
}

const char *jail_end_to_string(enum jail_end end)
{
    static const char *const names[] = {[JAIL_END_NONE] = "none",     [JAIL_END_PROGRAM] = "program",
                                        [JAIL_END_SETUP] = "setup",   [JAIL_END_DEADLINE] = "deadline",
                                        [JAIL_END_CPU] = "cpu",       [JAIL_END_OOM] = "oom",
                                        [JAIL_END_CANCEL] = "cancel", [JAIL_END_WORKSPACE] = "workspace",
                                        [JAIL_END_FLOOR] = "floor",   [JAIL_END_LOST] = "lost"};
    return names[end];
}

/* The kernel's word on memory outranks how the end looked: the OOM killer's SIGKILL takes PID 1 along, or the
 * program alone when PID 1 was quicker to report it. */
static void apply_oom(struct jail *jail, const struct jail_cgroup_stat *stat)
{
    bool killed =
        jail->has_ended_message && WIFSIGNALED(jail->last.wstatus) && WTERMSIG(jail->last.wstatus) == SIGKILL;
    if (stat->oom_kills > 0 && (jail->end == JAIL_END_LOST || (jail->end == JAIL_END_PROGRAM && killed))) {
        jail->end = JAIL_END_OOM;
    }
}

/* A jail that was lost before there was a program was not built, nor was one whose parked process ended
 * before it was one. */
static void apply_unbuilt(struct jail *jail)
{
    if ((jail->end == JAIL_END_LOST || jail->end == JAIL_END_PROGRAM) && jail->started_ns == 0) {
        jail->end = JAIL_END_SETUP;
        err_set(&jail->err, ERR_SETUP, ECHILD, NULL, "PID 1 of the jail died while building it");
    }
}

int jail_collect(struct jail *jail, struct jail_result *ret, struct err *reterr)
{
    if (jail->state != JAIL_ENDED && !jail->called) {
        return err_errno(reterr, EBUSY, "collecting a jail that is %s", jail_state_to_string(jail->state));
    }
    struct jail_cgroup_stat stat = {.memory_peak_bytes = UINT64_MAX, .pids_peak = UINT64_MAX};
    uint64_t cpu_ns = rusage_cpu_ns(&jail->rusage);
    if (jail->used_cpu_ns > cpu_ns) {
        cpu_ns = jail->used_cpu_ns; /* PID 1's own word: it need not have been waited for */
    }
    if (jail->cgroup) {
        int r = jail_cgroup_stat(jail->cgroup, &stat, reterr);
        if (r < 0) {
            return r;
        }
        apply_oom(jail, &stat);
        cpu_ns = stat.cpu_ns;
    } else if (jail->seen_cpu_ns > cpu_ns) {
        cpu_ns = jail->seen_cpu_ns;
    }
    apply_unbuilt(jail);
    memset(ret, 0, sizeof *ret);
    ret->end = jail->end;
    ret->wstatus = jail->last.wstatus;
    ret->setup_ns = jail->started_ns ? jail->started_ns - jail->cloned_ns : 0;
    ret->duration_ns =
        jail->started_ns && jail->ended_ns > jail->started_ns ? jail->ended_ns - jail->started_ns : 0;
    ret->cpu_ns = cpu_ns > jail->spared_cpu_ns ? cpu_ns - jail->spared_cpu_ns : 0;
    ret->memory_peak_bytes = stat.memory_peak_bytes;
    ret->pids_peak =
        stat.pids_peak == UINT64_MAX || stat.pids_peak == 0 ? stat.pids_peak : stat.pids_peak - 1;
    int r = jail->denied < 0 ? 0 : denied_read(jail->denied, &ret->denied);
    if (r < 0) {
        return err_errno(reterr, -r, "reading what a jail was denied");
    }
    ret->proc_absent = jail->proc_absent;
    if (jail->end == JAIL_END_SETUP && reterr) {
        *reterr = jail->err;
    }
    return 0;
}
