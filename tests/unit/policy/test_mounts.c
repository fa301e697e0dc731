/* policy/mounts.c and compile.c: every way in which a policy can be wrong has its sentence. */
#include "policy/mounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/policy/helper.h"

#define TMPFS(path, more)  "mount { destination: '" path "' tmpfs {} " more " }\n"
#define BIND(path, more)   "mount { destination: '" path "' bind { source: '/usr' } " more " }\n"
#define LINK(path)         "mount { destination: '" path "' symlink { target: 'x' } }\n"
#define FILE_AT(path)      "mount { destination: '" path "' file { content: 'x' } }\n"
#define PROC(path)         "mount { destination: '" path "' proc {} }\n"
#define SCRATCH(path, dir) "mount { destination: '" path "' scratch { directory: " dir " } }\n"

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"name: 'test'\n" WORKSPACE, "seccomp: missing; a policy without a filter says so"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_policy_refused(rows[i].text, rows[i].words);
    }
}

static void test_mounts_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {LEAST TMPFS("/immure", ""), "mount /immure: /immure is where the script is put"},
        {LEAST FILE_AT("/immure/main.py"), "mount /immure/main.py: /immure is where the script is put"},
        {LEAST TMPFS("/a/b", "") TMPFS("/a", ""), "mount /a: hides a mount that comes before it (/a/b)"},
        {LEAST FILE_AT("/workspace/x") SCRATCH("/tmp", "TMP"),
         "lies in a scratch directory and must come after /tmp"},
        {LEAST FILE_AT("/a") TMPFS("/a/b", ""), "mount /a/b: lies below what is no directory (/a)"},
        {LEAST PROC("/proc") TMPFS("/proc/x", ""), "mount /proc/x: lies below a proc (/proc)"},
        {LEAST TMPFS("/a", "") FILE_AT("/a/b"), "mount /a/b: lies below a tmpfs that is read-only (/a)"},
        {LEAST BIND("/usr", "") FILE_AT("/usr/x"),
         "mount /usr/x: would be made in a directory of the host (/usr)"},
        {LEAST BIND("/usr", "") LINK("/usr/x"),
         "mount /usr/x: would be made in a directory of the host (/usr)"},
        {LEAST BIND("/usr", "read_only: false") TMPFS("/usr/x", ""),
         "would be made in a directory of the host"},
        {LEAST "mount { destination: '/a' bind { source: '/usr/' } }",
         "mount /a: source /usr/: must not hold an empty part"},
        {LEAST "mount { destination: '/host' bind { source: '/' } }",
         "mount /host: source / would be the jail's own root; name the host's directories"},
        {LEAST TMPFS("/workspace/a", "read_only: false") SCRATCH("/tmp", "TMP"),
         "mount /workspace/a: lies in a scratch directory and must come after /tmp"},
        {LEAST SCRATCH("/tmp", "TMP") SCRATCH("/tmp/shm", "SHM"),
         "mount /tmp/shm: the scratch directory shm cannot lie in the scratch directory tmp (/tmp)"},
        {LEAST SCRATCH("/workspace/tmp", "TMP"),
         "mount /workspace/tmp: the scratch directory tmp cannot lie in the scratch directory work "
         "(/workspace)"},
        {LEAST SCRATCH("/workspace/a/tmp", "TMP") SCRATCH("/dev/shm", "SHM"),
         "mount /workspace/a/tmp: the scratch directory tmp cannot lie in the scratch directory work"},
        {LEAST SCRATCH("/dev/shm", "SHM") SCRATCH("/dev/shm/tmp", "TMP"),
         "the scratch directory tmp cannot lie in the scratch directory shm (/dev/shm)"},
        {LEAST SCRATCH("/dev/shm/tmp", "TMP") SCRATCH("/dev/shm", "SHM"),
         "the scratch directory tmp cannot lie in the scratch directory shm (/dev/shm)"},
        {"name: 'test' " OPEN "working_directory: '/tmp/work'" SCRATCH("/tmp", "TMP")
             SCRATCH("/tmp/work", "WORK"),
         "mount /tmp/work: the scratch directory work cannot lie in the scratch directory tmp (/tmp)"},
        {"name: 'test' " OPEN "working_directory: '/s/w'" SCRATCH("/s", "SHM") SCRATCH("/s/w", "WORK"),
         "mount /s/w: the scratch directory work cannot lie in the scratch directory shm (/s)"},
        {LEAST SCRATCH("/workspace/shm", "SHM") TMPFS("/workspace/shm/a", "") SCRATCH("/tmp", "TMP"),
         "mount /workspace/shm/a: lies in a scratch directory and must come after /tmp"},
        {LEAST "working_directory: '/workspace/'",
         "working_directory /workspace/: must not hold an empty part"},
        {LEAST TMPFS("/a", "read_only: false") FILE_AT("/a/f") "working_directory: '/a/f'",
         "working_directory /a/f: does not lie on a mount of this policy"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_policy_refused(rows[i].text, rows[i].words);
    }
}

