/* policy/compare: two policies that say the same have no difference, whatever their words; what one allows
 * and the other does not is found, with the arguments with which it does. */
#include "policy/compare/compare.h"

#include "tests/unit/policy/answers.h"

/* Two policies with these rules, or fields, each around the least. */
static struct policy_differences compare(const char *a, const char *b)
{
    CLEANUP(policy_freep) struct policy *of_a = compile(a);
    CLEANUP(policy_freep) struct policy *of_b = compile(b);
    struct policy_differences differences;
    struct err err = {0};
    if (policy_compare(of_a, of_b, &differences, &err) < 0) {
        fail_msg("not compared: %s: %s", err.item, err.text);
    }
    return differences;
}

static void put_row(const struct policy_difference *row, struct buf *ret)
{
    buf_printf(ret, "%s%s%s%s: %s -> %s\n", row->name, row->arguments ? "(" : "",
               row->arguments ? row->arguments : "", row->arguments ? ")" : "", row->a ? row->a : "none",
               row->b ? row->b : "none");
}

/* All rows as lines. */
static void assert_differs(const char *a, const char *b, const char *lines)
{
    CLEANUP(policy_differences_clear) struct policy_differences differences = compare(a, b);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_puts(&text, "");
    for (size_t i = 0; i < differences.n; i++) {
        put_row(&differences.rows[i], &text);
    }
    assert_string_equal(text.data, lines);
}

static void assert_same(const char *a, const char *b)
{
    assert_differs(a, b, "");
}

#define SOCKETS(families) "rule { action: ALLOW syscall: 'socket' where { arg: 'family' " families " } }"
#define CLONE(flags)      "rule { action: ALLOW syscall: 'clone' where { arg: 'flags' none_of: [" flags "] } }"
#define LEVEL(comparison) "rule { action: ALLOW syscall: 'getpriority' condition { arg: 0 " comparison " } }"
#define MOUNTS(mounts)    "name: 'test'\n" WORKSPACE mounts OPEN

#define DRAWN 200

static void test_filters_in_other_words(void **state)
{
    (void)state;
    /* Names or numbers, one rule or several, an operator or a mask, a default that is written out. */
    assert_same(
        FILTER("rule { action: ALLOW syscall: 'ioctl' where { arg: 'request' in: [TCGETS, FIONREAD] } }"),
        FILTER("rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 op: MASKED_EQ mask: "
               "0xffffffff value: 0x541b } }"
               "rule { action: ALLOW syscall: 'ioctl' condition { arg: 1 op: MASKED_EQ mask: "
               "0xffffffff value: 0x5401 } reason: 'is it a terminal?' }"));
    assert_same(FILTER(SOCKETS("in: [AF_UNIX]")),
                FILTER(SOCKETS("in: 1") "rule { action: NOTIFY syscall: 'mount' }"));
    assert_same(FILTER(LEVEL("op: LT value: 16")), FILTER(LEVEL("op: LE value: 15")));
    assert_same(FILTER(LEVEL("op: LT value: 16")),
                FILTER(LEVEL("op: MASKED_EQ mask: 0xfffffffffffffff0 value: 0")));
    assert_same(FILTER("rule { action: ERRNO syscall: 'mount' }"),
                FILTER("rule { action: ERRNO errno: 'EPERM' syscall: 'mount' }"));
}

static void test_calls(void **state)
{
    (void)state;
    assert_differs(FILTER(""), FILTER("rule { action: ALLOW syscall: ['read', 'write'] }"),
                   "read: NOTIFY -> ALLOW\nwrite: NOTIFY -> ALLOW\n");
    assert_differs(FILTER("rule { action: KILL_PROCESS syscall: 'mount' }"),
                   FILTER("rule { action: ERRNO errno: 'ENOSYS' syscall: 'mount' }"),
                   "mount: KILL_PROCESS -> ERRNO ENOSYS\n");
    /* What a filter hands to PID 1 is counted, or denied. */
    assert_differs(FILTER("rule { action: COUNT set: '@file-locks' }"), FILTER(""),
                   "fcntl(op F_SETLK or F_SETLKW): COUNT -> NOTIFY\nflock: COUNT -> NOTIFY\n");
}

