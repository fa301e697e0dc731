/* Names of callback hosts and their addresses. Runs in the front once, before it is confined: from then on
 * nothing in it can ask for a name, and no answer of a name server can lead it anywhere.
 *
 * A name stands for public addresses only, unless its entry says otherwise: whoever answers for the name
 * could otherwise point calls at this host or its neighbours. "localhost" is not asked for. */
#include "server/bridge/callback_hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/server/callback_url.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "server/kit/log.h"

#define ADDRESSES_MAX 16 /* of one name */

/* Both families in one form: IPv4 as IPv4-mapped. */
struct address {
    unsigned char bytes[16];
};

/* For all names together; the one that is being looked up then may take some seconds more. The front has to
 * say that it serves meanwhile (front_timeout_ms). */
#define LOOK_UP_NS (5 * NS_PER_S)

struct host {
    char name[CALLBACK_HOST_BYTES];
    uint16_t port;
    struct address addresses[ADDRESSES_MAX];
    size_t n;
};

struct callback_hosts {
    struct host *hosts;
    size_t n_hosts;
    char **resolved;
    uint64_t until_ns; /* for looking up */
};

static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool read_address(const struct sockaddr *from, struct address *ret)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof in);
        memcpy(ret->bytes, mapped, sizeof mapped);
        memcpy(ret->bytes + sizeof mapped, &in.sin_addr, 4);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, from, sizeof in6);
        memcpy(ret->bytes, &in6.sin6_addr, 16);
        return true;
    }
    return false;
}

/* ---- Which addresses are public ---- */

struct range {
    unsigned char bytes[16];
    unsigned bits;
};

static const struct range not_public_ipv4[] = {
    {{0}, 8},             /* this network */
    {{10}, 8},            /* private */
    {{100, 64}, 10},      /* behind a provider's translation */
    {{127}, 8},           /* loopback */
    {{169, 254}, 16},     /* link-local, and clouds' metadata */
    {{172, 16}, 12},      /* private */
    {{192, 0, 0}, 24},    /* protocol assignments */
    {{192, 0, 2}, 24},    /* documentation */
    {{192, 88, 99}, 24},  /* 6to4 relays */
    {{192, 168}, 16},     /* private */
    {{198, 18}, 15},      /* benchmarks */
    {{198, 51, 100}, 24}, /* documentation */
    {{203, 0, 113}, 24},  /* documentation */
    {{224}, 4},           /* groups */
    {{240}, 4},           /* reserved, broadcast */
};

static const struct range not_public_ipv6[] = {
    {{0}, 8},                          /* unspecified, loopback, IPv4 in disguise (but for mapped) */
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 48}, /* local translation */
    {{1}, 8},                          /* discard */
    {{0x20, 0x01, 0x00}, 23},          /* protocol assignments, Teredo */
    {{0x20, 0x01, 0x0d, 0xb8}, 32},    /* documentation */
    {{0x20, 0x02}, 16},                /* 6to4 */
    {{0x3f, 0xff}, 20},                /* documentation */
    {{0x5f, 0x00}, 16},                /* segment routing */
    {{0xfc}, 7},                       /* private */
    {{0xfe, 0x80}, 10},                /* link-local */
    {{0xfe, 0xc0}, 10},                /* site-local */
    {{0xff}, 8},                       /* groups */
};

static bool in_range(const unsigned char *bytes, const struct range *range)
{
    unsigned whole = range->bits / 8, rest = range->bits % 8;
    if (memcmp(bytes, range->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || (bytes[whole] ^ range->bytes[whole]) >> (8 - rest) == 0;
}

static bool in_any(const unsigned char *bytes, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (in_range(bytes, &ranges[i])) {
            return true;
        }
    }
    return false;
}

static bool is_public(const struct address *address)
{
    static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b};
    const unsigned char *bytes = address->bytes;
    if (memcmp(bytes, mapped, sizeof mapped) == 0 || memcmp(bytes, nat64, sizeof nat64) == 0) {
        return !in_any(bytes + 12, not_public_ipv4, ARRAY_SIZE(not_public_ipv4));
    }
    return !in_any(bytes, not_public_ipv6, ARRAY_SIZE(not_public_ipv6));
}

bool callback_address_is_public(const struct sockaddr *address)
{
    struct address read;
    return read_address(address, &read) && is_public(&read);
}

/* ---- Names ---- */

