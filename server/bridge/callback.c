/* Tool calls over HTTP, through libcurl: the only file that includes it. Runs in the front, on its loop,
 * without a thread: the multi interface says which sockets to watch and when to look again.
 *
 * What must hold: a call goes where the configuration allows and nowhere else. The URL was checked by whoever
 * calls; names were looked up beforehand (callback_hosts.c); each socket's address is checked once more
 * before it is connected; redirects are not followed, and no proxy, cookie, password or protocol but HTTP
 * comes in from anywhere. And it is made once: whoever hangs up on it may have heard it. */
#include "server/bridge/callback.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "config/format/digest.h"
#include "config/server/callback_url.h"
#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/bridge/callback_hosts.h"
#include "server/host/certificates.h"

#define CONNECT_MS       10000L
#define IDLE_HANDLES_MAX 32u
#define CONNECTIONS_MAX  64L /* kept open */
/* Not used any more after that and less than another second: most servers close what is idle later, and a
 * call on a connection that is just being closed would fail. */
#define IDLE_CONNECTION_S 1L

struct callback_client {
    struct loop *loop;
    struct loop_source *timer;
    struct callback_places places;
    struct callback_hosts *hosts;
    struct buf ca; /* certificates; empty: none */
    CURLM *multi;
    struct curl_slist *resolved;
    struct callback_transfer *transfers, *idle; /* under way, and handles to be used again */
    size_t n_idle;
    bool driving; /* inside drive() */
    bool due;     /* libcurl wants to be called at once */
    bool has_unwatched;
};

struct callback_transfer {
    struct callback_client *client;
    struct callback_transfer *previous, *next;
    CURL *easy;
    struct callback_url url;
    struct curl_slist *headers;
    char *body;
    struct buf answer;
    bool connects; /* and nothing else */
    bool sent;
    bool too_large, refused; /* the answer; the address */
    bool unwatched;          /* nobody would hear of what its socket has to say */
    void (*done)(void *arg, const struct callback_answer *answer);
    void *arg;
};

/* ---- Sockets and time ---- */

static void drive(struct callback_client *client, curl_socket_t socket, int what);

static void on_timer(void *arg, uint32_t events)
{
    (void)events;
    drive(arg, CURL_SOCKET_TIMEOUT, 0);
}

struct watched {
    struct callback_client *client;
    struct loop_source *source;
    curl_socket_t fd;
};

static void on_socket(void *arg, uint32_t events)
{
    struct watched *watched = arg;
    int what = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    drive(watched->client, watched->fd, what);
}

static void unwatch(struct callback_client *client, curl_socket_t fd, struct watched *watched)
{
    if (watched) {
        loop_remove(watched->source);
        free(watched);
        curl_multi_assign(client->multi, fd, NULL);
    }
}

static int watch(struct callback_client *client, curl_socket_t fd, uint32_t events, struct watched *watched)
{
    if (watched) {
        return loop_modify(watched->source, events);
    }
    watched = calloc(1, sizeof *watched);
    if (!watched) {
        return -ENOMEM;
    }
    *watched = (struct watched){.client = client, .fd = fd};
    int r = loop_add(client->loop, fd, events, on_socket, watched, &watched->source, NULL);
    if (r < 0) {
        free(watched);
        return r;
    }
    curl_multi_assign(client->multi, fd, watched);
    return 0;
}

static struct callback_transfer *transfer_of(CURL *easy)
{
    char *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return (struct callback_transfer *)(void *)transfer;
}

/* Never tells libcurl of an error: it would end every transfer, and begin none any more. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
    struct callback_client *client = arg;
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (what == CURL_POLL_REMOVE) {
        unwatch(client, fd, of_socket);
    } else if (watch(client, fd, events, of_socket) < 0) {
        struct callback_transfer *transfer = transfer_of(easy);
        if (transfer) {
            transfer->unwatched = true;
            client->has_unwatched = true;
        }
    }
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct callback_client *client = arg;
    client->due = timeout_ms == 0;
    uint64_t deadline_ns = timeout_ms > 0 ? clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS : 0;
    loop_timer_set(client->timer, deadline_ns);
    return 0;
}

/* The last look at an address before it is connected. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct callback_transfer *transfer = arg;
    if (purpose != CURLSOCKTYPE_IPCXN ||
        !callback_hosts_may_connect(transfer->client->hosts, &transfer->url, &address->addr)) {
        transfer->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
}

/* libcurl would send a call again whose connection, an old one, ends without an answer. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcurl's */
static int send_once(void *arg, char *to, char *from, int to_port, int from_port)
{
    (void)to;
    (void)from;
    (void)to_port;
    (void)from_port;
    struct callback_transfer *transfer = arg;
    int r = transfer->sent ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
    transfer->sent = true;
    return r;
}

