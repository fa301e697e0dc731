/* One job's cgroup: limits in, figures out, removed afterwards. The tree above it is cgroup_tree.c's.
 *
 * Runs in the warden and in `immure run`. Nothing here blocks: a cgroup that the kernel does not let go of
 * yet is kept on the tree's list and tried again with the next job. */
#include "jail/resources/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/resources/cgroup_own.h"
#include "jail/resources/cgroup_tree.h"

#define CPU_PERIOD_US 100000u

struct jail_cgroup {
    struct jail_cgroup_tree *tree;
    char name[32];
    int dir;
};

static int write_value(const struct jail_cgroup *cgroup, const char *file, const char *value,
                       struct err *reterr)
{
    int r = io_write_file_at(cgroup->dir, file, value);
    return r < 0 ? err_set(reterr, ERR_SETUP, -r, NULL, "writing %s to %s: %s", value, file, strerror(-r))
                 : 0;
}

static int write_number(const struct jail_cgroup *cgroup, const char *file, uint64_t value,
                        struct err *reterr)
{
    char text[32];
    snprintf(text, sizeof text, "%lu", value);
    return write_value(cgroup, file, text, reterr);
}

/* A kernel without swap accounting has no such file; that is no loss where there is no swap. */
static int forbid_swap(const struct jail_cgroup *cgroup, struct err *reterr)
{
    if (faccessat(cgroup->dir, "memory.swap.max", F_OK, 0) < 0 && !jail_cgroup_host_swaps()) {
        return 0;
    }
    return write_value(cgroup, "memory.swap.max", "0", reterr);
}

static int write_limits(const struct jail_cgroup *cgroup, const struct jail_limits *limits,
                        struct err *reterr)
{
    int r = 0;
    if (limits->memory_bytes > 0) {
        r = write_number(cgroup, "memory.max", limits->memory_bytes, reterr);
        r = r < 0 ? r : forbid_swap(cgroup, reterr);
        r = r < 0 ? r : write_value(cgroup, "memory.oom.group", "1", reterr);
    }
    if (r == 0 && limits->pids > 0) {
        r = write_number(cgroup, "pids.max", limits->pids + 1, reterr); /* PID 1 is ours, not the program's */
    }
    if (r == 0 && limits->cpu_percent > 0) {
        char text[64];
        snprintf(text, sizeof text, "%lu %u", (unsigned long)limits->cpu_percent * (CPU_PERIOD_US / 100),
                 CPU_PERIOD_US);
        r = write_value(cgroup, "cpu.max", text, reterr);
    }
    return r;
}

int jail_cgroup_new(struct jail_cgroup_tree *tree, const struct jail_limits *limits, struct jail_cgroup **ret,
                    struct err *reterr)
{
    jail_cgroup_tree_remove_stale(tree);
    struct jail_cgroup *cgroup = calloc(1, sizeof *cgroup);
    if (!cgroup) {
        return err_errno(reterr, ENOMEM, "making a job's cgroup");
    }
    cgroup->tree = tree;
    int r = jail_cgroup_tree_add(tree, cgroup->name, sizeof cgroup->name, &cgroup->dir);
    if (r < 0) {
        free(cgroup);
        return err_set(reterr, ERR_SETUP, -r, NULL, "making a cgroup in %s: %s", jail_cgroup_tree_path(tree),
                       strerror(-r));
    }
    r = write_limits(cgroup, limits, reterr);
    if (r < 0) {
        jail_cgroup_free(cgroup);
        return r;
    }
    *ret = cgroup;
    return 0;
}

int jail_cgroup_set_limits(struct jail_cgroup *cgroup, const struct jail_limits *limits, struct err *reterr)
{
    return write_limits(cgroup, limits, reterr);
}

int jail_cgroup_open_to(struct jail_cgroup *cgroup, uint32_t uid, struct err *reterr)
{
    /* The kernel asks for the right to write cgroup.procs of the cgroup to enter and of the nearest one above
     * both. */
    int r = fchownat(cgroup->dir, "cgroup.procs", uid, (gid_t)-1, 0) < 0 ? -errno : 0;
    r = r < 0 ? r : jail_cgroup_tree_open_to(cgroup->tree, uid);
    return r < 0 ? err_errno(reterr, -r, "opening a job's cgroup to its template") : 0;
}

void jail_cgroup_kill(struct jail_cgroup *cgroup)
{
    io_write_file_at(cgroup->dir, "cgroup.kill", "1");
}

void jail_cgroup_free(struct jail_cgroup *cgroup)
{
    if (!cgroup) {
        return;
    }
    jail_cgroup_tree_remove(cgroup->tree, cgroup->name, cgroup->dir);
    close(cgroup->dir);
    free(cgroup);
}

int jail_cgroup_fd(const struct jail_cgroup *cgroup)
{
    return cgroup->dir;
}

/* The number behind "KEY " at the start of a line of `file`. */
static int read_keyed(const struct jail_cgroup *cgroup, const char *file, const char *key, uint64_t *ret)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int r = io_read_file_at(cgroup->dir, file, 65536, &text);
    if (r < 0) {
        return r;
    }
    size_t length = strlen(key);
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            return io_parse_u64(line + length + 1, ret);
        }
    }
    return -ENODATA;
}

/* For files that younger kernels have: memory.peak since 5.19, pids.peak since 6.1. */
static uint64_t read_peak(const struct jail_cgroup *cgroup, const char *file)
{
    uint64_t value;
    return io_read_u64_at(cgroup->dir, file, &value) < 0 ? UINT64_MAX : value;
}

int jail_cgroup_memory(const struct jail_cgroup *cgroup, uint64_t *ret_bytes)
{
    return io_read_u64_at(cgroup->dir, "memory.current", ret_bytes);
}

int jail_cgroup_stat(const struct jail_cgroup *cgroup, struct jail_cgroup_stat *ret, struct err *reterr)
{
    uint64_t cpu_us;
    int r = read_keyed(cgroup, "memory.events", "oom_kill", &ret->oom_kills);
    if (r < 0) {
        return err_errno(reterr, -r, "reading memory.events of a job's cgroup");
    }
    r = read_keyed(cgroup, "cpu.stat", "usage_usec", &cpu_us);
    if (r < 0) {
        return err_errno(reterr, -r, "reading cpu.stat of a job's cgroup");
    }
    ret->cpu_ns = cpu_us * 1000;
    ret->memory_peak_bytes = read_peak(cgroup, "memory.peak");
    ret->pids_peak = read_peak(cgroup, "pids.peak");
    return 0;
}
