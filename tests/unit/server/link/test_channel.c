/* server/link/channel.c: who may say what, when, with which descriptors; and what happens to everything else.
 */
#include "server/link/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"

/* Both ends, each with the channel's rules; `raw` of either side speaks without them. */
struct pair {
    struct channel *front, *warden;
};

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static struct pair make_pair(void)
{
    int sockets[2];
    struct pair pair;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(channel_new(sockets[0], CHANNEL_FRONT, &pair.front, NULL), 0);
    assert_int_equal(channel_new(sockets[1], CHANNEL_WARDEN, &pair.warden, NULL), 0);
    return pair;
}

static void free_pair(struct pair *pair)
{
    channel_free(pair->front);
    channel_free(pair->warden);
}

#define APPROVAL_ID "00000000-0000-4000-8000-000000000000"

static struct msg make_msg(enum msg_type type)
{
    struct msg msg = {.type = type};
    if (type == MSG_JOB) {
        msg.job = calloc(1, sizeof *msg.job);
        assert_non_null(msg.job);
        msg.job->id = 1;
        msg.job->runtime = strdup("python");
        msg.job->execution_id = strdup("e");
        msg.job->key = strdup("k");
    }
    if (type == MSG_EGRESS) {
        msg.egress = (struct msg_egress){.id = 1, .policy = "p"};
    }
    if (type == MSG_REFUSED) {
        msg.refused = (struct msg_refused){.id = 1, .kind = ERR_BUSY, .text = "busy"};
    }
    if (type == MSG_DONE) {
        msg.done.id = 1;
        msg.done.policy = strdup("python");
        msg.done.policy_sha256 = strdup("00");
    }
    if (type == MSG_APPROVAL_CHANGED) {
        strcpy(msg.approval_changed.approval_id, APPROVAL_ID);
    }
    if (type == MSG_KEEP) {
        msg.keep = (struct msg_keep){.id = 1, .status = "success"};
    }
    if (type == MSG_RELAY) {
        msg.relay = (struct msg_relay){.id = 1, .key = "k", .about = "e"};
    }
    if (type == MSG_APPROVAL_RUN || type == MSG_RUN) {
        strcpy(msg.run.approval_id, APPROVAL_ID);
    }
    return msg;
}

static size_t fds_of(enum msg_type type)
{
    bool has_file = type == MSG_CONFIG || type == MSG_CALLERS || type == MSG_SUBMIT ||
                    type == MSG_APPROVAL_RUN || type == MSG_EGRESS;
    return type == MSG_JOB ? MSG_JOB_FDS : type == MSG_RUN ? MSG_RUN_FDS : has_file ? 1 : 0;
}

/* Sends with the sender's own rules. */
static int say_with(struct channel *from, enum msg_type type, size_t n_fds, struct err *err)
{
    struct msg msg = make_msg(type);
    int fds[IO_FDS_MAX];
    for (size_t i = 0; i < n_fds; i++) {
        fds[i] = STDERR_FILENO;
    }
    int r = channel_send(from, &msg, n_fds ? fds : NULL, n_fds, err);
    msg_clear(&msg);
    return r;
}

static int say(struct channel *from, enum msg_type type)
{
    return say_with(from, type, fds_of(type), NULL);
}

/* Puts a message on the socket behind the back of the sender's rules. */
static void smuggle(const struct channel *from, enum msg_type type, size_t n_fds)
{
    struct msg msg = make_msg(type);
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int fds[IO_FDS_MAX];
    for (size_t i = 0; i < n_fds; i++) {
        fds[i] = STDERR_FILENO;
    }
    assert_int_equal(msg_encode(&msg, &packed, NULL), 0);
    assert_int_equal(io_send_fds(channel_fd(from), packed.data, packed.len, fds, n_fds), 0);
    msg_clear(&msg);
}

