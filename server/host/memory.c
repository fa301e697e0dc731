/* How much memory this server may use. Runs in the warden, once. In a container /proc/meminfo tells of the
 * whole host, and only the cgroup knows better. */
#include "server/host/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"
#include "jail/base/proc_text.h"
#include "server/host/floor.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* `*least` is lowered to the number in DIRECTORY/NAME, where there is one ("max" is none). */
static void lower(const char *directory, const char *name, uint64_t *least)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    char path[4096];
    uint64_t bytes;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (io_read_file_at(AT_FDCWD, path, 64, &text) < 0 || !text.data) {
        return;
    }
    text.data[strcspn(text.data, "\n")] = '\0';
    if (io_parse_u64(text.data, &bytes) == 0 && bytes > 0 && (*least == 0 || bytes < *least)) {
        *least = bytes;
    }
}

uint64_t host_memory_bytes(const char *cgroup)
{
    CLEANUP(buf_free) struct buf meminfo = BUF_INIT;
    char directory[4096];
    uint64_t least = 0;
    if (io_read_file_at(AT_FDCWD, FLOOR_MEMINFO, 65536, &meminfo) == 0 && meminfo.data) {
        least = proc_text_bytes(meminfo.data, "MemTotal:");
    }
    snprintf(directory, sizeof directory, "%s", cgroup ? cgroup : CGROUP_ROOT);
    lower(CGROUP_ROOT "/memory", "memory.limit_in_bytes", &least); /* cgroup v1 */
    for (char *slash; (slash = strrchr(directory, '/')); *slash = '\0') {
        lower(directory, "memory.max", &least);
    }
    return least;
}
