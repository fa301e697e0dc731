/* Interpreters are found by name or path, asked once, and what they say is taken as it is. The ones asked
 * here are scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/host/interpreter.h"

#define END "echo end of answer\n"

static char place[] = "/tmp/immure-interpreter-XXXXXX";

static void write_script(const char *name, const char *text, char path[256])
{
    snprintf(path, 256, "%s/%s", place, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s", text);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static struct runtime_config runtime_of(const char *interpreter)
{
    return (struct runtime_config){.interpreter = strdup(interpreter)};
}

static bool needs(const struct runtime_config *runtime, const char *path, const char *target)
{
    for (size_t i = 0; i < runtime->n_needs; i++) {
        const struct interpreter_need *need = &runtime->needs[i];
        if (strcmp(need->path, path) == 0) {
            return target ? need->target && strcmp(need->target, target) == 0 : !need->target;
        }
    }
    return false;
}

static void test_names_and_paths(void **state)
{
    (void)state;
    char real[4096], path[256], link[256];
    struct err err = {0};
    struct runtime_config named = runtime_of("sh");
    assert_non_null(realpath("/usr/bin/sh", real));
    assert_int_equal(interpreter_locate(&named, &err), 0);
    assert_string_equal(named.interpreter, real);
    assert_string_equal(named.wanted, "sh");
    runtime_config_forget(&named);

    write_script("odd", "", path);
    struct runtime_config along = runtime_of("odd");
    assert_true(interpreter_locate(&along, &err) < 0);
    assert_string_equal(err.text, "there is no odd in /usr/bin, /usr/local/bin, /bin or along PATH");
    setenv("PATH", place, 1);
    assert_int_equal(interpreter_locate(&along, &err), 0);
    assert_string_equal(along.interpreter, path);
    runtime_config_forget(&along);

    snprintf(link, sizeof link, "%s/linked", place);
    assert_int_equal(symlink(path, link), 0);
    struct runtime_config pinned = runtime_of(link);
    assert_int_equal(interpreter_locate(&pinned, &err), 0);
    assert_string_equal(pinned.interpreter, link);
    assert_int_equal(interpreter_examine(&pinned, true, &err), 0);
    assert_true(needs(&pinned, link, NULL) && needs(&pinned, path, NULL));
    assert_string_equal(pinned.version, "");
    runtime_config_forget(&pinned);

    struct runtime_config absent = runtime_of("/no/such");
    err = (struct err){0};
    assert_true(interpreter_locate(&absent, &err) < 0);
    assert_string_equal(err.text, "/no/such is not there");
    runtime_config_forget(&absent);
}

static void test_answers(void **state)
{
    (void)state;
    char path[256];
    struct err err = {0};
    write_script(
        "python3",
        "[ -z \"$HOME\" ] && echo version 3.9.1; echo version 9.9; echo need /opt/lib; echo need relative\n"
        "echo need /opt/lib/below; echo startup /opt/lib.zip/sitecustomize.py\n" END,
        path);
    setenv("HOME", "/root", 1);
    struct runtime_config runtime = runtime_of(path), again = runtime_of(path);
    assert_int_equal(interpreter_examine(&runtime, true, &err), 0);
    assert_string_equal(runtime.version, "3.9.1");
    assert_string_equal(runtime.startup, "/opt/lib.zip/sitecustomize.py");
    assert_true(needs(&runtime, "/opt/lib", NULL));
    assert_int_equal(runtime.n_needs, 2);
    again.version = strdup("");
    assert_true(interpreter_remember(&again, &runtime));
    assert_string_equal(again.version, "3.9.1");
    assert_int_equal(again.n_needs, 2);
    runtime_config_forget(&again);

    write_script("python3", "echo version 3.10.1\n" END, path);
    struct runtime_config newer = runtime_of(path);
    newer.version = strdup("");
    assert_false(interpreter_remember(&newer, &runtime));
    runtime_config_forget(&newer);
    runtime_config_forget(&runtime);
}

static void test_what_does_not_answer(void **state)
{
    (void)state;
    static const char *const scripts[] = {"exit 1\n", "echo version 3.9.1\n", "kill -9 $$\n"};
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
        char path[256];
        struct err err = {0};
        write_script("node", scripts[i], path);
        struct runtime_config runtime = runtime_of(path);
        assert_true(interpreter_examine(&runtime, true, &err) < 0);
        assert_int_equal(err.kind, ERR_HOST);
        assert_non_null(strstr(err.text, "cannot be used: it does not say what it is"));
        runtime_config_forget(&runtime);
    }
}

/* A virtual environment of scripts, which says `answer` of its packages. */
static struct runtime_config environment_of(const char *answer)
{
    char path[256], script[1024];
    snprintf(path, sizeof path, "%s/bin", place);
    mkdir(path, 0755);
    snprintf(script, sizeof script,
             "case \"$2\" in -S) echo version 3.11.2 ;; -B) [ \"$6 $7\" = '%s numpy' ] || exit 1; %s ;; "
             "esac\n" END,
             place, answer);
    write_script("bin/python3", script, path);
    write_script("pyvenv.cfg", "", path);
    char **preload = calloc(1, sizeof *preload);
    assert_non_null(preload);
    preload[0] = strdup("numpy");
    struct runtime_config runtime = runtime_of("python3");
    runtime.python_environment = strdup(place);
    runtime.preload = preload;
    runtime.n_preload = 1;
    return runtime;
}

static void forget_environment(struct runtime_config *runtime)
{
    free(runtime->preload[0]);
    free(runtime->preload);
    free(runtime->python_environment);
    for (size_t i = 0; i < runtime->n_packages; i++) {
        free(runtime->packages[i]);
    }
    free(runtime->packages);
    runtime_config_forget(runtime);
}

