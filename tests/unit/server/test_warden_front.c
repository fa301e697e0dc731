/* server/warden_front.c, warden_guard.c, warden_job.c: what the warden makes of a front that says anything,
 * in any order, with any descriptors. Seeded random conversations, held against a model of the table of
 * messages: a front that keeps to the rules lives and has each job answered exactly once, one that breaks a
 * rule is killed at once with all its jobs, and nothing of it stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/log.h"
#include "server/settings.h"
#include "server/warden_internal.h"

#define CONVERSATIONS 300
#define MESSAGES_MAX  40
#define JOBS_MAX      (MESSAGES_MAX * 2)

/* ---- a warden without a front of its own ---- */

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static struct settings *load_settings(void)
{
    char path[] = "/tmp/immure-warden-front-XXXXXX";
    static const char text[] = "max_concurrent_jobs: 2 cgroup: BEST_EFFORT";
    char key[] = "SANDBOX_EXECUTOR_SERVICE_API_KEY=k";
    char *env[] = {key, NULL};
    struct settings *settings = NULL;
    struct err err = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(io_write_full(fd, text, sizeof text - 1), 0);
    close(fd);
    if (settings_load(path, env, &settings, &err) < 0) {
        fail_msg("%s", err.text);
    }
    unlink(path);
    return settings;
}

static void open_warden(struct warden *warden)
{
    *warden = (struct warden){.environment_fd = -1, .executable_fd = -1, .listen_fd = -1, .signal_fd = -1};
    warden->settings = load_settings();
    int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
    warden->log = log_new(getenv("V") ? STDERR_FILENO : silent, LOG_FORMAT_LOGFMT, LOG_DEBUG, "warden");
    assert_non_null(warden->log);
    const struct host_options options = {.cgroup_mode = CGROUP_BEST_EFFORT,
                                         .best_effort = "",
                                         .outer_uid_base = warden->settings->config->outer_uid_base,
                                         .n_outer_uids = 64};
    struct err err = {0};
    if (host_open(&options, &warden->host, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(loop_new(&warden->loop, NULL), 0);
    assert_int_equal(loop_add_timer(warden->loop, front_restart_due, warden, &warden->restart_timer, NULL),
                     0);
    assert_int_equal(loop_add_timer(warden->loop, job_watch_due, warden, &warden->watch_timer, NULL), 0);
    assert_int_equal(loop_add_timer(warden->loop, guard_tick, warden, &warden->guard_timer, NULL), 0);
}

static void close_warden(struct warden *warden)
{
    loop_remove(warden->restart_timer);
    loop_remove(warden->watch_timer);
    loop_remove(warden->guard_timer);
    loop_free(warden->loop);
    host_close(&warden->host);
    settings_unref(warden->settings);
    log_free(warden->log);
}

/* ---- a conversation, and what should become of it ---- */

enum fate { LIVES, DIES };

struct talk {
    struct warden *warden;
    struct front *front;
    int sock; /* the front's end */
    uint64_t random;
    bool serving;     /* hello has been said */
    uint64_t last_id; /* of a job */
    uint64_t ping;    /* heard and not answered; 0: none */
    size_t n_jobs;
    struct {
        uint64_t id;
        unsigned answers;
    } jobs[JOBS_MAX];
    int own_fds[64]; /* to be closed after a message is sent */
    size_t n_own_fds;
    bool saw_jail; /* a job that ran */
};

/* xorshift64*: the same conversations in every run. */
static uint64_t draw(struct talk *talk, uint64_t below)
{
    talk->random ^= talk->random >> 12;
    talk->random ^= talk->random << 25;
    talk->random ^= talk->random >> 27;
    return (talk->random * 0x2545f4914f6cdd1dull >> 33) % below;
}

static int own(struct talk *talk, int fd)
{
    assert_true(fd >= 0);
    assert_true(talk->n_own_fds < ARRAY_SIZE(talk->own_fds));
    return talk->own_fds[talk->n_own_fds++] = fd;
}

static void say(struct talk *talk, const struct msg *msg, const int *fds, size_t n_fds)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(msg_encode(msg, &packed, NULL), 0);
    int r = io_send_fds(talk->sock, packed.data, packed.len, fds, n_fds);
    assert_true(r == 0 || r == -EPIPE);
}

static int pipe_end(struct talk *talk, bool write)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    own(talk, ends[0]);
    own(talk, ends[1]);
    return ends[write];
}

