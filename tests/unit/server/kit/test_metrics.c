/* server/kit/metrics.c: what a scrape reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "server/host/process_stats.h"
#include "server/kit/metrics.h"

static char *written(const struct metrics *metrics)
{
    struct buf text = BUF_INIT;
    metrics_write(metrics, &text);
    char *ret = buf_steal(&text);
    assert_non_null(ret);
    return ret;
}

static void assert_has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at++) {
        if ((at == text || at[-1] == '\n') && at[len] == '\n') {
            return;
        }
    }
    fail_msg("no line '%s' in:\n%s", line, text);
}

static size_t count_lines(const char *text, const char *prefix)
{
    size_t n = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        n += strncmp(line, prefix, strlen(prefix)) == 0;
    }
    return n;
}

static void starts_at_zero(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    char *text = written(metrics);
    assert_has_line(text, "immure_jobs_running 0");
    assert_has_line(text, "immure_front_restarts_total 0");
    assert_has_line(text, "immure_job_duration_seconds_bucket{le=\"+Inf\"} 0");
    assert_has_line(text, "immure_job_duration_seconds_count 0");
    assert_has_line(text, "# TYPE immure_jobs_total counter");
    assert_int_equal(count_lines(text, "immure_jobs_total{"), 0);
    assert_int_equal(count_lines(text, "# HELP "), METRIC_COUNT);
    assert_int_equal(count_lines(text, "# TYPE "), METRIC_COUNT);
    free(text);
    metrics_free(metrics);
}

static void counts_by_labels(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    metrics_add(metrics, METRIC_JOBS, "python", "success", 1);
    metrics_add(metrics, METRIC_JOBS, "python", "success", 1);
    metrics_add(metrics, METRIC_JOBS, "python", "timeout", 1);
    metrics_add(metrics, METRIC_JOB_CPU, NULL, NULL, 0.25);
    metrics_set(metrics, METRIC_BUILD_INFO, "1.0\"\\\n", "c", 1);
    char *text = written(metrics);
    assert_has_line(text, "immure_jobs_total{runtime=\"python\",status=\"success\"} 2");
    assert_has_line(text, "immure_jobs_total{runtime=\"python\",status=\"timeout\"} 1");
    assert_has_line(text, "immure_job_cpu_seconds_total 0.25");
    assert_has_line(text, "immure_build_info{version=\"1.0\\\"\\\\\\n\",commit=\"c\"} 1");
    free(text);
    metrics_free(metrics);
}

static void makes_histograms(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    metrics_observe(metrics, METRIC_JOB_DURATION, 0.001);
    metrics_observe(metrics, METRIC_JOB_DURATION, 0.3);
    metrics_observe(metrics, METRIC_JOB_DURATION, 100);
    char *text = written(metrics);
    assert_has_line(text, "immure_job_duration_seconds_bucket{le=\"0.001\"} 1");
    assert_has_line(text, "immure_job_duration_seconds_bucket{le=\"0.25\"} 1");
    assert_has_line(text, "immure_job_duration_seconds_bucket{le=\"0.5\"} 2");
    assert_has_line(text, "immure_job_duration_seconds_bucket{le=\"60\"} 2");
    assert_has_line(text, "immure_job_duration_seconds_bucket{le=\"+Inf\"} 3");
    assert_has_line(text, "immure_job_duration_seconds_sum 100.301");
    assert_has_line(text, "immure_job_duration_seconds_count 3");
    free(text);
    metrics_free(metrics);
}

static void bounds_the_number_of_series(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "call%d", i);
        metrics_add(metrics, METRIC_DENIED_SYSCALLS, name, NULL, 1);
    }
    char *text = written(metrics);
    assert_int_equal(count_lines(text, "immure_denied_syscalls_total{"), 257);
    assert_has_line(text, "immure_denied_syscalls_total{syscall=\"call255\"} 1");
    assert_has_line(text, "immure_denied_syscalls_total{syscall=\"other\"} 744");
    free(text);
    metrics_free(metrics);
}

static void reads_the_process(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    struct process_stats *stats;
    assert_int_equal(process_stats_new(&stats, NULL), 0);
    process_stats_update(stats, metrics);
    char *text = written(metrics);
    for (const char *const *name =
             (const char *const[]){"process_open_fds ", "process_max_fds ", "process_start_time_seconds ",
                                   "process_resident_memory_bytes ", "process_virtual_memory_bytes ", NULL};
         *name; name++) {
        char line[64];
        snprintf(line, sizeof line, "\n%s", *name);
        const char *at = strstr(text, line);
        assert_non_null(at);
        assert_true(strtod(at + strlen(line), NULL) >= 4);
    }
    assert_int_equal(count_lines(text, "process_cpu_seconds_total "), 1);
    free(text);
    process_stats_free(stats);
    metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_at_zero),    cmocka_unit_test(counts_by_labels),
        cmocka_unit_test(makes_histograms),  cmocka_unit_test(bounds_the_number_of_series),
        cmocka_unit_test(reads_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
