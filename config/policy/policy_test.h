/* struct policy_test: a file of tests of one policy, decoded and checked as far as the schema goes. Meanings
 * and defaults: config/policy/policy_test.proto. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/format/source.h"
#include "config/message/job.h"

struct err;

/* The value of one argument. */
struct policy_test_value {
    uint32_t number;
    uint64_t value;
    bool exact; /* a number, that stands for itself alone; else flags may be among others */
};

struct policy_test_call {
    char **calls;
    size_t n_calls;
    char **arguments;
    size_t n_arguments;
    struct policy_test_value *values; /* of each call, one behind the other: `n_arguments` each */
    char *answer;                     /* NULL: any */
    struct source_position at, answer_at;
};

struct policy_test_file {
    char *name, *content;
    size_t size;
};

struct policy_test_expect {
    bool has_status, has_exit_code;
    enum job_status status;
    uint32_t exit_code;
    char *signal;
    char *stdout_is, *stderr_is; /* NULL: anything */
    size_t stdout_size, stderr_size;
    char **stdout_has, **stderr_has, **denied;
    size_t n_stdout_has, n_stderr_has, n_denied;
    bool any_denied;
};

struct policy_test_run {
    char *name; /* NULL: none */
    char **argv;
    size_t n_argv;
    char *stdin_data; /* NULL: nothing */
    size_t stdin_size;
    struct policy_test_file *files;
    size_t n_files;
    char **env;
    size_t n_env;
    uint64_t timeout_ms, memory_bytes, cpu_ms, pids;
    struct policy_test_expect expect;
    struct source_position at;
};

struct policy_test {
    char *origin; /* the file's path */
    char *policy; /* a name, or the path of a file as it is opened */
    struct policy_test_call *refuse, *allow;
    size_t n_refuse, n_allow;
    struct policy_test_run *runs;
    size_t n_runs;
    struct source_position policy_at;
};

/* ERR_CONFIG with the place of what is wrong. */
int policy_test_load(const char *path, struct policy_test **ret, struct err *reterr);
void policy_test_free(struct policy_test *test);
