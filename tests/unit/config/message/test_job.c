/* config/message/job.c: what is freed, and in which states. Under ASan a leak or a double free fails this
 * test. */
#include "config/message/job.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_free_takes_null_and_half_built(void **state)
{
    (void)state;
    job_free(NULL);
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->files = calloc(2, sizeof *job->files);
    job->n_files = 2;
    job->files[0].path = strdup("a");
    job->args = calloc(3, sizeof *job->args);
    job->n_args = 3;
    job->args[1] = strdup("b");
    job_free(job);
}

static void test_status_words(void **state)
{
    (void)state;
    static const char *const words[] = {"success", "execution_error", "timeout",
                                        "oom",     "cancelled",       "setup_error"};
    for (int i = 0; i < JOB_STATUS_COUNT; i++) {
        assert_string_equal(job_status_to_string((enum job_status)i), words[i]);
    }
    assert_string_equal(job_status_to_string((enum job_status)99), "unknown");
}

static void test_clear_closes_what_is_open(void **state)
{
    (void)state;
    struct job_result result = {.status = JOB_OOM, .policy = strdup("python")};
    result.files = calloc(2, sizeof *result.files);
    assert_non_null(result.files);
    result.n_files = 2;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    result.files[0].fd = fd;
    result.files[1].fd = -1;
    job_result_clear(&result);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    assert_null(result.files);
    assert_int_equal(result.n_files, 0);
    job_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_takes_null_and_half_built),
        cmocka_unit_test(test_status_words),
        cmocka_unit_test(test_clear_closes_what_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