static size_t take_answer(char *data, size_t size, size_t n, void *arg)
{
    struct callback_transfer *transfer = arg;
    size_t bytes = size * n;
    if (bytes > transfer->client->places.max_answer_bytes - transfer->answer.len) {
        transfer->too_large = true;
        return 0;
    }
    return buf_append(&transfer->answer, data, bytes) < 0 ? 0 : bytes;
}

/* ---- Transfers ---- */

static void unlink_transfer(struct callback_transfer *transfer)
{
    struct callback_client *client = transfer->client;
    *(transfer->previous ? &transfer->previous->next : &client->transfers) = transfer->next;
    if (transfer->next) {
        transfer->next->previous = transfer->previous;
    }
    transfer->previous = transfer->next = NULL;
}

static void transfer_free(struct callback_transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    buf_free(&transfer->answer);
    free(transfer->body);
    free(transfer);
}

/* Takes a transfer out of the multi handle and keeps its easy handle for the next. */
static void retire(struct callback_transfer *transfer)
{
    struct callback_client *client = transfer->client;
    curl_multi_remove_handle(client->multi, transfer->easy);
    unlink_transfer(transfer);
    if (client->n_idle == IDLE_HANDLES_MAX || transfer->connects) {
        transfer_free(transfer);
        return;
    }
    curl_slist_free_all(TAKE_PTR(transfer->headers));
    buf_free(&transfer->answer);
    free(TAKE_PTR(transfer->body));
    transfer->next = client->idle;
    client->idle = transfer;
    client->n_idle++;
}

/* What does not change from call to call. False: the library does not know one of them, which would be a
 * hole. */
static bool set_constants(struct callback_transfer *transfer)
{
    const struct callback_client *client = transfer->client;
    CURL *easy = transfer->easy;
    const curl_prereq_callback once = send_once;
    CURLcode r = CURLE_OK;
#define SET(option, value) r = r == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_##option, value) : r
    SET(PROTOCOLS_STR, "http,https");
    SET(FOLLOWLOCATION, 0L);
    SET(PROXY, "");
    SET(NOPROXY, "*");
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CAINFO, NULL);
    SET(CAPATH, NULL);
    if (client->ca.len > 0) {
        struct curl_blob blob = {.data = client->ca.data, .len = client->ca.len, .flags = CURL_BLOB_NOCOPY};
        SET(CAINFO_BLOB, &blob);
    }
    SET(RESOLVE, client->resolved);
    SET(NOSIGNAL, 1L);
    SET(NOPROGRESS, 1L);
    SET(POST, 1L);
    SET(PATH_AS_IS, 1L);
    SET(USERAGENT, "immure/" IMMURE_VERSION);
    SET(CONNECTTIMEOUT_MS, CONNECT_MS);
    SET(OPENSOCKETFUNCTION, open_socket);
    SET(OPENSOCKETDATA, transfer);
    SET(MAXAGE_CONN, IDLE_CONNECTION_S);
    SET(PREREQFUNCTION, once);
    SET(PREREQDATA, transfer);
    SET(WRITEFUNCTION, take_answer);
    SET(WRITEDATA, transfer);
    SET(PRIVATE, transfer);
    return r == CURLE_OK;
}

static struct callback_transfer *take_transfer(struct callback_client *client)
{
    struct callback_transfer *transfer = client->idle;
    if (transfer) {
        client->idle = transfer->next;
        client->n_idle--;
    } else {
        transfer = calloc(1, sizeof *transfer);
        if (!transfer) {
            return NULL;
        }
        transfer->client = client;
        transfer->easy = curl_easy_init();
        if (!transfer->easy || !set_constants(transfer)) {
            transfer_free(transfer);
            return NULL;
        }
    }
    transfer->sent = transfer->too_large = transfer->refused = transfer->unwatched = false;
    transfer->next = client->transfers;
    if (transfer->next) {
        transfer->next->previous = transfer;
    }
    client->transfers = transfer;
    return transfer;
}

static int add_header(struct callback_transfer *transfer, const char *name, const char *value)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    buf_printf(&line, "%s:%s%s", name, *value ? " " : "", value);
    struct curl_slist *longer = line.failed ? NULL : curl_slist_append(transfer->headers, line.data);
    if (!longer) {
        return -ENOMEM;
    }
    transfer->headers = longer;
    return 0;
}