/* Receives one message; its descriptors are counted and closed. */
static int hear(struct channel *at, enum msg_type *ret_type, size_t *ret_n_fds, struct err *err)
{
    struct msg msg = {.type = MSG_NONE};
    int fds[IO_FDS_MAX];
    size_t n_fds = IO_FDS_MAX;
    int r = channel_recv(at, &msg, fds, &n_fds, err);
    if (r == 1) {
        *ret_type = msg.type;
        *ret_n_fds = n_fds;
        for (size_t i = 0; i < n_fds; i++) {
            close(fds[i]);
        }
        msg_clear(&msg);
    }
    return r;
}

static void expect(struct channel *at, enum msg_type type, size_t n_fds)
{
    enum msg_type got = MSG_NONE;
    size_t got_fds = 0;
    assert_int_equal(hear(at, &got, &got_fds, NULL), 1);
    assert_int_equal(got, type);
    assert_int_equal(got_fds, n_fds);
}

/* Takes both ends through the first `steps` messages of a conversation: configuration, hello. */
static void converse(const struct pair *pair, int steps)
{
    if (steps >= 1) {
        assert_int_equal(say(pair->warden, MSG_CONFIG), 0);
        expect(pair->front, MSG_CONFIG, 1);
    }
    if (steps >= 2) {
        assert_int_equal(say(pair->front, MSG_HELLO), 0);
        expect(pair->warden, MSG_HELLO, 0);
    }
}

static void test_a_whole_conversation(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    converse(&pair, 2);
    assert_int_equal(say(pair.warden, MSG_STATE), 0);
    assert_int_equal(say(pair.front, MSG_JOB), 0);
    assert_int_equal(say(pair.front, MSG_CANCEL), 0);
    expect(pair.warden, MSG_JOB, MSG_JOB_FDS);
    expect(pair.warden, MSG_CANCEL, 0);
    assert_int_equal(say(pair.warden, MSG_REFUSED), 0);
    assert_int_equal(say(pair.warden, MSG_DONE), 0);
    expect(pair.front, MSG_STATE, 0);
    expect(pair.front, MSG_REFUSED, 0);
    expect(pair.front, MSG_DONE, 0);
    free_pair(&pair);
}

static void test_nothing_there_is_no_error(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    enum msg_type type;
    size_t n_fds;
    assert_int_equal(hear(pair.front, &type, &n_fds, NULL), 0);
    free_pair(&pair);
}

static void test_end_of_file(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    enum msg_type type;
    size_t n_fds;
    channel_free(pair.front);
    assert_int_equal(hear(pair.warden, &type, &n_fds, NULL), -EPIPE);
    channel_free(pair.warden);
}

/* Row by row: may this side send this type after that many steps? */
static const struct {
    enum msg_type type;
    bool front[3], warden[3]; /* after 0, 1, 2 steps */
} permissions[] = {
    {MSG_CONFIG, {false, false, false}, {true, false, false}},
    {MSG_CALLERS, {false, false, false}, {false, true, true}},
    {MSG_HELLO, {false, true, false}, {false, false, false}},
    {MSG_STATE, {false, false, false}, {false, true, true}},
    {MSG_JOB, {false, false, true}, {false, false, false}},
    {MSG_CANCEL, {false, false, true}, {false, false, false}},
    {MSG_OUTPUTS, {false, false, true}, {false, false, false}},
    {MSG_REFUSED, {false, false, false}, {false, false, true}},
    {MSG_DONE, {false, false, false}, {false, false, true}},
    {MSG_PING, {false, false, false}, {false, false, true}},
    {MSG_PONG, {false, false, true}, {false, false, false}},
    {MSG_STARTED, {false, false, false}, {false, false, true}},
    {MSG_SESSION_QUERY, {false, false, true}, {false, false, false}},
    {MSG_SESSION_ANSWER, {false, false, false}, {false, false, true}},
    {MSG_SUBMIT, {false, false, true}, {false, false, false}},
    {MSG_APPROVAL_QUERY, {false, false, true}, {false, false, false}},
    {MSG_APPROVAL_ANSWER, {false, false, false}, {false, false, true}},
    {MSG_APPROVAL_CHANGED, {false, false, false}, {false, false, true}},
    {MSG_APPROVAL_RUN, {false, false, false}, {false, false, true}},
    {MSG_RUN, {false, false, true}, {false, false, false}},
    {MSG_KEEP, {false, false, true}, {false, false, false}},
    {MSG_KEPT_QUERY, {false, false, true}, {false, false, false}},
    {MSG_KEPT_ANSWER, {false, false, false}, {false, false, true}},
    {MSG_EGRESS, {false, false, false}, {false, false, true}},
    {MSG_RELAY, {false, false, true}, {false, false, true}},
    {MSG_RELAY_ANSWER, {false, false, true}, {false, false, true}},
};

