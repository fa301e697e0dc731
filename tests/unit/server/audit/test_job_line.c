/* server/audit/job_line.c: one line, with what is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "config/message/job.h"
#include "server/audit/job_line.h"
#include "server/kit/log.h"

static void audit_line(const struct job_result *result, char *ret, size_t size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct log *log = log_new(fds[1], LOG_FORMAT_LOGFMT, LOG_INFO, "front");
    const struct audit_job job = {.key = "default",
                                  .request_id = "r",
                                  .execution_id = "e",
                                  .traceparent = "",
                                  .session_id = "s-1",
                                  .runtime = "python",
                                  .code_sha256 = "c0de",
                                  .total_ns = 2500000};
    audit_write(log, &job, result);
    ssize_t n = read(fds[0], ret, size - 1);
    assert_true(n > 0);
    ret[n] = '\0';
    close(fds[0]);
    close(fds[1]);
    log_free(log);
}

static void says_who_ran_what_and_how_it_ended(void **state)
{
    (void)state;
    char line[2048];
    struct job_result result = {.status = JOB_EXECUTION_ERROR,
                                .exit_code = 139,
                                .signal = SIGSEGV,
                                .duration_ns = 1500000,
                                .setup_ns = 500000,
                                .has_cpu = true,
                                .cpu_ns = 1000000,
                                .kernel = JOB_KERNEL_ENDED,
                                .policy = (char[]){"python"},
                                .policy_sha256 = (char[]){"beef"}};
    audit_line(&result, line, sizeof line);
    assert_null(strstr(line, "image="));
    assert_non_null(strstr(
        line,
        " level=info who=front event=audit key=default team=\"\" request_id=r execution_id=e "
        "traceparent=\"\" runtime=python code_sha256=c0de session_id=s-1 policy=python policy_sha256=beef "
        "status=execution_error exit_code=139 signal=SIGSEGV step=\"\" enforced_by=rlimit "
        "duration_ms=1.5 setup_ms=0.5 total_ms=2.5 denied_syscalls=0 cpu_ms=1 kernel=ended\n"));
}

static void leaves_out_what_the_host_cannot_tell(void **state)
{
    (void)state;
    char line[2048];
    struct job_result result = {.has_pids_peak = true, .pids_peak = 7};
    audit_line(&result, line, sizeof line);
    assert_non_null(strstr(line, " denied_syscalls=0 pids_peak=7\n"));
    assert_null(strstr(line, "memory_peak_bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_who_ran_what_and_how_it_ended),
        cmocka_unit_test(leaves_out_what_the_host_cannot_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