static void test_defaults(void **state)
{
    (void)state;
    const char *open = "name: 'test'\n" WORKSPACE
                       "seccomp { default_action: ALLOW rule { action: NOTIFY syscall: 'mount' } }";
    CLEANUP(policy_differences_clear) struct policy_differences differences = compare(FILTER(""), open);
    bool others = false;
    assert_true(differences.n > 200);
    for (size_t i = 0; i < differences.n; i++) {
        assert_string_not_equal(differences.rows[i].name, "mount");
        others |= strcmp(differences.rows[i].name, "any other number") == 0;
        assert_true(differences.rows[i].b_allows && !differences.rows[i].a_allows);
    }
    assert_true(others);
}

static void test_arguments(void **state)
{
    (void)state;
    assert_differs(FILTER(SOCKETS("in: AF_UNIX")), FILTER(SOCKETS("in: [AF_UNIX, AF_INET, AF_INET6]")),
                   "socket(family AF_INET or AF_INET6): NOTIFY -> ALLOW\n");
    assert_differs(FILTER(SOCKETS("in: AF_UNIX")), FILTER("rule { action: ALLOW syscall: 'socket' }"),
                   "socket(family not AF_UNIX): NOTIFY -> ALLOW\n");
    assert_differs(FILTER("rule { action: ALLOW syscall: 'socket' }"), FILTER(SOCKETS("not_in: AF_NETLINK")),
                   "socket(family AF_NETLINK): ALLOW -> NOTIFY\n");
    assert_differs(FILTER(LEVEL("op: LE value: 9")), FILTER(LEVEL("op: LE value: 10")),
                   "getpriority(argument 0 above 9 and at most 10): NOTIFY -> ALLOW\n");
    /* One of several arguments. */
    assert_differs(FILTER("rule { action: ALLOW syscall: 'socket' where { arg: 'family' in: AF_INET } "
                          "where { arg: 'type' mask: SOCK_TYPE_MASK in: SOCK_STREAM } }"),
                   FILTER(SOCKETS("in: AF_INET")),
                   "socket(family AF_INET, type & SOCK_TYPE_MASK is not SOCK_STREAM): NOTIFY -> ALLOW\n");
}

static void test_one_flag(void **state)
{
    (void)state;
    assert_differs(
        FILTER(CLONE("CLONE_NEWUSER, CLONE_NEWNET")), FILTER(CLONE("CLONE_NEWNET")),
        "clone(flags & (CLONE_NEWUSER|CLONE_NEWNET) is not 0 and & CLONE_NEWNET is 0): NOTIFY -> ALLOW\n");
}

/* A value that no rule but the default is about has one bit and not some others. */
static void test_flags_that_many_rules_are_about(void **state)
{
    (void)state;
    const char *rules = CLONE("CLONE_NEWUSER") CLONE(
        "CLONE_NEWNET") "rule { action: ALLOW syscall: 'clone' where { arg: 'flags' all_of: CLONE_THREAD } }"
                        "rule { action: ALLOW syscall: 'clone' where { arg: 'flags' all_of: CLONE_VFORK } }";
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_printf(&text, "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' } %s }",
               rules);
    assert_differs(text.data, FILTER("rule { action: ALLOW syscall: 'clone' }"),
                   "clone(flags such as 0x50000000): NOTIFY -> ALLOW\n");
}

/* The kernel reads 32 bits: a caller may set the others, and a filter that compares 64 says otherwise. */
static void test_bits_that_the_kernel_does_not_read(void **state)
{
    (void)state;
    assert_differs(
        FILTER("rule { action: ALLOW syscall: 'socket' condition { arg: 0 value: 1 } }"),
        FILTER(SOCKETS("in: AF_UNIX")),
        "socket(family AF_UNIX with bits that the kernel does not read (0x100000001)): NOTIFY -> ALLOW\n");
}

static void test_too_much(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct policy_differences differences;
    struct err err = {0};
    buf_puts(&text, "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW syscall: 'execve' }");
    for (unsigned i = 0; i < 256; i++) {
        buf_printf(&text,
                   "rule { action: ALLOW syscall: 'mmap' condition { arg: %u value: %u } condition { arg: "
                   "%u value: %u } }",
                   i % 3, 100 + 2 * i, i % 3 + 1, 100 + 2 * i);
    }
    buf_puts(&text, "}");
    CLEANUP(policy_freep) struct policy *many = compile(text.data);
    CLEANUP(policy_freep) struct policy *least = compile(LEAST);
    assert_true(policy_compare(many, least, &differences, &err) < 0);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, "mmap");
}