static void check_permission(enum msg_type type, enum channel_side side, int steps, bool permitted)
{
    struct pair pair = make_pair();
    struct err err = {0};
    enum msg_type got;
    size_t n_fds;
    converse(&pair, steps);
    struct channel *from = side == CHANNEL_FRONT ? pair.front : pair.warden;
    struct channel *to = side == CHANNEL_FRONT ? pair.warden : pair.front;
    print_message("%s from the %s after %d steps\n", msg_type_to_string(type),
                  side == CHANNEL_FRONT ? "front" : "warden", steps);
    if (permitted) {
        assert_int_equal(say(from, type), 0);
        assert_int_equal(hear(to, &got, &n_fds, NULL), 1);
    } else {
        assert_int_equal(say_with(from, type, fds_of(type), &err), -EPROTO);
        assert_true(err_is_set(&err));
        err_clear(&err);
        smuggle(from, type, fds_of(type));
        assert_int_equal(hear(to, &got, &n_fds, &err), -EPROTO);
        assert_non_null(strstr(err.text, msg_type_to_string(type)));
    }
    free_pair(&pair);
}

static void test_every_message_by_sender_and_state(void **state)
{
    (void)state;
    assert_int_equal(ARRAY_SIZE(permissions), MSG_TYPE_COUNT - 1);
    int before = count_fds();
    for (size_t i = 0; i < ARRAY_SIZE(permissions); i++) {
        for (int steps = 0; steps < 3; steps++) {
            check_permission(permissions[i].type, CHANNEL_FRONT, steps, permissions[i].front[steps]);
            check_permission(permissions[i].type, CHANNEL_WARDEN, steps, permissions[i].warden[steps]);
        }
    }
    assert_int_equal(count_fds(), before);
}

