/* server/warden/fronts.c, receive.c, state.c, guard.c, jobs.c: what the warden makes of a front that says
 * anything, in any order, with any descriptors. Seeded random conversations, held against a model of the
 * table of messages: a front that keeps to the rules lives and has each job answered exactly once, one that
 * breaks a rule is killed at once with all its jobs, and nothing of it stays. */
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

#include "config/server/config.h"
#include "jail/base/buf.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/approvals/approvals.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/kept_jobs.h"
#include "server/warden/warden_internal.h"
#include "tests/unit/server/front_talk.h"

#define CONVERSATIONS 300

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
    if (settings_load(path, env, NULL, &settings, &err) < 0) {
        fail_msg("%s", err.text);
    }
    unlink(path);
    return settings;
}

static void open_warden(struct warden *warden)
{
    *warden = (struct warden){
        .environment_fd = -1, .front_fd = -1, .listen_fd = -1, .signal_fd = -1, .hear = front_receive};
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
    assert_int_equal(warden_approvals_open(warden, NULL), 0);
    assert_int_equal(kept_jobs_new(warden->loop, warden->settings->config, &warden->kept, NULL), 0);
    assert_int_equal(warden_floor_open(warden, NULL), 0);
}

static void close_warden(struct warden *warden)
{
    approvals_free(warden->approvals);
    kept_jobs_free(warden->kept);
    warden_floor_close(warden);
    loop_remove(warden->restart_timer);
    loop_remove(warden->watch_timer);
    loop_remove(warden->guard_timer);
    loop_free(warden->loop);
    host_close(&warden->host);
    settings_unref(warden->settings);
    log_free(warden->log);
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

/* The program's ends of five pipes, all others closed. */
static void make_pipes(int ret[MSG_RUN_FDS])
{
    for (int i = 0; i < MSG_RUN_FDS; i++) {
        bool writes = i != 0 && i != 3; /* stdin, and what comes over the bridge, are read */
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        ret[i] = ends[writes];
        close(ends[!writes]);
    }
}

/* A front that serves, and a job that waits for approval. */
static struct approval_entry *begin_with_a_job(struct talk *talk, struct warden *warden)
{
    const struct approval approval = {.key = "default", .runtime = "python", .policy = "python"};
    struct approval_entry *entry = NULL;
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    buf_puts(&packed, "a job");
    begin_talk(talk, warden, 1);
    hello(talk);
    front_receive(talk->front, 16);
    assert_int_equal(approvals_add(warden->approvals, &approval, &packed, &entry, NULL), 0);
    return entry;
}

static void end_of_a_job(struct talk *talk, struct approval_entry *entry)
{
    struct warden *warden = talk->warden;
    assert_int_equal(approvals_move(entry, APPROVAL_LOST, NULL, "the test is over", NULL), 0);
    front_kill(talk->front, "the conversation is over");
    run_until(warden, has_no_front);
    close(talk->sock);
}

/* Neither what waits, nor what was approved and given to nobody. */
static void a_front_runs_only_what_it_is_told_to(void **state)
{
    struct warden *warden = *state;
    struct talk talk;
    struct approval_entry *entry;
    struct err err = {0};
    int fds[MSG_RUN_FDS];
    entry = begin_with_a_job(&talk, warden);
    make_pipes(fds);
    talk.n_jobs = 3;
    for (uint64_t id = 1; id <= 3; id++) {
        enum approval_state before = entry->approval.state;
        talk.jobs[id - 1].id = id;
        job_run(talk.front, id, entry->approval.id, fds);
        listen_to_the_warden(&talk);
        check(&talk, LIVES);
        assert_int_equal(talk.jobs[id - 1].answers, 1);
        assert_int_equal(entry->approval.state, before);
        assert_int_equal(warden->n_jobs, 0);
        if (id == 1) {
            assert_int_equal(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, &err), 0);
        } else if (id == 2) { /* its run is under way: to ask for it again is no end of it */
            entry->runner = talk.front;
            assert_int_equal(approvals_move(entry, APPROVAL_RUNNING, NULL, NULL, &err), 0);
        }
    }
    for (int i = 0; i < MSG_RUN_FDS; i++) {
        close(fds[i]);
    }
    end_of_a_job(&talk, entry);
}

/* It had no memory, say: it, or another, is told once more. */
static void a_front_that_could_not_run_a_job_does_not_keep_it(void **state)
{
    struct warden *warden = *state;
    struct talk talk;
    struct approval_entry *entry;
    entry = begin_with_a_job(&talk, warden);
    assert_int_equal(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, NULL), 0);
    listen_to_the_warden(&talk);
    guard_tick(warden, 0);
    listen_to_the_warden(&talk);
    entry->runner = talk.front;
    entry->runner_ping = talk.ping; /* told after that ping was sent */
    assert_int_equal(approvals_handed_over(warden, NULL), 1);
    for (int pings = 0; pings < 2; pings++) {
        assert_int_equal(pong(&talk), LIVES);
        front_receive(talk.front, 16);
        check(&talk, LIVES);
        assert_int_equal(approvals_handed_over(warden, NULL), pings == 0);
        guard_tick(warden, 0);
        guard_tick(warden, 0);
        listen_to_the_warden(&talk);
    }
    end_of_a_job(&talk, entry);
}

/* Nor where fronts may take for ever, and are not asked otherwise whether they live. */
static void a_front_without_a_timeout_does_not_keep_it_either(void **state)
{
    struct warden *warden = *state;
    uint64_t *timeout_ms = &warden->settings->config->front_timeout_ms;
    uint64_t before_ms = *timeout_ms;
    struct talk talk;
    struct approval_entry *entry;
    *timeout_ms = 0;
    entry = begin_with_a_job(&talk, warden);
    assert_int_equal(approvals_move(entry, APPROVAL_APPROVED, "boss", NULL, NULL), 0);
    guard_tick(warden, 0);
    listen_to_the_warden(&talk);
    assert_int_equal(talk.ping, 0);
    entry->runner = talk.front;
    entry->runner_ping = talk.front->guard.ping;
    for (int ticks = 0; ticks < 20; ticks++) { /* one question, and no harm in no answer */
        guard_tick(warden, 0);
        check(&talk, LIVES);
    }
    listen_to_the_warden(&talk);
    assert_int_equal(talk.ping, 1);
    assert_int_equal(approvals_handed_over(warden, NULL), 1);
    assert_int_equal(pong(&talk), LIVES);
    front_receive(talk.front, 16);
    check(&talk, LIVES);
    assert_int_equal(approvals_handed_over(warden, NULL), 0);
    *timeout_ms = before_ms;
    end_of_a_job(&talk, entry);
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
        cmocka_unit_test(a_front_runs_only_what_it_is_told_to),
        cmocka_unit_test(a_front_that_could_not_run_a_job_does_not_keep_it),
        cmocka_unit_test(a_front_without_a_timeout_does_not_keep_it_either),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