/* What takes more than the schema to be found is pointed at no less. The text begins in line 4. */
static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words, *place;
    } rows[] = {
        {TMPFS("/immure", ""), "where the script is put", "4:22"},
        {TMPFS("/a/b", "") "mount {\n destination:\n  '/a' tmpfs {} }", "mount /a: hides", "7:3"},
        {SCRATCH("/tmp", "TMP") SCRATCH("/tmp/shm", "SHM"), "mount /tmp/shm: ", "5:22"},
        {SCRATCH("/tmp/shm", "SHM") SCRATCH("/tmp", "TMP"), "mount /tmp/shm: ", "4:22"},
        {FILE_AT("/workspace/x") SCRATCH("/tmp", "TMP"), "mount /workspace/x: ", "4:22"},
        {"mount { destination: '/h' bind { source: '/' } }", "source /", "4:22"},
        {"\nworking_directory: '/workspace/'", "working_directory", "5:20"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", LEAST, rows[i].text);
        assert_policy_refused_at(text, rows[i].words, rows[i].place);
    }
    static const struct {
        const char *seccomp, *words, *place;
    } filters[] = {
        {"rule { action: ALLOW syscall: 'opnat' }", "seccomp rule 1 (opnat)", "4:6"},
        {"rule { action: ALLOW set: '@io' }", "seccomp rule 1 (@io)", "4:6"},
        {"rule { action: ERRNO errno: 'EX' syscall: 'read' }", "seccomp rule 1 (EX)", "4:6"},
        {"rule { action: ALLOW syscall: 'read' }\nrule { action: LOG syscall: 'read' }",
         "seccomp rule 2 (read)", "5:6"},
        {"default_action: ERRNO\ndefault_errno: 'EX'", "default_errno EX", "5:16"},
        {"architecture: [\n'vax']", "architecture vax", "5:1"},
        {"", "execve", "3:9"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
        char text[512];
        snprintf(text, sizeof text, "name: 'test'\n%sseccomp {\n%s\n}", WORKSPACE, filters[i].seccomp);
        assert_policy_refused_at(text, filters[i].words, filters[i].place);
    }
}

static void test_mounts_accepted(void **state)
{
    (void)state;
    static const char *const rows[] = {
        LEAST TMPFS("/a", "read_only: false") FILE_AT("/a/b") TMPFS("/a/c", ""),
        LEAST BIND("/usr", "") TMPFS("/usr/share", "read_only: false") FILE_AT("/usr/share/x"),
        LEAST BIND("/usr", "") BIND("/usr/local", "optional: true"),
        LEAST LINK("/lib") LINK("/lib64") TMPFS("/library", ""),
        LEAST TMPFS("/dev", "read_only: false") SCRATCH("/dev/shm", "SHM") SCRATCH("/tmp", "TMP"),
        LEAST SCRATCH("/tmp", "TMP") BIND("/workspace/data", ""),
        LEAST SCRATCH("/workspace/shm", "SHM") SCRATCH("/tmp", "TMP"),
        LEAST SCRATCH("/tmp", "TMP") SCRATCH("/workspace/a/shm", "SHM"),
        LEAST SCRATCH("/tmp", "TMP") SCRATCH("/tmpshm", "SHM"),
        LEAST BIND("/dots...", "") TMPFS("/..hidden", "") TMPFS("/immured", ""),
        LEAST "working_directory: '/workspace/below'",
        LEAST "namespace: [USER, MOUNT, PID]",
        LEAST "rlimit { resource: NPROC soft: 3 } rlimit { resource: AS soft: 18446744073709551615 }",
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(policy_freep) struct policy *policy = compile(rows[i]);
        assert_string_equal(policy_name(policy), "test");
        assert_int_equal(strlen(policy_sha256(policy)), 64);
        assert_string_equal(policy_spec(policy)->origin, "test.textproto");
    }
}

static void test_paths(void **state)
{
    (void)state;
    assert_true(path_is_below("/a/b", "/a"));
    assert_false(path_is_below("/a", "/a"));
    assert_false(path_is_below("/ab", "/a"));
    assert_true(path_is_at_or_below("/a", "/a"));
    assert_false(path_is_at_or_below("/", "/a"));
    char name[300] = "/";
    memset(name + 1, 'n', 255);
    assert_null(path_problem(name));
    name[256] = 'n';
    assert_non_null(path_problem(name));
    CLEANUP(freep) char *deep = malloc(5000);
    for (size_t i = 0; i < 4998; i += 2) {
        memcpy(deep + i, "/d", 3);
    }
    assert_string_equal(path_problem(deep), "is longer than a path can be");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_mounts_refused),
        cmocka_unit_test(test_places), cmocka_unit_test(test_mounts_accepted),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
