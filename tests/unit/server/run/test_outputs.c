/* server/run/outputs.c: which files of a workspace a result names, and which come with their content. */
#include "server/run/outputs.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/message/job.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/plan/plan.h"
#include "jail/resources/scratch.h"
#include "server/run/collector.h"
#include "server/run/filler.h"

/* A directory stands in for the scratch: the functions work on any, and this needs no privilege. */
struct scratch {
    char path[64];
    int fd;
};

static int set_up(void **state)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    snprintf(scratch->path, sizeof scratch->path, "/tmp/immure-outputs-XXXXXX");
    if (!mkdtemp(scratch->path)) {
        return -1;
    }
    scratch->fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = scratch;
    return mkdirat(scratch->fd, SCRATCH_WORK, 0755);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    struct scratch *scratch = *state;
    int r = nftw(scratch->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    close(scratch->fd);
    free(scratch);
    return r;
}

static void put(const struct scratch *scratch, const char *path, const char *content)
{
    char full[256];
    snprintf(full, sizeof full, SCRATCH_WORK "/%s", path);
    for (char *slash = strchr(full, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdirat(scratch->fd, full, 0755);
        *slash = '/';
    }
    int fd = openat(scratch->fd, full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(io_write_full(fd, content, strlen(content)), 0);
    close(fd);
}

static struct job_result collect(const struct scratch *scratch, const struct scratch_list *before,
                                 const char *output, struct output_limits limits)
{
    char *outputs[] = {(char *)(uintptr_t)output};
    const struct job job = {.outputs = outputs, .n_outputs = output ? 1 : 0};
    const struct scratch_list none = {0};
    struct job_result result = {0};
    assert_int_equal(outputs_collect(scratch->fd, &job, before ? before : &none, &limits, &result, NULL), 0);
    return result;
}

static const struct output_limits plenty = {
    .files_max = 100, .file_bytes_max = 1000, .all_bytes_max = 100000};

static void test_an_empty_workspace(void **state)
{
    struct job_result result = collect(*state, NULL, "*", plenty);
    assert_int_equal(result.n_files, 0);
    assert_false(result.files_truncated);
}

static void test_asked_files_come_with_content(void **state)
{
    put(*state, "b.txt", "hello");
    put(*state, "a/x.png", "png");
    struct job_result result = collect(*state, NULL, "*.txt", plenty);
    assert_int_equal(result.n_files, 2);
    assert_string_equal(result.files[0].path, "a/x.png");
    assert_true(result.files[0].written && !result.files[0].asked);
    assert_int_equal(result.files[0].fd, -1);
    assert_string_equal(result.files[1].path, "b.txt");
    assert_true(result.files[1].written && result.files[1].asked);
    char content[8] = "";
    assert_int_equal(read(result.files[1].fd, content, sizeof content), 5);
    assert_string_equal(content, "hello");
    job_result_clear(&result);
}

/* A name with wildcard characters can be asked for as it is. */
static void test_a_literal_name(void **state)
{
    put(*state, "a[1].txt", "x");
    struct job_result result = collect(*state, NULL, "a[1].txt", plenty);
    assert_int_equal(result.n_files, 1);
    assert_true(result.files[0].asked);
    job_result_clear(&result);
}

/* What takes long is left to somebody else, and what takes too long is said to be cut off. */
static void test_what_takes_long(void **state)
{
    const struct scratch *scratch = *state;
    char slow[103], *outputs[] = {slow, slow, slow, slow, slow, slow, slow, slow};
    memset(slow, 'a', sizeof slow - 1);
    slow[0] = '*';
    memcpy(slow + sizeof slow - 2, "b", 2);
    const struct job job = {.outputs = outputs, .n_outputs = ARRAY_SIZE(outputs)};
    const struct scratch_list none = {0};
    struct job_result result = {0};
    char name[240];
    memset(name, 'a', sizeof name - 1);
    for (size_t i = 0; i < 40; i++) {
        snprintf(name + sizeof name - 8, 8, "-%zu", i);
        put(scratch, name, "");
    }
    assert_int_equal(outputs_collect_quick(scratch->fd, &job, &none, &plenty, &result, NULL), 1);
    assert_null(result.files);
    assert_int_equal(outputs_collect(scratch->fd, &job, &none, &plenty, &result, NULL), 0);
    assert_int_equal(result.n_files, 40);
    assert_false(result.files_truncated);
    job_result_clear(&result);
}

static void test_the_collector_finds_the_same(void **state)
{
    const struct scratch *scratch = *state;
    char *outputs[] = {(char *)(uintptr_t) "*.txt"};
    const struct job job = {.outputs = outputs, .n_outputs = 1};
    struct collector *collector;
    struct job_result result = {0};
    put(scratch, "a.txt", "hello");
    put(scratch, "b", "");
    assert_int_equal(collector_start(scratch->fd, &job, &FILLED_NOTHING, &plenty, &collector, NULL), 0);
    assert_int_equal(collector_end(collector, &result, NULL), 0);
    collector_free(collector);
    assert_int_equal(result.n_files, 2);
    assert_string_equal(result.files[0].path, "a.txt");
    assert_true(result.files[0].asked && result.files[0].fd >= 0);
    assert_string_equal(result.files[1].path, "b");
    assert_int_equal(result.files[1].fd, -1);
    job_result_clear(&result);
}

/* Whoever ends it (the kernel, for want of memory) ends no server. */
static void test_a_collector_that_is_killed(void **state)
{
    const struct scratch *scratch = *state;
    const struct job job = {0};
    struct collector *collector;
    struct job_result result = {0};
    struct err err = {0};
    CLEANUP(fd_closep) int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(collector_start(nothing, &job, &FILLED_NOTHING, &plenty, &collector, NULL), 0);
    assert_true(collector_end(collector, &result, &err) < 0);
    assert_true(err_is_set(&err));
    collector_free(collector);
    assert_int_equal(collector_start(scratch->fd, &job, &FILLED_NOTHING, &plenty, &collector, NULL), 0);
    collector_free(collector);
}

static void test_unchanged_inputs_are_not_outputs(void **state)
{
    const struct scratch *scratch = *state;
    CLEANUP(scratch_list_free) struct scratch_list before = {0};
    put(scratch, "same.csv", "1");
    put(scratch, "changed.csv", "1");
    put(scratch, "wanted.csv", "1");
    assert_int_equal(scratch_list(scratch->fd, 10, 1000, &before, NULL), 0);
    put(scratch, "changed.csv", "22");
    put(scratch, "new.csv", "3");
    struct job_result result = collect(scratch, &before, "wanted.csv", plenty);
    assert_int_equal(result.n_files, 3);
    assert_string_equal(result.files[0].path, "changed.csv");
    assert_true(result.files[0].written);
    assert_string_equal(result.files[1].path, "new.csv");
    assert_true(result.files[1].written);
    assert_string_equal(result.files[2].path, "wanted.csv");
    assert_true(result.files[2].asked && !result.files[2].written);
    assert_true(result.files[2].fd >= 0);
    job_result_clear(&result);
}

static void test_large_files_are_named_without_content(void **state)
{
    put(*state, "large", "12345");
    struct job_result result = collect(*state, NULL, "*", (struct output_limits){10, 4, 100, 0});
    assert_int_equal(result.n_files, 1);
    assert_true(result.files[0].asked);
    assert_int_equal(result.files[0].size, 5);
    assert_int_equal(result.files[0].fd, -1);
    job_result_clear(&result);
}

static void test_asked_files_come_before_others(void **state)
{
    put(*state, "a", "");
    put(*state, "b", "");
    put(*state, "z", "asked");
    struct job_result result = collect(*state, NULL, "z", (struct output_limits){2, 100, 100, 0});
    assert_int_equal(result.n_files, 2);
    assert_string_equal(result.files[0].path, "a");
    assert_string_equal(result.files[1].path, "z");
    assert_true(result.files[1].fd >= 0);
    assert_true(result.files_truncated);
    job_result_clear(&result);
}

/* What a sparse file or a second name claims costs the program nothing. */
static void test_content_in_all_is_limited(void **state)
{
    put(*state, "a", "12345");
    put(*state, "c", "123");
    const struct scratch *scratch = *state;
    assert_int_equal(linkat(scratch->fd, SCRATCH_WORK "/a", scratch->fd, SCRATCH_WORK "/b", 0), 0);
    struct job_result result = collect(scratch, NULL, "*", (struct output_limits){10, 100, 8, 0});
    assert_int_equal(result.n_files, 3);
    assert_true(result.files[0].fd >= 0);
    assert_int_equal(result.files[1].fd, -1);
    assert_true(result.files[2].fd >= 0);
    assert_true(result.files_truncated);
    job_result_clear(&result);
}

static void test_no_more_files_than_a_message_carries(void **state)
{
    for (int i = 0; i < IO_FDS_MAX + 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%03d", i);
        put(*state, name, "x");
    }
    struct job_result result = collect(*state, NULL, "*", plenty);
    size_t attached = 0;
    for (size_t i = 0; i < result.n_files; i++) {
        attached += result.files[i].fd >= 0;
    }
    assert_int_equal(result.n_files, IO_FDS_MAX + 2);
    assert_int_equal(attached, IO_FDS_MAX);
    assert_true(result.files_truncated);
    job_result_clear(&result);
}

static void test_links_lead_nowhere(void **state)
{
    const struct scratch *scratch = *state;
    assert_int_equal(symlinkat("/etc/passwd", scratch->fd, SCRATCH_WORK "/link"), 0);
    assert_int_equal(symlinkat("/etc", scratch->fd, SCRATCH_WORK "/dir"), 0);
    struct job_result result = collect(scratch, NULL, "dir/passwd", plenty);
    assert_int_equal(result.n_files, 0);
    result = collect(scratch, NULL, "link", plenty);
    assert_int_equal(result.n_files, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_an_empty_workspace),
        TEST(test_asked_files_come_with_content),
        TEST(test_what_takes_long),
        TEST(test_the_collector_finds_the_same),
        TEST(test_a_collector_that_is_killed),
        TEST(test_a_literal_name),
        TEST(test_unchanged_inputs_are_not_outputs),
        TEST(test_large_files_are_named_without_content),
        TEST(test_asked_files_come_before_others),
        TEST(test_content_in_all_is_limited),
        TEST(test_no_more_files_than_a_message_carries),
        TEST(test_links_lead_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