static void test_settings_in_other_words(void **state)
{
    (void)state;
    assert_same(
        MOUNTS("mount { destination: '/a' tmpfs {} }\nmount { destination: '/b' tmpfs { inodes: 64 } }"),
        MOUNTS("mount { destination: '/b' tmpfs {} }\nmount { destination: '/a' tmpfs {} read_only: true }"));
    assert_same(MOUNTS("rlimit { resource: CORE soft: 0 } rlimit { resource: NOFILE soft: 320 hard: 320 }"),
                LEAST);
    assert_same(MOUNTS("limits { memory_bytes: 512MiB }"), LEAST);
    assert_same(MOUNTS("env_allow: ['A*', 'AB*', 'ABC']"), MOUNTS("env_allow: ['A*']"));
    assert_same(MOUNTS("preload: ['os', 'json']"), MOUNTS("preload: ['json', 'os']"));
    assert_same(MOUNTS("description: 'x'"), MOUNTS("description: 'y'"));
    /* Of locks that the filter does not have counted. */
    assert_same(MOUNTS("limits { file_locks: 1024 }"), LEAST);
}

static void test_settings(void **state)
{
    (void)state;
    assert_differs(LEAST,
                   MOUNTS("mount { destination: '/usr' bind { source: '/usr' } no_exec: true }\n"
                          "mount { destination: '/f' file { content: 'x' } }\n"),
                   "/usr: none -> bind /usr read_only no_exec\n"
                   "/f: none -> file mode=0444, 1 bytes (sha256 "
                   "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881)\n");
    assert_differs(MOUNTS("env { name: 'A' value: '1' } env { name: 'B' } env_allow: 'X*'"),
                   MOUNTS("env { name: 'A' value: '2' } env_allow: '*'"),
                   "A: 1 -> 2\nB:  -> none\nenv_allow *: none -> allowed\n");
    /* A prefix never covers what chooses the code that is loaded. */
    assert_differs(MOUNTS("env_allow: '*'"), MOUNTS("env_allow: ['*', 'LD_PRELOAD']"),
                   "env_allow LD_PRELOAD: none -> allowed\n");
    assert_differs(LEAST,
                   MOUNTS("limits { memory_bytes: 1GiB } rlimit { resource: NOFILE soft: 64 hard: 100 }"),
                   "memory_bytes: 536870912 -> 1073741824\nRLIMIT_NOFILE: 320 -> 64 (hard 100)\n");
    assert_differs(MOUNTS("uid: 7 umask: 077 loopback: true capability: 'CAP_KILL' preload: ['os', 'json']"),
                   MOUNTS("hostname: 'x' namespace: [USER, MOUNT, PID, UTS] preload: ['json', 're']"),
                   "hostname: immure -> x\nloopback: true -> false\nuid: 7 -> 1000\numask: 0077 -> 0022\n"
                   "namespace: USER MOUNT PID NET IPC UTS CGROUP -> USER MOUNT PID UTS\n"
                   "capability: CAP_KILL -> none\npreload: os -> re\n");
}

/* Of a source with blanks no words are made. */
static void test_mounts_that_look_alike(void **state)
{
    (void)state;
#define BIND(source, more) MOUNTS("mount { destination: '/x' bind { source: " source " } " more " }")
    assert_differs(BIND("'/x allow_devices'", "read_only: true"),
                   BIND("'/x'", "allow_devices: true read_only: true"),
                   "/x: bind \"/x allow_devices\" read_only -> bind /x allow_devices read_only\n");
    assert_differs(BIND("'/x recursive: false'", ""), BIND("'/x'", ""),
                   "/x: bind \"/x recursive: false\" read_only -> bind /x read_only\n");
    assert_differs(BIND("'/x \\377'", ""), BIND("'/x \\376'", ""),
                   "/x: bind \"/x \377\" read_only -> bind \"/x \376\" read_only\n");
}

static void test_architecture(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf row = BUF_INIT;
    const char *native = policy_native_architecture();
    buf_printf(&text,
               "name: 'test'\n" WORKSPACE
               "seccomp { architecture: '%s' rule { action: ALLOW set: '@execute' } }",
               native);
    buf_printf(&row, "architecture: none -> %s\n", native);
    assert_differs(FILTER(""), text.data, row.data);
}

