/* What a request of the HTTP server says, and who sends it. Runs in the front. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/http.h"
#include "server/http_connection.h"
#include "server/http_internal.h"

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

/* RFC 9110, 5.5: blanks behind a value are not part of it. libmicrohttpd leaves them there; whatever it looks
 * at itself must be looked at with them (http.c). */
static void trim(char *value)
{
    size_t length = strlen(value);
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t')) {
        value[--length] = '\0';
    }
}

const char *http_header(const struct http_request *request, const char *name)
{
    if (!*request->method) {
        return NULL;
    }
    const char *value =
        request->server->mhd.lookup_connection_value(request->connection->mhd, MHD_HEADER_KIND, name);
    if (value) {
        trim((char *)(uintptr_t)value); /* it lies in the connection's own memory */
    }
    return value;
}

const char *http_argument(const struct http_request *request, const char *name)
{
    return *request->method ? request->server->mhd.lookup_connection_value(request->connection->mhd,
                                                                           MHD_GET_ARGUMENT_KIND, name)
                            : NULL;
}

struct header_visit {
    const char *name;
    size_t count;
    bool wipe;
};

static enum MHD_Result visit_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct header_visit *visit = arg;
    if (strcasecmp(name, visit->name) == 0) {
        visit->count++;
        if (visit->wipe && value) {
            /* It lies in the connection's own memory, which libmicrohttpd clears only with the next request.
             */
            explicit_bzero((char *)(uintptr_t)value, strlen(value));
        }
    }
    return MHD_YES;
}

size_t http_header_count(const struct http_request *request, const char *name)
{
    struct header_visit visit = {.name = name};
    request->server->mhd.get_connection_values(request->connection->mhd, MHD_HEADER_KIND, visit_header,
                                               &visit);
    return visit.count;
}

void http_wipe_header(struct http_request *request, const char *name)
{
    struct header_visit visit = {.name = name, .wipe = true};
    request->server->mhd.get_connection_values(request->connection->mhd, MHD_HEADER_KIND, visit_header,
                                               &visit);
}

bool http_has_body(const struct http_request *request)
{
    return request->body_announced || request->body.len > 0;
}

const struct buf *http_body(const struct http_request *request)
{
    return &request->body;
}

static const struct sockaddr *client_address(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info = request->server->mhd.get_connection_info(
        request->connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

uint64_t http_client_network(const struct http_request *request)
{
    const struct sockaddr *address = client_address(request);
    uint64_t network = 0;
    if (address && address->sa_family == AF_INET) {
        network = ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *ip6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        memcpy(&network, ip6, sizeof network);
        network ^= IN6_IS_ADDR_V4MAPPED(ip6) ? ip6->s6_addr32[3] : 0;
    }
    return network;
}

void http_client(const struct http_request *request, char *ret, size_t size)
{
    const struct sockaddr *address = client_address(request);
    snprintf(ret, size, "unix");
    if (address && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, ret,
                  (socklen_t)size);
    } else if (address && address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, ret,
                  (socklen_t)size);
    }
}

void http_set_account(struct http_request *request, unsigned account)
{
    request->account = account;
}

void http_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void *http_user(const struct http_request *request)
{
    return request->user;
}