static int input(struct talk *talk, unsigned seals)
{
    static const char code[] = "import time\ntime.sleep(100)\n";
    int fd = own(talk, memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(io_write_full(fd, code, sizeof code - 1), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static void descriptors(struct talk *talk, int ret[MSG_JOB_FDS])
{
    static const bool writes[MSG_JOB_FDS] = {false, false, true, true, false, true};
    ret[0] = input(talk, SEALS);
    for (int i = 1; i < MSG_JOB_FDS; i++) {
        ret[i] = pipe_end(talk, writes[i]);
    }
}

static struct msg job_message(uint64_t id, const char *runtime)
{
    struct msg msg = {.type = MSG_JOB, .job = calloc(1, sizeof *msg.job)};
    assert_non_null(msg.job);
    msg.job->id = id;
    msg.job->runtime = strdup(runtime);
    msg.job->execution_id = strdup("e");
    msg.job->key = strdup("k");
    msg.job->code_size = strlen("import time\ntime.sleep(100)\n");
    return msg;
}

static void say_job(struct talk *talk, uint64_t id, const char *runtime, const int *fds, size_t n_fds)
{
    struct msg msg = job_message(id, runtime);
    say(talk, &msg, fds, n_fds);
    msg_clear(&msg);
}

/* ---- what a front may say, or not; each tells what should become of it ---- */

static enum fate hello(struct talk *talk)
{
    say(talk, &(struct msg){.type = MSG_HELLO}, NULL, 0);
    bool first = !talk->serving;
    talk->serving = true;
    return first ? LIVES : DIES;
}

static enum fate hello_with_a_pipe(struct talk *talk)
{
    int fd = pipe_end(talk, false);
    say(talk, &(struct msg){.type = MSG_HELLO}, &fd, 1);
    return DIES;
}

static enum fate start_job(struct talk *talk, const char *runtime)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    talk->last_id += 1 + draw(talk, 3);
    say_job(talk, talk->last_id, runtime, fds, MSG_JOB_FDS);
    if (talk->serving) {
        talk->jobs[talk->n_jobs++].id = talk->last_id;
    }
    return talk->serving ? LIVES : DIES;
}

static enum fate job_of_no_runtime(struct talk *talk)
{
    return start_job(talk, "none");
}

/* A real jail, for some. */
static enum fate job(struct talk *talk)
{
    return start_job(talk, draw(talk, 8) == 0 ? "python" : "none");
}

static enum fate job_of_an_old_id(struct talk *talk)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    say_job(talk, talk->last_id - (talk->last_id > 0 ? draw(talk, talk->last_id) : 0), "none", fds,
            MSG_JOB_FDS);
    return DIES;
}

static enum fate job_of_another_number_of_descriptors(struct talk *talk)
{
    int fds[MSG_JOB_FDS + 1];
    descriptors(talk, fds);
    fds[MSG_JOB_FDS] = fds[1];
    size_t n = draw(talk, MSG_JOB_FDS + 1);
    say_job(talk, talk->last_id + 1, "none", fds, n == MSG_JOB_FDS ? n + 1 : n);
    return DIES;
}

static int make_fifo(struct talk *talk, int flags)
{
    char path[] = "/tmp/immure-fifo-XXXXXX";
    assert_non_null(mkdtemp(path));
    char name[64];
    snprintf(name, sizeof name, "%s/f", path);
    assert_int_equal(mkfifo(name, 0600), 0);
    int fd = own(talk, open(name, flags | O_CLOEXEC));
    unlink(name);
    rmdir(path);
    return fd;
}

/* Whatever else there is to send. */
static int foreign_descriptor(struct talk *talk)
{
    int ends[2], terminal;
    char path[64];
    switch (draw(talk, 11)) {
    case 0:
        return own(talk, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    case 1:
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        own(talk, ends[1]);
        return own(talk, ends[0]);
    case 2:
        return talk->sock; /* the channel itself */
    case 3:
        return own(talk, open("/dev/null", O_RDWR | O_CLOEXEC));
    case 4:
        return make_fifo(talk, O_RDWR);
    case 5:
        return make_fifo(talk, O_PATH);
    case 6: /* a handle of a pipe's end */
        snprintf(path, sizeof path, "/proc/self/fd/%d", pipe_end(talk, true));
        return own(talk, open(path, O_PATH | O_CLOEXEC));
    case 7: /* a pipe's end for both */
        snprintf(path, sizeof path, "/proc/self/fd/%d", pipe_end(talk, true));
        return own(talk, open(path, O_RDWR | O_CLOEXEC));
    case 8:
        return input(talk, F_SEAL_GROW | F_SEAL_SHRINK); /* could still be written */
    case 9:
        terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        return own(talk, terminal >= 0 ? terminal : open("/dev/zero", O_RDWR | O_CLOEXEC));
    default:
        return own(talk, pidfd_open(getpid(), 0));
    }
}

static enum fate job_with_a_foreign_descriptor(struct talk *talk)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    fds[draw(talk, MSG_JOB_FDS)] = foreign_descriptor(talk);
    say_job(talk, talk->last_id + 1, "none", fds, MSG_JOB_FDS);
    return DIES;
}

/* stdin that can be written, stdout that can be read. */
static enum fate job_with_pipes_turned_round(struct talk *talk)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    size_t i = 1 + draw(talk, 2), other = i == 1 ? 2 : 1;
    fds[i] = fds[other];
    say_job(talk, talk->last_id + 1, "none", fds, MSG_JOB_FDS);
    return DIES;
}