static bool told(const struct policy_differences *differences, const char *name)
{
    for (size_t i = 0; i < differences->n; i++) {
        if (strcmp(differences->rows[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Calls drawn at random that two shipped policies answer differently are among those that are told. */
static void test_shipped(void **state)
{
    (void)state;
    static const char *const names[] = {"python", "strict", "isolate", "bash"};
    srandom(1);
    for (size_t i = 0; i < ARRAY_SIZE(names) * ARRAY_SIZE(names); i++) {
        struct policy *a = NULL, *b = NULL;
        struct policy_differences differences;
        size_t n_differ = 0;
        assert_int_equal(policy_resolve(names[i % ARRAY_SIZE(names)], &a, NULL), 0);
        assert_int_equal(policy_resolve(names[i / ARRAY_SIZE(names)], &b, NULL), 0);
        assert_int_equal(policy_compare(a, b, &differences, NULL), 0);
        for (unsigned n = 0; n < 20000; n++) {
            int nr = (int)random() % 470;
            uint64_t first = interesting_argument(a->spec), second = interesting_argument(b->spec);
            if (answer(a, nr, first, second) != answer(b, nr, first, second)) {
                char name[64];
                policy_syscall_name(policy_native_arch(), nr, name, sizeof name);
                assert_true(strncmp(name, "syscall_", 8) == 0 || told(&differences, name));
                n_differ++;
            }
        }
        assert_int_equal(n_differ > 0, strcmp(policy_name(a), policy_name(b)) != 0);
        assert_int_equal(differences.n > 0, n_differ > 0);
        policy_differences_clear(&differences);
        policy_free(a);
        policy_free(b);
    }
}

/* A rule about one call with up to three conditions, each about few bits of another argument. */
static void draw_rule(struct buf *ret)
{
    static const char *const ops[] = {"EQ", "NE",        "LT",        "LE",       "GT",
                                      "GE", "MASKED_EQ", "MASKED_EQ", "MASKED_EQ"};
    buf_puts(ret, "rule { action: ALLOW syscall: 'getpriority' ");
    for (unsigned arg = 0; arg < 1 + (unsigned)random() % 2; arg++) {
        size_t op = (size_t)random() % ARRAY_SIZE(ops);
        unsigned mask = 1 + (unsigned)random() % 15, value = (unsigned)random() % 16;
        buf_printf(ret, "condition { arg: %u op: %s value: %u ", arg, ops[op], op < 6 ? value : value & mask);
        if (op >= 6) {
            buf_printf(ret, "mask: %u ", mask);
        }
        buf_puts(ret, "} ");
    }
    buf_puts(ret, "}\n");
}

/* Rules, always the same ones of a seed. */
static struct policy *draw_policy(unsigned seed, bool reversed)
{
    enum { RULES = 5 };
    struct buf rules[RULES] = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    srandom(seed);
    buf_puts(&text, "name: 'test'\n" WORKSPACE "seccomp { rule { action: ALLOW set: '@execute' }\n");
    for (size_t i = 0; i < RULES; i++) {
        draw_rule(&rules[i]);
    }
    for (size_t i = 0; i < RULES; i++) {
        buf_puts(&text, rules[reversed ? RULES - 1 - i : i].data);
    }
    for (size_t i = 0; i < RULES; i++) {
        buf_free(&rules[i]);
    }
    buf_puts(&text, "}");
    return compile(text.data);
}

/* With each number that their conditions could tell apart, two policies differ if and only if that is told.
 */
static void test_drawn_policies(void **state)
{
    (void)state;
    enum { VALUES = 32 };
    unsigned n_differ = 0;
    for (unsigned n = 0; n < DRAWN; n++) {
        CLEANUP(policy_freep) struct policy *a = draw_policy(n, false);
        CLEANUP(policy_freep) struct policy *b = draw_policy(n % 2 ? n : n + DRAWN, true);
        CLEANUP(policy_differences_clear) struct policy_differences differences = {0};
        assert_int_equal(policy_compare(a, b, &differences, NULL), 0);
        int nr = policy_syscall_number("getpriority", NULL);
        bool differ = false;
        for (uint64_t i = 0; i < VALUES * VALUES; i++) {
            differ |= answer(a, nr, i % VALUES, i / VALUES) != answer(b, nr, i % VALUES, i / VALUES);
        }
        n_differ += differ;
        assert_int_equal(differ, differences.n > 0);
    }
    assert_in_range(n_differ, DRAWN / 4, DRAWN / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters_in_other_words),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_one_flag),
        cmocka_unit_test(test_flags_that_many_rules_are_about),
        cmocka_unit_test(test_bits_that_the_kernel_does_not_read),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_settings_in_other_words),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_mounts_that_look_alike),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_drawn_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
