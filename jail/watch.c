/* The memory and CPU watch. Runs in the parent, every few milliseconds, for jails without a cgroup (memory,
 * CPU time) and for jails with one that have a CPU time limit.
 *
 * A jail's processes are found from its PID 1 down: whatever is orphaned in there becomes PID 1's child, so
 * the tree is complete. Everything read may be gone the next moment; what is gone counts nothing. */
#include "jail/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/cgroup.h"
#include "jail/jail.h"
#include "jail/scratch.h"

/* Faster than one machine's memory can be touched for the first time; what a jail can gain between two looks.
 */
#define GROWTH_BYTES_PER_MS (4ull << 20)
#define LOOK_MIN_NS         (JAIL_WATCH_INTERVAL_MS * NS_PER_MS)
#define LOOK_MAX_NS         (100 * NS_PER_MS)
#define SMALL_FILE          8192

struct sum {
    uint64_t resident_bytes; /* an upper bound: counts shared pages once per process */
    uint64_t cpu_ns;
};

typedef void (*visit_fn)(int process_fd, void *arg);

/* Reads a small file of a process into `text`; an empty string where it is gone. */
static void read_text(int dirfd, const char *name, char *text, size_t size)
{
    text[0] = '\0';
    CLEANUP(fd_closep) int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t n = io_read_full(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
}

struct pid_stack {
    pid_t *pids;
    size_t n, cap;
};

static void push(struct pid_stack *stack, pid_t pid)
{
    if (stack->n == stack->cap) {
        size_t cap = stack->cap ? 2 * stack->cap : 64;
        pid_t *pids = realloc(stack->pids, cap * sizeof *pids);
        if (!pids) {
            return; /* the next look is soon; what is missed now is seen then */
        }
        stack->pids = pids;
        stack->cap = cap;
    }
    stack->pids[stack->n++] = pid;
}

static void push_children(struct pid_stack *stack, int process_fd)
{
    int task_fd = openat(process_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (task_fd < 0) {
        return;
    }
    CLEANUP(dir_closep) DIR *tasks = fdopendir(task_fd);
    if (!tasks) {
        close(task_fd);
        return;
    }
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[NAME_MAX + sizeof "/children"];
        char text[SMALL_FILE];
        if (task->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "%s/children", task->d_name);
        read_text(dirfd(tasks), path, text, sizeof text);
        char *save = NULL;
        for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
            push(stack, atoi(word));
        }
    }
}

/* Calls `visit` with a descriptor of /proc/PID for PID 1 of the jail and everything below it. */
static void for_each_process(pid_t first, visit_fn visit, void *arg)
{
    struct pid_stack stack = {0};
    push(&stack, first);
    while (stack.n > 0) {
        char path[32];
        snprintf(path, sizeof path, "/proc/%d", (int)stack.pids[--stack.n]);
        CLEANUP(fd_closep) int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (process >= 0) {
            push_children(&stack, process);
            visit(process, arg);
        }
    }
    free(stack.pids);
}

/* utime, stime, cutime and cstime: fields 14 to 17 of /proc/PID/stat, counted behind the name, which may hold
 * anything. */
