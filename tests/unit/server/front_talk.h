/* A conversation of a front with the warden: what may be said, drawn from a seed, and what should become of
 * the one who says it. */
#pragma once

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
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/warden_internal.h"

#define MESSAGES_MAX 40
#define JOBS_MAX     (MESSAGES_MAX * 2)

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
static inline uint64_t draw(struct talk *talk, uint64_t below)
{
    talk->random ^= talk->random >> 12;
    talk->random ^= talk->random << 25;
    talk->random ^= talk->random >> 27;
    return (talk->random * 0x2545f4914f6cdd1dull >> 33) % below;
}

static inline int own(struct talk *talk, int fd)
{
    assert_true(fd >= 0);
    assert_true(talk->n_own_fds < ARRAY_SIZE(talk->own_fds));
    return talk->own_fds[talk->n_own_fds++] = fd;
}

static inline void say(struct talk *talk, const struct msg *msg, const int *fds, size_t n_fds)
{
    CLEANUP(buf_free) struct buf packed = BUF_INIT;
    assert_int_equal(msg_encode(msg, &packed, NULL), 0);
    int r = io_send_fds(talk->sock, packed.data, packed.len, fds, n_fds);
    assert_true(r == 0 || r == -EPIPE);
}

static inline int pipe_end(struct talk *talk, bool write)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    own(talk, ends[0]);
    own(talk, ends[1]);
    return ends[write];
}

