/* What a jailed program asks its proxy for: a request's head, read, held against the policy's rules, and
 * written anew for the host. Runs in the front, on bytes that nobody has read. Holds no state.
 *
 * What must hold: the host gets one request, and its end is where this file says. Nothing of the head is
 * passed on as it came but the method, the path and whole headers: framing, Host and what belongs to one
 * connection alone are written here. A header that a rule adds is never the program's, in no spelling. */
#include "server/bridge/proxy_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"

/* As it was read, and what is added. */
#define HEAD_BYTES_MAX                                                                                       \
    (PROXY_BUFFER_BYTES + EGRESS_HEADERS_MAX * (EGRESS_NAME_MAX + EGRESS_SECRET_BYTES_MAX + 4) + 1024)

static int refuse(int status, const char *why, const char **ret_why)
{
    *ret_why = why;
    return status;
}

/* ---- Target ---- */

/* Host and port are read as URLs of the configuration are: what could be read in two ways is refused. */
static int read_authority(const char *text, size_t size, struct proxy_request *ret, const char **ret_why)
{
    char url[CALLBACK_HOST_BYTES + sizeof "http://[]:65535/"];
    struct callback_url parsed;
    const char *why;
    int length = snprintf(url, sizeof url, "http://%.*s/", (int)size, text);
    if (size > CALLBACK_HOST_BYTES || (size_t)length >= sizeof url || memchr(text, '?', size) ||
        callback_url_parse(url, &parsed, &why) < 0 || parsed.path_size != 1) {
        return refuse(400, "the request's target has no usable host and port", ret_why);
    }
    snprintf(ret->host, sizeof ret->host, "%s", parsed.host);
    ret->port = parsed.port;
    return 0;
}

/* http://HOST[:PORT][/PATH][?QUERY] */
static int read_url(struct proxy_request *ret, const char **ret_why)
{
    static const char scheme[] = "http://";
    const char *target = ret->head.path;
    if (strncasecmp(target, scheme, sizeof scheme - 1) != 0) {
        return refuse(
            400, "this is a proxy: it takes CONNECT HOST:PORT, and other methods with a URL http://HOST/",
            ret_why);
    }
    target += sizeof scheme - 1;
    if (strchr(target, '#')) {
        return refuse(400, "the request's target has a fragment", ret_why);
    }
    size_t size = strcspn(target, "/?");
    ret->path = target + size;
    return read_authority(target, size, ret, ret_why);
}

static int read_tunnel(struct proxy_request *ret, const char **ret_why)
{
    int r = read_authority(ret->head.path, strlen(ret->head.path), ret, ret_why);
    if (r == 0 && (!strrchr(ret->head.path, ':') || strchr(strrchr(ret->head.path, ':'), ']'))) {
        return refuse(400, "CONNECT names no port", ret_why);
    }
    if (r == 0 && (ret->framing.chunked || ret->framing.length > 0)) {
        return refuse(400, "CONNECT has a body", ret_why);
    }
    return r;
}

int proxy_request_read(char *text, size_t size, struct proxy_request *ret, const char **ret_why)
{
    *ret = (struct proxy_request){.tunnel = false};
    enum http_syntax_verdict verdict = http_syntax_read_proxied(text, size, &ret->head);
    if (verdict == HTTP_SYNTAX_TOO_MANY) {
        return refuse(431, "the request has too many headers", ret_why);
    }
    if (verdict != HTTP_SYNTAX_SOUND) {
        return refuse(400, "this is no sound HTTP/1.1 request", ret_why);
    }
    if (!http_syntax_framing(&ret->head, &ret->framing)) {
        return refuse(400, "it is not clear where the request's body ends", ret_why);
    }
    ret->tunnel = strcmp(ret->head.method, "CONNECT") == 0;
    return ret->tunnel ? read_tunnel(ret, ret_why) : read_url(ret, ret_why);
}

/* ---- Rule ---- */

static bool may_use(const struct egress_rule *rule, const char *method)
{
    for (size_t i = 0; i < rule->n_methods; i++) {
        if (strcmp(rule->methods[i], method) == 0) {
            return true;
        }
    }
    return rule->n_methods == 0;
}

static const char *how(const struct egress_rule *rule)
{
    return rule->mode == EGRESS_TUNNEL ? "CONNECT, with TLS of the program's own"
           : rule->mode == EGRESS_HTTP ? "requests in plain HTTP (http://)"
                                       : "requests to http://, for which the proxy makes TLS";
}

