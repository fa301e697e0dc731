/* What a request of the HTTP server says, and who sends it. Runs in the front. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/http/connection.h"
#include "server/http/http.h"
#include "server/http/http_internal.h"
#include "server/http/syntax.h"

const char *http_method(const struct http_request *request)
{
    return request->head.method ? request->head.method : "";
}

const char *http_path(const struct http_request *request)
{
    return request->head.method ? request->head.path : "";
}

const char *http_header(const struct http_request *request, const char *name)
{
    return http_syntax_field(&request->head, name);
}

const char *http_next_argument(const struct http_request *request, const char *argument)
{
    const char *end = request->head.query_end;
    const char *at = argument ? argument + strlen(argument) : request->head.query;
    while (at && at < end && *at == '\0') {
        at++;
    }
    return at && at < end ? at : NULL;
}

const char *http_argument(const struct http_request *request, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = NULL; (at = http_next_argument(request, at));) {
        if (strncmp(at, name, length) == 0 && (at[length] == '=' || at[length] == '\0')) {
            return at + length + (at[length] == '=');
        }
    }
    return NULL;
}

size_t http_header_count(const struct http_request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->head.n_fields; i++) {
        count += strcasecmp(request->head.fields[i].name, name) == 0;
    }
    return count;
}

void http_wipe_header(struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->head.n_fields; i++) {
        char *value = request->head.fields[i].value;
        if (strcasecmp(request->head.fields[i].name, name) == 0) {
            explicit_bzero(value, strlen(value));
        }
    }
}

bool http_has_body(const struct http_request *request)
{
    return request->body_announced || request->body.len > 0;
}

const struct buf *http_body(const struct http_request *request)
{
    return &request->body;
}

void http_trust(struct http_request *request)
{
    http_connection_know(request->connection);
}

uint64_t http_client_network(const struct http_request *request)
{
    return request->connection->network;
}

void http_client(const struct http_request *request, char *ret, size_t size)
{
    const union http_address *address = &request->connection->address;
    snprintf(ret, size, "unix");
    if (address->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->ip4.sin_addr, ret, (socklen_t)size);
    } else if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->ip6.sin6_addr, ret, (socklen_t)size);
    }
}

void http_set_account(struct http_request *request, unsigned account)
{
    request->account = request->connection->account = account;
}

void http_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void *http_user(const struct http_request *request)
{
    return request->user;
}