static uint64_t cpu_of(const char *stat)
{
    const char *p = strrchr(stat, ')');
    unsigned long long utime, stime, cutime, cstime;
    if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &utime,
                     &stime, &cutime, &cstime) != 4) {
        return 0;
    }
    return (utime + stime + cutime + cstime) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void add_rough(int process, void *arg)
{
    struct sum *sum = arg;
    char text[SMALL_FILE];
    unsigned long long size, resident;
    read_text(process, "statm", text, sizeof text);
    if (sscanf(text, "%llu %llu", &size, &resident) == 2) {
        sum->resident_bytes += resident * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    read_text(process, "stat", text, sizeof text);
    sum->cpu_ns += cpu_of(text);
}

struct exact {
    uint64_t anon_bytes, shmem_bytes, pss_bytes, private_bytes;
};

static uint64_t kilobytes(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : 0;
}

static void add_exact(int process, void *arg)
{
    struct exact *exact = arg;
    char text[SMALL_FILE];
    read_text(process, "smaps_rollup", text, sizeof text);
    exact->anon_bytes += kilobytes(text, "Pss_Anon:");
    exact->shmem_bytes += kilobytes(text, "Pss_Shmem:");
    exact->pss_bytes += kilobytes(text, "\nPss:");
    exact->private_bytes += kilobytes(text, "\nPrivate_Clean:") + kilobytes(text, "\nPrivate_Dirty:");
}

static uint64_t exact_bytes(pid_t first, uint64_t scratch_bytes)
{
    struct exact exact = {0};
    for_each_process(first, add_exact, &exact);
    /* Mapped files of the scratch are in both figures. */
    uint64_t shared = exact.shmem_bytes > scratch_bytes ? exact.shmem_bytes : scratch_bytes;
    return exact.anon_bytes + shared;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Nanoseconds until the memory limit could be reached; 0: it has been passed. */
static uint64_t memory_room_ns(const struct jail *jail, const struct sum *rough, int scratch_fd)
{
    uint64_t limit = jail->plan->limits.memory_bytes;
    if (limit == 0 || jail->cgroup) {
        return LOOK_MAX_NS;
    }
    uint64_t scratch = 0, inodes;
    if (scratch_fd >= 0) {
        scratch_usage(scratch_fd, &scratch, &inodes);
    }
    uint64_t used = rough->resident_bytes + scratch;
    if (used > limit) {
        used = exact_bytes(jail->pid, scratch);
    }
    if (used > limit) {
        return 0;
    }
    return LOOK_MIN_NS + (limit - used) / GROWTH_BYTES_PER_MS * NS_PER_MS;
}

uint64_t jail_watch_cpu_ns(const struct jail *jail)
{
    struct sum sum = {0};
    for_each_process(jail->pid, add_rough, &sum);
    return sum.cpu_ns;
}

static uint64_t cpu_room_ns(const struct jail *jail, const struct sum *rough)
{
    uint64_t limit_ns = jail->plan->limits.cpu_ms * NS_PER_MS;
    if (limit_ns == 0) {
        return LOOK_MAX_NS;
    }
    uint64_t used_ns = rough->cpu_ns;
    struct jail_cgroup_stat stat;
    if (jail->cgroup && jail_cgroup_stat(jail->cgroup, &stat, NULL) == 0) {
        used_ns = stat.cpu_ns;
    }
    if (used_ns >= limit_ns) {
        return 0;
    }
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return LOOK_MIN_NS + (limit_ns - used_ns) / (uint64_t)(cpus > 0 ? cpus : 1);
}

void jail_watch(struct jail *jail, int scratch_fd)
{
    uint64_t now_ns = clock_now_ns();
    if (jail->state != JAIL_RUNNING || now_ns < jail->watch_due_ns) {
        return;
    }
    struct sum rough = {0};
    if (!jail->cgroup) {
        for_each_process(jail->pid, add_rough, &rough);
    }
    uint64_t memory_ns = memory_room_ns(jail, &rough, scratch_fd);
    uint64_t cpu_ns = cpu_room_ns(jail, &rough);
    if (memory_ns == 0) {
        jail_kill(jail, JAIL_END_OOM);
    } else if (cpu_ns == 0) {
        jail_kill(jail, JAIL_END_CPU);
    }
    jail->watch_due_ns = now_ns + min_u64(LOOK_MAX_NS, min_u64(memory_ns, cpu_ns));
}

void jail_watch_memory(const struct jail *jail, uint64_t *ret_pss_bytes, uint64_t *ret_private_bytes)
{
    struct exact exact = {0};
    for_each_process(jail->pid, add_exact, &exact);
    *ret_pss_bytes = exact.pss_bytes;
    *ret_private_bytes = exact.private_bytes;
}

int jail_watch_probe(struct err *reterr)
{
    static const char *const files[] = {"/proc/thread-self/children", "/proc/self/statm",
                                        "/proc/self/smaps_rollup", "/proc/self/stat"};
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
