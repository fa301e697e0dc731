/* Outer ids: which mode a process gets, what it is told where it gets none, and how ids are handed out. Each
 * case runs in a process of its own, since taking a pool may change the process; as root and as an ordinary
 * user alike, in user namespaces with the maps that the case needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/resources/idmap.h"

/* What a case's process found, for the test to judge. */
struct finding {
    int r;
    struct err err;
    enum idmap_mode mode;
    uint32_t uids[8], gids[8];
    int taken[8];      /* what idmap_take() returned */
    uint32_t uid, gid; /* the process's own */
    char uid_map[128];
};

static void must(bool ok)
{
    if (!ok) {
        _exit(100);
    }
}

/* A user namespace in which we have every capability. `maps` (NULL: ourselves alone) are written from
 * outside, which takes root. */
static void enter_namespace(const char *maps)
{
    char self[64];
    int to_writer[2], from_writer[2];
    must(pipe2(to_writer, O_CLOEXEC) == 0 && pipe2(from_writer, O_CLOEXEC) == 0);
    pid_t parent = getpid();
    if (!maps) {
        uint32_t uid = geteuid(), gid = getegid();
        must(unshare(CLONE_NEWUSER) == 0);
        must(io_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0);
        snprintf(self, sizeof self, "%u %u 1", uid, uid);
        must(io_write_file_at(AT_FDCWD, "/proc/self/uid_map", self) == 0);
        snprintf(self, sizeof self, "%u %u 1", gid, gid);
        must(io_write_file_at(AT_FDCWD, "/proc/self/gid_map", self) == 0);
        return;
    }
    pid_t writer = fork();
    if (writer == 0) {
        char byte, path[64];
        must(read(to_writer[0], &byte, 1) == 1);
        static const char *const files[] = {"uid_map", "gid_map"};
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
            snprintf(path, sizeof path, "/proc/%d/%s", (int)parent, files[i]);
            must(io_write_file_at(AT_FDCWD, path, maps) == 0);
        }
        _exit(0);
    }
    must(unshare(CLONE_NEWUSER) == 0);
    must(write(to_writer[1], "x", 1) == 1);
    int wstatus;
    must(waitpid(writer, &wstatus, 0) == writer && wstatus == 0);
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    must(syscall(SYS_capset, &header, none) == 0);
}

#define USER 12345

static void become_user(void)
{
    must(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(USER, USER, USER) == 0 &&
         setresuid(USER, USER, USER) == 0);
    must(prctl(PR_SET_DUMPABLE, 1) == 0); /* or its /proc/self would stay root's */
}

enum circumstance {
    AS_WE_ARE,
    ALL_CAPABILITIES,   /* in a user namespace with `maps` */
    NO_CAPABILITIES,    /* in one, and all of them dropped */
    NO_USER_NAMESPACES, /* and none may be made */
};

struct trial {
    bool as_user; /* root becomes an ordinary user first */
    enum circumstance circumstance;
    const char *maps;
    uint32_t base, count;
};

static void take_some(struct idmap_pool *pool, struct finding *finding)
{
    for (size_t i = 0; i < ARRAY_SIZE(finding->taken); i++) {
        finding->taken[i] = idmap_take(pool, &finding->uids[i], &finding->gids[i]);
    }
}

typedef void (*use_fn)(struct idmap_pool *pool, struct finding *finding);

