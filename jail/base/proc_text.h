/* Texts of /proc taken apart. Pure: whoever reads the files calls this. Texts end with a NUL; those that are
 * not const are cut up. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the cgroup `own` (as /proc/self/cgroup spells it) of the v2 hierarchy can be reached, by the mounts
 * of a mountinfo: 0 and a path to be freed, -ENOENT where no mount shows it, -ENOMEM. */
int proc_text_cgroup_path(const char *own, char *mountinfo, char **ret);

/* The cgroup in the v2 hierarchy of a /proc/PID/cgroup, within the text; NULL: the kernel runs without. */
const char *proc_text_own_cgroup(char *cgroup);

/* True if a uid_map or gid_map maps every id of base .. base+count-1. */
bool proc_text_maps_range(char *map, uint32_t base, uint32_t count);

struct proc_stat {
    pid_t parent;
    int threads;
    uint64_t resident_pages, cpu_ticks;
};
/* A /proc/PID/stat, whose second field the process itself chooses. 0 or -EINVAL. */
int proc_text_stat(const char *stat, struct proc_stat *ret);

/* What stands behind KEY: at the start of a line, in kB there, as bytes; 0 where there is none. */
uint64_t proc_text_bytes(const char *text, const char *key);
