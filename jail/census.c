/* Finds the processes of a jail and what they use. Runs in the parent, where no cgroup does the counting.
 *
 * The tree is walked from PID 1 down: whatever is orphaned in there becomes PID 1's child, so the tree is
 * complete. The processes are hostile and alive meanwhile. They come and go, a number may be somebody else's
 * by the time it is looked at, a main thread may end and leave the memory to the others, and two processes
 * may be one in all but name. */
#include "jail/census.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/io.h"
#include "jail/base/proc_text.h"

#define PATH_CHARS     64
#define CHILDREN_BYTES (16 << 20) /* of one list of children; more processes than PIDs there are */

/* What /proc/PID/stat says. */
struct stat_line {
    pid_t parent;
    int threads;
    uint64_t resident_bytes, cpu_ns;
};

static int read_stat(const char *path, struct stat_line *ret)
{
    char text[1024];
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -errno : io_read_full(fd, text, sizeof text - 1);
    if (n < 0) {
        return (int)n;
    }
    text[n] = '\0';
    struct proc_stat stat;
    int r = proc_text_stat(text, &stat);
    if (r < 0) {
        return r;
    }
    ret->parent = stat.parent;
    ret->threads = stat.threads;
    ret->resident_bytes = stat.resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    ret->cpu_ns = stat.cpu_ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
    return 0;
}

/* 0 or -errno. It stands still while none of the process's threads runs. */
static int read_clock(pid_t pid, uint64_t *ret_ns)
{
    clockid_t clock;
    struct timespec ts;
    int code = clock_getcpuclockid(pid, &clock);
    if (code != 0 || clock_gettime(clock, &ts) < 0) {
        return code != 0 ? -code : -errno;
    }
    *ret_ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
    return 0;
}

static void add(struct census *census, pid_t pid)
{
    if (census->n == census->cap) {
        size_t cap = census->cap ? 2 * census->cap : 64;
        struct census_process *processes = realloc(census->processes, cap * sizeof *processes);
        if (!processes) {
            return; /* the next look is soon; what is missed now is seen then */
        }
        census->processes = processes;
        census->cap = cap;
    }
    census->processes[census->n++] = (struct census_process){.pid = pid, .memory_tid = pid};
}

static bool is_known(const struct census *census, pid_t pid)
{
    for (size_t i = 0; i < census->n; i++) {
        if (census->processes[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* Adds the children that the thread `tid` of `pid` made. */
static void add_children(struct census *census, pid_t pid, pid_t tid)
{
    char path[PATH_CHARS];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)tid);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (io_read_file_at(AT_FDCWD, path, CHILDREN_BYTES, &text) < 0) {
        return;
    }
    char *save = NULL;
    for (char *word = strtok_r(text.data, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        uint64_t child;
        if (io_parse_u64(word, &child) == 0) {
            add(census, (pid_t)child);
        }
    }
}

/* The children of all threads of process number `index`, and one of these threads that has the memory. */
static void look_at_threads(struct census *census, size_t index)
{
    pid_t pid = census->processes[index].pid;
    char path[2 * PATH_CHARS];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    CLEANUP(dir_closep) DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        uint64_t tid;
        if (io_parse_u64(task->d_name, &tid) < 0) {
            continue;
        }
        add_children(census, pid, (pid_t)tid);
        struct stat_line line;
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
        if (census->processes[index].resident_bytes == 0 && read_stat(path, &line) == 0) {
            census->processes[index].resident_bytes = line.resident_bytes;
            census->processes[index].memory_tid = (pid_t)tid;
        }
    }
}

/* madvise(MADV_PAGEOUT) takes pages out of what is resident, and the program has them still. */
static uint64_t swapped_bytes(const struct census *census, const struct census_process *process)
{
    char path[2 * PATH_CHARS];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)process->pid, (int)process->memory_tid);
    bool read = census->host_swaps && io_read_file_at(AT_FDCWD, path, 65536, &text) == 0;
    return read ? proc_text_bytes(text.data, "VmSwap:") : 0;
}