static void test_foreign_descriptors(void **state)
{
    (void)state;
    static const struct {
        enum msg_type type;
        enum channel_side side;
        int steps;
        size_t n_fds;
    } cases[] = {
        {MSG_CONFIG, CHANNEL_WARDEN, 0, 0},
        {MSG_CONFIG, CHANNEL_WARDEN, 0, 2}, /* says there is no audit log */
        {MSG_CONFIG, CHANNEL_WARDEN, 0, 3},
        {MSG_CALLERS, CHANNEL_WARDEN, 2, 0},
        {MSG_CALLERS, CHANNEL_WARDEN, 2, 2},
        {MSG_EGRESS, CHANNEL_WARDEN, 2, 0},
        {MSG_EGRESS, CHANNEL_WARDEN, 2, 2},
        {MSG_HELLO, CHANNEL_FRONT, 1, 2},
        {MSG_PING, CHANNEL_WARDEN, 2, 1},
        {MSG_PONG, CHANNEL_FRONT, 2, 1},
        {MSG_JOB, CHANNEL_FRONT, 2, 0},
        {MSG_JOB, CHANNEL_FRONT, 2, MSG_JOB_FDS - 1},
        {MSG_JOB, CHANNEL_FRONT, 2, MSG_JOB_FDS + 1},
        {MSG_OUTPUTS, CHANNEL_FRONT, 2, 1},
        {MSG_CANCEL, CHANNEL_FRONT, 2, 1},
        {MSG_REFUSED, CHANNEL_WARDEN, 2, 1},
        {MSG_STATE, CHANNEL_WARDEN, 2, 1},
        {MSG_DONE, CHANNEL_WARDEN, 2, 1},
        {MSG_STARTED, CHANNEL_WARDEN, 2, 1},
        {MSG_SESSION_QUERY, CHANNEL_FRONT, 2, 2},
        {MSG_SESSION_ANSWER, CHANNEL_WARDEN, 2, 2},
        {MSG_SUBMIT, CHANNEL_FRONT, 2, 0},
        {MSG_SUBMIT, CHANNEL_FRONT, 2, 2},
        {MSG_APPROVAL_QUERY, CHANNEL_FRONT, 2, 1},
        {MSG_APPROVAL_ANSWER, CHANNEL_WARDEN, 2, 3},
        {MSG_APPROVAL_CHANGED, CHANNEL_WARDEN, 2, 1},
        {MSG_APPROVAL_RUN, CHANNEL_WARDEN, 2, 0},
        {MSG_APPROVAL_RUN, CHANNEL_WARDEN, 2, 2},
        {MSG_RUN, CHANNEL_FRONT, 2, MSG_RUN_FDS - 1},
        {MSG_RUN, CHANNEL_FRONT, 2, MSG_RUN_FDS + 1},
        {MSG_KEEP, CHANNEL_FRONT, 2, 2},
        {MSG_KEPT_QUERY, CHANNEL_FRONT, 2, 1},
        {MSG_KEPT_ANSWER, CHANNEL_WARDEN, 2, 2},
        {MSG_RELAY, CHANNEL_FRONT, 2, 2},
        {MSG_RELAY_ANSWER, CHANNEL_WARDEN, 2, 2},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int before = count_fds();
        struct pair pair = make_pair();
        struct err err = {0};
        enum msg_type got;
        size_t n_fds;
        converse(&pair, cases[i].steps);
        struct channel *from = cases[i].side == CHANNEL_FRONT ? pair.front : pair.warden;
        struct channel *to = cases[i].side == CHANNEL_FRONT ? pair.warden : pair.front;
        smuggle(from, cases[i].type, cases[i].n_fds);
        assert_true(hear(to, &got, &n_fds, &err) < 0);
        assert_true(err_is_set(&err));
        free_pair(&pair);
        assert_int_equal(count_fds(), before); /* none stayed open */
    }
}

static void test_audit_log_goes_with_the_configuration(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    struct msg msg = {.type = MSG_CONFIG, .config = {.audit = true}};
    int fds[] = {STDERR_FILENO, STDERR_FILENO};
    assert_int_equal(channel_send(pair.warden, &msg, fds, 2, NULL), 0);
    expect(pair.front, MSG_CONFIG, 2);
    free_pair(&pair);
}

static void test_garbage(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    struct err err = {0};
    enum msg_type got;
    size_t n_fds;
    assert_int_equal(io_send_fds(channel_fd(pair.front), "\xff\xff\xff", 3, NULL, 0), 0);
    assert_true(hear(pair.warden, &got, &n_fds, &err) < 0);
    assert_true(err_is_set(&err));
    free_pair(&pair);
}

static void test_truncated(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    converse(&pair, 2);
    struct msg msg = make_msg(MSG_JOB);
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(msg_encode(&msg, &packed, NULL), 0);
    msg_clear(&msg);
    int before = count_fds();
    for (size_t size = 1; size < packed.len; size++) {
        const int fds[MSG_JOB_FDS] = {2, 2, 2, 2, 2, 2};
        struct err err = {0};
        enum msg_type got;
        size_t n_fds;
        assert_int_equal(io_send_fds(channel_fd(pair.front), packed.data, size, fds, MSG_JOB_FDS), 0);
        assert_true(hear(pair.warden, &got, &n_fds, &err) < 0);
        assert_true(err_is_set(&err));
        assert_int_equal(count_fds(), before);
    }
    free_pair(&pair);
}

static void test_empty_datagram_keeps_no_descriptor(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    int before = count_fds();
    const int fds[] = {2, 2, 2};
    enum msg_type got;
    size_t n_fds;
    assert_int_equal(io_send_fds(channel_fd(pair.front), "", 0, fds, 3), 0);
    assert_int_equal(hear(pair.warden, &got, &n_fds, NULL), -EPIPE);
    assert_int_equal(count_fds(), before);
    free_pair(&pair);
}