static enum fate cancel(struct talk *talk)
{
    uint64_t id = talk->n_jobs > 0 ? talk->jobs[draw(talk, talk->n_jobs)].id : draw(talk, 1000);
    say(talk, &(struct msg){.type = MSG_CANCEL, .cancel = {.id = id}}, NULL, 0);
    return talk->serving ? LIVES : DIES;
}

static enum fate name_outputs(struct talk *talk)
{
    char name[] = "*.txt";
    char *paths[] = {name};
    uint64_t id = draw(talk, talk->last_id + 2);
    say(talk, &(struct msg){.type = MSG_OUTPUTS, .outputs = {.id = id, .paths = paths, .n_paths = 1}}, NULL,
        0);
    return talk->serving ? LIVES : DIES;
}

static enum fate pong(struct talk *talk)
{
    bool due = talk->serving && talk->ping > 0;
    say(talk, &(struct msg){.type = MSG_PONG, .pong = {.number = talk->ping}}, NULL, 0);
    talk->ping = 0;
    return due ? LIVES : DIES;
}

static enum fate pong_of_another_number(struct talk *talk)
{
    uint64_t number = talk->ping + 1 + draw(talk, 9);
    say(talk, &(struct msg){.type = MSG_PONG, .pong = {.number = number}}, NULL, 0);
    return DIES;
}

static enum fate what_the_warden_says(struct talk *talk)
{
    static const struct msg messages[] = {
        {.type = MSG_CONFIG},
        {.type = MSG_STATE},
        {.type = MSG_PING, .ping = {.number = 1}},
        {.type = MSG_REFUSED, .refused = {.id = 1, .kind = ERR_BUSY}},
    };
    say(talk, &messages[draw(talk, ARRAY_SIZE(messages))], NULL, 0);
    return DIES;
}

static enum fate descriptors_where_none_belong(struct talk *talk)
{
    int fd = pipe_end(talk, false);
    say(talk, &(struct msg){.type = MSG_CANCEL, .cancel = {.id = 1}}, &fd, 1);
    return DIES;
}

static enum fate garbage(struct talk *talk)
{
    char data[256];
    size_t size = 1 + draw(talk, sizeof data - 1);
    memset(data, (int)(0x80 + draw(talk, 0x80)), size);
    io_send_fds(talk->sock, data, size, NULL, 0);
    return DIES;
}

static enum fate a_part_of_a_job(struct talk *talk)
{
    struct msg msg = job_message(talk->last_id + 1, "none");
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    assert_int_equal(msg_encode(&msg, &packed, NULL), 0);
    io_send_fds(talk->sock, packed.data, 1 + draw(talk, packed.len - 1), fds, MSG_JOB_FDS);
    msg_clear(&msg);
    return DIES;
}

static enum fate nothing_with_a_descriptor(struct talk *talk)
{
    int fd = pipe_end(talk, false);
    io_send_fds(talk->sock, "", 0, &fd, 1);
    return DIES;
}

static enum fate too_much(struct talk *talk)
{
    static char data[MSG_BYTES_MAX + 1];
    io_send_fds(talk->sock, data, sizeof data, NULL, 0);
    return DIES;
}

static enum fate tick(struct talk *talk)
{
    guard_tick(talk->warden, 0);
    return LIVES; /* three of four ticks without an answer, too: see converse() */
}

