/* server/bridge/proxy_request.c: what is understood, by which rule it goes, and what the host gets. */
#include "server/bridge/proxy_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "config/message/egress.h"
#include "config/server/config.h"
#include "jail/base/cleanup.h"

static char get[] = "GET", post[] = "POST", key_name[] = "X-Api-Key", key_secret[] = "api", file[] = "/f",
            value[] = "s3cret", plain[] = "plain.example", api[] = "api.example", tunnel[] = "tunnel.example",
            odd[] = "odd.example";
static char *const some_methods[] = {get, post};
static struct egress_header headers[] = {{key_name, key_secret}};
static const struct egress_rule rules[] = {
    {.host = plain, .port = 80, .mode = EGRESS_HTTP},
    {.host = api,
     .port = 443,
     .mode = EGRESS_TLS_ORIGINATION,
     .methods = (char **)(uintptr_t)some_methods,
     .n_methods = 2,
     .headers = headers,
     .n_headers = 1},
    {.host = tunnel, .port = 443, .mode = EGRESS_TUNNEL},
    {.host = odd, .port = 8443, .mode = EGRESS_TLS_ORIGINATION},
};
static struct egress_secret_config secrets[] = {{key_secret, file, value}};
static const struct server_config config = {.egress_secrets = secrets, .n_egress_secrets = 1};

/* The status of the refusal; 0: what the host gets is in `ret`, "" for a tunnel. */
static int ask(const char *text, size_t size, struct buf *ret, struct buf *why)
{
    struct proxy_request request;
    const char *reason = "";
    size_t scanned = 0;
    CLEANUP(freep) char *own = malloc(size + 1);
    memcpy(own, text, size);
    own[size] = '\0';
    ssize_t head = http_syntax_head_size(own, size, &scanned);
    if (head <= 0) {
        return head < 0 ? 400 : -1;
    }
    int status = proxy_request_read(own, (size_t)head, &request, &reason);
    if (status != 0) {
        buf_puts(why, reason);
        return status;
    }
    const struct egress_rule *rule = proxy_request_rule(&request, rules, ARRAY_SIZE(rules), &status, why);
    if (!rule) {
        return status;
    }
    buf_puts(ret, "");
    assert_true(request.tunnel || proxy_request_write(&request, rule, &config, ret));
    return 0;
}

#define TEXT(text)                                                                                           \
    {                                                                                                        \
        (text), sizeof(text) - 1                                                                             \
    }
struct text {
    const char *data;
    size_t size;
};

#define BEGIN  "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n"
#define POSTED "POST http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n"

