/* server/bridge/egress.c and server/bridge/egress_connection.c between a program and an index that do
 * anything at any time, at random: frames cut into pieces, many connections at once, ends from either side,
 * resets, junk. Whatever they do, each byte that arrives is the one that was sent, no window is exceeded, and
 * nothing is left. */
#include "server/bridge/egress.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "jail/base/clock.h"
#include "tests/unit/server/egress_world.h"

#define SERIES       150  /* of each kind */
#define STEPS        1000 /* in one */
#define TALKS_MAX    12
#define PIECE_MAX    8000
#define SOCKET_BYTES 16384 /* small ones, so that both sides have to wait */
#define END_MS       30000

/* One connection, as the program (`id`, the first half) and the index (`fd`) see it. */
struct talk {
    uint64_t id;
    bool answered, refused;            /* the program has been told */
    bool program_ended, program_gone;  /* it says no more; it hears no more */
    bool heard_end;                    /* the index's, as the program sees it */
    bool disturbed;                    /* by a reset, an abort or a limit: not all bytes need arrive */
    uint32_t room;                     /* bytes that the program may send */
    uint32_t owed;                     /* that it has heard and granted no room for */
    uint64_t said, heard;              /* by the program */
    int fd;                            /* -1: not accepted, or closed */
    bool index_ended, index_heard_end; /* it says no more; it hears no more */
    uint64_t index_said, index_heard;
};

struct series {
    struct test *test;
    uint64_t random;
    struct talk talks[TALKS_MAX];
    size_t n_talks;
    struct buf unsaid; /* frames of the program that are not in the pipe yet */
    bool junk;         /* something among them breaks the rules */
    bool greeted;      /* the bridge has said hello */
};

static unsigned below(struct series *series, unsigned n)
{
    series->random ^= series->random << 13;
    series->random ^= series->random >> 7;
    series->random ^= series->random << 17;
    return (unsigned)(series->random >> 20) % n;
}

/* What is said at each place, in one direction. */
static char said_at(uint64_t id, bool by_index, uint64_t at)
{
    return (char)((at * 31 + (at >> 8) * 17 + id * 7 + by_index) & 0xff);
}

static void write_said(char *data, size_t size, uint64_t id, bool by_index, uint64_t at)
{
    for (size_t i = 0; i < size; i++) {
        data[i] = said_at(id, by_index, at + i);
    }
}

static void assert_said(const char *data, size_t size, uint64_t id, bool by_index, uint64_t at)
{
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(data[i], said_at(id, by_index, at + i));
    }
}

static struct talk *any_talk(struct series *series)
{
    return series->n_talks > 0 ? &series->talks[below(series, (unsigned)series->n_talks)] : NULL;
}

static struct talk *find_talk(struct series *series, uint64_t id)
{
    for (size_t i = 0; i < series->n_talks; i++) {
        if (series->talks[i].id == id) {
            return &series->talks[i];
        }
    }
    return NULL;
}

/* ---- The program ---- */

static void frame(struct series *series, const void *data, size_t size)
{
    uint32_t length = htobe32((uint32_t)size);
    buf_append(&series->unsaid, &length, sizeof length);
    buf_append(&series->unsaid, data, size);
}