/* Fills in process number `index` and adds its children. */
static void look_at(struct census *census, size_t index)
{
    struct census_process *process = &census->processes[index];
    char path[PATH_CHARS];
    struct stat_line line;
    /* Before its children are looked for: whoever makes one afterwards runs, and is seen to have run. */
    read_clock(process->pid, &process->clock_ns);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process->pid);
    if (read_stat(path, &line) < 0) {
        return;
    }
    /* A child's parent is one of ours, or the number has passed to a stranger meanwhile. */
    if (index > 0 && !is_known(census, line.parent)) {
        return;
    }
    process->resident_bytes = line.resident_bytes;
    /* Counted in ticks it misses what has run for less than one. */
    process->cpu_ns = line.cpu_ns > process->clock_ns ? line.cpu_ns : process->clock_ns;
    if (line.threads == 1) {
        add_children(census, process->pid, process->pid);
    } else {
        look_at_threads(census, index);
    }
    census->processes[index].resident_bytes += swapped_bytes(census, &census->processes[index]);
}

void census_take(struct census *ret, pid_t first)
{
    struct sysinfo host;
    *ret = (struct census){0};
    ret->host_swaps = sysinfo(&host) == 0 && host.freeswap < host.totalswap;
    add(ret, first);
    for (size_t i = 0; i < ret->n; i++) {
        look_at(ret, i);
    }
}

bool census_is_outdated(const struct census *census)
{
    for (size_t i = 0; i < census->n; i++) {
        uint64_t now_ns;
        if (read_clock(census->processes[i].pid, &now_ns) < 0 || now_ns != census->processes[i].clock_ns) {
            return true;
        }
    }
    return census->n == 0;
}

void census_free(struct census *census)
{
    free(census->processes);
    *census = (struct census){0};
}

uint64_t census_resident_bytes(const struct census *census)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < census->n; i++) {
        sum += census->processes[i].resident_bytes;
    }
    return sum;
}

uint64_t census_cpu_ns(const struct census *census)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < census->n; i++) {
        sum += census->processes[i].cpu_ns;
    }
    return sum;
}

uint64_t census_cpu_ns_now(pid_t first)
{
    CLEANUP(census_free) struct census census;
    census_take(&census, first);
    return census_cpu_ns(&census);
}

/* -1, 0 or 1: the order of two processes by their memory; 0 where it is one and the same, as between a
 * program and what it is making by vfork. Where the host forbids the question, they count as two. */
static int compare_memory(const void *a, const void *b)
{
    pid_t tids[] = {((const struct census_process *)a)->memory_tid,
                    ((const struct census_process *)b)->memory_tid};
    long order = syscall(SYS_kcmp, tids[0], tids[1], KCMP_VM, 0, 0);
    switch (order) {
    case 0:
        return 0;
    case 1:
        return -1;
    case 2:
        return 1;
    default:
        return tids[0] < tids[1] ? -1 : 1;
    }
}

static int read_rollup(const struct census_process *process, struct buf *ret)
{
    char path[PATH_CHARS];
    snprintf(path, sizeof path, "/proc/%d/task/%d/smaps_rollup", (int)process->pid, (int)process->memory_tid);
    return io_read_file_at(AT_FDCWD, path, 65536, ret);
}

void census_measure(struct census *census, uint64_t *ret_anonymous_bytes, uint64_t *ret_shmem_bytes)
{
    *ret_anonymous_bytes = *ret_shmem_bytes = 0;
    /* PID 1 stays where it is: it shares its memory with nobody, and an unprivileged parent may not ask. */
    if (census->n > 1) {
        qsort(census->processes + 1, census->n - 1, sizeof *census->processes, compare_memory);
    }
    for (size_t i = 0; i < census->n; i++) {
        const struct census_process *process = &census->processes[i];
        if (process->resident_bytes == 0 || (i > 1 && compare_memory(process - 1, process) == 0)) {
            continue;
        }
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        int r = read_rollup(process, &text);
        if (r == 0) {
            *ret_anonymous_bytes +=
                proc_text_bytes(text.data, "Pss_Anon:") + proc_text_bytes(text.data, "SwapPss:");
            *ret_shmem_bytes += proc_text_bytes(text.data, "Pss_Shmem:");
        } else if ((r == -EACCES || r == -EPERM) && i > 0) {
            *ret_anonymous_bytes += process->resident_bytes; /* what may not be looked into counts in full */
        }
    }
}

void census_footprint(struct census *census, uint64_t *ret_pss_bytes, uint64_t *ret_private_bytes)
{
    *ret_pss_bytes = *ret_private_bytes = 0;
    for (size_t i = 0; i < census->n; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        if (read_rollup(&census->processes[i], &text) < 0) {
            continue; /* an unprivileged parent may not look into PID 1 */
        }
        *ret_pss_bytes += proc_text_bytes(text.data, "Pss:");
        *ret_private_bytes +=
            proc_text_bytes(text.data, "Private_Clean:") + proc_text_bytes(text.data, "Private_Dirty:");
    }
}
