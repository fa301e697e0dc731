/* Who may call a server that asks for no key. Runs in the front, on headers that anybody can send.
 *
 * Such a server is for programs of its own machine, but a browser there runs pages of anybody's. A page can
 * send some requests to any address, and then its Origin tells; or its own name is made to stand for our
 * address (DNS rebinding), and then Host does, since a name cannot be told from that. An address in numbers
 * is no name, and nobody makes it stand for another one. */
#include "server/front/page.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "server/host/listen.h"
#include "server/http/http.h"
#include "server/jobs/front_context.h"
#include "server/jobs/request.h"

#define HOST_BYTES 256

/* "HOST", "HOST:PORT", "[HOST]:PORT": without port and brackets. False: none of these. */
static bool read_host(const char *text, char ret[HOST_BYTES])
{
    bool brackets = *text == '[';
    const char *host = text + brackets;
    size_t length = strcspn(host, brackets ? "]" : ":");
    const char *behind = host + length + brackets;
    if (length == 0 || length >= HOST_BYTES || (brackets && host[length] != ']') ||
        (*behind != '\0' && (*behind != ':' || behind[1 + strspn(behind + 1, "0123456789")] != '\0'))) {
        return false;
    }
    memcpy(ret, host, length);
    ret[length] = '\0';
    return true;
}

/* Every address of this machine is the server's. */
static bool is_any(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* `any_number`: where we listen on every address, each of them may be ours. */
static bool is_ours(const char *host, const struct listen_address *listen, bool any_number)
{
    char name[HOST_BYTES];
    struct in_addr ip4;
    struct in6_addr ip6;
    if (!read_host(host, name)) {
        return false;
    }
    if (strcasecmp(name, "localhost") == 0 || strcasecmp(name, listen->host) == 0) {
        return true;
    }
    if (inet_pton(AF_INET, name, &ip4) == 1) {
        return ntohl(ip4.s_addr) >> 24 == 127 || (any_number && is_any(listen->host));
    }
    return inet_pton(AF_INET6, name, &ip6) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&ip6) || (any_number && is_any(listen->host)));
}

bool page_host_is_ours(const char *host, const struct listen_address *listen)
{
    return is_ours(host, listen, true);
}

bool page_origin_is_ours(const char *origin, const struct listen_address *listen)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; origin && i < ARRAY_SIZE(schemes); i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(origin, schemes[i], length) == 0) {
            return is_ours(origin + length, listen, false);
        }
    }
    return !origin;
}

/* Answers where the header is not ours. */
static bool refuse_page(struct request *request, const char *header, bool ours)
{
    if (!ours) {
        char text[160];
        snprintf(text, sizeof text,
                 "%s: pages of other hosts may not call this server; ask localhost, or what `listen` names",
                 header);
        request_refuse(request, ERROR_FORBIDDEN, text, header);
    }
    return !ours;
}

bool page_origin_fits(struct request *request)
{
    struct listen_address listen = {0};
    listen_parse(request->front->config->listen, &listen, NULL);
    bool one = http_header_count(request->http, "Origin") <= 1;
    return !refuse_page(request, "Origin",
                        one && page_origin_is_ours(http_header(request->http, "Origin"), &listen));
}

/* Without keys, whoever reaches the server may call: no page may be made to. A unix socket is out of a
 * browser's reach, and its path no name. */
bool page_fits(struct request *request)
{
    struct listen_address listen = {0};
    const char *host = http_header(request->http, "Host");
    if (!request->front->config->open) {
        return true;
    }
    listen_parse(request->front->config->listen, &listen, NULL);
    return !refuse_page(request, "Host", !host || listen.is_unix || page_host_is_ours(host, &listen)) &&
           page_origin_fits(request);
}
