/* jail/base/proc_text.c: the kernel's texts, with the names that others may have put into them. */
#include "jail/base/proc_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

#define TMPFS "22 28 0:20 / /run rw,nosuid - tmpfs tmpfs rw\n"

static void cgroup_paths(void **state)
{
    (void)state;
    static const struct {
        const char *own, *mountinfo, *path; /* NULL: no mount shows it */
    } cases[] = {
        {"/a", TMPFS "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/a"},
        {"/", "29 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n", "/cg"},
        {"/a/b", "29 23 0:26 /a /cg rw shared:4 - cgroup2 none rw\n", "/cg/b"},
        {"/a", "29 23 0:26 /a /cg rw - cgroup2 none rw\n", "/cg"},
        {"/ab", "29 23 0:26 /a /cg rw - cgroup2 none rw\n", NULL},
        {"/a", "29 23 0:26 /b /x rw - cgroup2 none rw\n30 23 0:26 / /y rw - cgroup2 none rw\n", "/y/a"},
        {"/a", "29 23 0:26 / /cg rw - cgroup cgroup rw,memory\n", NULL},
        {"/a", "29 23 0:26 / - cgroup2 none rw\n", NULL},
        {"/a", TMPFS, NULL},
        {"/a", "", NULL},
        /* As the kernel escapes blanks, tabs, line breaks and backslashes. */
        {"/a", "29 23 0:26 / /with\\040blank\\134\\011\\012x rw - cgroup2 none rw\n", "/with blank\\\t\nx/a"},
        {"/dev\\x2dsda/b", "29 23 0:26 /dev\\134x2dsda /cg rw - cgroup2 none rw\n", "/cg/b"},
        {"/a", "29 23 0:26 / /odd\\08\\ rw - cgroup2 none rw\n", "/odd\\08\\/a"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(freep) char *mountinfo = strdup(cases[i].mountinfo);
        CLEANUP(freep) char *path = NULL;
        int r = proc_text_cgroup_path(cases[i].own, mountinfo, &path);
        assert_int_equal(r, cases[i].path ? 0 : -ENOENT);
        if (cases[i].path) {
            assert_string_equal(path, cases[i].path);
        }
    }
}

static void own_cgroups(void **state)
{
    (void)state;
    char hybrid[] = "5:memory:/x\n1:name=systemd:/y\n0::/user.slice/0::z\n", old[] = "5:memory:/x\n",
         none[] = "";
    assert_string_equal(proc_text_own_cgroup(hybrid), "/user.slice/0::z");
    assert_null(proc_text_own_cgroup(old));
    assert_null(proc_text_own_cgroup(none));
}

static void id_maps(void **state)
{
    (void)state;
    static const struct {
        const char *map;
        uint32_t base, count;
        bool covers;
    } cases[] = {
        {"         0          0 4294967295\n", 100000, 65536, true},
        {"0 1000 1\n1 100000 65536\n", 1, 65536, true},
        {"0 1000 1\n1 100000 65536\n", 0, 65537, true},
        {"0 1000 1\n2 100000 65536\n", 0, 3, false},
        {"0 0 10\n", 5, 6, false},
        {"4294967290 0 5\n", 4294967290u, 5, true},
        {"4294967290 0 5\n", 4294967290u, 6, false},
        {"18446744073709551615 0 18446744073709551615\n", 0, 10, false},
        {"0 0\n", 0, 1, false},
        {"", 0, 1, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(freep) char *map = strdup(cases[i].map);
        assert_int_equal(proc_text_maps_range(map, cases[i].base, cases[i].count), cases[i].covers);
    }
}

#define BEHIND_NAME " S 41 7 7 0 -1 0 100 0 0 0 1 20 300 4000 20 0 5 0 100 8192 6 1844\n"

/* A process may call itself what it likes. */
static void process_stats(void **state)
{
    (void)state;
    static const char *const good[] = {"7 (sh)" BEHIND_NAME, "7 ())" BEHIND_NAME, "7 () R 1 1)" BEHIND_NAME,
                                       "7 (\n) S 2 3 4 5 6)" BEHIND_NAME};
    static const char *const bad[] = {"", "7 (sh", "7 (sh) S 41", "7 (sh) S x 7"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct proc_stat stat;
        assert_int_equal(proc_text_stat(good[i], &stat), 0);
        assert_int_equal(stat.parent, 41);
        assert_int_equal(stat.threads, 5);
        assert_int_equal(stat.resident_pages, 6);
        assert_int_equal(stat.cpu_ticks, 4321);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct proc_stat stat;
        assert_int_equal(proc_text_stat(bad[i], &stat), -EINVAL);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    static const char status[] = "Name:\tVmSwap: 9 kB\nVmRSS:\t     12 kB\nVmSwap:\t       7 kB\n";
    assert_int_equal(proc_text_bytes(status, "VmSwap:"), 7 * 1024);
    assert_int_equal(proc_text_bytes(status, "VmRSS:"), 12 * 1024);
    assert_int_equal(proc_text_bytes(status, "VmPeak:"), 0);
    assert_int_equal(proc_text_bytes("Pss: 3 kB\nSwap: 1 kB\nSwapPss: 2 kB\n", "SwapPss:"), 2 * 1024);
    assert_int_equal(proc_text_bytes("", "Pss:"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes), cmocka_unit_test(cgroup_paths),  cmocka_unit_test(own_cgroups),
        cmocka_unit_test(id_maps),    cmocka_unit_test(process_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