static void test_oversized(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    static char big[MSG_BYTES_MAX + 1];
    const int fds[] = {2};
    struct err err = {0};
    enum msg_type got;
    size_t n_fds;
    int before = count_fds();
    assert_int_equal(io_send_fds(channel_fd(pair.front), big, sizeof big, fds, 1), 0);
    assert_int_equal(hear(pair.warden, &got, &n_fds, &err), -EMSGSIZE);
    assert_true(err_is_set(&err));
    assert_int_equal(count_fds(), before);
    free_pair(&pair);
}

/* A verdict with a file in it. */
static void say_done(struct channel *from)
{
    struct msg msg = make_msg(MSG_DONE);
    msg.done.n_files = 1;
    msg.done.files = calloc(1, sizeof msg.done.files[0]);
    assert_non_null(msg.done.files);
    msg.done.files[0] = (struct job_output_file){.path = strdup("a"), .size = 1, .fd = dup(2), .asked = true};
    assert_int_equal(channel_send(from, &msg, NULL, 0, NULL), 0);
    msg_clear(&msg);
}

/* What `at` hears that may have no descriptors. */
static int hear_without_room(struct channel *at, struct msg *ret)
{
    struct rlimit before;
    int fds[IO_FDS_MAX];
    size_t n_fds = IO_FDS_MAX;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int r = channel_recv(at, ret, fds, &n_fds, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(r < 0 || n_fds == 0);
    return r;
}

/* Both processes live on where there is no free number for what comes with a message. */
static void test_no_free_descriptor(void **state)
{
    (void)state;
    static const struct {
        enum msg_type type;
        bool from_front;
        size_t n_fds;
        int r;
    } cases[] = {
        {MSG_JOB, true, MSG_JOB_FDS, CHANNEL_BARE},
        {MSG_RUN, true, MSG_RUN_FDS, CHANNEL_BARE},
        {MSG_SUBMIT, true, 1, CHANNEL_BARE},
        {MSG_APPROVAL_RUN, false, 1, CHANNEL_BARE},
        {MSG_APPROVAL_ANSWER, false, 2, CHANNEL_BARE},
        {MSG_KEEP, true, 1, CHANNEL_BARE},
        {MSG_KEPT_ANSWER, false, 1, CHANNEL_BARE},
        {MSG_DONE, false, 1, CHANNEL_BARE},
        {MSG_PING, false, 1, -EPROTO},
        {MSG_JOB, false, MSG_JOB_FDS, -EPROTO},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pair pair = make_pair();
        struct msg msg = {.type = MSG_NONE};
        converse(&pair, 2);
        int before = count_fds();
        struct channel *from = cases[i].from_front ? pair.front : pair.warden;
        if (cases[i].type == MSG_DONE) {
            say_done(from);
        } else {
            smuggle(from, cases[i].type, cases[i].n_fds);
        }
        assert_int_equal(hear_without_room(cases[i].from_front ? pair.warden : pair.front, &msg), cases[i].r);
        assert_int_equal(msg.type, cases[i].r == CHANNEL_BARE ? cases[i].type : MSG_NONE);
        if (msg.type == MSG_DONE) {
            assert_int_equal(msg.done.n_files, 1);
            assert_int_equal(msg.done.files[0].fd, -1);
        }
        assert_int_equal(count_fds(), before);
        msg_clear(&msg);
        free_pair(&pair);
    }
}

static void test_no_room_for_descriptors(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    converse(&pair, 2);
    assert_int_equal(say(pair.front, MSG_JOB), 0);
    int before = count_fds();
    struct msg msg = {.type = MSG_NONE};
    int fds[3];
    size_t n_fds = 3;
    struct err err = {0};
    assert_true(channel_recv(pair.warden, &msg, fds, &n_fds, &err) < 0);
    assert_int_equal(count_fds(), before);
    free_pair(&pair);
}

/* A verdict's files travel with it and come out in order. */
static void test_files_of_a_verdict(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    converse(&pair, 2);
    int one, two;
    assert_int_equal(io_memfd("one", "1", 1, &one), 0);
    assert_int_equal(io_memfd("two", "22", 2, &two), 0);
    struct msg msg = make_msg(MSG_DONE);
    msg.done.n_files = 3;
    msg.done.files = calloc(3, sizeof msg.done.files[0]);
    msg.done.files[0] = (struct job_output_file){.path = strdup("a"), .size = 1, .fd = one, .asked = true};
    msg.done.files[1] = (struct job_output_file){.path = strdup("b"), .size = 9, .fd = -1, .written = true};
    msg.done.files[2] = (struct job_output_file){.path = strdup("c"), .size = 2, .fd = two, .asked = true};
    assert_int_equal(channel_send(pair.warden, &msg, NULL, 0, NULL), 0);
    msg_clear(&msg);

    struct msg got = {.type = MSG_NONE};
    int fds[IO_FDS_MAX];
    size_t n_fds = IO_FDS_MAX;
    assert_int_equal(channel_recv(pair.front, &got, fds, &n_fds, NULL), 1);
    assert_int_equal(n_fds, 0);
    assert_int_equal(got.done.n_files, 3);
    char byte;
    assert_int_equal(pread(got.done.files[0].fd, &byte, 1, 0), 1);
    assert_int_equal(byte, '1');
    assert_int_equal(got.done.files[1].fd, -1);
    assert_int_equal(pread(got.done.files[2].fd, &byte, 1, 1), 1);
    assert_int_equal(byte, '2');
    msg_clear(&got);
    free_pair(&pair);
}

/* A full socket queues, keeps the order and the descriptors, and reports a peer that never reads. */
static void test_queue(void **state)
{
    (void)state;
    int before = count_fds();
    struct pair pair = make_pair();
    converse(&pair, 2);
    size_t sent = 0;
    while (!channel_wants_write(pair.front) || sent % 7 != 0) {
        assert_int_equal(say(pair.front, sent % 2 ? MSG_JOB : MSG_CANCEL), 0);
        sent++;
    }
    for (size_t heard = 0; heard < sent; heard++) {
        expect(pair.warden, heard % 2 ? MSG_JOB : MSG_CANCEL, heard % 2 ? MSG_JOB_FDS : 0);
        assert_int_equal(channel_flush(pair.front, NULL), 0);
    }
    assert_false(channel_wants_write(pair.front));
    free_pair(&pair);
    assert_int_equal(count_fds(), before);
}

static void test_a_peer_that_never_reads(void **state)
{
    (void)state;
    struct pair pair = make_pair();
    struct err err = {0};
    converse(&pair, 2);
    int r = 0;
    for (int i = 0; r == 0 && i < 100000; i++) {
        r = say_with(pair.front, MSG_CANCEL, 0, &err);
    }
    assert_int_equal(r, -ENOBUFS);
    assert_int_equal(err.kind, ERR_UNAVAILABLE);
    free_pair(&pair);
}

static void test_queued_descriptors_are_closed_with_the_channel(void **state)
{
    (void)state;
    int before = count_fds();
    struct pair pair = make_pair();
    converse(&pair, 2);
    for (int i = 0; i < 20 || !channel_wants_write(pair.front); i++) {
        assert_int_equal(say(pair.front, MSG_JOB), 0);
    }
    free_pair(&pair);
    assert_int_equal(count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_conversation),
        cmocka_unit_test(test_nothing_there_is_no_error),
        cmocka_unit_test(test_end_of_file),
        cmocka_unit_test(test_every_message_by_sender_and_state),
        cmocka_unit_test(test_foreign_descriptors),
        cmocka_unit_test(test_audit_log_goes_with_the_configuration),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_empty_datagram_keeps_no_descriptor),
        cmocka_unit_test(test_oversized),
        cmocka_unit_test(test_no_free_descriptor),
        cmocka_unit_test(test_no_room_for_descriptors),
        cmocka_unit_test(test_files_of_a_verdict),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_a_peer_that_never_reads),
        cmocka_unit_test(test_queued_descriptors_are_closed_with_the_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