static int sign(struct callback_transfer *transfer, const struct callback_request *request)
{
    static const char scheme[] = "sha256=";
    char value[sizeof scheme + SHA256_HEX], hex[SHA256_HEX];
    hmac_sha256_hex_of(request->secret, request->body, request->body_size, hex);
    snprintf(value, sizeof value, "%s%s", scheme, hex);
    return add_header(transfer, "X-Immure-Signature", value);
}

static int set_request(struct callback_transfer *transfer, const struct callback_request *request)
{
    CURL *easy = transfer->easy;
    const char *why;
    transfer->body = strndup(request->body, request->body_size);
    int r = transfer->body ? callback_url_parse(request->url, &transfer->url, &why) : -ENOMEM;
    r = r < 0 ? r : add_header(transfer, "Content-Type", "application/json");
    r = r < 0 ? r : add_header(transfer, "Accept", "application/json");
    r = r < 0 ? r : add_header(transfer, "Expect", ""); /* not to be asked before the body is sent */
    r = r < 0 || !request->request_id ? r : add_header(transfer, "X-Request-Id", request->request_id);
    r = r < 0 || !request->header ? r : add_header(transfer, request->header, request->header_value);
    r = r < 0 || !*request->traceparent ? r : add_header(transfer, "traceparent", request->traceparent);
    r = r < 0 || !*request->secret ? r : sign(transfer, request);
    if (r < 0) {
        return r;
    }
    bool ok =
        curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer->body) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms) == CURLE_OK;
    return ok ? 0 : -ENOMEM;
}

int callback_post(struct callback_client *client, const struct callback_request *request,
                  struct callback_transfer **ret)
{
    struct callback_transfer *transfer = take_transfer(client);
    if (!transfer) {
        return -ENOMEM;
    }
    transfer->done = request->done;
    transfer->arg = request->arg;
    int r = set_request(transfer, request);
    if (r == 0 && curl_multi_add_handle(client->multi, transfer->easy) != CURLM_OK) {
        r = -ENOMEM;
    }
    if (r < 0) {
        retire(transfer);
        return r;
    }
    *ret = transfer;
    return 0;
}

void callback_cancel(struct callback_transfer *transfer)
{
    retire(transfer);
}

/* ---- Connections ---- */

int callback_connect(struct callback_client *client, const struct callback_config *to,
                     void (*done)(void *arg, const struct callback_answer *answer), void *arg,
                     struct callback_transfer **ret)
{
    struct sockaddr_storage known;
    if (callback_hosts_addresses(client->hosts, &to->url, &known, 1) == 0) {
        return -EHOSTUNREACH; /* libcurl would look it up, which this process may not */
    }
    struct callback_transfer *transfer = take_transfer(client);
    if (!transfer) {
        return -ENOMEM;
    }
    transfer->url = to->url;
    transfer->done = done;
    transfer->arg = arg;
    transfer->connects = true;
    if (curl_easy_setopt(transfer->easy, CURLOPT_URL, to->text) != CURLE_OK ||
        curl_easy_setopt(transfer->easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK ||
        curl_easy_setopt(transfer->easy, CURLOPT_TIMEOUT_MS, 0L) != CURLE_OK ||
        curl_multi_add_handle(client->multi, transfer->easy) != CURLM_OK) {
        retire(transfer);
        return -ENOMEM;
    }
    *ret = transfer;
    return 0;
}

int callback_fd(const struct callback_transfer *transfer)
{
    curl_socket_t fd = -1;
    curl_easy_getinfo(transfer->easy, CURLINFO_ACTIVESOCKET, &fd);
    return fd;
}

ssize_t callback_send(struct callback_transfer *transfer, const void *data, size_t size)
{
    size_t n = 0;
    CURLcode r = curl_easy_send(transfer->easy, data, size, &n);
    return r == CURLE_OK ? (ssize_t)n : r == CURLE_AGAIN ? -EAGAIN : -EPIPE;
}

ssize_t callback_receive(struct callback_transfer *transfer, void *data, size_t size)
{
    size_t n = 0;
    CURLcode r = curl_easy_recv(transfer->easy, data, size, &n);
    return r == CURLE_OK ? (ssize_t)n : r == CURLE_AGAIN ? -EAGAIN : -EPIPE;
}

/* ---- Ends ---- */

static const char *reason(const struct callback_transfer *transfer, CURLcode code)
{
    if (transfer->too_large) {
        return "the answer is too large";
    }
    if (transfer->refused) {
        return "that address is not allowed";
    }
    if (code == CURLE_OPERATION_TIMEDOUT) {
        return "timed out";
    }
    return curl_easy_strerror(code == CURLE_ABORTED_BY_CALLBACK ? CURLE_GOT_NOTHING : code);
}

static void end(struct callback_transfer *transfer, CURLcode code)
{
    struct callback_answer answer = {.outcome = CALLBACK_ANSWERED, .body = &transfer->answer};
    long status = 0;
    if (transfer->connects && code == CURLE_OK) {
        transfer->done(transfer->arg, &answer);
        return;
    }
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    answer.status = status;
    if (code != CURLE_OK || status == 0) {
        answer.outcome = CALLBACK_FAILED;
        answer.why = reason(transfer, code);
    }
    struct buf body = transfer->answer; /* `done` may begin the next call with this handle */
    transfer->answer = BUF_INIT;
    answer.body = &body;
    void (*done)(void *arg, const struct callback_answer *answer) = transfer->done;
    void *arg = transfer->arg;
    retire(transfer);
    done(arg, &answer);
    buf_free(&body);
}

/* One of them: what its end sets going may change the list. */
static void end_unwatched(struct callback_client *client)
{
    struct callback_transfer *transfer = client->transfers;
    while (transfer && !transfer->unwatched) {
        transfer = transfer->next;
    }
    client->has_unwatched = transfer != NULL;
    if (transfer) {
        end(transfer, CURLE_OUT_OF_MEMORY);
    }
}

static void collect(struct callback_client *client)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left));) {
        if (message->msg == CURLMSG_DONE) {
            CURLcode code = message->data.result; /* gone with the handle's removal */
            end(transfer_of(message->easy_handle), code);
        }
    }
    while (client->has_unwatched) {
        end_unwatched(client);
    }
}

