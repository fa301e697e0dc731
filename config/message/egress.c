/* Hosts that jobs may reach: what a rule may hold, and how it goes from the warden, which reads policies, to
 * the front, which makes the connections. Runs in both, and in the command line. */
#include "config/message/egress.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "config/message/egress.pb-c.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"

const char *egress_mode_to_string(enum egress_mode mode)
{
    static const char *const names[EGRESS_MODES] = {
        [EGRESS_TUNNEL] = "TUNNEL",
        [EGRESS_HTTP] = "HTTP",
        [EGRESS_TLS_ORIGINATION] = "TLS_ORIGINATION",
    };
    return (size_t)mode < EGRESS_MODES ? names[mode] : "unknown";
}

/* Letters, digits, '-' and '_' between single dots. "127.1" and "0x7f000001" are addresses to some programs;
 * no top-level domain begins with a digit. */
const char *egress_host_fault(const char *host)
{
    const char *last = strrchr(host, '.');
    if (strchr(host, '*')) {
        return "wildcards are not known; name each host";
    }
    if (strchr(host, ':') || isdigit((unsigned char)(last ? last + 1 : host)[0])) {
        return "must be a name, not an address or a URL";
    }
    if (host[0] == '\0' || strlen(host) > EGRESS_HOST_MAX) {
        return "must have 1 to 253 bytes";
    }
    for (const char *label = host;;) {
        size_t length = strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789-_");
        bool good = length > 0 && length <= 63 && label[0] != '-';
        if (!good || (label[length] != '.' && label[length] != '\0')) {
            return "must be a host's name in lower case, without a dot at its end (api.example.com)";
        }
        if (label[length] == '\0') {
            return NULL;
        }
        label += length + 1;
    }
}

const char *egress_method_fault(const char *method)
{
    size_t length = strlen(method);
    if (length == 0 || length > EGRESS_NAME_MAX || strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != length) {
        return "must be a method of HTTP in capitals (GET)";
    }
    return strcmp(method, "CONNECT") == 0 ? "CONNECT is what `mode: TUNNEL` is for" : NULL;
}

const char *egress_header_fault(const char *name)
{
    /* They say where a message ends, or for whom it is. */
    static const char *const own[] = {
        "Connection", "Content-Length", "Expect", "Host",    "Keep-Alive",        "Proxy-Connection",
        "TE",         "Trailer",        "Via",    "Upgrade", "Transfer-Encoding", "Proxy-Authorization"};
    size_t length = strlen(name);
    if (length == 0 || length > EGRESS_NAME_MAX ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != length) {
        return "must be the name of a header ([A-Za-z0-9_-]+, at most 64)";
    }
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
        if (strcasecmp(name, own[i]) == 0) {
            return "is the connection's own, not a policy's";
        }
    }
    return NULL;
}

void egress_rule_print(const struct egress_rule *rule, struct buf *ret)
{
    buf_printf(ret, "%s:%" PRIu32 " %s max_bytes=%" PRIu64, rule->host, rule->port,
               egress_mode_to_string(rule->mode), rule->max_bytes);
    for (size_t i = 0; i < rule->n_methods; i++) {
        buf_printf(ret, "%s%s", i == 0 ? " method " : " ", rule->methods[i]);
    }
    for (size_t i = 0; i < rule->n_headers; i++) {
        buf_printf(ret, " header %s (secret %s)", rule->headers[i].name, rule->headers[i].secret);
    }
}

uint32_t egress_rule_asked_port(const struct egress_rule *rule)
{
    return rule->mode == EGRESS_TLS_ORIGINATION && rule->port == 443 ? 80 : rule->port;
}

/* Two of one port clash even where one is a tunnel: it would let through what the other forbids. */
bool egress_rules_clash(const struct egress_rule *a, const struct egress_rule *b)
{
    bool visible = a->mode != EGRESS_TUNNEL && b->mode != EGRESS_TUNNEL;
    return strcmp(a->host, b->host) == 0 &&
           (a->port == b->port || (visible && egress_rule_asked_port(a) == egress_rule_asked_port(b)));
}

static bool host_is_valid(const char *host)
{
    return egress_host_fault(host) == NULL;
}

static bool header_is_valid(const char *name)
{
    return egress_header_fault(name) == NULL;
}

#define ROW(own, ...) BIND(struct egress_header, Immure__EgressRuleHeader, own, own, __VA_ARGS__)
static const struct bind_row header_rows[] = {
    ROW(name, .valid = header_is_valid, .why = "is not the name of a header"),
    ROW(secret, .least = 1, .most = EGRESS_NAME_MAX),
};
#undef ROW
static const struct bind_table header_table = {
    .name = "egress.header",
    BIND_TABLE_OF(struct egress_header, immure__egress_rule_header__descriptor, header_rows)};

static int check_rule(const void *object, struct err *reterr)
{
    const struct egress_rule *rule = object;
    for (size_t i = 0; i < rule->n_methods; i++) {
        if (egress_method_fault(rule->methods[i])) {
            return err_set(reterr, ERR_INVALID, 0, "egress.rule.method", "is not a method");
        }
    }
    if (rule->mode == EGRESS_TUNNEL && rule->n_methods + rule->n_headers > 0) {
        return err_set(reterr, ERR_INVALID, 0, "egress.rule.mode", "a tunnel has no methods and no headers");
    }
    return 0;
}

#define ROW(own, ...) BIND(struct egress_rule, Immure__EgressRule, own, own, __VA_ARGS__)
static const struct bind_row rule_rows[] = {
    ROW(host, .valid = host_is_valid, .why = "is not the name of a host"),
    ROW(port, .least = 1, .most = UINT16_MAX),
    BIND_AS(BIND_UNSIGNED, struct egress_rule, Immure__EgressRule, mode, mode, .most = EGRESS_MODES - 1),
    BIND_SOME(BIND_TEXTS, struct egress_rule, Immure__EgressRule, methods, n_methods, method,
              .most = EGRESS_METHODS_MAX),
    ROW(max_bytes, .least = 1),
    BIND_SOME(BIND_EACH, struct egress_rule, Immure__EgressRule, headers, n_headers, header,
              .table = &header_table, .most = EGRESS_HEADERS_MAX),
};
#undef ROW
const struct bind_table egress_rule_table = {
    .name = "egress.rule",
    BIND_TABLE_OF(struct egress_rule, immure__egress_rule__descriptor, rule_rows),
    .check = check_rule};

#define ROW(own, ...) BIND(struct egress_rules, Immure__EgressRules, own, own, __VA_ARGS__)
static const struct bind_row rules_rows[] = {
    ROW(policy, .least = 1),
    BIND_SOME(BIND_EACH, struct egress_rules, Immure__EgressRules, rules, n_rules, rule,
              .table = &egress_rule_table, .most = EGRESS_RULES_MAX),
};
#undef ROW
static const struct bind_table rules_table = {
    .name = "egress.policy",
    BIND_TABLE_OF(struct egress_rules, immure__egress_rules__descriptor, rules_rows)};

static const struct bind_row policies_rows[] = {
    BIND_SOME(BIND_EACH, struct egress_policies, Immure__EgressPolicies, policies, n_policies, policy,
              .table = &rules_table),
};
const struct bind_table egress_policies_table = {
    .name = "egress",
    BIND_TABLE_OF(struct egress_policies, immure__egress_policies__descriptor, policies_rows)};
