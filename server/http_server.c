/* The HTTP server's life: libmicrohttpd loaded, started, run and stopped. Runs in the front, single-threaded:
 * libmicrohttpd has no thread of its own, its epoll descriptor is one more source of our loop. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/http.h"
#include "server/http_connection.h"
#include "server/http_internal.h"
#include "server/http_syntax.h"

#define LIBRARY "libmicrohttpd.so.12"

/* How often a server without a free place looks for a connection that can be closed. */
#define FULL_POLL_MS 100

/* A connection for which there is no memory has no context, and its first request closes it. */
static void on_connection(void *arg, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = server->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *slot = http_connection_new(&server->connections, mhd, fd);
    } else if (*slot) {
        http_connection_free(*slot);
        *slot = NULL;
    }
}

/* The target, before libmicrohttpd cuts its query off and hides where it ended. What this returns would be
 * the request's slot. */
static void *note_target(void *arg, const char *target, struct MHD_Connection *mhd)
{
    struct http_server *server = arg;
    struct http_connection *connection =
        server->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (connection) {
        connection->target_end = target + strlen(target);
        connection->target_is_sound = http_syntax_is_target(target);
    }
    return NULL;
}

/* Paths stay as they were sent: "%2f" in one must not become a separator, nor "%00" its end. */
static size_t keep_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

static int load_library(struct microhttpd *mhd, struct err *reterr)
{
    mhd->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *missing = NULL;
#define X(name)                                                                                              \
    if (mhd->handle && !missing) {                                                                           \
        *(void **)&mhd->name = dlsym(mhd->handle, "MHD_" #name);                                             \
        missing = mhd->name ? NULL : "MHD_" #name;                                                           \
    }
    HTTP_LIBRARY_FUNCTIONS
#undef X
    if (!mhd->handle || missing) {
        return err_set(reterr, ERR_HOST, ENOENT, LIBRARY, "cannot load %s: %s; install libmicrohttpd",
                       LIBRARY, dlerror());
    }
    return 0;
}

static int start_daemon(struct http_server *server, struct err *reterr)
{
    const struct http_options *options = &server->options;
    /* libmicrohttpd answers headers that do not fit into a connection's memory itself, as HTML; ours is JSON
     * and comes first as long as they fit here. */
    size_t memory = options->max_header_bytes * 4 + 65536;
    uint64_t stalled_ms = options->idle_timeout_ms > options->request_timeout_ms
                              ? options->idle_timeout_ms
                              : options->request_timeout_ms;
    server->daemon = server->mhd.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, http_handle, server, /* */
        MHD_OPTION_LISTEN_SOCKET, options->listen_fd,                                 /* */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,                                   /* */
        MHD_OPTION_CONNECTION_LIMIT, options->max_connections,                        /* */
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->max_connections_per_address,     /* */
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(stalled_ms / 1000 + 1), /* for replies that nobody reads */
        MHD_OPTION_STRICT_FOR_CLIENT, 1,                                  /* */
        MHD_OPTION_URI_LOG_CALLBACK, note_target, server,                 /* */
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,                 /* */
        MHD_OPTION_NOTIFY_COMPLETED, http_completed, NULL,                /* */
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,              /* */
        MHD_OPTION_END);
    if (!server->daemon) {
        return err_set(reterr, ERR_INTERNAL, errno, NULL, "libmicrohttpd did not start: %s", strerror(errno));
    }
    return 0;
}

static void on_socket(void *arg, uint32_t events)
{
    (void)arg;
    (void)events; /* http_server_run() follows */
}

static int open_budgets(struct http_server *server, struct err *reterr)
{
    const struct http_options *options = &server->options;
    int r = budget_open(&server->bodies, options->max_bodies_bytes, SIZE_MAX, options->n_accounts);
    r = r < 0 ? r
              : budget_open(&server->small_bodies, options->max_small_bodies_bytes, SIZE_MAX,
                            options->n_accounts);
    return r < 0 ? err_errno(reterr, -r, "starting the HTTP server") : http_unread_start(server, reterr);
}

int http_server_new(struct loop *loop, const struct http_options *options, const struct http_events *events,
                    void *arg, struct http_server **ret, struct err *reterr)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) {
        return err_errno(reterr, ENOMEM, "starting the HTTP server");
    }
    *server = (struct http_server){.loop = loop, .options = *options, .events = *events, .arg = arg};
    server->connections = (struct http_connections){
        .loop = loop, .arg = server, .too_slow = http_on_too_slow, .hung_up = http_on_hung_up};
    int r = load_library(&server->mhd, reterr);
    r = r < 0 ? r : open_budgets(server, reterr);
    server->reads_in_place = r == 0 && strncmp(server->mhd.get_version(), "0.9.", 4) == 0;
    r = r < 0 ? r
              : http_connections_start(&server->connections, options->idle_timeout_ms,
                                       options->request_timeout_ms, reterr);
    if (r == 0) {
        r = start_daemon(server, reterr);
    }
    if (r == 0) {
        int epoll = server->mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
        r = loop_add(loop, epoll, EPOLLIN, on_socket, server, &server->source, reterr);
    }
    if (r < 0) {
        http_server_free(server);
        return r;
    }
    *ret = server;
    return 0;
}

void http_server_free(struct http_server *server)
{
    if (!server) {
        return;
    }
    if (server->daemon) {
        /* libmicrohttpd does not stop while a connection is suspended. */
        for (struct http_connection *connection = server->connections.first; connection;
             connection = connection->next) {
            if (http_is_suspended(server, connection)) {
                http_on_hung_up(connection);
            }
        }
        server->mhd.quiesce_daemon(server->daemon);
        server->mhd.run(server->daemon);
        loop_remove(server->source);
        server->mhd.stop_daemon(server->daemon);
    }
    http_connections_stop(&server->connections);
    http_unread_stop(server);
    budget_close(&server->bodies);
    budget_close(&server->small_bodies);
    if (server->mhd.handle) {
        dlclose(server->mhd.handle);
    }
    free(server);
}

static bool is_full(const struct http_server *server)
{
    return server->connections.count >= server->options.max_connections && !server->draining;
}

int http_server_timeout_ms(const struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    int longest_ms = is_full(server) ? FULL_POLL_MS : -1;
    if (server->mhd.get_timeout(server->daemon, &timeout_ms) != MHD_YES) {
        return longest_ms;
    }
    longest_ms = longest_ms < 0 ? INT32_MAX : longest_ms;
    return timeout_ms > (unsigned)longest_ms ? longest_ms : (int)timeout_ms;
}

void http_server_run(struct http_server *server)
{
    size_t before = server->connections.count;
    server->mhd.run(server->daemon);
    if (server->connections.count < before) {
        /* At its limit libmicrohttpd stops listening, and it listens again only when it runs once more:
         * nothing would wake it. */
        server->mhd.run(server->daemon);
    }
    http_connections_close_ended(&server->connections);
    if (is_full(server)) {
        http_connections_close_oldest(&server->connections);
    }
}

void http_server_drain(struct http_server *server, bool take_waiting)
{
    bool more = take_waiting;
    while (more) { /* what the kernel has accepted for us is not turned away */
        size_t before = server->connections.count;
        server->mhd.run(server->daemon);
        more = server->connections.count > before;
    }
    server->draining = true;
    server->mhd.quiesce_daemon(server->daemon);
    http_connections_close_idle(&server->connections);
}

size_t http_server_busy(const struct http_server *server)
{
    return server->connections.count - http_connections_waiting(&server->connections);
}

size_t http_server_connections(const struct http_server *server)
{
    return server->connections.count;
}
