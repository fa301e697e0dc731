/* config/policy/policy_use.c: what policies come to that use others, and what is refused, with both places.
 */
#include <linux/errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define WORK "mount { destination: '/w' scratch { directory: WORK } } working_directory: '/w' "
#define OPEN "seccomp { default_action: ALLOW } "

static const char *const names[] = {"a.textproto", "b.textproto", "c.textproto",     "d.json",
                                    "p.textproto", "q.textproto", "python.textproto"};

static int make_directory(void **state)
{
    char *path = strdup("/tmp/immure-use-XXXXXX");
    *state = path;
    return path && mkdtemp(path) ? 0 : -1;
}

static void clear(const char *directory)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char file[128];
        snprintf(file, sizeof file, "%s/%s", directory, names[i]);
        unlink(file);
    }
}

static int remove_directory(void **state)
{
    clear(*state);
    int r = rmdir(*state);
    free(*state);
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

static void spec_freep(struct policy_spec **spec)
{
    policy_spec_free(*spec);
}

static struct policy_spec *load(const char *directory, const char *name)
{
    char path[128];
    struct policy_spec *spec = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (policy_spec_load(path, &spec, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return spec;
}

/* `place`: the end of the error's item. */
static void assert_refused(const char *directory, const char *name, const char *place, const char *words)
{
    char path[128];
    struct policy_spec *spec = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (policy_spec_load(path, &spec, &err) == 0) {
        fail_msg("accepted, expected \"%s\"", words);
    }
    size_t item = strlen(err.item), tail = strlen(place);
    if (item < tail || strcmp(err.item + item - tail, place) != 0 || !strstr(err.text, words)) {
        fail_msg("refused with \"%s: %s\", expected \"%s: %s\"", err.item, err.text, place, words);
    }
}

static void test_together(void **state)
{
    const char *directory = *state;
    put(directory, "a.textproto",
        "name: 'a' part: true description: 'not taken' umask: 077\n" WORK
        "env { name: 'A' value: '1' } env { name: 'GONE' } limits { pids: 5 memory_bytes: 1048576 }\n"
        "rlimit { resource: CORE soft: 0 } preload: ['x', 'y']\n"
        "seccomp { rule { action: ALLOW syscall: ['read', 'write'] } rule { action: ALLOW set: '@poll' } }");
    put(directory, "d.json",
        "{\"name\": \"d\", \"part\": true, \"envAllow\": [\"B\"], \"umask\": 63, "
        "\"seccomp\": {\"defaultAction\": \"LOG\"}}");
    put(directory, "p.textproto",
        "name: 'p' use: ['a', 'd']\n"
        "without { env: 'GONE' rlimit: CORE preload: 'x' syscall: 'write' set: '@poll' }\n"
        "env { name: 'C' } limits { pids: 6 } mount { destination: '/x' tmpfs {} }\n"
        "seccomp { rule { action: ALLOW syscall: 'execve' } }");
    CLEANUP(spec_freep) struct policy_spec *spec = load(directory, "p.textproto");
    assert_string_equal(spec->name, "p");
    assert_null(spec->description);
    assert_int_equal(spec->umask, 077);
    assert_int_equal(spec->limits.pids, 6);
    assert_int_equal(spec->limits.memory_bytes, 1048576);
    assert_int_equal(spec->n_env, 2);
    assert_string_equal(spec->env[0].name, "A");
    assert_string_equal(spec->env[1].name, "C");
    assert_int_equal(spec->n_env_allow, 1);
    assert_int_equal(spec->n_rlimits, 0);
    assert_int_equal(spec->n_preload, 1);
    assert_int_equal(spec->n_mounts, 2);
    assert_string_equal(spec->mounts[1].destination, "/x");
    assert_int_equal(spec->seccomp_default, ACTION_LOG);
    assert_int_equal(spec->n_rules, 2);
    assert_int_equal(spec->rules[0].n_syscalls, 1);
    assert_string_equal(spec->rules[0].syscalls[0], "read");
    assert_string_equal(spec->rules[1].syscalls[0], "execve");

    /* Each is pointed at where it was written. */
    char place[SOURCE_PLACE_TEXT_MAX];
    assert_non_null(strstr(policy_where(spec, &spec->rules[0].at, place), "/a.textproto:4:16"));
    assert_non_null(strstr(policy_where(spec, &spec->rules[1].at, place), "/p.textproto:4:16"));
    assert_non_null(strstr(policy_where(spec, &spec->mounts[0].at, place), "/a.textproto:2:"));
}

/* The flat text is the same policy, and its sha256 is that of the text. */
static void test_flat_text(void **state)
{
    const char *directory = *state;
    char path[128];
    put(directory, "a.textproto",
        "name: 'a' part: true " WORK "env { name: 'A' value: 'q\"\\\\\\n\\001\xc3\xa9' } "
        "mount { destination: '/f' file { content: '\\377\\000x\\n' } }");
    put(directory, "p.textproto", "name: 'p' use: 'a' " OPEN);
    snprintf(path, sizeof path, "%s/p.textproto", directory);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(buf_free) struct buf again = BUF_INIT;
    assert_int_equal(policy_text_load(path, &text, NULL), 0);
    put(directory, "q.textproto", text.data);
    CLEANUP(spec_freep) struct policy_spec *used = load(directory, "p.textproto");
    CLEANUP(spec_freep) struct policy_spec *flat = load(directory, "q.textproto");
    assert_string_equal(used->sha256, flat->sha256);
    assert_string_equal(flat->env[0].value, "q\"\\\n\001\xc3\xa9");
    assert_string_equal(used->env[0].value, flat->env[0].value);
    assert_int_equal(flat->mounts[1].content_size, 4);
    assert_memory_equal(flat->mounts[1].content, "\377\000x\n", 4);
    assert_int_equal(policy_text_load(path, &again, NULL), 0);
    assert_string_equal(text.data, again.data);
    /* Comments and order of what is used are not the policy. */
    put(directory, "p.textproto", "# changed\nuse: 'a' name: 'p' " OPEN);
    CLEANUP(spec_freep) struct policy_spec *changed = load(directory, "p.textproto");
    assert_string_equal(used->sha256, changed->sha256);
}

/* By two ways it is there once; and an operator's own may be called as the shipped one that it changes. */
static void test_once_and_own_name(void **state)
{
    const char *directory = *state;
    clear(directory);
    put(directory, "c.textproto", "name: 'c' part: true umask: 7 " WORK "env { name: 'C' }");
    put(directory, "a.textproto", "name: 'a' part: true use: 'c' env { name: 'A' }");
    put(directory, "b.textproto", "name: 'b' part: true use: 'c' env { name: 'B' }");
    put(directory, "p.textproto", "name: 'p' use: ['a', 'b'] " OPEN);
    CLEANUP(spec_freep) struct policy_spec *spec = load(directory, "p.textproto");
    assert_int_equal(spec->n_env, 3);
    assert_int_equal(spec->n_mounts, 1);

    /* What has lost some by one way is there whole by the other. */
    put(directory, "c.textproto",
        "name: 'c' part: true " WORK "seccomp { rule { action: KILL_PROCESS syscall: ['ptrace', 'bpf'] } }");
    put(directory, "a.textproto", "name: 'a' part: true use: 'c' without { syscall: 'ptrace' }");
    put(directory, "b.textproto", "name: 'b' part: true use: 'c'");
    CLEANUP(spec_freep) struct policy_spec *cut = load(directory, "p.textproto");
    assert_int_equal(cut->n_rules, 2);
    assert_int_equal(cut->rules[0].n_syscalls + cut->rules[1].n_syscalls, 3);

    put(directory, "python.textproto", "name: 'python' use: 'python' limits { pids: 9 }");
    CLEANUP(spec_freep) struct policy_spec *own = load(directory, "python.textproto");
    assert_int_equal(own->limits.pids, 9);
    assert_true(own->n_rules > 20);
}

static void test_refused(void **state)
{
    static const struct {
        const char *a, *b,
            *p; /* the texts behind "name: 'a' part: true ", "name: 'b' part: true", "name: 'p' " */
        const char *place, *words;
    } rows[] = {
        {"", "", "use: 'pyton'", "p.textproto:1:16", "did you mean python?"},
        {"", "", "use: 'aa'", "p.textproto:1:16",
         "no policy or part \"aa\" is shipped or lies beside this file"},
        {"", "", "use: '../a'", "p.textproto:1:16", "is not the name of a policy"},
        {"", "", "use: ['a', 'a']", "p.textproto:1:22", "a is use[0] already"},
        {"use: 'b'", "use: 'a'", "use: 'a'", "b.textproto:1:27", "a uses this file in turn"},
        {"use: 'b'", "use: 'a'", "use: 'a'", "b.textproto:1:27", "a.textproto:1:27"},
        {"use: 'p'", "", "use: 'a'", "a.textproto:1:27", "p uses this file in turn"},
        {"umask: 1", "umask: 2", "use: ['a', 'b']", "b.textproto:1:29", "a.textproto:1:29; p uses both"},
        {"umask: 1", "umask: 2", "use: ['a', 'b']", "b.textproto:1:29", "umask: differs from"},
        {"limits { pids: 1 }", "limits { pids: 2 }", "use: ['a', 'b']", "b.textproto:1:37",
         "limits.pids: differs"},
        {"env { name: 'X' }", "env { name: 'X' }", "use: ['a', 'b'] " WORK OPEN, "b.textproto:1:34",
         "X is given by env[0] already ("},
        {"mount { destination: '/x' tmpfs {} }", "", "use: 'a' mount { destination: '/x' tmpfs {} } " OPEN,
         "p.textproto:1:41", "a.textproto:1:43)"},
        {"env { name: 'X' }", "", "use: 'a' without { env: 'Y' }", "p.textproto:1:35",
         "without.env[0]: takes nothing away: nothing that is used has the variable Y"},
        {"", "", "without { env: 'Y' }", "p.textproto:1:19", "without: needs `use`"},
        {"nonsense: 1", "", "use: 'a'", "a.textproto:1:22", "Policy has no field \"nonsense\""},
        {"limits { pids: 0 }", "", "use: 'a' " WORK OPEN, "a.textproto:1:37", "limits.pids: must be"},
    };
    const char *directory = *state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[512];
        clear(directory);
        snprintf(text, sizeof text, "name: 'a' part: true %s", rows[i].a);
        put(directory, "a.textproto", text);
        snprintf(text, sizeof text, "name: 'b' part: true %s", rows[i].b);
        put(directory, "b.textproto", text);
        snprintf(text, sizeof text, "name: 'p' %s", rows[i].p);
        put(directory, "p.textproto", text);
        assert_refused(directory, "p.textproto", rows[i].place, rows[i].words);
    }
    put(directory, "b.textproto", "name: 'c'");
    put(directory, "p.textproto", "name: 'p' use: 'b'");
    assert_refused(directory, "p.textproto", "p.textproto:1:16", "names itself \"c\"");
    put(directory, "b.textproto", "name: 'b' use: 'strict' use: 'b'");
    assert_refused(directory, "b.textproto", "b.textproto:1:30", "is shipped");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_flat_text),
        cmocka_unit_test(test_once_and_own_name),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