static void test_packages(void **state)
{
    (void)state;
    static const char answer[] =
        "echo need /usr/share/data; echo link /etc/alternatives/lib /usr/lib/real; "
        "echo link /etc/alternatives/half; echo package numpy 1.24.2; echo package six 1.16";
    char python[256];
    struct err err = {0};
    struct runtime_config runtime = environment_of(answer), again = environment_of(answer);
    assert_int_equal(interpreter_locate(&runtime, &err), 0);
    snprintf(python, sizeof python, "%s/bin/python3", place);
    assert_string_equal(runtime.interpreter, python);
    assert_int_equal(interpreter_examine(&runtime, true, &err), 0);
    assert_true(needs(&runtime, place, NULL) && needs(&runtime, "/usr/share/data", NULL));
    assert_true(needs(&runtime, "/etc/alternatives/lib", "/usr/lib/real"));
    assert_false(needs(&runtime, "/etc/alternatives/half", NULL));
    assert_int_equal(runtime.n_packages, 2);
    assert_string_equal(runtime.packages[0], "numpy 1.24.2");

    assert_int_equal(interpreter_locate(&again, &err), 0);
    again.version = strdup("");
    assert_true(interpreter_remember(&again, &runtime));
    assert_int_equal(again.n_packages, 2);
    assert_int_equal(again.n_needs, runtime.n_needs);
    again.preload[0][0] = 'x';
    assert_false(interpreter_remember(&again, &runtime));
    forget_environment(&again);
    forget_environment(&runtime);
}

static void test_packages_that_cannot_be_had(void **state)
{
    (void)state;
    struct err err = {0};
    struct runtime_config refused = environment_of("echo refuse numpy reads /srv/x, which is not in there");
    assert_int_equal(interpreter_locate(&refused, &err), 0);
    assert_true(interpreter_examine(&refused, true, &err) < 0);
    assert_non_null(
        strstr(err.text, "bin/python3 cannot be used: numpy reads /srv/x, which is not in there"));
    forget_environment(&refused);

    static const struct {
        const char *environment, *interpreter, *words;
    } rows[] = {
        {"/usr", "python3", "/usr is no virtual environment that can be read (it has no pyvenv.cfg)"},
        {place, "python2.9", "/bin/python2.9 is not there, or cannot be executed"},
        {place, "/usr/bin/sh", "/bin/python is not there"},
        {"debian", "sh", "Debian's packages are for Debian's /usr/bin/python3, and not for /usr/bin/"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct runtime_config runtime = runtime_of(rows[i].interpreter);
        runtime.python_environment = strdup(rows[i].environment);
        err = (struct err){0};
        assert_true(interpreter_locate(&runtime, &err) < 0);
        assert_int_equal(err.kind, ERR_HOST);
        assert_non_null(strstr(err.text, rows[i].words));
        free(runtime.python_environment);
        runtime_config_forget(&runtime);
    }
}

/* Scripts in the place of Python and Node tell what they start; others are what they are. */
static void test_scripts_are_followed(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says, *leads_to; /* NULL: nowhere */
    } rows[] = {
        {"python-shim", "echo version 3.12.1\necho executable /usr/bin/env\n" END, "/usr/bin/env"},
        {"node-shim", "echo version 22.1.0\necho executable /usr/bin/env\n" END, "/usr/bin/env"},
        {"python-relative", "echo version 3.12.1\necho executable env\n" END, NULL},
        {"python-gone", "echo version 3.12.1\necho executable /no/such\n" END, NULL},
        {"python-silent", "echo version 3.12.1\n" END, NULL},
        {"python-broken", "exit 1\n", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char path[256];
        struct err err = {0};
        write_script(rows[i].name, rows[i].says, path);
        struct runtime_config runtime = runtime_of(path);
        int r = interpreter_locate(&runtime, &err);
        assert_int_equal(r == 0, rows[i].leads_to != NULL);
        assert_string_equal(runtime.interpreter, rows[i].leads_to ? rows[i].leads_to : path);
        assert_string_equal(runtime.wanted, path);
        assert_true(r == 0 || (err.kind == ERR_HOST && strstr(err.text, "cannot be used: ")));
        runtime_config_forget(&runtime);
        assert_int_equal(unlink(path), 0);
    }
}

static void test_programs_of_this_machine(void **state)
{
    (void)state;
    struct err err = {0};
    struct runtime_config runtime = runtime_of("/bin/sh");
    assert_int_equal(interpreter_locate(&runtime, &err), 0);
    assert_string_equal(runtime.interpreter, "/usr/bin/sh");
    assert_int_equal(interpreter_examine(&runtime, false, &err), 0);
    bool has_loader = false;
    for (size_t i = 0; i < runtime.n_needs; i++) {
        has_loader = has_loader || (runtime.needs[i].target && access(runtime.needs[i].target, X_OK) == 0);
    }
    assert_true(has_loader);
    runtime_config_forget(&runtime);
}

static int set_up(void **state)
{
    (void)state;
    /* root asks as nobody */
    return mkdtemp(place) && chmod(place, 0755) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"odd", "linked", "python3", "node", "pyvenv.cfg", "bin/python3"};
    char path[256];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof path, "%s/%s", place, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/bin", place);
    rmdir(path);
    return rmdir(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_paths),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_what_does_not_answer),
        cmocka_unit_test(test_scripts_are_followed),
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_packages_that_cannot_be_had),
        cmocka_unit_test(test_programs_of_this_machine),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