static void add_address(struct host *host, const struct sockaddr *from, bool private_allowed, struct log *log)
{
    struct address address;
    if (!read_address(from, &address) || host->n == ADDRESSES_MAX) {
        return;
    }
    for (size_t i = 0; i < host->n; i++) {
        if (memcmp(&host->addresses[i], &address, sizeof address) == 0) {
            return;
        }
    }
    if (!private_allowed && !is_public(&address)) {
        LOG(log, LOG_WARNING, "callback_address_refused", LOG_FIELD_STR("host", host->name),
            LOG_FIELD_STR("means",
                          "it is not public; private_addresses of a callback, or egress_private_host, "
                          "would allow it"));
        return;
    }
    host->addresses[host->n++] = address;
}

static void add_localhost(struct host *host, struct log *log)
{
    const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    add_address(host, (const struct sockaddr *)&v4, true, log);
    add_address(host, (const struct sockaddr *)&v6, true, log);
}

static void warn_unknown(const struct host *host, const char *error, struct log *log)
{
    LOG(log, LOG_WARNING, "callback_host_unknown", LOG_FIELD_STR("host", host->name),
        LOG_FIELD_STR("error", error),
        LOG_FIELD_STR("means", "what connects to it fails until the configuration is loaded again"));
}

static void look_up(struct host *host, bool private_allowed, struct log *log)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int r = getaddrinfo(host->name, NULL, &hints, &found);
    if (r != 0) {
        warn_unknown(host, gai_strerror(r), log);
        return;
    }
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        add_address(host, at->ai_addr, private_allowed, log);
    }
    freeaddrinfo(found);
}

static struct host *find_host(const struct callback_hosts *hosts, const char *name, uint16_t port)
{
    for (size_t i = 0; i < hosts->n_hosts; i++) {
        if (hosts->hosts[i].port == port && strcmp(hosts->hosts[i].name, name) == 0) {
            return &hosts->hosts[i];
        }
    }
    return NULL;
}

static const struct host *find_name(const struct callback_hosts *hosts, const char *name)
{
    for (size_t i = 0; i < hosts->n_hosts; i++) {
        if (strcmp(hosts->hosts[i].name, name) == 0) {
            return &hosts->hosts[i];
        }
    }
    return NULL;
}

static void add_host(struct callback_hosts *hosts, const struct callback_url *url, bool private_allowed,
                     struct log *log)
{
    struct host *host = find_host(hosts, url->host, url->port);
    if (url->is_literal || host) {
        return;
    }
    const struct host *same = find_name(hosts, url->host);
    host = &hosts->hosts[hosts->n_hosts++];
    snprintf(host->name, sizeof host->name, "%s", url->host);
    host->port = url->port;
    if (callback_url_is_localhost(url)) {
        add_localhost(host, log);
    } else if (same) {
        memcpy(host->addresses, same->addresses, sizeof host->addresses);
        host->n = same->n;
    } else if (clock_now_ns() >= hosts->until_ns) {
        warn_unknown(host, "others took too long to look up", log);
    } else {
        look_up(host, private_allowed, log);
    }
}

/* Several entries may name one host; the address is allowed if one of them allows it. */
static bool any_allows_private(const struct callback_config *entries, size_t n,
                               const struct callback_url *url)
{
    bool allowed = false;
    for (size_t i = 0; i < n; i++) {
        allowed = allowed || (entries[i].private_addresses && strcmp(entries[i].url.host, url->host) == 0);
    }
    return allowed;
}

static char *describe(const struct host *host)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, "%s:%u:", host->name, host->port);
    for (size_t i = 0; i < host->n; i++) {
        const unsigned char *bytes = host->addresses[i].bytes;
        char number[INET6_ADDRSTRLEN] = "";
        bool is_ipv4 = memcmp(bytes, mapped, sizeof mapped) == 0;
        inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? bytes + sizeof mapped : bytes, number,
                  sizeof number);
        buf_printf(&text, is_ipv4 ? "%s%s" : "%s[%s]", i > 0 ? "," : "", number);
    }
    char *described = text.failed ? NULL : buf_steal(&text);
    buf_free(&text);
    return described;
}

