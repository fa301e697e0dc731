/* config/server/callback_url.c: what is read as a URL, and which of them an entry covers. */
#include "config/server/callback_url.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jail/base/cleanup.h"

static struct callback_url parse(const char *text)
{
    struct callback_url url;
    const char *why = "";
    if (callback_url_parse(text, &url, &why) < 0) {
        fail_msg("%s: %s", text, why);
    }
    return url;
}

static void test_parts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool https;
        const char *host;
        bool is_literal, is_ipv6;
        uint16_t port;
        const char *path;
    } cases[] = {
        {"http://example.com", false, "example.com", false, false, 80, ""},
        {"HTTPS://Example.COM/", true, "example.com", false, false, 443, "/"},
        {"http://a-b_c.d1:8080/x/y?z=/../", false, "a-b_c.d1", false, false, 8080, "/x/y"},
        {"http://127.0.0.1:1?q", false, "127.0.0.1", true, false, 1, ""},
        {"https://[2001:DB8::1]:65535/%20a", true, "2001:db8::1", true, true, 65535, "/%20a"},
        {"http://[::ffff:1.2.3.4]", false, "::ffff:1.2.3.4", true, true, 80, ""},
        {"http://localhost/...", false, "localhost", false, false, 80, "/..."},
        {"http://h//a/", false, "h", false, false, 80, "//a/"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct callback_url url = parse(cases[i].text);
        assert_int_equal(url.https, cases[i].https);
        assert_string_equal(url.host, cases[i].host);
        assert_int_equal(url.is_literal, cases[i].is_literal);
        assert_int_equal(url.is_ipv6, cases[i].is_ipv6);
        assert_int_equal(url.port, cases[i].port);
        assert_int_equal(url.path_size, strlen(cases[i].path));
        assert_memory_equal(cases[i].text + url.path_at, cases[i].path, url.path_size);
        assert_int_equal(callback_url_is_localhost(&url), strcmp(cases[i].host, "localhost") == 0);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "http:/example.com",
        "http://",
        "http:///path",
        "http://:80/",
        "http://a b/",
        "http://a/\t",
        "http://a/\n",
        "http://a/\x7f",
        "http://a/\xc3\xa9",
        "http://\xc3\xa9/",
        "http://a/#f",
        "http://a\\@b/",
        "http://a/\\..",
        "http://u@a/",
        "http://u:p@a/",
        "http://a:80@b/",
        "http://a:b@c",
        "http://a:",
        "http://a:/",
        "http://a:0/",
        "http://a:65536/",
        "http://a:080000/",
        "http://a:8x/",
        "http://a:-1/",
        "http://a..b/",
        "http://a./",
        "http://.a/",
        "http://-a/",
        "http://a%2eb/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://127.0.0.01/",
        "http://1.2.3.4.5/",
        "http://1.2.3.256/",
        "http://a.0x7f/",
        "http://[::1",
        "http://[::1]x/",
        "http://[127.0.0.1]/",
        "http://[fe80::1%25eth0]/",
        "http://[]/",
        "http://a/.",
        "http://a/..",
        "http://a/x/../y",
        "http://a/x/./y",
        "http://a/%2e%2E/y",
        "http://a/.%2e",
        "http://a/%2f",
        "http://a/x%5cy",
        "http://a/%00",
        "http://a/%252e",
        "http://a/%",
        "http://a/%2",
        "http://a/%2/x",
        "http://a/%zz",
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct callback_url url;
        const char *why = NULL;
        if (callback_url_parse(cases[i], &url, &why) == 0) {
            fail_msg("not refused: %s", cases[i]);
        }
        assert_non_null(why);
    }
    char large[CALLBACK_URL_BYTES_MAX + 2];
    memset(large, 'a', sizeof large);
    memcpy(large, "http://a/", 9);
    large[sizeof large - 1] = '\0';
    struct callback_url url;
    const char *why;
    assert_int_equal(callback_url_parse(large, &url, &why), -EINVAL);
    large[sizeof large - 2] = '\0';
    assert_int_equal(callback_url_parse(large, &url, &why), 0);
}

static void test_covers(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *url;
        bool covered;
    } cases[] = {
        {"http://a", "http://a", true},
        {"http://a", "http://a:80/x?y", true},
        {"http://a", "https://a", false},
        {"http://a", "http://a:81", false},
        {"http://a", "http://b.a", false},
        {"http://a", "http://a.b", false},
        {"http://A.b", "http://a.B/", true},
        {"http://a/x", "http://a/x", true},
        {"http://a/x", "http://a/x/y", true},
        {"http://a/x", "http://a/x?y", true},
        {"http://a/x", "http://a/xy", false},
        {"http://a/x", "http://a/X", false},
        {"http://a/x", "http://a/", false},
        {"http://a/x", "http://a?/x", false},
        {"http://a/x/", "http://a/x", true},
        {"http://a/x/", "http://a/x/y", true},
        {"http://a/x/", "http://a/xy", false},
        {"http://a/", "http://a", true},
        {"http://127.0.0.1", "http://localhost", false},
        {"http://[::1]", "http://[0:0:0:0:0:0:0:1]", false}, /* one spelling, as in the list */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct callback_url entry = parse(cases[i].entry), url = parse(cases[i].url);
        if (callback_url_covers(&entry, cases[i].entry, &url, cases[i].url) != cases[i].covered) {
            fail_msg("%s and %s", cases[i].entry, cases[i].url);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_covers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