static inline int input(struct talk *talk, unsigned seals)
{
    static const char code[] = "import time\ntime.sleep(100)\n";
    int fd = own(talk, memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    assert_int_equal(io_write_full(fd, code, sizeof code - 1), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static inline void descriptors(struct talk *talk, int ret[MSG_JOB_FDS])
{
    static const bool writes[MSG_JOB_FDS] = {false, false, true, true, false, true};
    ret[0] = input(talk, SEALS);
    for (int i = 1; i < MSG_JOB_FDS; i++) {
        ret[i] = pipe_end(talk, writes[i]);
    }
}

static inline struct msg job_message(uint64_t id, const char *runtime)
{
    struct msg msg = {.type = MSG_JOB, .job = calloc(1, sizeof *msg.job)};
    assert_non_null(msg.job);
    msg.job->id = id;
    msg.job->runtime = strdup(runtime);
    msg.job->execution_id = strdup("e");
    msg.job->key = strdup("default");
    msg.job->code_size = strlen("import time\ntime.sleep(100)\n");
    return msg;
}

static inline void say_job(struct talk *talk, uint64_t id, const char *runtime, const int *fds, size_t n_fds)
{
    struct msg msg = job_message(id, runtime);
    say(talk, &msg, fds, n_fds);
    msg_clear(&msg);
}

/* ---- what a front may say, or not; each tells what should become of it ---- */

static inline enum fate hello(struct talk *talk)
{
    say(talk, &(struct msg){.type = MSG_HELLO}, NULL, 0);
    bool first = !talk->serving;
    talk->serving = true;
    return first ? LIVES : DIES;
}

static inline enum fate hello_with_a_pipe(struct talk *talk)
{
    int fd = pipe_end(talk, false);
    say(talk, &(struct msg){.type = MSG_HELLO}, &fd, 1);
    return DIES;
}

static inline enum fate start_job(struct talk *talk, const char *runtime)
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

static inline enum fate job_of_no_runtime(struct talk *talk)
{
    return start_job(talk, "none");
}

/* A real jail, for some. */
static inline enum fate job(struct talk *talk)
{
    return start_job(talk, draw(talk, 8) == 0 ? "python" : "none");
}

static inline enum fate job_of_an_old_id(struct talk *talk)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    say_job(talk, talk->last_id - (talk->last_id > 0 ? draw(talk, talk->last_id) : 0), "none", fds,
            MSG_JOB_FDS);
    return DIES;
}

static inline enum fate job_of_another_number_of_descriptors(struct talk *talk)
{
    int fds[MSG_JOB_FDS + 1];
    descriptors(talk, fds);
    fds[MSG_JOB_FDS] = fds[1];
    size_t n = draw(talk, MSG_JOB_FDS + 1);
    say_job(talk, talk->last_id + 1, "none", fds, n == MSG_JOB_FDS ? n + 1 : n);
    return DIES;
}

static inline int make_fifo(struct talk *talk, int flags)
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
static inline int foreign_descriptor(struct talk *talk)
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

static inline enum fate job_with_a_foreign_descriptor(struct talk *talk)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    fds[draw(talk, MSG_JOB_FDS)] = foreign_descriptor(talk);
    say_job(talk, talk->last_id + 1, "none", fds, MSG_JOB_FDS);
    return DIES;
}

/* stdin that can be written, stdout that can be read. */
static inline enum fate job_with_pipes_turned_round(struct talk *talk)
{
    int fds[MSG_JOB_FDS];
    descriptors(talk, fds);
    size_t i = 1 + draw(talk, 2), other = i == 1 ? 2 : 1;
    fds[i] = fds[other];
    say_job(talk, talk->last_id + 1, "none", fds, MSG_JOB_FDS);
    return DIES;
}

static inline enum fate cancel(struct talk *talk)
{
    uint64_t id = talk->n_jobs > 0 ? talk->jobs[draw(talk, talk->n_jobs)].id : draw(talk, 1000);
    say(talk, &(struct msg){.type = MSG_CANCEL, .cancel = {.id = id}}, NULL, 0);
    return talk->serving ? LIVES : DIES;
}

static inline enum fate name_outputs(struct talk *talk)
{
    char name[] = "*.txt";
    char *paths[] = {name};
    uint64_t id = draw(talk, talk->last_id + 2);
    say(talk, &(struct msg){.type = MSG_OUTPUTS, .outputs = {.id = id, .paths = paths, .n_paths = 1}}, NULL,
        0);
    return talk->serving ? LIVES : DIES;
}

static inline enum fate pong(struct talk *talk)
{
    bool due = talk->serving && talk->ping > 0;
    say(talk, &(struct msg){.type = MSG_PONG, .pong = {.number = talk->ping}}, NULL, 0);
    talk->ping = 0;
    return due ? LIVES : DIES;
}

static inline enum fate pong_of_another_number(struct talk *talk)
{
    uint64_t number = talk->ping + 1 + draw(talk, 9);
    say(talk, &(struct msg){.type = MSG_PONG, .pong = {.number = number}}, NULL, 0);
    return DIES;
}

static inline enum fate what_the_warden_says(struct talk *talk)
{
    static const struct msg messages[] = {
        {.type = MSG_CONFIG},
        {.type = MSG_CALLERS},
        {.type = MSG_STATE},
        {.type = MSG_PING, .ping = {.number = 1}},
        {.type = MSG_REFUSED, .refused = {.id = 1, .kind = ERR_BUSY}},
    };
    say(talk, &messages[draw(talk, ARRAY_SIZE(messages))], NULL, 0);
    return DIES;
}

static inline enum fate descriptors_where_none_belong(struct talk *talk)
{
    int fd = pipe_end(talk, false);
    say(talk, &(struct msg){.type = MSG_CANCEL, .cancel = {.id = 1}}, &fd, 1);
    return DIES;
}

static inline enum fate garbage(struct talk *talk)
{
    char data[256];
    size_t size = 1 + draw(talk, sizeof data - 1);
    memset(data, (int)(0x80 + draw(talk, 0x80)), size);
    io_send_fds(talk->sock, data, size, NULL, 0);
    return DIES;
}

static inline enum fate a_part_of_a_job(struct talk *talk)
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

static inline enum fate nothing_with_a_descriptor(struct talk *talk)
{
    int fd = pipe_end(talk, false);
    io_send_fds(talk->sock, "", 0, &fd, 1);
    return DIES;
}

static inline enum fate too_much(struct talk *talk)
{
    static char data[MSG_BYTES_MAX + 1];
    io_send_fds(talk->sock, data, sizeof data, NULL, 0);
    return DIES;
}

static inline enum fate tick(struct talk *talk)
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

static inline size_t choose(struct talk *talk)
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