static struct finding attempt(const struct trial *trial, use_fn use)
{
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct finding finding;
        memset(&finding, 0, sizeof finding);
        if (trial->as_user && geteuid() == 0) {
            become_user();
        }
        finding.uid = geteuid();
        finding.gid = getegid();
        if (trial->circumstance != AS_WE_ARE) {
            enter_namespace(trial->maps);
        }
        if (trial->circumstance == NO_USER_NAMESPACES) {
            must(io_write_file_at(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0") == 0);
        }
        if (trial->circumstance == NO_CAPABILITIES || trial->circumstance == NO_USER_NAMESPACES) {
            drop_capabilities();
        }
        struct idmap_pool *pool = NULL;
        finding.r = idmap_pool_new(trial->base, trial->count, &pool, &finding.err);
        if (finding.r == 0) {
            finding.mode = idmap_pool_mode(pool);
            use(pool, &finding);
            struct buf map = BUF_INIT;
            must(io_read_file_at(AT_FDCWD, "/proc/self/uid_map", 4096, &map) == 0);
            snprintf(finding.uid_map, sizeof finding.uid_map, "%s", map.data);
            buf_free(&map);
        }
        idmap_pool_free(pool);
        _exit(io_write_full(pipes[1], &finding, sizeof finding) == 0 ? 0 : 101);
    }
    close(pipes[1]);
    struct finding finding;
    ssize_t n = io_read_full(pipes[0], &finding, sizeof finding);
    close(pipes[0]);
    int wstatus;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
    assert_int_equal(n, sizeof finding);
    return finding;
}

static bool is_root(void)
{
    return geteuid() == 0;
}

/* Ids are reused as late as possible, and never two at once. */
static void exhaust(struct idmap_pool *pool, struct finding *finding)
{
    for (size_t i = 0; i < 3; i++) {
        finding->taken[i] = idmap_take(pool, &finding->uids[i], &finding->gids[i]);
    }
    finding->taken[3] = idmap_take(pool, &finding->uids[3], &finding->gids[3]);
    idmap_give_back(pool, finding->uids[1]);
    finding->taken[4] = idmap_take(pool, &finding->uids[4], &finding->gids[4]);
    idmap_give_back(pool, finding->uids[0]);
    idmap_give_back(pool, finding->uids[2]);
    finding->taken[5] = idmap_take(pool, &finding->uids[5], &finding->gids[5]);
    idmap_give_back(pool, 7);          /* none of ours */
    idmap_give_back(pool, 4294967295); /* nor this */
    finding->taken[6] = idmap_take(pool, &finding->uids[6], &finding->gids[6]);
    finding->taken[7] = idmap_take(pool, &finding->uids[7], &finding->gids[7]);
}

static void test_range(void **state)
{
    (void)state;
    if (!is_root()) {
        print_message("skipped: an ordinary user has no range of ids\n");
        skip();
    }
    struct finding f = attempt(
        &(struct trial){.circumstance = ALL_CAPABILITIES, .maps = "0 0 1000\n", .base = 500, .count = 3},
        exhaust);
    assert_string_equal(f.err.text, "");
    assert_int_equal(f.mode, IDMAP_RANGE);
    static const struct {
        int r;
        uint32_t uid;
    } expected[] = {{0, 500}, {0, 501}, {0, 502}, {-EAGAIN, 0}, {0, 501}, {0, 502}, {0, 500}, {-EAGAIN, 0}};
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        assert_int_equal(f.taken[i], expected[i].r);
        assert_int_equal(f.uids[i], expected[i].uid);
        assert_int_equal(f.gids[i], expected[i].uid);
    }
    f = attempt(&(struct trial){.circumstance = AS_WE_ARE, .base = 1879048192, .count = 64}, take_some);
    assert_int_equal(f.mode, IDMAP_RANGE);
    for (uint32_t i = 0; i < ARRAY_SIZE(f.taken); i++) {
        assert_int_equal(f.uids[i], 1879048192 + i);
    }
}

