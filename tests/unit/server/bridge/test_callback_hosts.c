/* server/bridge/callback_hosts.c: which addresses are public, and where calls may connect. */
#include "server/bridge/callback_hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "server/kit/log.h"

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(&storage, &in, sizeof in);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        memcpy(&storage, &in6, sizeof in6);
    }
    return storage;
}

static void test_public(void **state)
{
    (void)state;
    static const char *const public[] = {
        "1.1.1.1",      "8.8.8.8",       "100.63.255.255", "100.128.0.0",    "172.15.0.1",
        "172.32.0.1",   "192.167.255.1", "192.169.0.1",    "198.17.0.1",     "223.255.255.255",
        "2606:4700::1", "2a00::1",       "2001:4860::1",   "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
    };
    static const char *const other[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.255.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
    };
    for (size_t i = 0; i < ARRAY_SIZE(public); i++) {
        struct sockaddr_storage storage = address(public[i]);
        if (!callback_address_is_public((struct sockaddr *)&storage)) {
            fail_msg("%s", public[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
        struct sockaddr_storage storage = address(other[i]);
        if (callback_address_is_public((struct sockaddr *)&storage)) {
            fail_msg("%s", other[i]);
        }
    }
    const struct sockaddr local = {.sa_family = AF_UNIX};
    assert_false(callback_address_is_public(&local));
}

static bool may_connect(const struct callback_hosts *hosts, const char *url_text, const char *to)
{
    struct callback_url url;
    const char *why;
    assert_int_equal(callback_url_parse(url_text, &url, &why), 0);
    struct sockaddr_storage storage = address(to);
    return callback_hosts_may_connect(hosts, &url, (struct sockaddr *)&storage);
}

static void test_may_connect(void **state)
{
    (void)state;
    static char texts[][32] = {"http://localhost:8080", "http://10.0.0.1", "http://[::1]",
                               "http://no.such.invalid"};
    struct callback_config entries[ARRAY_SIZE(texts)] = {0};
    struct server_config config = {.callbacks = entries, .n_callbacks = ARRAY_SIZE(entries)};
    const char *why;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        entries[i].text = texts[i];
        assert_int_equal(callback_url_parse(texts[i], &entries[i].url, &why), 0);
    }
    struct log *log = log_new(STDERR_FILENO, LOG_FORMAT_LOGFMT, LOG_ERROR, "front");
    struct callback_hosts *hosts;
    assert_int_equal(callback_hosts_new(config.callbacks, config.n_callbacks, log, &hosts, NULL), 0);
    assert_string_equal(callback_hosts_resolved(hosts)[0], "localhost:8080:127.0.0.1,[::1]");
    assert_null(callback_hosts_resolved(hosts)[1]);
    static const struct {
        const char *url, *to;
        bool allowed;
    } cases[] = {
        {"http://localhost:8080/x", "127.0.0.1", true},
        {"http://localhost:8080/x", "::1", true},
        {"http://localhost:8080/x", "10.0.0.1", false},
        {"http://10.0.0.1/", "10.0.0.1", true},
        {"http://10.0.0.1/", "::ffff:10.0.0.1", true},
        {"http://10.0.0.1/", "10.0.0.2", false},
        {"http://[::1]/", "::1", true},
        {"http://[::1]/", "127.0.0.1", false},
        {"http://no.such.invalid/", "8.8.8.8", false},
        {"http://no.such.invalid/", "127.0.0.1", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (may_connect(hosts, cases[i].url, cases[i].to) != cases[i].allowed) {
            fail_msg("%s to %s", cases[i].url, cases[i].to);
        }
    }
    callback_hosts_free(hosts);
    log_free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public),
        cmocka_unit_test(test_may_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
