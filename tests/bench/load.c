/* The load of `make bench`: clients that hold one connection each and send the same request over it, again
 * and again or once each at fixed intervals; prints every time as JSON.
 *
 * One thread and one epoll: what it costs is small beside a job. It ends by itself: no request is sent after
 * the time that it is given, and what has not answered GRACE_S later ends it with an error.
 *
 * With an interval, client i sends its only request at i intervals from the start, whether or not others have
 * answered, and the number that the program printed first, its own CLOCK_MONOTONIC in seconds, tells when it
 * ran.
 *
 * usage: load PORT REQUEST-FILE CLIENTS JOBS MILLISECONDS [INTERVAL-MS]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX   4096
#define JOBS_MAX      1000000
#define REQUEST_MAX   (1 << 16)
#define REPLY_MAX     (1 << 14)
#define EVENTS_MAX    64
#define GRACE_S       60
#define NS_PER_MS     1000000u
#define NS_PER_S      1000000000u
#define HTTP_OK       "HTTP/1.1 200"
#define LENGTH_HEADER "content-length:"
#define STDOUT_FIELD  "\"stdout\""

struct client {
    int sock;
    uint64_t sent_ns;
    size_t have;
    char reply[REPLY_MAX];
};

struct load {
    char request[REQUEST_MAX];
    size_t request_size;
    struct client *clients;
    size_t n_clients, jobs_max;
    uint64_t interval_ns; /* 0: each client sends again when it has its answer */
    uint64_t start_ns, stop_ns, end_ns;
    size_t sent, answered, refused;
    uint64_t *taken_ns;   /* of those answered with 200 */
    uint64_t *started_ns; /* with an interval: from the request to the program's first line */
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void *allocate(size_t n, size_t size)
{
    void *data = calloc(n, size);
    if (!data) {
        fail("out of memory");
    }
    return data;
}

static size_t number(const char *text, size_t max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || value > max) {
        fail("not a number, or too large");
    }
    return value;
}

static void read_request(struct load *load, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        fail(path);
    }
    load->request_size = fread(load->request, 1, sizeof load->request, file);
    fclose(file);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof address) != 0) {
        fail(strerror(errno));
    }
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return sock;
}

static void connect_all(struct load *load, int epoll, uint16_t port)
{
    for (size_t i = 0; i < load->n_clients; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        load->clients[i].sock = connect_to(port);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, load->clients[i].sock, &event) != 0) {
            fail(strerror(errno));
        }
    }
}

static bool may_send(const struct load *load, uint64_t now)
{
    return load->sent < load->jobs_max && now < load->stop_ns;
}

static void send_request(struct load *load, struct client *client)
{
    client->have = 0;
    client->sent_ns = now_ns();
    for (size_t sent = 0; sent < load->request_size;) {
        ssize_t n = send(client->sock, load->request + sent, load->request_size - sent, MSG_NOSIGNAL);
        if (n <= 0) {
            fail("the server closed a connection");
        }
        sent += (size_t)n;
    }
    load->sent++;
}

/* Is the whole reply there? */
static bool complete(const struct client *client)
{
    const char *end = strstr(client->reply, "\r\n\r\n");
    if (!end) {
        return false;
    }
    for (const char *line = client->reply; line < end; line = strstr(line, "\r\n") + 2) {
        if (strncasecmp(line, LENGTH_HEADER, strlen(LENGTH_HEADER)) == 0) {
            size_t body = strtoul(line + strlen(LENGTH_HEADER), NULL, 10);
            return client->have >= (size_t)(end + 4 - client->reply) + body;
        }
    }
    fail("a reply without Content-Length");
}

static uint64_t printed_ns(const char *reply)
{
    const char *field = strstr(reply, STDOUT_FIELD);
    const char *text = field ? strchr(field + strlen(STDOUT_FIELD), '"') : NULL;
    double seconds = text ? strtod(text + 1, NULL) : 0;
    if (seconds <= 0) {
        fail("the program printed no time");
    }
    return (uint64_t)(seconds * NS_PER_S);
}