static void frame_text(struct series *series, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void frame_text(struct series *series, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    frame(series, text, strlen(text));
}

static void frame_data(struct series *series, uint64_t id, const char *data, size_t size)
{
    char bytes[9 + PIECE_MAX] = {1};
    uint64_t number = htobe64(id);
    memcpy(bytes + 1, &number, sizeof number);
    if (size > 0) {
        memcpy(bytes + 9, data, size);
    }
    frame(series, bytes, 9 + size);
}

static void open_one(struct series *series)
{
    if (series->n_talks == TALKS_MAX) {
        return;
    }
    struct talk *talk = &series->talks[series->n_talks++];
    *talk = (struct talk){.id = series->n_talks * 1000003u, .room = EGRESS_WINDOW_BYTES, .fd = -1};
    bool nobody = below(series, 8) == 0;
    talk->disturbed = nobody;
    frame_text(series, "{\"op\":\"open\",\"id\":%lu,\"host\":\"127.0.0.1\",\"port\":%u}", talk->id,
               series->test->entries[nobody].url.port);
}

static void say_some(struct series *series)
{
    struct talk *talk = any_talk(series);
    char data[PIECE_MAX];
    if (!talk || talk->program_ended || talk->room == 0) {
        return;
    }
    size_t most = talk->room < PIECE_MAX ? talk->room : PIECE_MAX, size = 1 + below(series, (unsigned)most);
    write_said(data, size, talk->id, false, talk->said);
    frame_data(series, talk->id, data, size);
    talk->said += size;
    talk->room -= (uint32_t)size;
}

static void end_saying(struct series *series)
{
    struct talk *talk = any_talk(series);
    if (talk && !talk->program_ended) {
        talk->program_ended = true;
        frame_data(series, talk->id, NULL, 0);
    }
}

static void grant(struct series *series)
{
    struct talk *talk = any_talk(series);
    if (talk && talk->owed > 0) {
        uint32_t bytes = 1 + below(series, talk->owed);
        talk->owed -= bytes;
        frame_text(series, "{\"op\":\"window\",\"id\":%lu,\"bytes\":%u}", talk->id, bytes);
    }
}

static void abort_one(struct series *series)
{
    struct talk *talk = any_talk(series);
    if (talk) {
        talk->disturbed = talk->program_ended = true;
        frame_text(series, "{\"op\":\"abort\",\"id\":%lu}", talk->id);
    }
}

/* Of connections that there have never been. */
static void say_stale(struct series *series)
{
    frame_data(series, 5, "stale", 5);
    frame_text(series, "{\"op\":\"window\",\"id\":6,\"bytes\":%u}", below(series, 1u << 30));
    frame_text(series, "{\"op\":\"abort\",\"id\":7}");
}

static void say_junk(struct series *series)
{
    static const char *const junk[] = {"{\"op\":\"open\",\"id\":1,\"host\":\"127.0.0.1\"}",
                                       "{\"op\":\"open\",\"id\":1,\"port\":80}",
                                       "{\"op\":\"window\",\"id\":1}",
                                       "{\"op\":\"close\",\"id\":1}",
                                       "{\"op\":\"open\"",
                                       "\1short",
                                       "[]",
                                       "\2",
                                       ""};
    char noise[64];
    series->junk = true;
    if (below(series, 4) == 0) {
        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (char)below(series, 256);
        }
        noise[0] = '{'; /* no JSON, whatever follows */
        noise[1] = '{';
        frame(series, noise, 2 + below(series, sizeof noise - 2));
    } else {
        const char *text = junk[below(series, ARRAY_SIZE(junk))];
        frame(series, text, strlen(text));
    }
}

/* Some of what is to be said goes into the pipe, wherever that cuts it. */
static void push(struct series *series)
{
    struct buf *unsaid = &series->unsaid;
    if (unsaid->len == 0) {
        return;
    }
    size_t size = 1 + below(series, (unsigned)unsaid->len);
    ssize_t n = write(series->test->out, unsaid->data, size);
    assert_true(n > 0 || errno == EAGAIN || (errno == EPIPE && series->junk));
    if (n > 0) {
        memmove(unsaid->data, unsaid->data + n, unsaid->len - (size_t)n);
        unsaid->len -= (size_t)n;
    } else if (errno == EPIPE) {
        unsaid->len = 0;
    }
}

static unsigned long number_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoul(at + strlen(name), NULL, 10);
}

static void hear_data(struct series *series, const char *data, size_t size)
{
    uint64_t number;
    assert_true(size >= 1 + sizeof number);
    memcpy(&number, data + 1, sizeof number);
    struct talk *talk = find_talk(series, be64toh(number));
    assert_non_null(talk);
    size -= 1 + sizeof number;
    assert_true(talk->answered && !talk->refused && !talk->heard_end);
    assert_said(data + 1 + sizeof number, size, talk->id, true, talk->heard);
    talk->heard += size;
    talk->owed += (uint32_t)size;
    talk->heard_end = size == 0;
    assert_true(talk->heard <= talk->index_said && talk->owed <= EGRESS_WINDOW_BYTES);
}

static void hear_text(struct series *series, const char *text)
{
    if (strstr(text, "\"hello\"")) {
        assert_false(series->greeted);
        series->greeted = true;
        return;
    }
    if (strstr(text, "\"closed\"")) {
        assert_true(series->junk);
        return;
    }
    struct talk *talk = find_talk(series, number_in(text, "\"id\":"));
    assert_non_null(talk);
    if (strstr(text, "\"answer\"")) {
        assert_false(talk->answered);
        talk->answered = true;
        talk->refused = strstr(text, "\"error\"") != NULL;
        talk->disturbed = talk->disturbed || talk->refused;
    } else if (strstr(text, "\"window\"")) {
        assert_true(talk->answered && !talk->refused);
        talk->room += (uint32_t)number_in(text, "\"bytes\":");
        assert_true(talk->room <= EGRESS_WINDOW_BYTES);
    } else {
        assert_non_null(strstr(text, "\"gone\""));
        assert_true(talk->answered && !talk->refused && !talk->program_gone);
        talk->program_gone = talk->program_ended = talk->disturbed = true;
    }
}

