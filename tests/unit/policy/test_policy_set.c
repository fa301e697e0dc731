/* policy/policy_set.c: which policies there are, which hides which, and what stops all of them. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/io.h"
#include "tests/unit/policy/helper.h"

#define DIRECTORY_TEMPLATE "/tmp/immure-policies-XXXXXX"

static int make_directory(void **state)
{
    char *path = strdup(DIRECTORY_TEMPLATE);
    *state = path;
    return path && mkdtemp(path) ? 0 : -1;
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"a.textproto", "b.textproto", "c.json", "notes.txt",
                                        ".hidden.textproto"};
    char *path = *state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char file[128];
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        unlink(file);
    }
    int r = rmdir(path);
    free(path);
    return r;
}

static void put(const char *directory, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define NAMED(name) "name: '" name "'\n" WORKSPACE OPEN

static void set_freep(struct policy_set **set)
{
    policy_set_free(*set);
}

static struct policy_set *load(char *const *paths, size_t n_paths)
{
    struct policy_set *set = NULL;
    struct err err = {0};
    if (policy_set_load(paths, n_paths, &set, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return set;
}

static void test_shipped(void **state)
{
    (void)state;
    CLEANUP(set_freep) struct policy_set *set = load(NULL, 0);
    assert_string_equal(policy_name(policy_set_find(set, "python")), "python");
    assert_string_equal(policy_name(policy_set_find(set, "strict")), "strict");
    assert_null(policy_set_find(set, "nothing"));
    policy_set_free(NULL);
}

static void test_directory_hides_shipped(void **state)
{
    char *directory = *state;
    put(directory, "a.textproto", NAMED("python"));
    put(directory, "b.textproto", NAMED("mine"));
    put(directory, "notes.txt", "not a policy");
    put(directory, ".hidden.textproto", "not a policy");
    CLEANUP(set_freep) struct policy_set *set = load(&directory, 1);
    assert_string_equal(policy_spec(policy_set_find(set, "mine"))->name, "mine");
    assert_null(strstr(policy_spec(policy_set_find(set, "python"))->origin, "shipped:"));
    assert_non_null(strstr(policy_spec(policy_set_find(set, "strict"))->origin, "shipped:"));
}

static void assert_load_refused(char *const *paths, size_t n_paths, const char *item, const char *words)
{
    struct policy_set *set = NULL;
    struct err err = {0};
    assert_true(policy_set_load(paths, n_paths, &set, &err) < 0);
    assert_null(set);
    assert_int_equal(err.kind, ERR_CONFIG);
    if (!strstr(err.item, item) || !strstr(err.text, words)) {
        fail_msg("refused with \"%s: %s\", expected \"%s: %s\"", err.item, err.text, item, words);
    }
}

static void test_refused(void **state)
{
    char *directory = *state;
    char missing[] = "/nonexistent";
    char *paths[] = {missing};
    assert_load_refused(paths, 1, "/nonexistent", "No such file or directory");

    put(directory, "a.textproto", NAMED("mine"));
    put(directory, "b.textproto", NAMED("mine"));
    assert_load_refused(&directory, 1, "b.textproto", "name mine: is the name of");

    put(directory, "b.textproto", "name: 'other' nonsense: 1");
    assert_load_refused(&directory, 1, "b.textproto:1:", "nonsense");

    put(directory, "b.textproto", "name: 'other'" WORKSPACE);
    assert_load_refused(&directory, 1, "b.textproto", "seccomp: missing");
}

/* A part lies beside the policies that use it, and is none itself. */
static void test_parts(void **state)
{
    char *directory = *state;
    put(directory, "a.textproto", "name: 'a' part: true limits { pids: 7 }");
    put(directory, "b.textproto", "name: 'b' use: ['a', 'strict']");
    assert_load_refused(&directory, 1, "shipped:strict:", "limits.pids: differs from");
    put(directory, "b.textproto", "name: 'b' use: ['a', 'strict'] limits { pids: 8 }");
    CLEANUP(set_freep) struct policy_set *set = load(&directory, 1);
    assert_null(policy_set_find(set, "a"));
    assert_int_equal(policy_spec(policy_set_find(set, "b"))->limits.pids, 8);
    assert_int_equal(policy_spec(policy_set_find(set, "b"))->limits.output_files, 16);
    struct policy *policy = NULL;
    struct err err = {0};
    assert_true(policy_resolve("debian", &policy, &err) < 0);
    assert_non_null(strstr(err.text, "part: is for policies to use"));
}

/* One name in two paths is as wrong as twice in one. */
static void test_twice_within_paths(void **state)
{
    char *directory = *state;
    put(directory, "a.textproto", NAMED("mine"));
    char file[128];
    snprintf(file, sizeof file, "%s/a.textproto", directory);
    char *paths[] = {directory, file};
    assert_load_refused(paths, 2, "a.textproto", "is the name of");
    CLEANUP(set_freep) struct policy_set *one = load(paths + 1, 1);
    assert_non_null(policy_set_find(one, "mine"));
}

static void test_resolve(void **state)
{
    char *directory = *state;
    struct err err = {0};
    CLEANUP(policy_freep) struct policy *shipped = NULL;
    assert_int_equal(policy_resolve("strict", &shipped, &err), 0);
    assert_string_equal(policy_name(shipped), "strict");

    put(directory, "a.textproto", NAMED("mine"));
    char file[128];
    snprintf(file, sizeof file, "%s/a.textproto", directory);
    CLEANUP(policy_freep) struct policy *mine = NULL;
    assert_int_equal(policy_resolve(file, &mine, &err), 0);
    assert_string_equal(policy_name(mine), "mine");

    /* In the current directory its extension is enough, if it is there. */
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(directory), 0);
    CLEANUP(policy_freep) struct policy *near = NULL;
    struct policy *none = NULL;
    assert_int_equal(policy_resolve("a.textproto", &near, &err), 0);
    assert_string_equal(policy_name(near), "mine");
    assert_true(policy_resolve("b.textproto", &none, &err) < 0);
    assert_int_equal(err.kind, ERR_NOT_FOUND);
    err_clear(&err);
    assert_int_equal(chdir(here), 0);

    assert_true(policy_resolve("pyton", &none, &err) < 0);
    assert_int_equal(err.kind, ERR_NOT_FOUND);
    assert_string_equal(err.item, "pyton");
    assert_non_null(strstr(err.text, "did you mean python?"));
    err_clear(&err);
    assert_true(policy_resolve("./nonexistent", &none, &err) < 0);
    assert_true(err_is_set(&err));
}

/* What `immure run` has by default is no caller's to ask for. */
static void test_those_of_the_command_line(void **state)
{
    (void)state;
    CLEANUP(set_freep) struct policy_set *set = load(NULL, 0);
    static const char *const names[] = {"command", "shell"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        CLEANUP(policy_freep) struct policy *policy = NULL;
        assert_null(policy_set_find(set, names[i]));
        assert_int_equal(policy_resolve(names[i], &policy, NULL), 0);
        assert_string_equal(policy_name(policy), names[i]);
    }
    assert_non_null(policy_set_find(set, "python"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_those_of_the_command_line),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test_setup_teardown(test_directory_hides_shipped, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_refused, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_parts, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_twice_within_paths, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_resolve, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
