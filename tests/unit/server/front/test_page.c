/* server/front/page.c: which hosts and origins are ours. */
#include "server/front/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"
#include "server/host/listen.h"

static const struct {
    const char *listen, *host;
    bool ours;
} hosts[] = {
    {"127.0.0.1:9099", "127.0.0.1:9099", true},
    {"127.0.0.1:9099", "127.0.0.1", true},
    {"127.0.0.1:9099", "127.9.8.7:1", true},
    {"127.0.0.1:9099", "LocalHost:9099", true},
    {"127.0.0.1:9099", "[::1]:9099", true},
    {"127.0.0.1:9099", "[::1]", true},
    {"127.0.0.1:9099", "10.0.0.1:9099", false},
    {"127.0.0.1:9099", "evil.example:9099", false},
    {"127.0.0.1:9099", "localhost.evil.example", false},
    {"127.0.0.1:9099", "127.0.0.1.evil.example", false},
    {"127.0.0.1:9099", "127.1", false},
    {"127.0.0.1:9099", "2130706433", false},
    {"127.0.0.1:9099", "::1", false},
    {"127.0.0.1:9099", "[::1", false},
    {"127.0.0.1:9099", "[::1]x", false},
    {"127.0.0.1:9099", "[::2]", false},
    {"127.0.0.1:9099", "localhost:9099@evil.example", false},
    {"127.0.0.1:9099", "localhost:", true},
    {"127.0.0.1:9099", "localhost:80, evil.example", false},
    {"127.0.0.1:9099", "localhost/", false},
    {"127.0.0.1:9099", "", false},
    {"immure.internal:9099", "immure.internal:9099", true},
    {"immure.internal:9099", "evil.example", false},
    {"10.0.0.1:9099", "10.0.0.1", true},
    {"10.0.0.1:9099", "10.0.0.2", false},
    {"0.0.0.0:9099", "10.0.0.2", true},
    {"[::]:9099", "[fd00::1]:9099", true},
    {"0.0.0.0:9099", "evil.example", false},
};

static void knows_its_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
        struct listen_address listen = {0};
        assert_int_equal(listen_parse(hosts[i].listen, &listen, NULL), 0);
        if (page_host_is_ours(hosts[i].host, &listen) != hosts[i].ours) {
            fail_msg("%s at %s", hosts[i].host, hosts[i].listen);
        }
    }
}

static void knows_its_origins(void **state)
{
    (void)state;
    static const struct {
        const char *origin;
        bool ours;
    } rows[] = {
        {NULL, true},
        {"http://localhost:3000", true},
        {"https://127.0.0.1", true},
        {"http://[::1]:9099", true},
        {"https://evil.example", false},
        {"http://localhost.evil.example", false},
        {"http://localhost:80@evil.example", false},
        {"http://localhost/", false},
        {"ftp://localhost", false},
        {"localhost", false},
        {"null", false},
        {"", false},
    };
    struct listen_address listen = {0};
    assert_int_equal(listen_parse("127.0.0.1:9099", &listen, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(page_origin_is_ours(rows[i].origin, &listen), rows[i].ours);
    }
    /* Each of our addresses may be asked for, but not by a page of any address. */
    assert_int_equal(listen_parse("0.0.0.0:9099", &listen, NULL), 0);
    assert_true(page_origin_is_ours("http://127.0.0.1:9099", &listen));
    assert_false(page_origin_is_ours("http://203.0.113.5", &listen));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_its_hosts),
        cmocka_unit_test(knows_its_origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
