/* struct loop: one epoll set with a callback per descriptor. Single-threaded; the warden and the front run
 * one each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_source;
struct err;

/* `events` are EPOLL* bits. The callback may remove any source, its own included. */
typedef void (*loop_fn)(void *arg, uint32_t events);

int loop_new(struct loop **ret, struct err *reterr);
void loop_free(struct loop *loop);

/* Watches `fd` (which stays the caller's to close, after loop_remove). */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *arg, struct loop_source **ret,
             struct err *reterr);
int loop_modify(struct loop_source *source, uint32_t events);
/* Takes NULL. No callback of this source runs afterwards, not even for an event already fetched. */
void loop_remove(struct loop_source *source);

/* A timer on the monotonic clock, absolute; 0 disarms. Created disarmed. Its callback gets events 0. */
int loop_add_timer(struct loop *loop, loop_fn fn, void *arg, struct loop_source **ret, struct err *reterr);
int loop_timer_set(struct loop_source *timer, uint64_t deadline_ns);

/* Runs callbacks until loop_stop(). */
int loop_run(struct loop *loop, struct err *reterr);
/* One round: waits at most timeout_ms (-1: no limit) and runs what is due. */
int loop_once(struct loop *loop, int timeout_ms, struct err *reterr);
void loop_stop(struct loop *loop);