const struct egress_rule *proxy_request_rule(const struct proxy_request *request,
                                             const struct egress_rule *rules, size_t n_rules, int *ret_status,
                                             struct buf *ret_why)
{
    const char *method = request->head.method;
    const struct egress_rule *other = NULL;
    *ret_status = 403;
    for (size_t i = 0; i < n_rules; i++) {
        const struct egress_rule *rule = &rules[i];
        if (strcasecmp(rule->host, request->host) != 0 ||
            (rule->port != request->port && egress_rule_asked_port(rule) != request->port)) {
            continue;
        }
        if ((rule->mode == EGRESS_TUNNEL) != request->tunnel) {
            other = rule;
        } else if (!request->tunnel && !may_use(rule, method)) {
            buf_printf(ret_why,
                       "method \"%.*s\" is not among those that this job's policy allows for host \"%s\" "
                       "(egress)",
                       (int)PROXY_METHOD_BYTES, method, rule->host);
            return NULL;
        } else if (strcasecmp(method, "TRACE") == 0 || strcasecmp(method, "TRACK") == 0) {
            *ret_status = 405; /* its answer has the headers that were added */
            buf_printf(ret_why, "method \"%s\" is not passed on", method);
            return NULL;
        } else {
            return rule;
        }
    }
    if (other) {
        buf_printf(ret_why, "host \"%s\" port %u is in this job's policy for %s (egress)", request->host,
                   other->port, how(other));
    } else {
        buf_printf(ret_why, "host \"%s\" port %u is not in this job's policy (egress)", request->host,
                   request->port);
    }
    return NULL;
}

/* ---- Head ---- */

/* Gateways that hand headers on as variables take "_" and "-" for one, and some whatever is no letter or
 * digit. */
static bool is_same_header(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        bool dash_a = !isalnum((unsigned char)*a), dash_b = !isalnum((unsigned char)*b);
        if (dash_a != dash_b || (!dash_a && strncasecmp(a, b, 1) != 0)) {
            return false;
        }
    }
    return *a == *b;
}

/* What some servers take for the method. */
static const char *const overrides[] = {"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"};

/* Of one connection alone, or written here. */
static const char *const dropped[] = {
    "Host",
    "Connection",
    "Proxy-Connection",
    "Keep-Alive",
    "TE",
    "Trailer",
    "Upgrade",
    "Transfer-Encoding",
    "Content-Length",
    "HTTP2-Settings",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Authentication-Info",
};

static bool is_dropped(const struct proxy_request *request, const struct egress_rule *rule, const char *name)
{
    const struct http_head *head = &request->head;
    for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
        if (is_same_header(name, dropped[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(overrides) && rule->n_methods > 0; i++) {
        if (is_same_header(name, overrides[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < rule->n_headers; i++) {
        if (is_same_header(name, rule->headers[i].name)) {
            return true;
        }
    }
    for (size_t i = 0; i < head->n_fields; i++) {
        if (strcasecmp(head->fields[i].name, "Connection") == 0 &&
            http_syntax_lists(head->fields[i].value, name)) {
            return true;
        }
    }
    return false;
}

static void write_host(const struct egress_rule *rule, struct buf *ret)
{
    bool usual = rule->port == (rule->mode == EGRESS_HTTP ? 80 : 443);
    buf_printf(ret, "Host: %s", rule->host);
    if (!usual) {
        buf_printf(ret, ":%u", rule->port);
    }
    buf_puts(ret, "\r\n");
}

bool proxy_request_write(const struct proxy_request *request, const struct egress_rule *rule,
                         const struct server_config *config, struct buf *ret)
{
    const struct http_head *head = &request->head;
    buf_reserve(ret, HEAD_BYTES_MAX); /* growing would leave secrets behind */
    buf_printf(ret, "%s %s%s HTTP/1.%d\r\n", head->method, request->path[0] == '/' ? "" : "/", request->path,
               head->is_1_0 ? 0 : 1);
    write_host(rule, ret);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (!is_dropped(request, rule, head->fields[i].name)) {
            buf_printf(ret, "%s: %s\r\n", head->fields[i].name, head->fields[i].value);
        }
    }
    for (size_t i = 0; i < rule->n_headers; i++) {
        const struct egress_secret_config *secret =
            server_config_egress_secret(config, rule->headers[i].secret);
        if (!secret) {
            return false;
        }
        buf_printf(ret, "%s: %s\r\n", rule->headers[i].name, secret->value);
    }
    if (request->framing.chunked) {
        buf_puts(ret, "Transfer-Encoding: chunked\r\n");
    } else if (http_syntax_field(head, "Content-Length")) {
        buf_printf(ret, "Content-Length: %" PRIu64 "\r\n", request->framing.length);
    }
    buf_puts(ret, "Connection: close\r\n\r\n");
    return !ret->failed;
}