/* With their weights: conversations should last. */
static const struct {
    unsigned weight;
    enum fate (*act)(struct talk *talk);
} acts[] = {
    {60, job},
    {40, cancel},
    {30, name_outputs},
    {30, pong},
    {25, tick},
    {20, job_of_no_runtime},
    {1, hello},
    {1, hello_with_a_pipe},
    {1, job_of_an_old_id},
    {1, job_of_another_number_of_descriptors},
    {4, job_with_a_foreign_descriptor},
    {1, job_with_pipes_turned_round},
    {1, pong_of_another_number},
    {1, what_the_warden_says},
    {1, descriptors_where_none_belong},
    {1, garbage},
    {1, a_part_of_a_job},
    {1, nothing_with_a_descriptor},
    {1, too_much},
};

static size_t choose(struct talk *talk)
{
    unsigned total = 0;
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        total += acts[i].weight;
    }
    uint64_t at = draw(talk, total);
    size_t i = 0;
    while (at >= acts[i].weight) {
        at -= acts[i++].weight;
    }
    return i;
}

/* ---- what must hold ---- */

static void note_answer(struct talk *talk, uint64_t id)
{
    for (size_t i = 0; i < talk->n_jobs; i++) {
        if (talk->jobs[i].id == id) {
            talk->jobs[i].answers++;
            return;
        }
    }
    fail_msg("an answer for a job that was never sent");
}

/* Hears all that the warden has said. */
static void listen_to_the_warden(struct talk *talk)
{
    for (;;) {
        static unsigned char data[MSG_BYTES_MAX];
        int fds[IO_FDS_MAX];
        size_t n_fds = IO_FDS_MAX;
        struct msg msg = {.type = MSG_NONE};
        ssize_t size = io_recv_fds(talk->sock, data, sizeof data, fds, &n_fds);
        if (size <= 0) {
            return;
        }
        assert_int_equal(msg_decode(data, (size_t)size, fds, n_fds, &msg, NULL), 0);
        if (msg.type == MSG_REFUSED) {
            note_answer(talk, msg.refused.id);
        } else if (msg.type == MSG_DONE) {
            note_answer(talk, msg.done.id);
        } else if (msg.type == MSG_PING) {
            talk->ping = msg.ping.number;
        }
        if (msg.type != MSG_DONE) {
            for (size_t i = 0; i < n_fds; i++) {
                close(fds[i]);
            }
        }
        msg_clear(&msg);
    }
}

static size_t jobs_of(const struct warden *warden, const struct front *front)
{
    size_t n = 0;
    for (const struct warden_job *each = warden->jobs; each; each = each->next) {
        n += each->front == front;
    }
    return n;
}

static void check(struct talk *talk, enum fate expected)
{
    const struct warden *warden = talk->warden;
    assert_true(warden->n_jobs <= warden->settings->config->max_concurrent_jobs);
    talk->saw_jail = talk->saw_jail || warden->n_jobs > 0;
    if (expected == DIES) {
        assert_int_equal(talk->front->state, FRONT_DYING);
        assert_null(talk->front->channel);
        assert_int_equal(jobs_of(warden, talk->front), 0);
    } else {
        assert_int_equal(talk->front->state, talk->serving ? FRONT_SERVING : FRONT_STARTING);
        assert_non_null(talk->front->channel);
    }
    for (size_t i = 0; i < talk->n_jobs; i++) {
        assert_true(talk->jobs[i].answers <= 1);
    }
}

