/* policy/learn/record.c, trace.c and walk.c: a real program, watched. */
#include "policy/learn/record.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "policy/filter/names.h"
#include "policy/learn/learn.h"
#include "policy/learn/observed.h"

static char directory[] = "/tmp/immure-record-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) && chdir(directory) == 0 && symlink("in", "link") == 0 ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1; // NOLINT(concurrency-mt-unsafe,cert-env33-c)
}

static int run(struct observed *observed, const char *script)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)script, NULL};
    char *env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
    CLEANUP(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct record_options options = {.argv = argv, .env = env, .stdin_fd = null, .stdout_fd = null};
    struct err err = {0};
    int status = -1;
    if (record_run(&options, observed, &status, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_false(observed->failed);
    assert_false(observed->unreadable);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static unsigned how(const struct observed *observed, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : directory, name[0] == '/' ? "" : "/", name);
    const struct observed_path *found = observed_find(observed, path);
    return found ? found->how : 0;
}

static uint64_t count(const struct observed *observed, const char *call)
{
    uint64_t n = 0;
    for (size_t i = 0; i < observed->n_calls; i++) {
        n += observed->calls[i].nr == policy_syscall_number(call, NULL) ? observed->calls[i].count : 0;
    }
    return n;
}

static void test_a_program(void **state)
{
    (void)state;
    struct observed observed = {0};
    assert_int_equal(run(&observed, "echo x >in; cat link absent; exit 7"), 7);
    observed_sort(&observed);
    assert_string_equal(observed.cwd, directory);
    assert_true(how(&observed, "in") & PATH_CREATED);
    assert_true(how(&observed, "in") & PATH_READ);
    assert_int_equal(how(&observed, "link"), PATH_LINK);
    assert_int_equal(how(&observed, "absent"), 0);
    assert_true(how(&observed, "/usr/bin/cat") & PATH_PROGRAM);
    assert_true(count(&observed, "execve") >= 2);
    assert_true(count(&observed, "read") > 0);
    assert_true(observed.tasks_peak >= 2);
    assert_true(observed.memory_peak > 0 && observed.address_peak >= observed.memory_peak);
    observed_clear(&observed);
}

/* A link is as good as a reading of what it links to. */
static void test_a_second_name(void **state)
{
    (void)state;
    struct observed observed = {0};
    assert_int_equal(system("echo x >first"), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c)
    assert_int_equal(run(&observed, "ln first second"), 0);
    observed_sort(&observed);
    assert_true(how(&observed, "first") & PATH_READ);
    assert_int_equal(how(&observed, "second"), PATH_CREATED);
    observed_clear(&observed);
}

/* The interpreter of a script, and the loader of that, are opened by the kernel. */
static void test_starters(void **state)
{
    (void)state;
    struct observed observed = {0};
    size_t n_starters = 0;
    assert_int_equal(run(&observed, "printf '#!/bin/sh\\nexit 3\\n' >script; chmod 755 script; ./script"), 3);
    observed_sort(&observed);
    assert_true(how(&observed, "script") & PATH_PROGRAM);
    for (size_t i = 0; i < observed.n_paths; i++) {
        const struct observed_path *path = &observed.paths[i];
        n_starters += path->how & PATH_EXECUTED && strstr(path->path, "/ld-") != NULL;
    }
    assert_int_equal(n_starters, 1);
    observed_clear(&observed);
}

/* What it leaves behind ends with it, and two runs are one notebook. */
static void test_ends(void **state)
{
    (void)state;
    struct observed observed = {0};
    assert_int_equal(run(&observed, "sleep 1000 & echo $! >pid"), 0);
    /* Also what is a grandchild when the program ends. */
    assert_int_equal(run(&observed, "(sleep 1000 & echo >up; wait; true) & while ! test -e up; do :; done"),
                     0);
    assert_int_equal(run(&observed, "kill -TERM $$"), 128 + 15);
    assert_int_equal(run(&observed, "kill -0 $(cat pid) 2>/dev/null"), 1);
    observed_sort(&observed);
    assert_true(count(&observed, "kill") >= 2);
    observed_clear(&observed);
}

static void shell(const char *format, const char *place)
{
    char command[256];
    snprintf(command, sizeof command, format, place); // NOLINT(clang-diagnostic-format-nonliteral)
    assert_int_equal(system(command), 0);             // NOLINT(concurrency-mt-unsafe,cert-env33-c)
}

static void test_secrets_beside(void **state)
{
    (void)state;
    struct observed observed = {0};
    char place[] = "/var/tmp/immure-record-XXXXXX", path[128];
    assert_non_null(mkdtemp(place));
    setenv("HOME", directory, 1); // NOLINT(concurrency-mt-unsafe)
    shell("cd %s && mkdir -p app/conf && touch app/a app/conf/.env", place);
    snprintf(path, sizeof path, "ls %s/app; cat link", place);
    assert_int_equal(run(&observed, path), 0);
    learn_find_secrets(&observed);
    snprintf(path, sizeof path, "%s/app/conf/.env", place);
    assert_int_equal(how(&observed, path), PATH_SECRET);
    snprintf(path, sizeof path, "%s/app", place);
    assert_false(how(&observed, path) & PATH_SECRET);
    assert_true(how(&observed, "in") & PATH_SECRET);
    shell("rm -r %s", place);
    observed_clear(&observed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program),      cmocka_unit_test(test_a_second_name),
        cmocka_unit_test(test_starters),       cmocka_unit_test(test_ends),
        cmocka_unit_test(test_secrets_beside),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
