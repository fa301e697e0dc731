/* What the warden does about fronts that hang or try what is denied. Runs in the warden.
 *
 * A front that hangs (an endless loop, a lock, a stop signal) keeps the port and serves nobody; nothing else
 * would tell. So each is asked for an answer again and again, and one that gives none is killed. Time is
 * counted in ticks of our own timer, not on the clock: after a machine was paused, the clock says that a
 * front has been silent for hours, but a front gets all its ticks. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/host/notify.h"
#include "server/kit/log.h"
#include "server/run/settings.h"
#include "server/warden/front_denials.h"

#define TICKS 4 /* in front_timeout_ms */

#define SIGNS_OF_LIFE 4 /* in the time that the service manager waits for one */

/* Of one front; somebody who tries calls in a loop must not fill the log nor keep the warden busy. */
#define DENIALS_MAX 64

/* Where there is nothing to watch, a reload may bring it. */
#define IDLE_TICK_NS NS_PER_S

static uint64_t timeout_ms(const struct warden *warden)
{
    return warden->settings->config->front_timeout_ms;
}

static void arm(struct warden *warden)
{
    uint64_t tick_ns = timeout_ms(warden) > 0 ? timeout_ms(warden) * NS_PER_MS / TICKS : IDLE_TICK_NS;
    loop_timer_set(warden->guard_timer, clock_now_ns() + tick_ns);
}

void guard_begin(struct front *front)
{
    front->guard = (struct front_guard){.denials = -1, .answered = true};
    if (!front->warden->guard_armed) {
        front->warden->guard_armed = true;
        arm(front->warden);
    }
}

void guard_end(struct front *front)
{
    loop_remove(front->guard.denials_source);
    front->guard.denials_source = NULL;
    fd_closep(&front->guard.denials);
}

static void ping(struct front *front)
{
    struct msg msg = {.type = MSG_PING, .ping = {.number = ++front->guard.ping}};
    front->guard.answered = false;
    front->guard.ticks = 0;
    front_send(front, &msg, NULL, 0);
}

static void look_after(struct front *front)
{
    char why[96];
    bool speaks = front->guard.speaks;
    if (front->state == FRONT_DYING) {
        return;
    }
    if (timeout_ms(front->warden) == 0) {
        /* It may take for ever. But an approved job that it could not begin is missed only when it answers
         * (approvals_answered()). */
        if (speaks && front->guard.answered && approvals_await_answer(front->warden)) {
            ping(front);
        }
        return;
    }
    if (speaks && front->guard.answered) {
        ping(front);
    } else if (++front->guard.ticks >= TICKS) {
        snprintf(why, sizeof why, "it has not %s for %llu ms", speaks ? "answered" : "begun to serve",
                 (unsigned long long)timeout_ms(front->warden));
        front_kill(front, why);
    }
}

void guard_tick(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    for (struct front *front = warden->fronts; front; front = front->next) {
        look_after(front);
    }
    approvals_tend(warden); /* a session's end may have made room, of which nobody tells */
    arm(warden);
}

void guard_watchdog_due(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    struct front *front = warden->current;
    if (front && front->state == FRONT_SERVING && front->guard.alive) {
        notify_service_manager("WATCHDOG=1");
        front->guard.alive = false;
    }
    if (front && front->state == FRONT_SERVING && front->guard.speaks && front->guard.answered) {
        ping(front);
    }
    loop_timer_set(warden->watchdog_timer, clock_now_ns() + warden->watchdog_ns / SIGNS_OF_LIFE);
}

void guard_pong(struct front *front, uint64_t number)
{
    if (front->guard.answered || number != front->guard.ping) {
        front_kill(front, "it answered a ping that was not sent");
        return;
    }
    front->guard.answered = true;
    front->guard.alive = true;
    approvals_answered(front, number);
}

/* Without a listener denied calls fail by themselves, with ENOSYS. */
static void on_denial(void *arg, uint32_t events)
{
    struct front *front = arg;
    struct front_guard *guard = &front->guard;
    char name[64];
    int r = events & EPOLLIN ? front_denials_answer(guard->denials, name, sizeof name) : -EPIPE;
    if (r == 1) {
        LOG(front->warden->log, LOG_WARNING, "front_denied", LOG_FIELD_I64("pid", front->process.pid),
            LOG_FIELD_STR("call", name),
            LOG_FIELD_STR("means", "the front tried a system call that its filter denies"));
        guard->n_denials++;
    }
    if (r < 0 || guard->n_denials == DENIALS_MAX) {
        guard_end(front);
    }
}

void guard_hello(struct front *front, int denials)
{
    struct err err = {0};
    front->guard.speaks = true;
    if (denials < 0) {
        return;
    }
    if (front_denials_check(denials) < 0) {
        close(denials);
        front_kill(front, "its hello came with a foreign descriptor");
        return;
    }
    front->guard.denials = denials;
    if (loop_add(front->warden->loop, denials, EPOLLIN, on_denial, front, &front->guard.denials_source,
                 &err) < 0) {
        log_err(front->warden->log, LOG_WARNING, "front_denials_unheard", &err);
        guard_end(front);
    }
}
