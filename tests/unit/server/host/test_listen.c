/* server/host/listen.c: which addresses there are, and what is bound. */
#include "server/host/listen.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "jail/base/err.h"

static const struct {
    const char *text, *host, *port, *path; /* host NULL: refused */
} addresses[] = {
    {"127.0.0.1:9099", "127.0.0.1", "9099", ""},
    {"127.0.0.1:0", "127.0.0.1", "0", ""},
    {"[::1]:80", "::1", "80", ""},
    {"localhost:65535", "localhost", "65535", ""},
    {"unix:/run/x.sock", "", "", "/run/x.sock"},
    {"", NULL, NULL, NULL},
    {"9099", NULL, NULL, NULL},
    {":9099", NULL, NULL, NULL},
    {"[]:9099", NULL, NULL, NULL},
    {"[::1:80", NULL, NULL, NULL},
    {"::1:80", NULL, NULL, NULL},
    {"host:", NULL, NULL, NULL},
    {"host:http", NULL, NULL, NULL},
    {"host:65536", NULL, NULL, NULL},
    {"host:-1", NULL, NULL, NULL},
    {"host: 80", NULL, NULL, NULL},
    {"unix:", NULL, NULL, NULL},
    {"unix:relative", NULL, NULL, NULL},
};

static void test_parse(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        struct listen_address address;
        struct err err = {0};
        print_message("'%s'\n", addresses[i].text);
        int r = listen_parse(addresses[i].text, &address, &err);
        if (!addresses[i].host) {
            assert_true(r < 0);
            assert_int_equal(err.kind, ERR_CONFIG);
            assert_string_equal(err.item, "listen");
            continue;
        }
        assert_int_equal(r, 0);
        assert_string_equal(address.host, addresses[i].host);
        assert_string_equal(address.port, addresses[i].port);
        assert_string_equal(address.path, addresses[i].path);
        assert_int_equal(address.is_unix, addresses[i].path[0] != '\0');
    }
}

static void test_long_paths_are_refused(void **state)
{
    (void)state;
    char text[200];
    struct listen_address address;
    memset(text, 'x', sizeof text);
    memcpy(text, "unix:/", 6);
    text[sizeof text - 1] = '\0';
    assert_true(listen_parse(text, &address, NULL) < 0);
}

static void test_port_zero_tells_the_real_one(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int fd = -1;
    char bound[LISTEN_TEXT_BYTES];
    assert_int_equal(listen_open("127.0.0.1:0", &fd, bound, NULL), 0);
    assert_int_equal(strncmp(bound, "127.0.0.1:", 10), 0);
    assert_true(atoi(bound + 10) > 0);

    /* and it is taken now */
    struct err err = {0};
    int other = -1;
    char other_bound[LISTEN_TEXT_BYTES];
    assert_int_equal(listen_open(bound, &other, other_bound, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "another process"));
}

static void test_ipv6_is_written_in_brackets(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int fd = -1;
    char bound[LISTEN_TEXT_BYTES];
    struct err err = {0};
    if (listen_open("[::1]:0", &fd, bound, &err) < 0) {
        print_message("no IPv6 here: %s\n", err.text);
        skip();
    }
    assert_int_equal(strncmp(bound, "[::1]:", 6), 0);
}

static void test_unix_socket(void **state)
{
    (void)state;
    char directory[] = "/tmp/immure-listen-XXXXXX";
    char text[128], bound[LISTEN_TEXT_BYTES];
    struct err err = {0};
    int first = -1, second = -1;
    assert_non_null(mkdtemp(directory));
    snprintf(text, sizeof text, "unix:%s/s", directory);
    assert_int_equal(listen_open(text, &first, bound, NULL), 0);
    assert_string_equal(bound, text);

    /* somebody listens: refused; nobody any more: replaced */
    assert_int_equal(listen_open(text, &second, bound, &err), -EADDRINUSE);
    close(first);
    assert_int_equal(listen_open(text, &second, bound, NULL), 0);
    close(second);
    listen_forget(text);
    assert_int_equal(rmdir(directory), 0);
}

static void test_other_files_are_never_replaced(void **state)
{
    (void)state;
    char path[] = "/tmp/immure-listen-XXXXXX";
    char text[128], bound[LISTEN_TEXT_BYTES];
    struct err err = {0};
    struct stat st;
    int fd = mkstemp(path), listener = -1;
    snprintf(text, sizeof text, "unix:%s", path);
    assert_int_equal(listen_open(text, &listener, bound, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "no socket"));
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    close(fd);
    unlink(path);

    err = (struct err){0};
    snprintf(text, sizeof text, "unix:%s/s", path);
    assert_int_equal(listen_open(text, &listener, bound, &err), -ENOENT);
    assert_non_null(strstr(err.text, "that directory does not exist"));
}

static void says_whom_a_caller_asks(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"127.0.0.1:9099", "127.0.0.1:9099"}, {"[::1]:80", "[::1]:80"}, {"unix:/run/x", "localhost"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct listen_address address = {0};
        char host[LISTEN_TEXT_BYTES];
        assert_int_equal(listen_parse(rows[i][0], &address, NULL), 0);
        listen_host(&address, host);
        assert_string_equal(host, rows[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_whom_a_caller_asks),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_long_paths_are_refused),
        cmocka_unit_test(test_port_zero_tells_the_real_one),
        cmocka_unit_test(test_ipv6_is_written_in_brackets),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_other_files_are_never_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