/* What has come, in whole frames. */
static void hear_all(struct series *series)
{
    struct buf *heard = &series->test->heard;
    char data[65536];
    ssize_t n = read(series->test->in, data, 1 + below(series, sizeof data));
    if (n > 0) {
        buf_append(heard, data, (size_t)n);
    }
    size_t at = 0;
    uint32_t size;
    while (heard->len - at >= sizeof size) {
        memcpy(&size, heard->data + at, sizeof size);
        size = be32toh(size);
        if (heard->len - at - sizeof size < size) {
            break;
        }
        const char *text = heard->data + at + sizeof size;
        if (text[0] == BRIDGE_BINARY) {
            hear_data(series, text, size);
        } else {
            CLEANUP(freep) char *copy = strndup(text, size);
            hear_text(series, copy);
        }
        at += sizeof size + size;
    }
    if (at > 0) {
        memmove(heard->data, heard->data + at, heard->len - at);
        heard->len -= at;
    }
}

/* ---- The index ---- */

/* Whose connection this is: by the port that it comes from. One that has ended meanwhile is nobody's. */
static void accept_one(struct series *series)
{
    struct sockaddr_in from = {0}, own;
    socklen_t size = sizeof from;
    int fd = accept4(series->test->listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const struct egress_job *job = series->test->job;
    const struct egress_connection *connection = job && fd >= 0 ? job->connections : NULL;
    for (; connection; connection = connection->next) {
        size = sizeof own;
        assert_int_equal(getsockname(connection->fd, (struct sockaddr *)&own, &size), 0);
        if (own.sin_port == from.sin_port) {
            break;
        }
    }
    struct talk *talk = connection ? find_talk(series, connection->id) : NULL;
    if (talk && talk->fd < 0) {
        const int small = SOCKET_BYTES;
        setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        talk->fd = fd;
        return;
    }
    fd_closep(&fd);
}

static void index_says(struct series *series)
{
    struct talk *talk = any_talk(series);
    char data[PIECE_MAX];
    if (talk && talk->fd >= 0 && !talk->index_ended) {
        size_t size = 1 + below(series, PIECE_MAX);
        write_said(data, size, talk->id, true, talk->index_said);
        ssize_t n = send(talk->fd, data, size, MSG_NOSIGNAL);
        talk->index_said += n > 0 ? (uint64_t)n : 0;
    }
}

static void index_hears_of(struct series *series, struct talk *talk)
{
    char data[PIECE_MAX];
    if (talk && talk->fd >= 0 && !talk->index_heard_end) {
        ssize_t n = recv(talk->fd, data, 1 + below(series, PIECE_MAX), 0);
        if (n > 0) {
            assert_said(data, (size_t)n, talk->id, false, talk->index_heard);
            talk->index_heard += (size_t)n;
            assert_true(talk->index_heard <= talk->said);
        } else if (n == 0) {
            talk->index_heard_end = true;
        }
    }
}

static void index_hears(struct series *series)
{
    index_hears_of(series, any_talk(series));
}

static void index_ends_talk(struct talk *talk)
{
    if (talk->fd >= 0 && !talk->index_ended) {
        talk->index_ended = true;
        shutdown(talk->fd, SHUT_WR);
    }
}

static void index_ends(struct series *series)
{
    struct talk *talk = any_talk(series);
    if (talk) {
        index_ends_talk(talk);
    }
}

/* With what it has not read, or at once: either way the other end is reset. */
static void index_resets(struct series *series)
{
    struct talk *talk = any_talk(series);
    const struct linger at_once = {1, 0};
    if (talk && talk->fd >= 0) {
        if (below(series, 2)) {
            setsockopt(talk->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        talk->disturbed = talk->index_ended = true;
        fd_closep(&talk->fd);
    }
}

/* ---- Both ---- */

static void assert_limits(const struct test *test)
{
    unsigned n = 0;
    for (const struct egress_connection *c = test->job ? test->job->connections : NULL; c; c = c->next) {
        assert_true(c->credit <= EGRESS_WINDOW_BYTES && c->written <= c->waiting.len);
        assert_true(c->waiting.len - c->written <= EGRESS_WINDOW_BYTES);
        n++;
    }
    assert_true(n <= EGRESS_CONNECTIONS_MAX && (!test->job || n == test->job->n_open));
}

static void loop_turn(struct series *series)
{
    assert_int_equal(loop_once(series->test->loop, 0, NULL), 0);
    assert_limits(series->test);
}

static const struct {
    unsigned weight;
    void (*act)(struct series *series);
} acts[] = {
    {6, open_one},     {20, say_some},  {2, end_saying},   {12, grant},      {1, abort_one},
    {1, say_stale},    {30, push},      {20, hear_all},    {10, accept_one}, {20, index_says},
    {20, index_hears}, {2, index_ends}, {1, index_resets}, {40, loop_turn},
};

static void act(struct series *series)
{
    unsigned sum = 0, at;
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        sum += acts[i].weight;
    }
    at = below(series, sum);
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        if (at < acts[i].weight) {
            acts[i].act(series);
            return;
        }
        at -= acts[i].weight;
    }
}

/* Everybody says their last word, and hears the other's. */
static void come_to_an_end(struct series *series)
{
    struct test *test = series->test;
    uint64_t deadline_ns = clock_now_ns() + END_MS * NS_PER_MS;
    while (test->job && (test->job->connections || series->unsaid.len > 0) && clock_now_ns() < deadline_ns) {
        for (size_t i = 0; i < series->n_talks; i++) {
            struct talk *talk = &series->talks[i];
            if (!talk->program_ended) {
                talk->program_ended = true;
                frame_data(series, talk->id, NULL, 0);
            }
            if (talk->owed > 0) {
                frame_text(series, "{\"op\":\"window\",\"id\":%lu,\"bytes\":%u}", talk->id, talk->owed);
                talk->owed = 0;
            }
            index_ends_talk(talk);
            index_hears_of(series, talk);
        }
        push(series);
        accept_one(series);
        hear_all(series);
        loop_turn(series);
    }
    assert_true(!test->job || !test->job->connections);
    assert_true(!series->junk || test->broken[0] != '\0');
    assert_true(series->junk || test->broken[0] == '\0');
}

/* What was sent before the end is on its way still. */
static void hear_to_the_end(struct series *series, struct talk *talk)
{
    struct pollfd index = {.fd = talk->fd, .events = POLLIN};
    while (!talk->index_heard_end && poll(&index, 1, END_MS) > 0) {
        index_hears_of(series, talk);
    }
}

static void assert_all_said(struct series *series)
{
    for (size_t len = 1; len > 0;) { /* a pipe at rest is read to its end */
        int left = 0;
        hear_all(series);
        assert_int_equal(ioctl(series->test->in, FIONREAD, &left), 0);
        len = (size_t)left;
    }
    for (size_t i = 0; i < series->n_talks && !series->junk; i++) {
        struct talk *talk = &series->talks[i];
        if (!talk->disturbed) {
            hear_to_the_end(series, talk);
            assert_true(talk->answered && talk->heard_end && talk->index_heard_end);
            assert_int_equal(talk->heard, talk->index_said);
            assert_int_equal(talk->index_heard, talk->said);
        }
    }
}

static size_t count_fds(void)
{
    size_t n = 0;
    CLEANUP(dir_closep) DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir)) {
        n++;
    }
    return n;
}

