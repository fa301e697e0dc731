/* The host's memory. Runs in the warden; the figures are the host's, in a container too, whatever limit that
 * has. */
#include "server/host/floor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define TEXT_BYTES 8192 /* of /proc/meminfo, which has some 1500 */

int floor_open(struct floor *floor, const char *path, struct err *reterr)
{
    *floor = (struct floor){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    return floor->fd < 0 ? err_errno(reterr, errno, "opening %s", path) : 0;
}

void floor_close(struct floor *floor)
{
    fd_closep(&floor->fd);
}

static bool find(const char *text, const char *key, uint64_t *ret_bytes)
{
    const char *line = strstr(text, key);
    if (!line) {
        return false;
    }
    *ret_bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
    return true;
}

uint64_t floor_free_bytes(const struct floor *floor, const struct floor_limits *limits)
{
    uint64_t share = floor->total_bytes / 100 * limits->free_percent;
    return share > limits->free_bytes ? share : limits->free_bytes;
}

static bool decide(const struct floor *floor, const struct floor_limits *limits)
{
    uint64_t least = floor_free_bytes(floor, limits);
    uint64_t most = floor->total_bytes / 100 * limits->kernel_percent;
    if (floor->passed) {
        least += least / 4;
        most -= most / 8;
    }
    return floor->available_bytes < least || (most > 0 && floor->kernel_bytes > most);
}

bool floor_look(struct floor *floor, const struct floor_limits *limits, int64_t *ret_kernel_change)
{
    char text[TEXT_BYTES];
    struct floor now = *floor;
    *ret_kernel_change = 0;
    ssize_t n = floor->fd < 0 ? -1 : pread(floor->fd, text, sizeof text - 1, 0);
    if (n < 0) {
        return floor->passed;
    }
    text[n] = '\0';
    if (!find(text, "MemTotal:", &now.total_bytes) || !find(text, "MemAvailable:", &now.available_bytes) ||
        !find(text, "SUnreclaim:", &now.kernel_bytes)) {
        return floor->passed;
    }
    if (floor->total_bytes > 0) {
        *ret_kernel_change = (int64_t)(now.kernel_bytes - floor->kernel_bytes);
    }
    now.passed = decide(&now, limits);
    *floor = now;
    return now.passed;
}

static void forgive(struct floor_candidate *candidates, size_t n, uint64_t freed_bytes, uint64_t kernel_bytes)
{
    double kept = (double)kernel_bytes / (double)(kernel_bytes + freed_bytes);
    for (size_t i = 0; i < n; i++) {
        struct floor_account *account = candidates[i].account;
        account->blamed_bytes = (uint64_t)((double)account->blamed_bytes * kept);
    }
}

void floor_blame(struct floor_candidate *candidates, size_t n, int64_t change_bytes, uint64_t kernel_bytes)
{
    uint64_t all_ns = 0;
    for (size_t i = 0; i < n; i++) {
        struct floor_candidate *one = &candidates[i];
        uint64_t before_ns = one->account->cpu_ns;
        one->account->cpu_ns = one->cpu_ns;
        one->cpu_ns = one->cpu_ns > before_ns ? one->cpu_ns - before_ns : 0; /* from here on: since then */
        all_ns += one->cpu_ns;
    }
    if (change_bytes < 0) {
        forgive(candidates, n, (uint64_t)-change_bytes, kernel_bytes);
        return;
    }
    for (size_t i = 0; i < n && all_ns > 0; i++) {
        double share = (double)candidates[i].cpu_ns / (double)all_ns;
        candidates[i].account->blamed_bytes += (uint64_t)((double)change_bytes * share);
    }
}

static uint64_t grown(const struct floor_candidate *candidate)
{
    return candidate->memory_bytes + candidate->account->blamed_bytes;
}

size_t floor_choose(const struct floor_candidate *candidates, size_t n)
{
    size_t most = 0;
    for (size_t i = 1; i < n; i++) {
        most = grown(&candidates[i]) > grown(&candidates[most]) ? i : most;
    }
    return n == 0 ? n : most;
}