static void take_answer(struct load *load, struct client *client, size_t index)
{
    load->end_ns = now_ns();
    if (strncmp(client->reply, HTTP_OK, strlen(HTTP_OK)) != 0) {
        load->refused++;
        fprintf(stderr, "load: %.200s\n", client->reply);
        return;
    }
    load->taken_ns[load->answered++] = load->end_ns - client->sent_ns;
    if (load->interval_ns) {
        uint64_t printed = printed_ns(client->reply);
        load->started_ns[index] = printed > client->sent_ns ? printed - client->sent_ns : 1;
    }
}

static void receive(struct load *load, size_t index)
{
    struct client *client = &load->clients[index];
    ssize_t n = recv(client->sock, client->reply + client->have, sizeof client->reply - 1 - client->have, 0);
    if (n <= 0) {
        fail("the server closed a connection, or a reply is too large");
    }
    client->have += (size_t)n;
    client->reply[client->have] = 0;
    if (complete(client)) {
        take_answer(load, client, index);
        if (!load->interval_ns && may_send(load, load->end_ns)) {
            send_request(load, client);
        }
    }
}

/* Sends what is due. Returns how long there is nothing to send, in milliseconds; -1: nothing is left to send.
 */
static int send_due(struct load *load)
{
    if (!load->interval_ns) {
        return -1;
    }
    uint64_t now = now_ns();
    while (load->sent < load->n_clients && load->start_ns + load->sent * load->interval_ns <= now) {
        send_request(load, &load->clients[load->sent]);
    }
    if (load->sent == load->n_clients) {
        return -1;
    }
    uint64_t due = load->start_ns + load->sent * load->interval_ns;
    return due > now ? (int)((due - now) / NS_PER_MS) + 1 : 0;
}

static void run(struct load *load, int epoll)
{
    struct epoll_event events[EVENTS_MAX];
    load->start_ns = now_ns();
    for (size_t i = 0; !load->interval_ns && i < load->n_clients && may_send(load, load->start_ns); i++) {
        send_request(load, &load->clients[i]);
    }
    for (;;) {
        int wait_ms = send_due(load);
        if (wait_ms < 0 && load->answered + load->refused == load->sent) {
            return;
        }
        int n = epoll_wait(epoll, events, EVENTS_MAX, wait_ms);
        if (n < 0 && errno != EINTR) {
            fail(strerror(errno));
        }
        for (int i = 0; i < n; i++) {
            receive(load, events[i].data.u64);
        }
    }
}

static void print_list(const char *name, const uint64_t *values, size_t n)
{
    printf(", \"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        printf("%s%llu", i ? ", " : "", (unsigned long long)values[i]);
    }
    printf("]");
}

int main(int argc, char **argv)
{
    static struct load load;
    struct rlimit files;
    if (argc != 6 && argc != 7) {
        fail("usage: load PORT REQUEST-FILE CLIENTS JOBS MILLISECONDS [INTERVAL-MS]");
    }
    uint16_t port = (uint16_t)number(argv[1], UINT16_MAX);
    read_request(&load, argv[2]);
    load.n_clients = number(argv[3], CLIENTS_MAX);
    load.jobs_max = number(argv[4], JOBS_MAX);
    size_t duration_ms = number(argv[5], 3600000);
    load.interval_ns = argc == 7 ? number(argv[6], 60000) * NS_PER_MS : 0;
    load.clients = allocate(load.n_clients, sizeof *load.clients);
    load.taken_ns = allocate(load.jobs_max + load.n_clients, sizeof *load.taken_ns);
    load.started_ns = allocate(load.n_clients, sizeof *load.started_ns);

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    connect_all(&load, epoll, port);
    alarm((unsigned)(duration_ms / 1000 + GRACE_S));
    load.stop_ns = now_ns() + duration_ms * NS_PER_MS;
    run(&load, epoll);

    printf("{\"seconds\": %.6f, \"refused\": %zu", (double)(load.end_ns - load.start_ns) / NS_PER_S,
           load.refused);
    print_list("taken_ns", load.taken_ns, load.answered);
    print_list("started_ns", load.started_ns, load.interval_ns ? load.n_clients : 0);
    printf("}\n");
    free(load.clients);
    free(load.taken_ns);
    free(load.started_ns);
    return 0;
}
