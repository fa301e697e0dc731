/* The parts of a request's head that we read ourselves, and the address to listen on: the first byte chooses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/format/digest.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"
#include "server/front/routes.h"
#include "server/host/listen.h"
#include "server/kit/ident.h"
#include "tests/fuzz/fuzz.h"

static const char right_key[] = "sesame:open";

static bool identify(const char *service_api_key, const char *authorization)
{
    static char name[] = "ci";
    static struct key_config key = {.name = name}, *keys = &key;
    const struct server_config config = {.keys = &keys, .n_keys = 1};
    struct caller caller = {0};
    sha256_of(right_key, strlen(right_key), key.sha256);
    bool identified = auth_identify(&config, service_api_key, authorization, &caller);
    REQUIRE(identified == (caller.key == &key));
    return identified;
}

/* Only the right key opens, in each of the three spellings, whatever stands around it. */
static void try_authorization(const char *text)
{
    CLEANUP(buf_free) struct buf basic = BUF_INIT;
    CLEANUP(buf_free) struct buf user_and_key = BUF_INIT;
    REQUIRE(identify(text, text) == (strcmp(text, right_key) == 0));
    if (identify(NULL, text)) {
        bool bearer = strncasecmp(text, "Bearer ", 7) == 0;
        REQUIRE(bearer || strncasecmp(text, "Basic ", 6) == 0);
        REQUIRE(!bearer || strcmp(text + strlen(text) - strlen(right_key), right_key) == 0);
    }
    /* The input as the user's name: a colon would end it. */
    buf_printf(&user_and_key, "%s:%s", text, right_key);
    buf_puts(&basic, "Basic ");
    base64_encode(user_and_key.data, user_and_key.len, &basic);
    REQUIRE(identify(NULL, basic.data) == !strchr(text, ':'));
}

static void try_ids(const char *text)
{
    char id[IDENT_BYTES];
    ident_choose(text, id);
    REQUIRE(ident_is_sane(id));
    REQUIRE((strcmp(id, text) == 0) == ident_is_sane(text));
    for (const char *c = id; *c; c++) {
        REQUIRE(*c > ' ' && *c < 0x7f && *c != '"' && *c != '\\');
    }
    if (ident_is_traceparent(text)) {
        REQUIRE(strlen(text) == 55 && strspn(text, "0123456789abcdef-") == 55);
    }
}

static void try_route(const char *text)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    const char *blank = strchr(text, ' ');
    CLEANUP(freep) char *method = strndup(text, blank ? (size_t)(blank - text) : 0);
    const char *path = blank ? blank + 1 : text;
    for (size_t i = 0; i <= ARRAY_SIZE(methods); i++) {
        const struct route *known;
        char allow[ROUTE_ALLOW_BYTES];
        const struct route *route =
            route_find(i < ARRAY_SIZE(methods) ? methods[i] : method, path, &known, allow);
        REQUIRE(!route || known);
        size_t fixed = route ? strcspn(route->path, "{") : 0;
        REQUIRE(!route || strncmp(route->path, path, fixed) == 0);
        size_t length = 0;
        const char *argument = route ? route_argument(route, path, &length) : "";
        const char *brace = route ? strrchr(route->path, '}') : NULL, *suffix = brace ? brace + 1 : "";
        REQUIRE(!route || route->path[fixed] == '{' ||
                (strcmp(route->path, path) == 0 && length == 0 && *argument == '\0'));
        REQUIRE(!route || route->path[fixed] != '{' ||
                (argument == path + fixed && length > 0 && strcmp(argument + length, suffix) == 0));
        REQUIRE((known != NULL) == (allow[0] != '\0'));
    }
}

static void try_address(const char *text)
{
    struct listen_address address = {0};
    struct err err = {0};
    char again[sizeof address.host + sizeof address.port + sizeof address.path + 8];
    if (listen_parse(text, &address, &err) < 0) {
        REQUIRE(err.kind == ERR_CONFIG && strcmp(err.item, "listen") == 0 && err.text[0] != '\0');
        return;
    }
    bool brackets = strchr(address.host, ':') != NULL;
    if (address.is_unix) {
        snprintf(again, sizeof again, "unix:%s", address.path);
    } else {
        snprintf(again, sizeof again, brackets ? "[%s]:%s" : "%s:%s", address.host, address.port);
    }
    REQUIRE(strcmp(again, text) == 0 || text[0] == '[');
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const char *text) = {try_authorization, try_ids, try_route, try_address};
    if (size == 0) {
        return;
    }
    CLEANUP(freep) char *text = strndup((const char *)data + 1, size - 1);
    REQUIRE(text);
    tries[data[0] % ARRAY_SIZE(tries)](text);
}