static void test_mapped_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *maps;
        uint32_t base, count;
        bool mapped;
    } cases[] = {
        {"0 0 1000\n", 1, 999, true},
        {"0 0 1000\n", 1, 1000, false},
        {"0 0 1000\n", 999, 1, true},
        {"0 0 1000\n", 1000, 1, false},
        {"0 0 1000\n", 0, 10, false}, /* uid 0 is nobody's */
        {"0 0 1000\n", 500, 0, false},
        {"0 0 1000\n", 4294967290, 10, false},
        /* Several lines that follow on one another, in any order, are one range. */
        {"0 0 1000\n1000 5000 1000\n", 500, 1000, true},
        {"1000 5000 1000\n0 0 1000\n", 500, 1000, true},
        {"0 0 1000\n1001 5000 1000\n", 500, 1000, false},
        {"0 0 1000\n2000 2000 1000\n", 2000, 1000, true},
        {"0 0 1000\n2000 2000 1000\n", 1500, 100, false},
        {"0 0 1000\n2000 2000 1000\n", 1999, 2, false},
    };
    if (!is_root()) {
        print_message("skipped: an ordinary user cannot map ranges of ids\n");
        skip();
    }
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct finding f = attempt(&(struct trial){.circumstance = ALL_CAPABILITIES,
                                                   .maps = cases[i].maps,
                                                   .base = cases[i].base,
                                                   .count = cases[i].count},
                                   take_some);
        if (cases[i].mapped ? f.r != 0 : f.r == 0) {
            fail_msg("case %zu: %d %s", i, f.r, f.err.text);
        }
        if (!cases[i].mapped) {
            assert_int_equal(f.err.kind, ERR_HOST);
            assert_int_equal(f.err.code, ERANGE);
            assert_string_equal(f.err.item, "outer_uid_base");
        }
    }
    struct finding f = attempt(
        &(struct trial){.circumstance = ALL_CAPABILITIES, .maps = "0 0 1000\n", .base = 990, .count = 20},
        take_some);
    assert_int_equal(strncmp(f.err.text, "outer uids 990 to 1009 are not all mapped ", 42), 0);
}

/* With all capabilities over nobody but ourselves, as in a rootless container. */
static void test_range_of_one(void **state)
{
    (void)state;
    struct trial trial = {.circumstance = ALL_CAPABILITIES, .base = 1879048192, .count = 64};
    struct finding f = attempt(&trial, take_some);
    assert_int_equal(f.err.kind, ERR_HOST);
    trial.base = geteuid();
    trial.count = 1;
    f = attempt(&trial, take_some);
    assert_int_equal(f.err.kind, is_root() ? ERR_HOST : ERR_NONE);
    if (!is_root()) {
        assert_int_equal(f.mode, IDMAP_RANGE);
        assert_int_equal(f.taken[0], 0);
        assert_int_equal(f.taken[1], -EAGAIN);
    }
}

/* A jail of root without capabilities would be root outside. */
static void test_root_without_capabilities(void **state)
{
    (void)state;
    struct finding f = attempt(&(struct trial){.circumstance = NO_CAPABILITIES}, take_some);
    if (!is_root()) {
        assert_int_equal(f.mode, IDMAP_SELF);
        return;
    }
    assert_int_equal(f.err.kind, ERR_HOST);
    assert_int_equal(f.err.code, EPERM);
    assert_int_equal(strncmp(f.err.text, "uid 0 without CAP_SYS_ADMIN", 27), 0);
}

static void test_self(void **state)
{
    (void)state;
    /* The range does not matter then. */
    struct finding f = attempt(&(struct trial){.as_user = true, .base = 0, .count = 0}, take_some);
    assert_string_equal(f.err.text, "");
    assert_int_equal(f.mode, IDMAP_SELF);
    assert_int_not_equal(f.uid, 0);
    for (size_t i = 0; i < ARRAY_SIZE(f.taken); i++) {
        assert_int_equal(f.taken[i], 0);
        assert_int_equal(f.uids[i], f.uid);
        assert_int_equal(f.gids[i], f.gid);
    }
    unsigned inside, outside, length;
    assert_int_equal(sscanf(f.uid_map, "%u %u %u", &inside, &outside, &length), 3);
    assert_int_equal(inside, f.uid);
    assert_int_equal(outside, f.uid);
    assert_int_equal(length, 1);
}

static void test_no_user_namespaces(void **state)
{
    (void)state;
    struct finding f =
        attempt(&(struct trial){.as_user = true, .circumstance = NO_USER_NAMESPACES}, take_some);
    assert_int_equal(f.err.kind, ERR_HOST);
    assert_non_null(strstr(f.err.text, "user.max_user_namespaces"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_mapped_ranges),
        cmocka_unit_test(test_range_of_one),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_no_user_namespaces),
        cmocka_unit_test(test_root_without_capabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