/* What follows at once is done at once: a call that has just been added goes out without another round of the
 * loop. */
static void drive(struct callback_client *client, curl_socket_t socket, int what)
{
    int running;
    if (client->driving) {
        return;
    }
    client->driving = true;
    client->due = false;
    curl_multi_socket_action(client->multi, socket, what, &running);
    collect(client);
    for (int i = 0; client->due && i < 100; i++) {
        client->due = false;
        curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        collect(client);
    }
    client->driving = false;
}

void callback_client_run(struct callback_client *client)
{
    if (client->due) {
        drive(client, CURL_SOCKET_TIMEOUT, 0);
    }
    if (client->due) {
        loop_timer_set(client->timer, clock_now_ns());
    }
}

/* ---- Life ---- */

static int start(struct callback_client *client, struct log *log, struct err *reterr)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(reterr, ERR_HOST, EINVAL, NULL, "libcurl cannot start");
    }
    const struct callback_places *places = &client->places;
    bool https = places->any || callback_hosts_use_https(places->entries, places->n_entries);
    int r = https ? certificates_read(places->ca_file, "callback_ca_file", &client->ca, reterr) : 0;
    r = r < 0 ? r : callback_hosts_new(places->entries, places->n_entries, log, &client->hosts, reterr);
    r = r < 0 ? r : loop_add_timer(client->loop, on_timer, client, &client->timer, reterr);
    if (r < 0) {
        return r;
    }
    for (const char *const *text = callback_hosts_resolved(client->hosts); *text; text++) {
        struct curl_slist *longer = curl_slist_append(client->resolved, *text);
        if (!longer) {
            return err_errno(reterr, ENOMEM, "starting libcurl");
        }
        client->resolved = longer;
    }
    client->multi = curl_multi_init();
    bool ok = client->multi &&
              curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, watch_socket) == CURLM_OK &&
              curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client) == CURLM_OK &&
              curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, set_timer) == CURLM_OK &&
              curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client) == CURLM_OK &&
              curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX) == CURLM_OK;
    return ok ? 0 : err_errno(reterr, ENOMEM, "starting libcurl");
}

int callback_client_new(struct loop *loop, struct log *log, const struct callback_places *places,
                        struct callback_client **ret, struct err *reterr)
{
    struct callback_client *client = calloc(1, sizeof *client);
    if (!client) {
        return err_errno(reterr, ENOMEM, "starting the callback client");
    }
    client->loop = loop;
    client->places = *places;
    int r = start(client, log, reterr);
    if (r < 0) {
        callback_client_free(client);
        return r;
    }
    *ret = client;
    return 0;
}

void callback_client_free(struct callback_client *client)
{
    if (!client) {
        return;
    }
    while (client->transfers) {
        retire(client->transfers);
    }
    while (client->idle) {
        struct callback_transfer *transfer = client->idle;
        client->idle = transfer->next;
        transfer_free(transfer);
    }
    if (client->multi) {
        curl_multi_cleanup(client->multi);
    }
    if (client->resolved) {
        curl_slist_free_all(client->resolved);
    }
    loop_remove(client->timer);
    callback_hosts_free(client->hosts);
    buf_free(&client->ca);
    free(client); /* no curl_global_cleanup(): the process ends */
}