static void refuses_what_is_not_sound(void **state)
{
    (void)state;
    static const struct text rows[] = {
        /* two ends of one body */
        TEXT(POSTED "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        TEXT(POSTED "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        TEXT(POSTED "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
        TEXT(POSTED "Content-Length: 5, 5\r\n\r\n"),
        TEXT(POSTED "Content-Length: +5\r\n\r\n"),
        TEXT(POSTED "Content-Length: -1\r\n\r\n"),
        TEXT(POSTED "Content-Length: 0x5\r\n\r\n"),
        TEXT(POSTED "Content-Length:\r\n\r\n"),
        TEXT(POSTED "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        TEXT(POSTED "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        TEXT(POSTED "Transfer-Encoding: identity\r\n\r\n"),
        TEXT(POSTED "Transfer-Encoding: xchunked\r\n\r\n"),
        TEXT(POSTED "Transfer-Encoding: chunked \r\n\r\n"),
        TEXT(POSTED "Transfer-Encoding:\x0b chunked\r\n\r\n"),
        TEXT("POST http://plain.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        /* lines and headers */
        TEXT(BEGIN "A: b\r\n c\r\n\r\n"),
        TEXT(BEGIN "A: b\r\n\tc\r\n\r\n"),
        TEXT(BEGIN "A: b\nC: d\r\n\r\n"),
        TEXT(BEGIN "A: b\rC: d\r\n\r\n"),
        TEXT(BEGIN "A : b\r\n\r\n"),
        TEXT(BEGIN ": b\r\n\r\n"),
        TEXT(BEGIN "A\r\n\r\n"),
        TEXT(BEGIN "A: \x01\r\n\r\n"),
        TEXT(BEGIN "A: \0b\r\n\r\n"),
        TEXT(BEGIN "Host: plain.example\r\n\r\n"),
        TEXT("GET http://plain.example/ HTTP/1.1\r\n\r\n"),
        TEXT("GET http://plain.example/\r\nHost: x\r\n\r\n"),
        TEXT("GET  http://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example/ HTTP/1.1 \r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example/ HTTP/2.0\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example/a b HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("G(T http://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        TEXT("\x16\x03\x01\x02\x00\r\n\r\n"),
        /* targets */
        TEXT("GET / HTTP/1.1\r\nHost: plain.example\r\n\r\n"),
        TEXT("GET * HTTP/1.1\r\nHost: plain.example\r\n\r\n"),
        TEXT("GET https://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET ftp://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http:plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http:///plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example/#x HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example#@tunnel.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://user@plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example:80:81/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example:/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example:0/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example:65616/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example%2f/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://plain.example\\@x/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("GET http://127.1/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT tunnel.example HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT http://tunnel.example:443/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT tunnel.example:443/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT tunnel.example:443?x HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT [::1] HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT a@tunnel.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
        TEXT("CONNECT tunnel.example:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"),
        TEXT("CONNECT tunnel.example:443 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf sent = BUF_INIT;
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        int status = ask(rows[i].data, rows[i].size, &sent, &why);
        if (status != 400) {
            fail_msg("row %zu: %d: %s", i, status, rows[i].data);
        }
    }
}

static void refuses_what_no_rule_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
        int status;
    } rows[] = {
        {"GET http://other.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n",
         "host \"other.example\" port 80 is not in this job's policy (egress)", 403},
        {"GET http://plain.example:81/ HTTP/1.1\r\nHost: plain.example\r\n\r\n",
         "host \"plain.example\" port 81 is not in this job's policy (egress)", 403},
        {"GET http://plain.example./ HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 400},
        {"GET http://xplain.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"xplain.example\" port 80 is not in this job's policy (egress)", 403},
        {"GET http://a.plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"a.plain.example\" port 80 is not in this job's policy (egress)", 403},
        {"GET http://127.0.0.1/ HTTP/1.1\r\nHost: plain.example\r\n\r\n",
         "host \"127.0.0.1\" port 80 is not in this job's policy (egress)", 403},
        {"CONNECT [::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"::1\" port 443 is not in this job's policy (egress)", 403},
        {"CONNECT tunnel.example:22 HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"tunnel.example\" port 22 is not in this job's policy (egress)", 403},
        {"CONNECT plain.example:80 HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"plain.example\" port 80 is in this job's policy for requests in plain HTTP (http://) "
         "(egress)",
         403},
        {"CONNECT api.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"api.example\" port 443 is in this job's policy for requests to http://, for which the proxy "
         "makes TLS (egress)",
         403},
        {"GET http://tunnel.example:443/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"tunnel.example\" port 443 is in this job's policy for CONNECT, with TLS of the program's "
         "own "
         "(egress)",
         403},
        {"GET http://odd.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "host \"odd.example\" port 80 is not in this job's policy (egress)", 403},
        {"DELETE http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "method \"DELETE\" is not among those that this job's policy allows for host \"api.example\" "
         "(egress)",
         403},
        {"get http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "method \"get\" is not among those that this job's policy allows for host \"api.example\" (egress)",
         403},
        {"TRACE http://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "method \"TRACE\" is not passed on", 405},
        {"trace http://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "method \"trace\" is not passed on", 405},
        {"TRACK http://plain.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "method \"TRACK\" is not passed on", 405},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf sent = BUF_INIT;
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        int status = ask(rows[i].text, strlen(rows[i].text), &sent, &why);
        if (status != rows[i].status || (rows[i].why && strcmp(why.data, rows[i].why) != 0)) {
            fail_msg("row %zu: %d: %s", i, status, why.data ? why.data : "");
        }
    }
}

static void writes_heads_anew(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sent;
    } rows[] = {
        {"GET http://plain.example HTTP/1.1\r\nHost: evil\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: plain.example\r\nConnection: close\r\n\r\n"},
        {"GET HTTP://PLAIN.example:80?a=b HTTP/1.1\r\nHost: evil\r\nA:  b \r\n\r\n",
         "GET /?a=b HTTP/1.1\r\nHost: plain.example\r\nA: b\r\nConnection: close\r\n\r\n"},
        {"GET http://plain.example/%2e%2E/a%2fb//?q=/http://x HTTP/1.0\r\n\r\n",
         "GET /%2e%2E/a%2fb//?q=/http://x HTTP/1.0\r\nHost: plain.example\r\nConnection: close\r\n\r\n"},
        {"POST http://plain.example/ HTTP/1.1\r\nHost: x\r\ncontent-length: 0007\r\nExpect: "
         "100-continue\r\n\r\n",
         "POST / HTTP/1.1\r\nHost: plain.example\r\nExpect: 100-continue\r\nContent-Length: 7\r\n"
         "Connection: close\r\n\r\n"},
        {"POST http://plain.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\nTrailer: A\r\n\r\n",
         "POST / HTTP/1.1\r\nHost: plain.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
        {"GET http://plain.example/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, X-Hop\r\nUpgrade: "
         "websocket\r\n"
         "X-Hop: 1\r\nX-Hops: 2\r\nProxy-Authorization: Basic eA==\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
         "Proxy-Connection: keep-alive\r\nHTTP2-Settings: x\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: plain.example\r\nX-Hops: 2\r\nConnection: close\r\n\r\n"},
        {"GET http://api.example/ HTTP/1.1\r\nHost: x\r\nX-API-KEY: own\r\nx_api_key: own\r\nX-Api_Key: "
         "own\r\n"
         "X.Api.Key: own\r\nX-Api-Key2: own\r\nConnection: X-Api-Key\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: api.example\r\nX-Api-Key2: own\r\nX-Api-Key: s3cret\r\n"
         "Connection: close\r\n\r\n"},
        {"POST http://api.example:443/v1 HTTP/1.1\r\nHost: x\r\n\r\n",
         "POST /v1 HTTP/1.1\r\nHost: api.example\r\nX-Api-Key: s3cret\r\nConnection: close\r\n\r\n"},
        {"DELETE http://odd.example:8443/ HTTP/1.1\r\nHost: x\r\n\r\n",
         "DELETE / HTTP/1.1\r\nHost: odd.example:8443\r\nConnection: close\r\n\r\n"},
        {"CONNECT TUNNEL.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", ""},
        {"CONNECT tunnel.example:443 HTTP/1.0\r\n\r\n", ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf sent = BUF_INIT;
        CLEANUP(buf_free) struct buf why = BUF_INIT;
        int status = ask(rows[i].text, strlen(rows[i].text), &sent, &why);
        if (status != 0 || strcmp(sent.data, rows[i].sent) != 0) {
            fail_msg("row %zu: %d: %s%s", i, status, sent.data ? sent.data : "", why.data ? why.data : "");
        }
    }
}

static void sends_nothing_without_its_secret(void **state)
{
    (void)state;
    static const struct server_config without = {.n_egress_secrets = 0};
    char text[] = "GET http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n";
    struct proxy_request request;
    const char *why;
    CLEANUP(buf_free) struct buf sent = BUF_INIT;
    assert_int_equal(proxy_request_read(text, sizeof text - 1, &request, &why), 0);
    assert_false(proxy_request_write(&request, &rules[1], &without, &sent));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_not_sound),
        cmocka_unit_test(refuses_what_no_rule_names),
        cmocka_unit_test(writes_heads_anew),
        cmocka_unit_test(sends_nothing_without_its_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
