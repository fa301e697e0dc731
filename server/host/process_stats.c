/* What the front costs, for /metrics. Descriptors of /proc/self are opened at the start: later the process is
 * not dumpable, its /proc entries belong to root, and opening them again would fail. */
#include "server/host/process_stats.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/metrics.h"

struct process_stats {
    int stat;
    DIR *fds;
    double start_time_s;
};

int process_stats_new(struct process_stats **ret, struct err *reterr)
{
    struct process_stats *stats = calloc(1, sizeof *stats);
    if (!stats) {
        return err_errno(reterr, ENOMEM, "reading /proc/self");
    }
    stats->start_time_s = (double)clock_wall_ns() / (double)NS_PER_S;
    stats->stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    stats->fds = stats->stat >= 0 ? opendir("/proc/self/fd") : NULL;
    if (!stats->fds) {
        int code = errno;
        process_stats_free(stats);
        return err_errno(reterr, code, "opening /proc/self");
    }
    *ret = stats;
    return 0;
}

void process_stats_free(struct process_stats *stats)
{
    if (stats) {
        fd_closep(&stats->stat);
        dir_closep(&stats->fds);
        free(stats);
    }
}

uint64_t process_heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void update_from_stat(struct process_stats *stats, struct metrics *metrics)
{
    char text[1024];
    ssize_t n = pread(stats->stat, text, sizeof text - 1, 0);
    if (n <= 0) {
        return;
    }
    text[n] = '\0';
    /* The command's name is in parentheses and may hold anything; fields are counted from behind it. */
    const char *rest = strrchr(text, ')');
    unsigned long long user, system, virtual_bytes;
    long long resident_pages;
    if (!rest ||
        sscanf(rest + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %*u %llu %lld",
               &user, &system, &virtual_bytes, &resident_pages) != 4) {
        return;
    }
    double ticks = (double)sysconf(_SC_CLK_TCK);
    metrics_set(metrics, METRIC_PROCESS_CPU, NULL, NULL, (double)(user + system) / ticks);
    metrics_set(metrics, METRIC_PROCESS_VIRTUAL_MEMORY, NULL, NULL, (double)virtual_bytes);
    metrics_set(metrics, METRIC_PROCESS_RESIDENT_MEMORY, NULL, NULL,
                (double)resident_pages * (double)sysconf(_SC_PAGESIZE));
}

static void update_from_fds(struct process_stats *stats, struct metrics *metrics)
{
    double count = 0;
    rewinddir(stats->fds);
    for (const struct dirent *entry; (entry = readdir(stats->fds));) {
        count += entry->d_name[0] != '.';
    }
    metrics_set(metrics, METRIC_PROCESS_OPEN_FDS, NULL, NULL, count);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        metrics_set(metrics, METRIC_PROCESS_MAX_FDS, NULL, NULL, (double)limit.rlim_cur);
    }
}

void process_stats_update(struct process_stats *stats, struct metrics *metrics)
{
    metrics_set(metrics, METRIC_PROCESS_START_TIME, NULL, NULL, stats->start_time_s);
    update_from_stat(stats, metrics);
    update_from_fds(stats, metrics);
    metrics_set(metrics, METRIC_HEAP, "front", NULL, (double)process_heap_bytes());
}