static void run(uint64_t seed, bool junk, uint64_t bytes_max)
{
    size_t before = count_fds();
    void *state = NULL;
    start(&state);
    struct series series = {.test = state, .random = seed * 0x9e3779b97f4a7c15u + 1};
    struct test *test = series.test;
    const int small = SOCKET_BYTES;
    setsockopt(test->listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(test->listener, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    fcntl(test->out, F_SETFL, O_NONBLOCK);
    fcntl(test->listener, F_SETFL, O_NONBLOCK);
    test->config.max_egress_bytes = bytes_max;
    for (unsigned i = 0; i < STEPS; i++) {
        act(&series);
    }
    if (junk) {
        say_junk(&series);
    }
    come_to_an_end(&series);
    assert_all_said(&series);
    for (size_t i = 0; i < series.n_talks; i++) {
        fd_closep(&series.talks[i].fd);
    }
    buf_free(&series.unsaid);
    stop(&state);
    assert_int_equal(count_fds(), before);
}

static void test_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        run(seed, false, UINT64_MAX);
    }
}

static void test_with_junk(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        run(1000 + seed, true, UINT64_MAX);
    }
}

static void test_with_a_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        run(2000 + seed, false, 30000 + seed * 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_with_junk),
        cmocka_unit_test(test_with_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