static int describe_all(struct callback_hosts *hosts)
{
    hosts->resolved = calloc(hosts->n_hosts + 1, sizeof *hosts->resolved);
    size_t n = 0;
    for (size_t i = 0; hosts->resolved && i < hosts->n_hosts; i++) {
        if (hosts->hosts[i].n > 0) {
            hosts->resolved[n] = describe(&hosts->hosts[i]);
            if (!hosts->resolved[n++]) {
                return -ENOMEM;
            }
        }
    }
    return hosts->resolved ? 0 : -ENOMEM;
}

int callback_hosts_new(const struct callback_config *entries, size_t n_entries, struct log *log,
                       struct callback_hosts **ret, struct err *reterr)
{
    struct callback_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts) {
        hosts->hosts = calloc(n_entries + 1, sizeof *hosts->hosts);
    }
    if (!hosts || !hosts->hosts) {
        callback_hosts_free(hosts);
        return err_errno(reterr, ENOMEM, "looking up callback hosts");
    }
    hosts->until_ns = clock_now_ns() + LOOK_UP_NS;
    for (size_t i = 0; i < n_entries; i++) {
        const struct callback_url *url = &entries[i].url;
        add_host(hosts, url, any_allows_private(entries, n_entries, url), log);
    }
    if (describe_all(hosts) < 0) {
        callback_hosts_free(hosts);
        return err_errno(reterr, ENOMEM, "looking up callback hosts");
    }
    *ret = hosts;
    return 0;
}

bool callback_hosts_use_https(const struct callback_config *entries, size_t n_entries)
{
    bool https = false;
    for (size_t i = 0; i < n_entries; i++) {
        https = https || entries[i].url.https;
    }
    return https;
}

void callback_hosts_free(struct callback_hosts *hosts)
{
    if (hosts) {
        for (char **text = hosts->resolved; text && *text; text++) {
            free(*text);
        }
        free(hosts->resolved);
        free(hosts->hosts);
        free(hosts);
    }
}

const char *const *callback_hosts_resolved(const struct callback_hosts *hosts)
{
    return (const char *const *)hosts->resolved;
}

static bool read_literal(const struct callback_url *url, struct address *ret)
{
    memcpy(ret->bytes, mapped, sizeof mapped);
    return inet_pton(url->is_ipv6 ? AF_INET6 : AF_INET, url->host,
                     url->is_ipv6 ? ret->bytes : ret->bytes + sizeof mapped) == 1;
}

static bool is_literal_of(const struct callback_url *url, const struct address *address)
{
    struct address named;
    return read_literal(url, &named) && memcmp(&named, address, sizeof named) == 0;
}

static void write_address(const struct address *address, uint16_t port, struct sockaddr_storage *ret)
{
    *ret = (struct sockaddr_storage){0};
    if (memcmp(address->bytes, mapped, sizeof mapped) == 0) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, address->bytes + sizeof mapped, sizeof in.sin_addr);
        memcpy(ret, &in, sizeof in);
    } else {
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&in6.sin6_addr, address->bytes, sizeof in6.sin6_addr);
        memcpy(ret, &in6, sizeof in6);
    }
}

size_t callback_hosts_addresses(const struct callback_hosts *hosts, const struct callback_url *url,
                                struct sockaddr_storage *ret, size_t max)
{
    struct address literal;
    if (url->is_literal) {
        if (max == 0 || !read_literal(url, &literal)) {
            return 0;
        }
        write_address(&literal, url->port, ret);
        return 1;
    }
    const struct host *host = find_host(hosts, url->host, url->port);
    size_t n = host ? (host->n < max ? host->n : max) : 0;
    for (size_t i = 0; i < n; i++) {
        write_address(&host->addresses[i], url->port, &ret[i]);
    }
    return n;
}

static bool is_loopback(const struct address *address)
{
    static const unsigned char v6[16] = {[15] = 1};
    return (memcmp(address->bytes, mapped, sizeof mapped) == 0 && address->bytes[12] == 127) ||
           memcmp(address->bytes, v6, sizeof v6) == 0;
}

bool callback_hosts_may_connect(const struct callback_hosts *hosts, const struct callback_url *url,
                                const struct sockaddr *address)
{
    struct address read;
    if (!read_address(address, &read)) {
        return false;
    }
    if (url->is_literal) {
        return is_literal_of(url, &read);
    }
    const struct host *host = find_host(hosts, url->host, url->port);
    for (size_t i = 0; host && i < host->n; i++) {
        if (memcmp(&host->addresses[i], &read, sizeof read) == 0) {
            return true;
        }
    }
    return callback_url_is_localhost(url) && is_loopback(&read);
}
