/* The stopwatch of `make bench`: runs several subjects in turn, round after round, and prints every time as
 * JSON.
 *
 * A subject is a command (timed from posix_spawn to wait) or one HTTP request on a connection that stays open
 * (timed from the first byte sent to the last received). Subjects take turns within a round and the order
 * rotates between rounds, so that a slow moment of the machine hits all of them alike. A pause before each
 * turn lets what the one before left behind (a jail that is taken down, a new one that is parked) be done on
 * its own time. Nothing here forks a large process: posix_spawn shares the memory of this small one, so the
 * harness adds the same few ten microseconds to every command.
 *
 * usage: bench ROUNDS WARMUP PAUSE-MS ::: LABEL spawn COMMAND [ARGUMENT...] ::: LABEL http PORT REQUEST-FILE
 * ::: ...
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUBJECTS_MAX  32
#define REPLY_MAX     (1 << 20)
#define SEPARATOR     ":::"
#define HTTP_OK       "HTTP/1.1 200"
#define LENGTH_HEADER "content-length:"

struct subject {
    const char *label;
    char **argv;   /* NULL: an HTTP subject */
    int sock;      /* connected */
    char *request; /* as it goes over the wire */
    size_t request_size;
    uint64_t *ns; /* one per round */
};

static char reply[REPLY_MAX];

static _Noreturn void fail(const char *label, const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", label, what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t time_spawn(const struct subject *subject, const posix_spawn_file_actions_t *actions)
{
    pid_t pid;
    int status;
    uint64_t start = now_ns();
    int r = posix_spawn(&pid, subject->argv[0], actions, NULL, subject->argv, environ);
    if (r != 0) {
        fail(subject->label, strerror(r));
    }
    if (waitpid(pid, &status, 0) != pid) {
        fail(subject->label, strerror(errno));
    }
    uint64_t end = now_ns();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail(subject->label, "the command failed");
    }
    return end - start;
}

/* The size of the whole reply, once its header is complete; 0 before. */
static size_t reply_size(const char *label, const char *data)
{
    const char *end = strstr(data, "\r\n\r\n");
    if (!end) {
        return 0;
    }
    for (const char *line = data; line < end; line = strstr(line, "\r\n") + 2) {
        if (strncasecmp(line, LENGTH_HEADER, strlen(LENGTH_HEADER)) == 0) {
            return (size_t)(end + 4 - data) + strtoul(line + strlen(LENGTH_HEADER), NULL, 10);
        }
    }
    fail(label, "a reply without Content-Length");
}

static uint64_t time_http(const struct subject *subject)
{
    size_t have = 0, want = 0;
    uint64_t start = now_ns();
    for (size_t sent = 0; sent < subject->request_size;) {
        ssize_t n = send(subject->sock, subject->request + sent, subject->request_size - sent, MSG_NOSIGNAL);
        if (n <= 0) {
            fail(subject->label, "the server closed the connection");
        }
        sent += (size_t)n;
    }
    while (want == 0 || have < want) {
        ssize_t n = recv(subject->sock, reply + have, sizeof(reply) - 1 - have, 0);
        if (n <= 0) {
            fail(subject->label, "the server closed the connection, or its reply is too large");
        }
        have += (size_t)n;
        reply[have] = 0;
        want = want ? want : reply_size(subject->label, reply);
    }
    uint64_t end = now_ns();
    if (strncmp(reply, HTTP_OK, strlen(HTTP_OK)) != 0) {
        fail(subject->label, reply);
    }
    return end - start;
}

static int connect_to(const char *label, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof(address)) != 0) {
        fail(label, strerror(errno));
    }
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return sock;
}

static char *read_request(const char *label, const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "re");
    char *data = malloc(REPLY_MAX);
    if (!file || !data) {
        fail(label, path);
    }
    *ret_size = fread(data, 1, REPLY_MAX, file);
    fclose(file);
    return data;
}

/* `words` are those between two separators: LABEL KIND ... */
static struct subject parse_subject(char **words, size_t n, size_t rounds)
{
    struct subject subject = {.label = words[0], .sock = -1, .ns = calloc(rounds, sizeof(uint64_t))};
    if (n >= 3 && strcmp(words[1], "spawn") == 0) {
        subject.argv = words + 2;
    } else if (n == 4 && strcmp(words[1], "http") == 0) {
        subject.sock = connect_to(words[0], words[2]);
        subject.request = read_request(words[0], words[3], &subject.request_size);
    } else {
        fail(words[0], "not a subject");
    }
    if (!subject.ns) {
        fail(words[0], "out of memory");
    }
    return subject;
}

/* Cuts argv, which starts with a separator, into subjects; NULLs take the separators' places and end the
 * commands. */
static size_t parse_subjects(char **argv, size_t rounds, struct subject *ret)
{
    size_t n = 0;
    for (bool last = false; !last;) {
        char **words = argv + 1, **end = words;
        while (*end && strcmp(*end, SEPARATOR) != 0) {
            end++;
        }
        if (end == words || n == SUBJECTS_MAX) {
            fail("arguments", "an empty subject, or too many");
        }
        last = !*end;
        *end = NULL;
        ret[n++] = parse_subject(words, (size_t)(end - words), rounds);
        argv = end;
    }
    return n;
}

static void print_results(const struct subject *subjects, size_t n, size_t rounds)
{
    printf("{\"rounds\": %zu, \"subjects\": [", rounds);
    for (size_t i = 0; i < n; i++) {
        printf("%s\n  {\"label\": \"%s\", \"ns\": [", i ? "," : "", subjects[i].label);
        for (size_t round = 0; round < rounds; round++) {
            printf("%s%llu", round ? ", " : "", (unsigned long long)subjects[i].ns[round]);
        }
        printf("]}");
    }
    printf("\n]}\n");
}

int main(int argc, char **argv)
{
    struct subject subjects[SUBJECTS_MAX];
    if (argc < 6) {
        fail("usage",
             "bench ROUNDS WARMUP PAUSE-MS ::: LABEL spawn COMMAND... ::: LABEL http PORT REQUEST-FILE ...");
    }
    size_t rounds = strtoul(argv[1], NULL, 10), warmup = strtoul(argv[2], NULL, 10);
    struct timespec pause = {.tv_nsec = strtol(argv[3], NULL, 10) * 1000000 % 1000000000};
    size_t n = parse_subjects(argv + 4, rounds, subjects);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);

    for (size_t round = 0; round < warmup + rounds; round++) {
        for (size_t turn = 0; turn < n; turn++) {
            struct subject *subject = &subjects[(turn + round) % n];
            nanosleep(&pause, NULL);
            uint64_t ns = subject->argv ? time_spawn(subject, &actions) : time_http(subject);
            if (round >= warmup) {
                subject->ns[round - warmup] = ns;
            }
        }
    }
    print_results(subjects, n, rounds);
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; i < n; i++) {
        free(subjects[i].request);
        free(subjects[i].ns);
    }
    return 0;
}
