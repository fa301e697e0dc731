/* server/host/floor.c: when the host is short of memory, and who has grown most. */
#include "server/host/floor.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

#define MIB (UINT64_C(1) << 20)

/* A file in the place of /proc/meminfo. */
struct host {
    char path[64];
    int fd;
    struct floor floor;
};

static void say(const struct host *host, const char *text)
{
    assert_int_equal(ftruncate(host->fd, 0), 0);
    assert_int_equal(pwrite(host->fd, text, strlen(text), 0), strlen(text));
}

static void say_memory(const struct host *host, unsigned available_mib, unsigned kernel_mib)
{
    char text[256];
    snprintf(text, sizeof text,
             "MemTotal:       1024000 kB\nMemFree:            1 kB\nMemAvailable:   %u kB\nSlab:  1 "
             "kB\nSUnreclaim:  %u kB\n",
             available_mib * 1024, kernel_mib * 1024);
    say(host, text);
}

static int set_up(void **state)
{
    struct host *host = calloc(1, sizeof *host);
    snprintf(host->path, sizeof host->path, "/tmp/immure-floor-XXXXXX");
    host->fd = mkstemp(host->path);
    *state = host;
    say_memory(host, 900, 10);
    return floor_open(&host->floor, host->path, NULL);
}

static int tear_down(void **state)
{
    struct host *host = *state;
    floor_close(&host->floor);
    close(host->fd);
    unlink(host->path);
    free(host);
    return 0;
}

/* 1,000 MiB in all: a floor of 100 MiB, and 200 MiB for the kernel. */
static const struct floor_limits limits = {.free_bytes = 50 * MIB, .free_percent = 10, .kernel_percent = 20};

static void test_passed_and_over(void **state)
{
    struct host *host = *state;
    static const struct {
        unsigned available_mib, kernel_mib;
        bool passed;
    } looks[] = {
        {900, 10, false}, {101, 10, false}, {99, 10, true},    {101, 10, true},
        {124, 10, true},  {126, 10, false}, {101, 10, false},  {900, 199, false},
        {900, 201, true}, {900, 180, true}, {900, 174, false}, {900, 199, false},
        {99, 201, true},  {900, 201, true}, {99, 10, true},    {900, 10, false},
    };
    int64_t growth;
    for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
        say_memory(host, looks[i].available_mib, looks[i].kernel_mib);
        assert_int_equal(floor_look(&host->floor, &limits, &growth), looks[i].passed);
    }
}

static void test_the_larger_of_two(void **state)
{
    struct host *host = *state;
    int64_t growth;
    const struct floor_limits bytes = {.free_bytes = 300 * MIB, .free_percent = 10}, none = {0};
    say_memory(host, 299, 900);
    assert_true(floor_look(&host->floor, &bytes, &growth));
    assert_int_equal(floor_free_bytes(&host->floor, &bytes), 300 * MIB);
    assert_int_equal(floor_free_bytes(&host->floor, &limits), 1024000 / 10 * 1024);
    say_memory(host, 0, 1000);
    assert_false(floor_look(&host->floor, &none, &growth));
}

static void test_growth(void **state)
{
    struct host *host = *state;
    static const unsigned kernel_mib[] = {10, 30, 25, 25, 27};
    static const int grown_mib[] = {0, 20, -5, 0, 2};
    int64_t growth;
    for (size_t i = 0; i < ARRAY_SIZE(kernel_mib); i++) {
        say_memory(host, 900, kernel_mib[i]);
        floor_look(&host->floor, &limits, &growth);
        assert_true(growth == grown_mib[i] * (int64_t)MIB);
    }
}

/* What it cannot read changes nothing. */
static void test_what_says_nothing(void **state)
{
    struct host *host = *state;
    int64_t growth;
    say_memory(host, 99, 10);
    assert_true(floor_look(&host->floor, &limits, &growth));
    say(host, "MemTotal: 5 kB\n");
    assert_true(floor_look(&host->floor, &limits, &growth));
    say(host, "");
    assert_true(floor_look(&host->floor, &limits, &growth));
    floor_close(&host->floor);
    assert_true(floor_look(&host->floor, &limits, &growth));
}

static void test_blame_follows_cpu_time(void **state)
{
    (void)state;
    struct floor_account accounts[3] = {{.cpu_ns = 100}, {.cpu_ns = 0}, {.cpu_ns = 50}};
    struct floor_candidate candidates[] = {
        {.account = &accounts[0], .cpu_ns = 400}, /* 300 since */
        {.account = &accounts[1], .cpu_ns = 100},
        {.account = &accounts[2], .cpu_ns = 50}, /* it slept */
    };
    floor_blame(candidates, 3, 1000, 5000);
    assert_int_equal(accounts[0].blamed_bytes, 750);
    assert_int_equal(accounts[1].blamed_bytes, 250);
    assert_int_equal(accounts[2].blamed_bytes, 0);
    for (size_t i = 0; i < 3; i++) {
        candidates[i].cpu_ns = accounts[i].cpu_ns;
    }
    floor_blame(candidates, 3, 1000, 5000); /* none of them has run */
    assert_int_equal(accounts[0].blamed_bytes, 750);
    floor_blame(NULL, 0, 1000, 5000);
    floor_blame(candidates, 3, -5000, 5000); /* half of it has been given back */
    assert_int_equal(accounts[0].blamed_bytes, 375);
    assert_int_equal(accounts[1].blamed_bytes, 125);
}

static void test_who_has_grown_most(void **state)
{
    (void)state;
    struct floor_account accounts[3] = {{.blamed_bytes = 5}, {.blamed_bytes = 900}, {.blamed_bytes = 0}};
    struct floor_candidate candidates[] = {{.account = &accounts[0], .memory_bytes = 100},
                                           {.account = &accounts[1], .memory_bytes = 1},
                                           {.account = &accounts[2], .memory_bytes = 901}};
    assert_int_equal(floor_choose(candidates, 3), 1);
    accounts[1].blamed_bytes = 899;
    assert_int_equal(floor_choose(candidates, 3), 2);
    accounts[1].blamed_bytes = 900;
    assert_int_equal(floor_choose(candidates, 2), 1);
    assert_int_equal(floor_choose(candidates, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_passed_and_over),   TEST(test_the_larger_of_two),      TEST(test_growth),
        TEST(test_what_says_nothing), TEST(test_blame_follows_cpu_time), TEST(test_who_has_grown_most),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
