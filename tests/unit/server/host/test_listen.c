/* server/host/listen.c: which addresses there are, and what is bound. */
#include "server/host/listen.h"

#include <errno.h>
#include <fcntl.h>
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

/* Descriptor 3, for as long as a test plays the service manager; cmocka and libraries may have something
 * there already. */
struct handed {
    int saved;
};

static struct handed hand_over(int fd, const char *pid, const char *fds)
{
    struct handed handed = {.saved = fcntl(3, F_DUPFD_CLOEXEC, 10)};
    char own[16];
    CLEANUP(fd_closep) int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 10) : -1; /* `fd` may be 3 */
    snprintf(own, sizeof own, "%d", (int)getpid());
    close(3);
    if (copy >= 0) {
        assert_int_equal(dup2(copy, 3), 3);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    if (pid) {
        setenv("LISTEN_PID", strcmp(pid, "own") == 0 ? own : pid, 1);
    }
    if (fds) {
        setenv("LISTEN_FDS", fds, 1);
    }
    setenv("LISTEN_FDNAMES", "immure.socket", 1);
    return handed;
}

static void take_back(struct handed handed)
{
    close(3);
    if (handed.saved >= 0) {
        dup2(handed.saved, 3);
        close(handed.saved);
    }
    assert_null(getenv("LISTEN_PID"));
    assert_null(getenv("LISTEN_FDS"));
    assert_null(getenv("LISTEN_FDNAMES"));
}

static void takes_the_socket_of_a_service_manager(void **state)
{
    (void)state;
    static const struct {
        const char *pid, *fds;
        int r;
        const char *text; /* of the error */
    } rows[] = {
        {"own", "1", 1, NULL},
        {NULL, NULL, 0, NULL},
        {"own", NULL, 0, NULL},
        {NULL, "1", 0, NULL},
        {"1", "1", 0, NULL},
        {"1", "rubbish", 0, NULL},
        {"own", "0", 0, NULL},
        {"own", "2", -EINVAL, "'2': the server listens on one socket"},
        {"own", "", -EINVAL, "'': expected a number of descriptors"},
        {"own", "-1", -EINVAL, "'-1': expected"},
        {"own", "1x", -EINVAL, "'1x': expected"},
        {"own", "99999999999999999999", -EINVAL, "expected"},
        {"own", "4294967297", -EINVAL, "expected"},
        {"", "1", -EINVAL, "'': expected the number of a process"},
        {"0", "1", -EINVAL, "'0': expected"},
        {"self", "1", -EINVAL, "'self': expected"},
        {"4294967296", "1", -EINVAL, "expected"},
    };
    char bound[LISTEN_TEXT_BYTES];
    int listener = -1;
    assert_int_equal(listen_open("127.0.0.1:0", &listener, bound, NULL), 0);
    assert_int_equal(fcntl(listener, F_SETFL, 0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = {0};
        int fd = -1;
        struct handed handed = hand_over(listener, rows[i].pid, rows[i].fds);
        int r = listen_inherited(&fd, &err);
        int flags = fcntl(3, F_GETFD), status = fcntl(3, F_GETFL);
        take_back(handed);
        print_message("%s, %s\n", rows[i].pid, rows[i].fds);
        assert_int_equal(r, rows[i].r);
        assert_int_equal(fd, r == 1 ? 3 : -1);
        assert_int_equal(err.kind, rows[i].text ? ERR_CONFIG : ERR_NONE);
        assert_true(!rows[i].text || strstr(err.text, rows[i].text));
        assert_true(r != 1 || ((flags & FD_CLOEXEC) && (status & O_NONBLOCK)));
    }
    close(listener);
}

static void takes_nothing_that_nobody_can_connect_to(void **state)
{
    (void)state;
    int silent = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    int file = open("/dev/null", O_RDONLY);
    const int fds[] = {silent, datagrams, file, -1};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        struct err err = {0};
        int fd = -1;
        struct handed handed = hand_over(fds[i], "own", "1");
        int r = listen_inherited(&fd, &err);
        take_back(handed);
        assert_true(r < 0);
        assert_string_equal(err.item, "LISTEN_FDS");
        assert_non_null(strstr(err.text, fds[i] < 0 ? "is not open" : "is no listening stream socket"));
    }
    close(silent);
    close(datagrams);
    close(file);
}

static void holds_the_socket_against_the_address(void **state)
{
    (void)state;
    char bound[LISTEN_TEXT_BYTES], told[LISTEN_TEXT_BYTES];
    CLEANUP(fd_closep) int fd = -1;
    assert_int_equal(listen_open("127.0.0.1:0", &fd, bound, NULL), 0);
    const char *const others[] = {"127.0.0.1:1", "0.0.0.0:0", "[::]:0", "127.0.0.2:0", "unix:/run/x"};
    assert_int_equal(listen_check(bound, fd, told, NULL), 0);
    assert_string_equal(told, bound);
    assert_int_equal(listen_check("127.0.0.1:0", fd, told, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        struct err err = {0};
        assert_int_equal(listen_check(others[i], fd, told, &err), -EINVAL);
        assert_string_equal(err.item, "listen");
        assert_non_null(strstr(err.text, others[i]));
        assert_non_null(strstr(err.text, bound));
    }
}

static void holds_a_unix_socket_against_its_path(void **state)
{
    (void)state;
    char directory[] = "/tmp/immure-listen-XXXXXX";
    char text[128], bound[LISTEN_TEXT_BYTES];
    struct err err = {0};
    CLEANUP(fd_closep) int fd = -1;
    assert_non_null(mkdtemp(directory));
    snprintf(text, sizeof text, "unix:%s/s", directory);
    assert_int_equal(listen_open(text, &fd, bound, NULL), 0);
    assert_int_equal(listen_check(text, fd, bound, NULL), 0);
    assert_string_equal(bound, text);
    assert_int_equal(listen_check("unix:/elsewhere", fd, bound, &err), -EINVAL);
    assert_non_null(strstr(err.text, text));
    listen_forget(text);
    assert_int_equal(rmdir(directory), 0);
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
        cmocka_unit_test(takes_the_socket_of_a_service_manager),
        cmocka_unit_test(takes_nothing_that_nobody_can_connect_to),
        cmocka_unit_test(holds_the_socket_against_the_address),
        cmocka_unit_test(holds_a_unix_socket_against_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
