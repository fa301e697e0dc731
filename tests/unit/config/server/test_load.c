/* config/server/load.c and config/server/config_message.c: what a configuration file gives, what is refused
 * and where, and that the packed form gives the same. */
#include "config/server/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/format/digest.h"
#include "config/format/wire.h"
#include "config/server/server.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/io.h"

#define SHA_A  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B  "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
#define KEY_A  "key { name: 'a' sha256: '" SHA_A "' } "
#define PYTHON "runtime { name: 'python' interpreter: '/usr/bin/python3' policy: 'python' } "

static char *const no_env[] = {NULL};

struct directory {
    char path[64], file[96];
};

static int make_directory(void **state)
{
    static struct directory directory;
    strcpy(directory.path, "/tmp/immure-config-XXXXXX");
    *state = &directory;
    return mkdtemp(directory.path) ? 0 : -1;
}

static int remove_directory(void **state)
{
    struct directory *directory = *state;
    return rmdir(directory->path);
}

static int load(struct directory *directory, const char *name, const void *data, size_t size,
                char *const *env, struct server_config **ret, struct err *reterr)
{
    snprintf(directory->file, sizeof directory->file, "%s/%s", directory->path, name);
    FILE *file = fopen(directory->file, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    int r = server_config_load(directory->file, env, ret, reterr);
    assert_int_equal(unlink(directory->file), 0);
    return r;
}

static struct server_config *accepted(void **state, const char *text)
{
    struct err err = {0};
    struct server_config *config = NULL;
    if (load(*state, "s.textproto", text, strlen(text), no_env, &config, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return config;
}

static void test_defaults(void **state)
{
    struct server_config *config = accepted(state, KEY_A);
    assert_string_equal(config->listen, "127.0.0.1:9099");
    assert_string_equal(config->environment, "production");
    assert_int_equal(config->default_timeout_ms, 30000);
    assert_int_equal(config->max_timeout_ms, 60000);
    assert_int_equal(config->drain_timeout_ms, 65000);
    assert_int_equal(config->drain_idle_ms, 2000);
    assert_int_equal(config->max_concurrent_jobs, 4);
    assert_false(config->cgroup_best_effort);
    assert_int_equal(config->n_policy_paths, 0);
    assert_string_equal(config->default_runtime, "python");
    assert_int_equal(config->max_body_bytes, 32 << 20);
    assert_int_equal(config->max_output_bytes, 524288);
    assert_int_equal(config->log_level, LOG_INFO);
    assert_int_equal(config->log_format, LOG_FORMAT_LOGFMT);
    assert_string_equal(config->audit_log, "");
    assert_int_equal(config->outer_uid_base, 1879048192);
    assert_false(config->metrics_open);
    assert_false(config->console);
    assert_false(config->open);
    assert_int_equal(config->n_keys, 1);
    assert_string_equal(config->keys[0]->name, "a");
    assert_int_equal(config->keys[0]->sha256[31], 0xaa);
    /* No runtime named: the shipped one. */
    assert_int_equal(config->n_runtimes, 4);
    const struct runtime_config *python = server_config_runtime(config, "py");
    assert_ptr_equal(python, &config->runtimes[0]);
    assert_ptr_equal(python, server_config_runtime(config, "python3"));
    assert_ptr_equal(python, server_config_runtime(config, "python"));
    assert_null(server_config_runtime(config, "perl"));
    assert_string_equal(python->interpreter, "python3");
    assert_string_equal(python->extension, "py");
    assert_string_equal(python->policy, "python");
    assert_int_equal(python->template_max_jobs, 2000);
    assert_int_equal(python->template_ttl_ms, 600000);
    server_config_free(config);
}

/* As long as the longest job may take, where nobody has said how long. */
static void test_drain_timeout(void **state)
{
    static const struct {
        const char *text;
        uint64_t drain_timeout_ms;
    } rows[] = {
        {KEY_A "max_timeout_ms: 600000", 605000},
        {KEY_A "max_timeout_ms: 86400000", 86400000},
        {KEY_A "max_timeout_ms: 600000 drain_timeout_ms: 30000", 30000},
        {KEY_A "max_timeout_ms: 600000 drain_timeout_ms: 65000", 65000},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct server_config *config = accepted(state, rows[i].text);
        assert_int_equal(config->drain_timeout_ms, rows[i].drain_timeout_ms);
        server_config_free(config);
    }
}

static const char everything[] =
    "listen: '[::1]:0' environment: 'staging' default_timeout_ms: 1 max_timeout_ms: 2 max_concurrent_jobs: "
    "3\n"
    "cgroup: BEST_EFFORT policy_path: ['/etc/immure/policies', 'mine.textproto'] default_runtime: 'sh'\n"
    "max_body_bytes: 4096 max_header_bytes: 2048 header_timeout_ms: 4 request_timeout_ms: 5 idle_timeout_ms: "
    "6 max_connections: "
    "7\n"
    "drain_timeout_ms: 0 drain_idle_ms: 22 metrics_open: true console: true log_format: JSON log_level: "
    "DEBUG "
    "audit_log: '/var/log/audit' audit_log_bytes: 15 audit_code_bytes: 16 audit_keep_files: 17 "
    "audit_keep_days: "
    "18 audit_on_failure: STOP\n"
    "outer_uid_base: 100000 max_output_bytes: 9 front_timeout_ms: 8 max_connections_per_address: 10\n"
    "max_unread_bytes: 2048 max_unread_bytes_per_key: 1025 reply_stall_ms: 21\n"
    "session_ttl_ms: 10 max_sessions: 11 session_bytes: 65536 session_inodes: 16 "
    "session_directory: '/var/kept' session_free_bytes: 17 max_session_bytes_total: 27 "
    "session_evict_after_ms: 28\n"
    "max_kernels: 18 kernel_interrupt_grace_ms: 19 kernel_idle_cpu_ms: 20\n"
    "kept_job_ttl_ms: 12 max_kept_jobs: 13 max_kept_bytes: 1024 stream_heartbeat_ms: 14\n"
    "approval_directory: '/var/approvals' approval_expiry_ms: 18 max_approvals_per_key: 19 max_approvals: "
    "20\n"
    "max_approval_job_bytes: 2021 max_approval_bytes: 2022 max_approval_wait_ms: 23\n"
    "queue_ms: 24 mcp_queue_ms: 25 max_queue_ms: 26 max_queued_jobs: 27 callback_margin_ms: 28\n"
    "memory_free_bytes: 24 memory_free_percent: 25 kernel_memory_percent: 26\n"
    "template_scope: TEAM max_templates: 27 max_image_templates: 9 max_image_template_bytes: 5MiB sub_uids: "
    "false\n"
    "shipped_runtimes: false\n"
    "runtime { name: 'python' alias: 'py' interpreter: '/usr/bin/python3' arg: ['-I', ''] extension: 'py' "
    "policy: 'p' self_test: 'pass' self_test_output: 'out' }\n"
    "runtime { name: 'sh' interpreter: '/bin/sh' policy: 'q' kernel: '/k' template_max_jobs: 24 "
    "template_ttl_ms: 25 }\n"
    "key { name: 'a' sha256: '" SHA_A "' policy: ['p', 'q'] runtime: 'py' max_concurrent_jobs: 2 "
    "max_sessions: 3 team: 't' max_jobs_per_minute: 4 max_timeout_ms: 5 expires: '2027-01-31' "
    "max_memory_bytes: 1048576 max_pids: 7 max_cpu_percent: 8 max_cpu_ms: 9 max_scratch_bytes: 4096 "
    "max_output_bytes: 10 approver: true }\n"
    "team { name: 't' enabled: true max_concurrent_jobs: 6 } team { name: 'u' }\n"
    "key { name: 'b' sha256: '" SHA_B "' }\n";

static void check_everything(const struct server_config *config)
{
    assert_string_equal(config->listen, "[::1]:0");
    assert_string_equal(config->environment, "staging");
    assert_int_equal(config->default_timeout_ms, 1);
    assert_int_equal(config->max_timeout_ms, 2);
    assert_int_equal(config->max_concurrent_jobs, 3);
    assert_true(config->cgroup_best_effort);
    assert_int_equal(config->n_policy_paths, 2);
    assert_string_equal(config->policy_paths[1], "mine.textproto");
    assert_string_equal(config->default_runtime, "sh");
    assert_int_equal(config->max_body_bytes, 4096);
    assert_int_equal(config->max_header_bytes, 2048);
    assert_int_equal(config->header_timeout_ms, 4);
    assert_int_equal(config->request_timeout_ms, 5);
    assert_int_equal(config->idle_timeout_ms, 6);
    assert_int_equal(config->max_connections, 7);
    assert_int_equal(config->drain_timeout_ms, 0);
    assert_int_equal(config->drain_idle_ms, 22);
    assert_string_equal(config->session_directory, "/var/kept");
    assert_int_equal(config->session_free_bytes, 17);
    assert_int_equal(config->max_session_bytes_total, 27);
    assert_int_equal(config->session_evict_after_ms, 28);
    assert_true(config->metrics_open);
    assert_true(config->console);
    assert_int_equal(config->log_format, LOG_FORMAT_JSON);
    assert_int_equal(config->log_level, LOG_DEBUG);
    assert_string_equal(config->audit_log, "/var/log/audit");
    assert_int_equal(config->audit_log_bytes, 15);
    assert_int_equal(config->audit_code_bytes, 16);
    assert_int_equal(config->audit_keep_files, 17);
    assert_int_equal(config->audit_keep_days, 18);
    assert_true(config->audit_stop);
    assert_int_equal(config->outer_uid_base, 100000);
    assert_int_equal(config->max_output_bytes, 9);
    assert_int_equal(config->front_timeout_ms, 8);
    assert_int_equal(config->max_connections_per_address, 10);
    assert_int_equal(config->max_unread_bytes, 2048);
    assert_int_equal(config->max_unread_bytes_per_key, 1025);
    assert_int_equal(config->reply_stall_ms, 21);
    assert_int_equal(config->session_ttl_ms, 10);
    assert_int_equal(config->max_sessions, 11);
    assert_int_equal(config->session_bytes, 65536);
    assert_int_equal(config->session_inodes, 16);
    assert_int_equal(config->max_kernels, 18);
    assert_int_equal(config->kernel_interrupt_grace_ms, 19);
    assert_int_equal(config->kernel_idle_cpu_ms, 20);
    assert_string_equal(config->runtimes[0].kernel, "");
    assert_string_equal(config->runtimes[1].kernel, "/k");
    assert_string_equal(config->runtimes[0].self_test, "pass");
    assert_string_equal(config->runtimes[1].self_test, "");
    assert_string_equal(config->runtimes[0].self_test_output, "out");
    assert_int_equal(config->runtimes[1].template_max_jobs, 24);
    assert_int_equal(config->runtimes[1].template_ttl_ms, 25);
    assert_int_equal(config->kept_job_ttl_ms, 12);
    assert_int_equal(config->max_kept_jobs, 13);
    assert_int_equal(config->max_kept_bytes, 1024);
    assert_int_equal(config->stream_heartbeat_ms, 14);
    assert_string_equal(config->approval_directory, "/var/approvals");
    assert_int_equal(config->approval_expiry_ms, 18);
    assert_int_equal(config->max_approvals_per_key, 19);
    assert_int_equal(config->max_approvals, 20);
    assert_int_equal(config->max_approval_job_bytes, 2021);
    assert_int_equal(config->max_approval_bytes, 2022);
    assert_int_equal(config->max_approval_wait_ms, 23);
    assert_int_equal(config->queue_ms, 24);
    assert_int_equal(config->mcp_queue_ms, 25);
    assert_int_equal(config->max_queue_ms, 26);
    assert_int_equal(config->max_queued_jobs, 27);
    assert_int_equal(config->callback_margin_ms, 28);
    assert_int_equal(config->memory_free_bytes, 24);
    assert_int_equal(config->memory_free_percent, 25);
    assert_int_equal(config->kernel_memory_percent, 26);
    assert_int_equal(config->template_scope, TEMPLATE_SCOPE_TEAM);
    assert_int_equal(config->max_templates, 27);
    assert_int_equal(config->max_image_templates, 9);
    assert_int_equal(config->max_image_template_bytes, 5 << 20);
    assert_false(config->sub_uids);
    assert_true(config->keys[0]->approver);
    assert_false(config->keys[1]->approver);
    assert_int_equal(config->n_runtimes, 2);
    assert_int_equal(config->runtimes[0].n_args, 2);
    assert_string_equal(config->runtimes[0].args[0], "-I");
    assert_string_equal(config->runtimes[0].args[1], "");
    assert_string_equal(config->runtimes[1].extension, "txt");
    assert_int_equal(config->n_keys, 2);
    assert_string_equal(config->keys[0]->team, "t");
    assert_int_equal(config->keys[0]->max_jobs_per_minute, 4);
    assert_int_equal(config->keys[0]->max.timeout_ms, 5);
    assert_int_equal(config->keys[0]->max.memory_bytes, 1048576);
    assert_int_equal(config->keys[0]->max.pids, 7);
    assert_int_equal(config->keys[0]->max.cpu_percent, 8);
    assert_int_equal(config->keys[0]->max.cpu_ms, 9);
    assert_int_equal(config->keys[0]->max.scratch_bytes, 4096);
    assert_int_equal(config->keys[0]->max.output_bytes, 10);
    assert_ptr_equal(server_config_key(config, "a"), config->keys[0]);
    assert_null(server_config_key(config, "c"));
    assert_null(server_config_key(config, NULL));
    assert_int_equal(config->keys[0]->expires_s, 1801353600);
    assert_string_equal(config->keys[1]->team, "");
    assert_int_equal(config->keys[1]->expires_s, 0);
    assert_int_equal(config->n_teams, 2);
    assert_true(server_config_team(config, "t")->enabled);
    assert_int_equal(server_config_team(config, "t")->max_concurrent_jobs, 6);
    assert_false(server_config_team(config, "u")->enabled);
    assert_null(server_config_team(config, "v"));
    assert_int_equal(config->keys[0]->n_policies, 2);
    assert_string_equal(config->keys[0]->policies[1], "q");
    assert_string_equal(config->keys[0]->runtimes[0], "py");
    assert_int_equal(config->keys[0]->max_concurrent_jobs, 2);
    assert_int_equal(config->keys[0]->max_sessions, 3);
    assert_int_equal(config->keys[1]->max_sessions, 0);
    assert_int_equal(config->keys[1]->sha256[0], 0xbb);
    assert_int_equal(config->keys[1]->max_concurrent_jobs, 0);
    assert_false(config->open);
}

static void test_every_field_and_packed(void **state)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT, again = BUF_INIT;
    struct err err = {0};
    struct server_config *config = accepted(state, everything), *unpacked = NULL;
    check_everything(config);
    assert_int_equal(server_config_encode(config, &packed, &err), 0);
    if (server_config_decode(packed.data, packed.len, &unpacked, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    check_everything(unpacked);
    assert_int_equal(server_config_encode(unpacked, &again, &err), 0);
    assert_int_equal(packed.len, again.len);
    assert_memory_equal(packed.data, again.data, again.len);
    server_config_free(config);
    server_config_free(unpacked);
}

/* A packed configuration is as good as any other binary one, so ".binpb" reads it; JSON says the same. */
static void test_other_forms(void **state)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    struct err err = {0};
    struct server_config *config = accepted(state, everything), *other = NULL;
    assert_int_equal(server_config_encode(config, &packed, &err), 0);
    assert_int_equal(load(*state, "s.binpb", packed.data, packed.len, no_env, &other, &err), 0);
    check_everything(other);
    server_config_free(other);
    server_config_free(config);
    static const char json[] =
        "{\"listen\": \"unix:/run/immure.sock\", \"maxConcurrentJobs\": 2, \"key\": [{\"name\": "
        "\"a\", \"sha256\": \"" SHA_A "\"}]}";
    assert_int_equal(load(*state, "s.json", json, sizeof json - 1, no_env, &other, &err), 0);
    assert_string_equal(other->listen, "unix:/run/immure.sock");
    assert_int_equal(other->max_concurrent_jobs, 2);
    server_config_free(other);
    assert_int_equal(load(*state, "s.binpb", "\x0a", 1, no_env, &other, &err), -EINVAL);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, ((struct directory *)*state)->file);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *place, *message;
    } cases[] = {
        {"listne: 'x'", ":1:1", "Server has no field \"listne\"; did you mean listen?"},
        {"listen: 'localhost'", ":1:9",
         "listen: must be HOST:PORT, [HOST]:PORT or unix:/PATH, not \"localhost\"; did you mean "
         "localhost:9099?"},
        {"listen: ':80'", ":1:9", "listen: names no host; 0.0.0.0:80 listens on all addresses"},
        {"listen: '::1:80'", ":1:9",
         "listen: must be HOST:PORT, [HOST]:PORT or unix:/PATH, not \"::1:80\"; did you mean [::1]:80?"},
        {"listen: 'a:65536'", ":1:9", "listen: the port must be a number from 0 to 65535, not \"65536\""},
        {"listen: 'a:'", ":1:9", "listen: the port must be a number from 0 to 65535, not \"\""},
        {"listen: 'a:+1'", ":1:9", "listen: the port must be a number from 0 to 65535, not \"+1\""},
        {"listen: 'http://a:1'", ":1:9",
         "listen: must be HOST:PORT, [HOST]:PORT or unix:/PATH, not \"http://a:1\""},
        {"listen: 'unix:run'", ":1:9", "listen: must be an absolute path"},
        {"environment: ''", ":1:14", "environment: must not be empty"},
        {"environment: 'a b'", ":1:14",
         "environment: may hold letters, digits and any of \"_.-\", nothing else"},
        {"max_timeout_ms: 0", ":1:17", "max_timeout_ms: must be 1 to 86400000, not 0"},
        {"default_timeout_ms: 60001", ":1:21", "default_timeout_ms: must be 1 to 60000, not 60001"},
        {"default_timeout_ms: 0", ":1:21", "default_timeout_ms: must be 1 to 60000, not 0"},
        {"max_concurrent_jobs: 0", ":1:22", "max_concurrent_jobs: must be 1 to 4096, not 0"},
        {"max_body_bytes: 1", ":1:17", "max_body_bytes: must be 1024 to 1073741824, not 1"},
        {"outer_uid_base: 0", ":1:17", "outer_uid_base: must be 1000 to 4294901759, not 0"},
        {"cgroup: NONE", ":1:9", "cgroup: CgroupMode has no value NONE; it has BEST_EFFORT, REQUIRED"},
        {"policy_path: ''", ":1:14", "policy_path[0]: must not be empty"},
        {"shipped_runtimes: false", "", "default_runtime: there is no runtime \"python\""},
        {"default_runtime: 'perl'", ":1:18", "default_runtime: there is no runtime \"perl\""},
        {"\ndefault_runtime: 'isolate'", ":2:18",
         "default_runtime: \"isolate\" runs no programs: it is the evaluator of POST /run-code"},
        {"runtime { name: 'a' interpreter: '/a' policy: 'p' evaluator: true }\n"
         "runtime { name: 'b' interpreter: '/b' policy: 'p' evaluator: true }",
         ":2:62", "runtime[1].evaluator: runtime \"a\" is the evaluator of POST /run-code already"},
        {"runtime { name: 'a' interpreter: '/a' policy: 'p' self_test_output: '42' }", ":1:69",
         "runtime[0].self_test_output: there is no self_test that would print it; add one"},
        {PYTHON PYTHON, ":1:93", "runtime[1].name: \"python\" names two runtimes"},
        {"runtime { name: 'python' alias: 'python' interpreter: '/a' policy: 'p' }", ":1:33",
         "runtime[0].alias[0]: \"python\" names this runtime already"},
        {"runtime { name: 'python' interpreter: 'bin/python3' policy: 'p' }", ":1:39",
         "runtime[0].interpreter: must be an absolute path"},
        {"runtime { name: 'python' interpreter: 'python 3' policy: 'p' }", ":1:39",
         "runtime[0].interpreter: may hold letters, digits and any of \"+-._\", nothing else"},
        {"runtime { name: 'python' interpreter: '/usr/../x' policy: 'p' }", ":1:39",
         "runtime[0].interpreter: must not hold \".\" or \"..\""},
        {"runtime { name: 'p y' interpreter: '/a' policy: 'p' }", ":1:17",
         "runtime[0].name: may hold letters, digits and any of \"_.+-\", nothing else"},
        {"runtime { name: 'python' interpreter: '/a' policy: 'p' template_ttl_ms: 31536000001 }", ":1:73",
         "runtime[0].template_ttl_ms: must be at most 31536000000"},
        {"runtime { name: 'python' interpreter: '/a' policy: 'P' }", ":1:52",
         "runtime[0].policy: may hold small letters, digits and any of \"_-\", nothing else"},
        {"runtime { name: 'python' interpreter: '/a' policy: 'p' extension: 'a/b' }", ":1:67",
         "runtime[0].extension: may hold letters and digits, nothing else"},
        {"key { name: 'a' }", ":1:17", "key[0]: required field \"sha256\" is missing"},
        {"key { name: 'a' sha256: 'ab' }", ":1:25", "key[0].sha256: must be 64 hexadecimal digits"},
        {KEY_A "key { name: 'a' sha256: '" SHA_B "' }", ":1:106",
         "key[1].name: \"a\" is the name of two keys"},
        {KEY_A "key { name: 'b' sha256: '" SHA_A "' }", ":1:118",
         "key[1].sha256: \"a\" and \"b\" are the same key"},
        {"key { name: 'a' sha256: '" SHA_A "' runtime: 'perl' }", ":1:101",
         "key[0].runtime[0]: there is no runtime \"perl\""},
        {"key { name: 'a' sha256: '" SHA_A "' policy: 'A' }", ":1:100",
         "key[0].policy[0]: may hold small letters, digits and any of \"_-\", nothing else"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        struct server_config *config = NULL;
        assert_int_equal(
            load(*state, "s.textproto", cases[i].text, strlen(cases[i].text), no_env, &config, &err),
            -EINVAL);
        assert_null(config);
        assert_int_equal(err.kind, ERR_CONFIG);
        const char *place = strrchr(err.item, 'o') ? strrchr(err.item, 'o') + 1 : "";
        if (strcmp(place, cases[i].place) != 0 || strcmp(err.text, cases[i].message) != 0) {
            fail_msg("%s\n%s | %s", cases[i].text, err.item, err.text);
        }
    }
}

/* Not given, the default follows a smaller maximum. */
static void test_default_timeout_follows_maximum(void **state)
{
    struct server_config *config = accepted(state, KEY_A "max_timeout_ms: 500");
    assert_int_equal(config->default_timeout_ms, 500);
    server_config_free(config);
}

/* Whoever names a file of keys wants callers to have one: it may be empty, and opens nothing then. */
static void test_an_empty_file_of_keys(void **state)
{
    static const char *const environments[] = {"production", "dev", "test"};
    for (size_t i = 0; i < ARRAY_SIZE(environments); i++) {
        char text[96];
        snprintf(text, sizeof text, "environment: '%s' key_file: '/dev/null'", environments[i]);
        struct server_config *config = accepted(state, text), *unpacked = NULL;
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        assert_false(config->open);
        assert_int_equal(config->n_keys, 0);
        assert_int_equal(server_config_encode(config, &packed, NULL), 0);
        assert_int_equal(server_config_decode(packed.data, packed.len, &unpacked, NULL), 0);
        assert_false(unpacked->open);
        server_config_free(unpacked);
        server_config_free(config);
    }
}

static void test_without_a_key(void **state)
{
    static const char *const local[] = {"development", "dev", "local", "test"};
    struct err err = {0};
    struct server_config *config = NULL;
    assert_int_equal(load(*state, "s.textproto", "", 0, no_env, &config, &err), -EINVAL);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, "SANDBOX_EXECUTOR_SERVICE_API_KEY");
    err_clear(&err);
    assert_int_equal(load(*state, "s.textproto", "environment: 'Dev'", 18, no_env, &config, &err), -EINVAL);
    for (size_t i = 0; i < ARRAY_SIZE(local); i++) {
        char text[64];
        snprintf(text, sizeof text, "environment: '%s'", local[i]);
        config = accepted(state, text);
        assert_true(config->open);
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        struct server_config *unpacked = NULL;
        assert_int_equal(server_config_encode(config, &packed, NULL), 0);
        assert_int_equal(server_config_decode(packed.data, packed.len, &unpacked, NULL), 0);
        assert_true(unpacked->open);
        server_config_free(unpacked);
        server_config_free(config);
        /* With a key it is closed there too. */
        snprintf(text, sizeof text, "environment: '%s' ", local[i]);
        char closed[256];
        snprintf(closed, sizeof closed, "%s%s", text, KEY_A);
        config = accepted(state, closed);
        assert_false(config->open);
        server_config_free(config);
    }
}

static void test_shipped_runtimes_stay(void **state)
{
    struct server_config *config =
        accepted(state, KEY_A "runtime { name: 'mine' alias: ['js', 'bash'] interpreter: '/m' policy: 'p' }");
    const struct runtime_config *mine = &config->runtimes[0];
    assert_int_equal(config->n_runtimes, 4); /* mine, python, node, isolate */
    assert_ptr_equal(mine, server_config_runtime(config, "js"));
    assert_ptr_equal(mine, server_config_runtime(config, "bash"));
    assert_null(server_config_runtime(config, "sh"));
    assert_string_equal(server_config_runtime(config, "javascript")->name, "node");
    assert_string_equal(server_config_runtime(config, "nodejs")->name, "node");
    assert_false(mine->optional);
    assert_false(server_config_runtime(config, "python")->optional); /* the default one */
    server_config_free(config);
    config = accepted(state, KEY_A "default_runtime: 'mine' "
                                   "runtime { name: 'mine' interpreter: '/m' policy: 'p' }"
                                   "runtime { name: 'node' interpreter: '/n' policy: 'p' }"
                                   "runtime { name: 'own' interpreter: '/e' policy: 'p' evaluator: true }");
    assert_int_equal(config->n_runtimes, 5); /* and python, bash */
    assert_true(server_config_runtime(config, "python")->optional);
    assert_string_equal(server_config_runtime(config, "node")->interpreter, "/n");
    assert_null(server_config_runtime(config, "isolate"));
    server_config_free(config);
}

static void test_missing_file(void **state)
{
    (void)state;
    struct err err = {0};
    struct server_config *config = NULL;
    assert_int_equal(server_config_load("/nonexistent/s.textproto", no_env, &config, &err), -ENOENT);
    assert_int_equal(err.kind, ERR_CONFIG);
    assert_string_equal(err.item, "/nonexistent/s.textproto");
    assert_string_equal(err.text, "cannot be read: No such file or directory: there is no /nonexistent");
}

/* An enum in a binary message can hold any number; the front must not take it either. */
static void test_hostile_packed(void **state)
{
    (void)state;
    static char name[] = "a", sha256[] = SHA_A;
    Immure__Key key = IMMURE__KEY__INIT, *keys[] = {&key};
    key.name = name;
    key.sha256 = sha256;
    for (int field = 0; field < 4; field++) {
        CLEANUP(buf_free) struct buf packed = BUF_INIT;
        struct err err = {0};
        struct server_config *config = NULL;
        Immure__Server server = IMMURE__SERVER__INIT;
        server.n_key = 1;
        server.key = keys;
        server.has_cgroup = server.has_log_format = server.has_log_level = true;
        *(field == 0   ? (int *)&server.cgroup
          : field == 1 ? (int *)&server.log_format
                       : (int *)&server.log_level) = field == 3 ? -1 : 99;
        assert_int_equal(wire_pack(&server.base, &packed), 0);
        assert_true(server_config_decode(packed.data, packed.len, &config, &err) < 0);
        assert_null(config);
    }
    struct err err = {0};
    struct server_config *config = NULL;
    assert_int_equal(server_config_decode("junk", 4, &config, &err), -EBADMSG);
    assert_int_equal(err.kind, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drain_timeout),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_field_and_packed),
        cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_default_timeout_follows_maximum),
        cmocka_unit_test(test_without_a_key),
        cmocka_unit_test(test_an_empty_file_of_keys),
        cmocka_unit_test(test_shipped_runtimes_stay),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_hostile_packed),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