/* A process that can be killed like a front. */
static void begin_talk(struct talk *talk, struct warden *warden, uint64_t seed)
{
    int sockets[2];
    *talk = (struct talk){.warden = warden, .random = seed * 0x9e3779b97f4a7c15ull + 1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    struct front_process process = {.channel_fd = sockets[0]};
    process.pid = fork();
    assert_true(process.pid >= 0);
    if (process.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    process.pidfd = pidfd_open(process.pid, 0);
    assert_true(process.pidfd >= 0);
    talk->sock = sockets[1];
    assert_int_equal(fcntl(talk->sock, F_SETFL, O_NONBLOCK), 0);
    int size = 4 * (int)MSG_BYTES_MAX;
    setsockopt(talk->sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    assert_int_equal(front_adopt(warden, warden->settings, &process, &talk->front, NULL), 0);
    listen_to_the_warden(talk);
}

static void run_until(struct warden *warden, bool (*done)(const struct warden *warden))
{
    uint64_t until_ns = clock_now_ns() + 30 * NS_PER_S;
    while (!done(warden)) {
        assert_true(clock_now_ns() < until_ns);
        assert_int_equal(loop_once(warden->loop, 100, NULL), 0);
    }
}

static bool has_no_front(const struct warden *warden)
{
    return !warden->fronts;
}

static bool has_no_job(const struct warden *warden)
{
    return !warden->jobs;
}

/* Those who kept to the rules to the end have every job answered. */
static void end_well(struct talk *talk)
{
    job_cancel_all(talk->warden);
    run_until(talk->warden, has_no_job);
    listen_to_the_warden(talk);
    for (size_t i = 0; i < talk->n_jobs; i++) {
        assert_int_equal(talk->jobs[i].answers, 1);
    }
    front_kill(talk->front, "the conversation is over");
}

/* Returns how many messages were said, and counts what was tried. */
static unsigned converse(struct warden *warden, uint64_t seed, unsigned tried[ARRAY_SIZE(acts)],
                         unsigned *jails)
{
    struct talk talk;
    enum fate fate = LIVES;
    unsigned said = 0;
    begin_talk(&talk, warden, seed);
    for (; said < MESSAGES_MAX && fate == LIVES; said++) {
        /* Most begin as they should. */
        size_t which = choose(&talk);
        bool greet = said == 0 && draw(&talk, 8) != 0;
        if (acts[which].act == tick && talk.ping > 0) {
            continue; /* unanswered pings are for another test */
        }
        if (acts[which].act == pong && talk.ping == 0 && draw(&talk, 16) != 0) {
            continue;
        }
        fate = greet ? hello(&talk) : acts[which].act(&talk);
        tried[which] += !greet;
        front_receive(talk.front, 16);
        check(&talk, fate);
        loop_once(warden->loop, 0, NULL);
        listen_to_the_warden(&talk);
        for (size_t i = 0; i < talk.n_own_fds; i++) {
            close(talk.own_fds[i]);
        }
        talk.n_own_fds = 0;
    }
    if (fate == LIVES) {
        check(&talk, fate);
        end_well(&talk);
    }
    run_until(warden, has_no_front);
    run_until(warden, has_no_job);
    close(talk.sock);
    *jails += talk.saw_jail;
    return said;
}

static void any_front_keeps_to_the_rules_or_dies(void **state)
{
    struct warden *warden = *state;
    unsigned tried[ARRAY_SIZE(acts)] = {0}, said = 0, jails = 0;
    said += converse(warden, 0, tried, &jails); /* opens what is opened once */
    int before = count_fds();
    for (uint64_t seed = 1; seed <= CONVERSATIONS; seed++) {
        said += converse(warden, seed, tried, &jails);
        assert_int_equal(warden->n_jobs, 0);
        if (count_fds() != before) {
            fail_msg("conversation %u left descriptors", (unsigned)seed);
        }
    }
    print_message("%u messages in %d conversations, %u with jails\n", said, CONVERSATIONS + 1, jails);
    assert_true(jails > 20);
    for (size_t i = 0; i < ARRAY_SIZE(tried); i++) {
        assert_true(tried[i] > 0);
    }
}

/* Four ticks without an answer, and not one less; an answer in time starts the count again. */
static void a_front_that_does_not_answer_dies(void **state)
{
    struct warden *warden = *state;
    for (int serving = 0; serving < 2; serving++) {
        struct talk talk;
        begin_talk(&talk, warden, 1);
        for (int round = 0; serving && round < 5; round++) {
            if (round == 0) {
                hello(&talk);
                front_receive(talk.front, 16);
            }
            guard_tick(warden, 0);
            listen_to_the_warden(&talk);
            assert_int_equal(talk.ping, round + 1);
            guard_tick(warden, 0);
            assert_int_equal(pong(&talk), LIVES);
            front_receive(talk.front, 16);
            check(&talk, LIVES);
        }
        for (int ticks = 0; ticks < 3 + serving; ticks++) {
            guard_tick(warden, 0);
            check(&talk, LIVES);
        }
        guard_tick(warden, 0);
        check(&talk, DIES);
        run_until(warden, has_no_front);
        close(talk.sock);
    }
}

/* One for all tests: a process without privileges enters its own user namespace once. */
static int set_up(void **state)
{
    struct warden *warden = calloc(1, sizeof *warden);
    assert_non_null(warden);
    open_warden(warden);
    *state = warden;
    return 0;
}

static int tear_down(void **state)
{
    close_warden(*state);
    free(*state);
    return 0;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_front_keeps_to_the_rules_or_dies),
        cmocka_unit_test(a_front_that_does_not_answer_dies),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
