/* Texts of /proc: names in them, of mount points, cgroups and processes, may be anything and are read as what
 * they are. The first byte chooses; the rest is both a whole text, and a name within a well-formed one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/proc_text.h"
#include "tests/fuzz/fuzz.h"

/* As the kernel writes paths into mountinfo. */
static void put_escaped(struct buf *ret, const char *path)
{
    for (; *path; path++) {
        buf_printf(ret, strchr(" \t\n\\", *path) ? "\\%03o" : "%c", (unsigned char)*path);
    }
}

static void try_mountinfo(const char *name)
{
    static const char *const roots[] = {"/", "/above"};
    CLEANUP(freep) char *text = strdup(name);
    char *found = NULL;
    int r = proc_text_cgroup_path("/own", text, &found);
    REQUIRE(r == 0 || r == -ENOENT);
    REQUIRE((r == 0) == (found != NULL));
    free(found);
    for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
        CLEANUP(buf_free) struct buf line = BUF_INIT, own = BUF_INIT, expected = BUF_INIT;
        buf_puts(&line, "20 1 0:5 / / rw - tmpfs - rw\n30 1 0:6 ");
        put_escaped(&line, roots[i]);
        buf_puts(&line, " /mount");
        put_escaped(&line, name);
        buf_puts(&line, " rw shared:3 - cgroup2 cgroup2 rw\n");
        buf_printf(&own, "%s/%s", i == 0 ? "" : roots[i], name);
        buf_printf(&expected, "/mount%s%s%s", name, *name ? "/" : "", name);
        found = NULL;
        REQUIRE(proc_text_cgroup_path(own.data, line.data, &found) == 0);
        REQUIRE(strcmp(found, expected.data) == 0);
        free(found);
    }
}

static void try_cgroup(const char *name)
{
    CLEANUP(freep) char *text = strdup(name);
    CLEANUP(buf_free) struct buf whole = BUF_INIT;
    const char *own = proc_text_own_cgroup(text);
    REQUIRE(!own || (own >= text + 3 && strncmp(own - 3, "0::", 3) == 0));
    if (!strchr(name, '\n')) {
        buf_printf(&whole, "4:memory:/elsewhere\n0::/%s\n", name);
        own = proc_text_own_cgroup(whole.data);
        REQUIRE(own && *own == '/' && strcmp(own + 1, name) == 0);
    }
}

static void try_map(const char *name)
{
    CLEANUP(freep) char *text = strdup(name);
    uint32_t numbers[3] = {0};
    char line[128];
    proc_text_maps_range(text, 1000, 10);
    memcpy(numbers, name, strlen(name) < sizeof numbers ? strlen(name) : sizeof numbers);
    uint32_t first = numbers[0], length = numbers[1], base = numbers[2], count = 100;
    bool holds = base >= first && (uint64_t)base + count <= (uint64_t)first + length;
    snprintf(line, sizeof line, "%10u %10u %10u\n", first, 0u, length);
    REQUIRE(proc_text_maps_range(line, base, count) == holds);
}

static void try_stat(const char *name)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    struct proc_stat stat = {.parent = -2};
    REQUIRE(proc_text_stat(name, &stat) == 0 || stat.parent == -2);
    buf_printf(
        &line,
        "7 (%s) S 41 7 7 0 -1 4194304 100 0 0 0 1 20 300 4000 20 0 5 0 100 8192 6 18446744073709551615\n",
        name);
    REQUIRE(proc_text_stat(line.data, &stat) == 0);
    REQUIRE(stat.parent == 41 && stat.threads == 5 && stat.resident_pages == 6 && stat.cpu_ticks == 4321);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const char *name) = {try_mountinfo, try_cgroup, try_map, try_stat};
    if (size == 0) {
        return;
    }
    CLEANUP(freep) char *name = strndup((const char *)data + 1, size - 1);
    REQUIRE(name);
    tries[data[0] % ARRAY_SIZE(tries)](name);
}
