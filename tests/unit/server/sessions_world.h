/* A table of sessions with a configuration of two keys, and what it needs of the host: for tests of the
 * warden's rooms. Works for root and for an ordinary user. */
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "jail/base/io.h"
#include "jail/base/loop.h"
#include "server/host/host.h"
#include "server/kit/log.h"
#include "server/sessions/sessions.h"

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define KEYS                                                                                                 \
    "cgroup: BEST_EFFORT key { name: 'a' sha256: '" SHA_A "' } key { name: 'b' sha256: '" SHA_B "' } "

struct sessions_world {
    struct server_config *config;
    struct loop *loop;
    struct log *log;
    struct sessions *sessions;
    unsigned n_changes, n_ended;
    bool at_once;                                                          /* the last end's */
    const struct session *last;                                            /* to end; may be gone */
    void (*ended)(void *arg, const struct session *session, bool at_once); /* NULL: not wanted */
    void *ended_arg;
    bool answered; /* with this, and what came along, or -1 */
    struct msg_session_answer answer;
    int answer_fd;
};

/* An ordinary user's process enters its namespace once: for all tests of a program. */
static struct host the_host;

static inline int open_host(void **state)
{
    (void)state;
    const struct host_options options = {.cgroup_mode = CGROUP_BEST_EFFORT,
                                         .best_effort = "",
                                         .outer_uid_base = 1879048192u,
                                         .n_outer_uids = 64};
    struct err err = {0};
    if (host_open(&options, &the_host, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static inline int close_host(void **state)
{
    (void)state;
    host_close(&the_host);
    return 0;
}

static inline void world_session_changed(void *arg)
{
    ((struct sessions_world *)arg)->n_changes++;
}

static inline void world_session_over(void *arg, const struct session *session, const char *why)
{
    (void)arg;
    (void)session;
    (void)why;
}

static inline void world_session_ended(void *arg, const struct session *session, bool at_once)
{
    struct sessions_world *world = arg;
    world->n_ended++;
    world->at_once = at_once;
    world->last = session;
    if (world->ended) {
        world->ended(world->ended_arg, session, at_once);
    }
}

static inline void world_session_answered(void *arg, void *asker, const struct msg_session_answer *answer,
                                          int fd)
{
    struct sessions_world *world = arg;
    assert_ptr_equal(asker, world);
    assert_false(world->answered);
    world->answered = true;
    world->answer = *answer;
    world->answer_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* The configuration is KEYS and `text`. */
static inline int sessions_world_open(struct sessions_world *world, const char *text)
{
    char path[] = "/tmp/immure-sessions-XXXXXX", *env[] = {NULL};
    int fd = mkstemp(path);
    struct err err = {0};
    *world = (struct sessions_world){
        .log = log_new(open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_FORMAT_LOGFMT, LOG_DEBUG, "warden")};
    int r = fd < 0 || dprintf(fd, "%s%s", KEYS, text) < 0 ? -1 : 0;
    fd_closep(&fd);
    r = r < 0 ? r : server_config_load(path, env, &world->config, &err);
    unlink(path);
    r = r < 0 ? r : loop_new(&world->loop, &err);
    const struct sessions_options options = {.host = &the_host,
                                             .loop = world->loop,
                                             .log = &world->log,
                                             .changed = world_session_changed,
                                             .over = world_session_over,
                                             .ended = world_session_ended,
                                             .answered = world_session_answered,
                                             .arg = world};
    r = r < 0 ? r : sessions_new(&options, world->config, &world->sessions, &err);
    if (r < 0) {
        print_error("%s\n", err.text);
    }
    return r;
}

static inline void sessions_world_close(struct sessions_world *world)
{
    sessions_free(world->sessions);
    loop_free(world->loop);
    server_config_free(world->config);
    log_free(world->log);
}

/* A job of the key's that has entered its session of that name. */
static inline struct session *enter_session(struct sessions_world *world, const char *key, const char *name,
                                            bool *ret_new)
{
    const struct session_ask ask = {.config = world->config, .key = key, .session_id = name};
    struct session *session;
    uint64_t retry_after_ms;
    struct err err = {0};
    if (session_enter(world->sessions, &ask, &session, ret_new, &retry_after_ms, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return session;
}

static inline void leave_session(struct session *session, bool ran)
{
    session_leave(session, ran);
    session_unref(session);
}
