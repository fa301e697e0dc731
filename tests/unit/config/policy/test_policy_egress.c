/* config/policy/policy_egress.c and config/message/egress.c: hosts that a policy names, what is refused and
 * where, and the way to the front. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/message/egress.h"
#include "config/policy/policy_file.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

#define MINIMAL "name: 'p' mount { destination: '/workspace' scratch { directory: WORK } } "

static struct policy_spec *accepted(const char *text)
{
    struct err err = {0};
    struct policy_spec *spec = NULL;
    if (policy_spec_decode_text("p", text, strlen(text), &spec, &err) < 0) {
        fail_msg("%s: %s", err.item, err.text);
    }
    return spec;
}

static void test_modes(void **state)
{
    (void)state;
    struct policy_spec *spec =
        accepted(MINIMAL "egress { host: 'a.example' } egress { host: 'a.example' port: 80 method: [GET] } "
                         "egress { host: 'b' mode: HTTP } egress { host: 'c' port: 8080 mode: HTTP } "
                         "egress { host: 'd' mode: TLS_ORIGINATION method: ['GET', 'POST'] max_bytes: 1MiB "
                         "header { name: 'Authorization' secret: 'api' } } egress { host: 'e' port: 8443 }");
    static const struct {
        const char *host;
        uint32_t port, asked;
        enum egress_mode mode;
        size_t n_methods;
    } wanted[] = {
        {"a.example", 443, 443, EGRESS_TUNNEL, 0},
        {"a.example", 80, 80, EGRESS_HTTP, 1},
        {"b", 80, 80, EGRESS_HTTP, 0},
        {"c", 8080, 8080, EGRESS_HTTP, 0},
        {"d", 443, 80, EGRESS_TLS_ORIGINATION, 2},
        {"e", 8443, 8443, EGRESS_TUNNEL, 0},
    };
    assert_int_equal(spec->n_egress, ARRAY_SIZE(wanted));
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        const struct egress_rule *rule = &spec->egress[i];
        assert_string_equal(rule->host, wanted[i].host);
        assert_int_equal(rule->port, wanted[i].port);
        assert_int_equal(egress_rule_asked_port(rule), wanted[i].asked);
        assert_int_equal(rule->mode, wanted[i].mode);
        assert_int_equal(rule->n_methods, wanted[i].n_methods);
    }
    assert_int_equal(spec->egress[0].max_bytes, 64 << 20);
    assert_int_equal(spec->egress[4].max_bytes, 1 << 20);
    assert_string_equal(spec->egress[4].methods[1], "POST");
    assert_int_equal(spec->egress[4].n_headers, 1);
    assert_string_equal(spec->egress[4].headers[0].name, "Authorization");
    assert_string_equal(spec->egress[4].headers[0].secret, "api");
    policy_spec_free(spec);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } broken[] = {
        {"egress { host: '*.example' }", "egress[0].host: wildcards are not known; name each host"},
        {"egress { host: '10.0.0.1' }", "egress[0].host: must be a name, not an address or a URL"},
        {"egress { host: '0x7f000001' }", "egress[0].host: must be a name, not an address or a URL"},
        {"egress { host: '::1' }", "egress[0].host: must be a name, not an address or a URL"},
        {"egress { host: 'https://a' }", "egress[0].host: must be a name, not an address or a URL"},
        {"egress { host: 'a:80' }", "egress[0].host: must be a name, not an address or a URL"},
        {"egress { host: '' }", "egress[0].host: must have 1 to 253 bytes"},
        {"egress { host: 'A.example' }", "egress[0].host: must be a host's name in lower case"},
        {"egress { host: 'a.example.' }", "egress[0].host: must be a host's name in lower case"},
        {"egress { host: 'a..example' }", "egress[0].host: must be a host's name in lower case"},
        {"egress { host: 'a b' }", "egress[0].host: must be a host's name in lower case"},
        {"egress { host: 'a' port: 0 }", "egress[0].port: must be 1 to 65535, not 0"},
        {"egress { host: 'a' port: 65536 }", "egress[0].port: must be 1 to 65535, not 65536"},
        {"egress { host: 'a' max_bytes: 0 }", "egress[0].max_bytes: must be 1 to"},
        {"egress { host: 'a' method: GET }", "egress[0].method: cannot be seen in a tunnel"},
        {"egress { host: 'a' header { name: 'A' secret: 's' } }", "egress[0].header: cannot be seen in"},
        {"egress { host: 'a' mode: HTTP method: 'get' }", "egress[0].method[0]: must be a method of HTTP"},
        {"egress { host: 'a' mode: HTTP method: CONNECT }", "egress[0].method[0]: CONNECT is what"},
        {"egress { host: 'a' mode: HTTP header { name: 'X Y' secret: 's' } }",
         "egress[0].header[0].name: must be the name of a header"},
        {"egress { host: 'a' mode: HTTP header { name: 'host' secret: 's' } }",
         "egress[0].header[0].name: is the connection's own, not a policy's"},
        {"egress { host: 'a' mode: HTTP header { name: 'A' secret: '' } }",
         "egress[0].header[0].secret: must not be empty"},
        {"egress { host: 'a' mode: HTTP header { name: 'A' secret: 's' } header { name: 'a' secret: 's' } }",
         "egress[0].header[1].name: a is given by header[0] already"},
        {"egress { host: 'a' } egress { host: 'a' }", "egress[1].host: a, port 443, is given by egress[0]"},
        {"egress { host: 'a' } egress { host: 'a' mode: TLS_ORIGINATION }",
         "egress[1].host: a, port 80, is given by egress[0]"},
        {"egress { host: 'a' port: 80 } egress { host: 'a' mode: TLS_ORIGINATION }",
         "egress[1].host: a, port 80, is given by egress[0]"},
        {"namespace: [USER, MOUNT, PID] egress { host: 'a' }", "egress: needs the job's own NET namespace"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        char text[512];
        struct err err = {0};
        struct policy_spec *spec = NULL;
        snprintf(text, sizeof text, "%s%s", MINIMAL, broken[i].text);
        assert_int_equal(policy_spec_decode_text("p", text, strlen(text), &spec, &err), -EINVAL);
        if (strncmp(err.text, broken[i].message, strlen(broken[i].message)) != 0) {
            fail_msg("%s: %s", broken[i].text, err.text);
        }
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    struct policy_spec *spec =
        accepted(MINIMAL "egress { host: 'a' } egress { host: 'b' mode: TLS_ORIGINATION method: GET "
                         "header { name: 'Authorization' secret: 'api' } }");
    struct egress_rules of_p = {.policy = spec->name, .rules = spec->egress, .n_rules = spec->n_egress};
    const struct egress_policies out = {.policies = &of_p, .n_policies = 1};
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(bind_encode(&egress_policies_table, &out, &packed), 0);
    struct egress_policies in;
    struct err err = {0};
    assert_int_equal(bind_decode(&egress_policies_table, packed.data, packed.len, &in, &err), 0);
    assert_int_equal(in.n_policies, 1);
    assert_string_equal(in.policies[0].policy, "p");
    assert_int_equal(in.policies[0].n_rules, 2);
    assert_int_equal(in.policies[0].rules[0].mode, EGRESS_TUNNEL);
    assert_string_equal(in.policies[0].rules[1].methods[0], "GET");
    assert_string_equal(in.policies[0].rules[1].headers[0].secret, "api");
    bind_clear(&egress_policies_table, &in);
    /* What no policy could have said. */
    spec->egress[1].mode = EGRESS_TUNNEL;
    packed.len = 0;
    assert_int_equal(bind_encode(&egress_policies_table, &out, &packed), 0);
    assert_true(bind_decode(&egress_policies_table, packed.data, packed.len, &in, &err) < 0);
    assert_string_equal(err.item, "egress.rule.mode");
    policy_spec_free(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
