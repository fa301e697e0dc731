/* The memory and CPU watch. Runs in the parent, every few milliseconds, for jails without a cgroup (memory,
 * CPU time) and for jails with one that have a CPU time limit.
 *
 * The figures that are cheap to read overstate (they count shared pages once per process), so they are asked
 * first, and the exact ones only where the cheap ones are over the limit. */
#include "jail/watch.h"

#include <errno.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/census.h"
#include "jail/jail_internal.h"
#include "jail/resources/cgroup.h"
#include "jail/resources/scratch.h"

/* Faster than one machine's memory can be touched for the first time; what a jail can gain between two looks.
 */
#define GROWTH_BYTES_PER_MS (4ull << 20)
#define LOOK_MIN_NS         (JAIL_WATCH_INTERVAL_MS * NS_PER_MS)
#define LOOK_MAX_NS         (100 * NS_PER_MS)
/* A jail full of processes makes a look dear. The pause after it is so many times as long, so that one job
 * cannot take the parent's time from the others. */
#define PAUSE_PER_LOOK 4

static uint64_t exact_bytes(struct census *census, uint64_t scratch_bytes)
{
    uint64_t anonymous, shmem;
    census_measure(census, &anonymous, &shmem);
    /* Mapped files of the scratch are in both figures. */
    return anonymous + (shmem > scratch_bytes ? shmem : scratch_bytes);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Nanoseconds until the memory limit could be reached; 0: it has been passed. */
static uint64_t memory_room_ns(const struct jail *jail, struct census *census, int scratch_fd)
{
    uint64_t limit = jail->plan->limits.memory_bytes;
    if (limit == 0 || jail->cgroup) {
        return LOOK_MAX_NS;
    }
    uint64_t scratch = 0, inodes;
    if (scratch_fd >= 0) {
        scratch_usage(scratch_fd, &scratch, &inodes);
    }
    uint64_t used = census_resident_bytes(census) + scratch;
    if (used > limit) {
        used = exact_bytes(census, scratch);
    }
    if (used > limit) {
        return 0;
    }
    return LOOK_MIN_NS + (limit - used) / GROWTH_BYTES_PER_MS * NS_PER_MS;
}

static uint64_t cpu_room_ns(const struct jail *jail, const struct census *census)
{
    bool idle = jail->state == JAIL_PARKED || jail->stands_by;
    uint64_t limit_ms = idle ? jail->idle_cpu_ms : jail->plan->limits.cpu_ms;
    uint64_t limit_ns = limit_ms * NS_PER_MS;
    if (limit_ns == 0) {
        return LOOK_MAX_NS;
    }
    uint64_t used_ns = census_cpu_ns(census);
    struct jail_cgroup_stat stat;
    if (jail->cgroup && jail_cgroup_stat(jail->cgroup, &stat, NULL) == 0) {
        used_ns = stat.cpu_ns;
    }
    used_ns -= min_u64(used_ns, jail->spared_cpu_ns);
    if (used_ns >= limit_ns) {
        return 0;
    }
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return LOOK_MIN_NS + (limit_ns - used_ns) / (uint64_t)(cpus > 0 ? cpus : 1);
}

void jail_watch(struct jail *jail, int scratch_fd)
{
    uint64_t now_ns = clock_now_ns();
    bool lives = jail->state == JAIL_RUNNING || (jail->state == JAIL_PARKED && jail->kernel) ||
                 (jail->stands_by && jail->state != JAIL_ENDED);
    if (!lives || now_ns < jail->watch_due_ns) {
        return;
    }
    if (!jail->cgroup) {
        if (!census_is_outdated(&jail->census)) {
            /* None of it has run, so none of it has grown: jobs that sleep must not keep the parent busy. */
            jail->watch_due_ns = now_ns + jail->watch_room_ns;
            return;
        }
        census_free(&jail->census);
        census_take(&jail->census, jail->pid);
    }
    uint64_t memory_ns = memory_room_ns(jail, &jail->census, scratch_fd);
    uint64_t cpu_ns = cpu_room_ns(jail, &jail->census);
    if (memory_ns == 0) {
        jail_kill(jail, JAIL_END_OOM);
    } else if (cpu_ns == 0) {
        jail_kill(jail, JAIL_END_CPU);
    }
    uint64_t done_ns = clock_now_ns();
    uint64_t pause_ns = (done_ns - now_ns) * PAUSE_PER_LOOK;
    jail->watch_room_ns = min_u64(LOOK_MAX_NS, min_u64(memory_ns, cpu_ns));
    jail->watch_due_ns = pause_ns > jail->watch_room_ns ? done_ns + pause_ns : now_ns + jail->watch_room_ns;
}

uint64_t jail_watch_due_ns(const struct jail *jail)
{
    return jail->watch_due_ns;
}

void jail_watch_memory(const struct jail *jail, uint64_t *ret_pss_bytes, uint64_t *ret_private_bytes)
{
    CLEANUP(census_free) struct census census;
    census_take(&census, jail->pid);
    census_footprint(&census, ret_pss_bytes, ret_private_bytes);
}

void jail_watch_usage(const struct jail *jail, int scratch_fd, uint64_t *ret_memory_bytes,
                      uint64_t *ret_cpu_ns)
{
    uint64_t scratch = 0, inodes;
    struct jail_cgroup_stat stat;
    if (jail->cgroup && jail_cgroup_stat(jail->cgroup, &stat, NULL) == 0 &&
        jail_cgroup_memory(jail->cgroup, ret_memory_bytes) == 0) {
        *ret_cpu_ns = stat.cpu_ns;
        return;
    }
    if (scratch_fd >= 0) {
        scratch_usage(scratch_fd, &scratch, &inodes);
    }
    *ret_memory_bytes = census_resident_bytes(&jail->census) + scratch;
    *ret_cpu_ns = census_cpu_ns(&jail->census);
}

int jail_watch_probe(struct err *reterr)
{
    static const char *const files[] = {"/proc/self/stat", "/proc/thread-self/children",
                                        "/proc/thread-self/smaps_rollup"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        if (access(files[i], R_OK) < 0) {
            return err_set(reterr, ERR_HOST, errno, files[i],
                           "%s cannot be read, so the memory of jobs cannot be watched without a cgroup "
                           "memory controller: "
                           "mount /proc, or delegate cgroup v2",
                           files[i]);
        }
    }
    return 0;
}
