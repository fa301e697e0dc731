/* server/cli/run_job.c: options of `immure run` become a job, its files one anonymous file. */
#include "server/cli/run_job.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static void test_files_lie_behind_one_another(void **state)
{
    (void)state;
    char first[] = "/tmp/immure-run-XXXXXX", second[] = "/tmp/immure-run-XXXXXX";
    int fd = mkstemp(first), other = mkstemp(second);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_int_equal(write(other, "!", 1), 1);
    char one[64], two[64];
    snprintf(one, sizeof one, "in/a.txt=%s", first);
    snprintf(two, sizeof two, "b=%s", second);
    const struct run_options options = {.timeout_ms = 5, .files = {.items = {one, two}, .n = 2}};
    struct job *job = NULL;
    int input_fd = -1;
    assert_int_equal(run_job_make(&options, &job, &input_fd, NULL), 0);
    assert_int_equal(job->n_files, 2);
    assert_string_equal(job->files[0].path, "in/a.txt");
    assert_int_equal(job->files[0].offset, 0);
    assert_int_equal(job->files[0].size, 5);
    assert_string_equal(job->files[1].path, "b");
    assert_int_equal(job->files[1].offset, 5);
    assert_int_equal(job->files[1].size, 1);
    assert_int_equal(job->limits.timeout_ms, 5);
    char content[8] = "";
    assert_int_equal(pread(input_fd, content, sizeof content, 0), 6);
    assert_string_equal(content, "hello!");
    job_free(job);
    close(input_fd);
    close(fd);
    close(other);
    unlink(first);
    unlink(second);
}

static void test_variables(void **state)
{
    (void)state;
    const struct run_options options = {.env = {.items = {"A=1", "B=x=y", "C="}, .n = 3}};
    struct job *job = NULL;
    int input_fd = -1;
    assert_int_equal(run_job_make(&options, &job, &input_fd, NULL), 0);
    assert_int_equal(job->n_env, 3);
    assert_string_equal(job->env[1].name, "B");
    assert_string_equal(job->env[1].value, "x=y");
    assert_string_equal(job->env[2].value, "");
    assert_int_equal(input_fd, -1);
    job_free(job);
}

static void test_what_is_handed_on(void **state)
{
    (void)state;
    assert_int_equal(setenv("RUN_JOB_TEST", "its value", 1), 0);
    const struct run_options options = {.env = {.items = {"RUN_JOB_TEST"}, .n = 1},
                                        .out = {.items = {"*.txt", "a"}, .n = 2},
                                        .image = "tools"};
    struct job *job = NULL;
    int input_fd = -1;
    assert_int_equal(run_job_make(&options, &job, &input_fd, NULL), 0);
    assert_string_equal(job->env[0].name, "RUN_JOB_TEST");
    assert_string_equal(job->env[0].value, "its value");
    assert_int_equal(job->n_outputs, 2);
    assert_string_equal(job->outputs[1], "a");
    assert_string_equal(job->image, "tools");
    job_free(job);
}

static void expect_refused(const struct run_options *options, const char *item, const char *text)
{
    struct job *job = NULL;
    int input_fd = -1;
    struct err err = {0};
    assert_true(run_job_make(options, &job, &input_fd, &err) < 0);
    assert_null(job);
    assert_int_equal(input_fd, -1);
    assert_int_equal(err.kind, ERR_INVALID);
    assert_string_equal(err.item, item);
    assert_non_null(strstr(err.text, text));
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refused(&(struct run_options){.env = {.items = {"NO_SUCH_VARIABLE"}, .n = 1}}, "--env",
                   "NO_SUCH_VARIABLE is not set here");
    expect_refused(&(struct run_options){.env = {.items = {"=A"}, .n = 1}}, "--env", "NAME or NAME=VALUE");
    expect_refused(&(struct run_options){.out = {.items = {"/a"}, .n = 1}}, "--out", "working directory");
    expect_refused(&(struct run_options){.out = {.items = {""}, .n = 1}}, "--out", "working directory");
    expect_refused(&(struct run_options){.files = {.items = {"A"}, .n = 1}}, "--file", "NAME=PATH");
    expect_refused(&(struct run_options){.files = {.items = {"a=/nowhere/at/all"}, .n = 1}}, "--file",
                   "No such file");
    expect_refused(&(struct run_options){.files = {.items = {"a=/dev/null"}, .n = 1}}, "--file",
                   "not a regular file");
    expect_refused(&(struct run_options){.files = {.items = {"a=/tmp"}, .n = 1}}, "--file",
                   "not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_lie_behind_one_another),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_what_is_handed_on),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
