/* server/cli/report.c: one JSON object, with the names and units of a reply. */
#include "server/cli/report.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/format/json.h"
#include "config/message/job.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"

static char *text(const char *constant)
{
    return (char *)(uintptr_t)constant;
}

static void test_all_fields(void **state)
{
    (void)state;
    struct job_denied_call call = {text("mknod(S_IFBLK)"), 1};
    struct job_denied denied[] = {{text("mknod"), 2, &call, 1}, {text("?"), 1, NULL, 0}};
    const struct job_result result = {
        .status = JOB_OOM,
        .exit_code = 137,
        .signal = SIGKILL,
        .oom = true,
        .setup_ns = 1234567,
        .duration_ns = 2000000000,
        .has_cpu = true,
        .cpu_ns = 5000999,
        .has_memory_peak = true,
        .memory_peak_bytes = UINT64_C(1) << 40,
        .denied = denied,
        .n_denied = 2,
        .limits = {.memory_bytes = 64},
        .enforced_by_cgroup = true,
        .policy = text("py\"thon"),
        .policy_sha256 = text("ab"),
        .error_text = text("Memory limit of 64 bytes exceeded."),
        .hint = text("denied\n"),
    };
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    report_write(&result, &json);
    assert_string_equal(
        json.data,
        "{\"status\":\"oom\",\"exit_code\":137,\"signal\":\"SIGKILL\",\"killed\":false,\"oom\":true,"
        "\"setup_ms\":1.234,\"duration_ms\":2000.000,"
        "\"usage\":{\"cpu_ms\":5.000,\"memory_peak_bytes\":1099511627776,\"pids_peak\":null},"
        "\"denied_syscalls\":[{\"name\":\"mknod\",\"count\":2,"
        "\"calls\":[{\"call\":\"mknod(S_IFBLK)\",\"count\":1}]},{\"name\":\"?\",\"count\":1}],"
        "\"hint\":\"denied\\n\","
        "\"step\":null,\"error_message\":\"Memory limit of 64 bytes exceeded.\","
        "\"limits\":{\"memory_bytes\":64,\"pids\":null,\"cpu_percent\":null,\"cpu_ms\":null,\"timeout_ms\":"
        "null,"
        "\"scratch_bytes\":null},\"enforced_by\":\"cgroup2\",\"policy\":\"py\\\"thon\",\"policy_sha256\":"
        "\"ab\"}\n");
}

static void test_setup_error_is_json_too(void **state)
{
    (void)state;
    const struct job_result result = {.status = JOB_SETUP_ERROR,
                                      .exit_code = -1,
                                      .step = text("step 7 (bind /usr)"),
                                      .error_text = text("x\n\xff")};
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    struct json_doc *doc = NULL;
    report_write(&result, &json);
    assert_int_equal(json_parse(json.data, json.len, &doc, NULL), 0);
    int64_t exit_code = 0;
    assert_true(json_i64(json_get(json_root(doc), "exit_code"), &exit_code));
    assert_int_equal(exit_code, -1);
    assert_string_equal(json_string(json_get(json_root(doc), "status")), "setup_error");
    assert_string_equal(json_string(json_get(json_root(doc), "step")), "step 7 (bind /usr)");
    assert_string_equal(json_string(json_get(json_root(doc), "error_message")), "x\n\xef\xbf\xbd");
    assert_int_equal(json_type_of(json_get(json_get(json_root(doc), "usage"), "cpu_ms")), JSON_NULL);
    assert_string_equal(json_string(json_get(json_root(doc), "enforced_by")), "rlimit");
    json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_setup_error_is_json_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
