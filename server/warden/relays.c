/* What one front asks the others. Runs in the warden, which knows whose key was shown, and passes questions
 * and answers on without reading what is beside them: to one front after the other, until one knows the job.
 */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/err.h"
#include "server/callers/auth.h"
#include "server/run/settings.h"
#include "server/warden/job_descriptors.h"

/* A question that has been passed on. */
struct relay_pending {
    struct relay_pending *next;
    struct front *asker, *asked;
    struct msg_relay relay; /* with a number of ours */
    int fd;                 /* beside it; -1: nothing */
    uint64_t their_id;      /* the asker's number */
};

static void answer(struct front *front, const struct msg_relay_answer *told, int fd)
{
    const struct msg msg = {.type = MSG_RELAY_ANSWER, .relay_answer = *told};
    front_send(front, &msg, &fd, fd >= 0 ? 1 : 0);
}

static void answer_failure(struct front *front, uint64_t id, enum err_kind kind, const char *text)
{
    struct msg_relay_answer told = {.id = id, .kind = kind};
    snprintf(told.text, sizeof told.text, "%s", text);
    answer(front, &told, -1);
}

/* Out of the list. */
static void drop(struct warden *warden, struct relay_pending *pending)
{
    struct relay_pending **at = &warden->relays;
    while (*at != pending) {
        at = &(*at)->next;
    }
    *at = pending->next;
    fd_closep(&pending->fd);
    free(pending);
}

static bool can_be_asked(const struct front *front, const struct relay_pending *pending)
{
    return front != pending->asker && front->channel &&
           (front->state == FRONT_SERVING || front->state == FRONT_DRAINING);
}

/* The first that can be, from `front` on; where there is none, nobody knows the job. */
static void ask(struct warden *warden, struct relay_pending *pending, struct front *front)
{
    while (front && !can_be_asked(front, pending)) {
        front = front->next;
    }
    pending->asked = front;
    if (!front) {
        struct front *asker = pending->asker;
        uint64_t id = pending->their_id;
        drop(warden, pending);
        answer_failure(asker, id, ERR_NOT_FOUND, "no such job runs");
        return;
    }
    const struct msg msg = {.type = MSG_RELAY, .relay = pending->relay};
    front_send(front, &msg, &pending->fd, pending->fd >= 0 ? 1 : 0);
}

static size_t count(const struct front *asker)
{
    size_t n = 0;
    for (const struct relay_pending *one = asker->warden->relays; one; one = one->next) {
        n += one->asker == asker;
    }
    return n;
}

/* The key that was shown becomes its name and its hash: a front can ask for no other. */
static bool identify(const struct warden *warden, const char *shown, struct msg_relay *ret)
{
    struct caller caller;
    if (!auth_identify(warden->settings->config, shown, NULL, &caller)) {
        return false;
    }
    explicit_bzero(ret->key, sizeof ret->key);
    snprintf(ret->key, sizeof ret->key, "%s", caller.name);
    memset(ret->key_sha256, 0, sizeof ret->key_sha256);
    if (caller.key) {
        memcpy(ret->key_sha256, caller.key->sha256, sizeof ret->key_sha256);
    }
    return true;
}

static bool is_body(int fd)
{
    struct stat st;
    return job_descriptors_is_sealed(fd) && fstat(fd, &st) == 0 && st.st_size <= RELAY_BODY_MAX;
}

void relay_pass(struct front *front, const struct msg_relay *relay, int fd)
{
    struct warden *warden = front->warden;
    if ((relay->what == RELAY_ANSWERS) != (fd >= 0) || (fd >= 0 && !is_body(fd))) {
        front_kill(front, "what is to be passed on is not a sealed anonymous file of that size");
        return;
    }
    struct relay_pending *pending = count(front) < RELAYS_MAX ? calloc(1, sizeof *pending) : NULL;
    if (!pending) {
        answer_failure(front, relay->id, ERR_BUSY, "server busy: too many requests are being passed on");
        return;
    }
    *pending = (struct relay_pending){
        .next = warden->relays, .asker = front, .relay = *relay, .fd = -1, .their_id = relay->id};
    pending->relay.id = ++warden->last_relay_id;
    warden->relays = pending;
    if (!identify(warden, relay->key, &pending->relay)) {
        drop(warden, pending);
        answer_failure(front, relay->id, ERR_NOT_FOUND, "no such job runs");
        return;
    }
    pending->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd >= 0 && pending->fd < 0) {
        drop(warden, pending);
        answer_failure(front, relay->id, ERR_BUSY, "server busy: no descriptor is free");
        return;
    }
    ask(warden, pending, warden->fronts);
}

void relay_pass_answer(struct front *front, const struct msg_relay_answer *told, int fd)
{
    struct warden *warden = front->warden;
    struct relay_pending *pending = warden->relays;
    while (pending && (pending->relay.id != told->id || pending->asked != front)) {
        pending = pending->next;
    }
    if (fd >= 0 && !is_body(fd)) {
        front_kill(front, "what is to be passed on is not a sealed anonymous file of that size");
        return;
    }
    if (!pending) {
        return; /* who had asked has gone */
    }
    if (told->kind == ERR_NOT_FOUND) {
        ask(warden, pending, front->next);
        return;
    }
    struct msg_relay_answer passed = *told;
    struct front *asker = pending->asker;
    passed.id = pending->their_id;
    drop(warden, pending);
    answer(asker, &passed, fd);
}

void relay_refuse(struct front *front, const struct msg *msg)
{
    static const char busy[] = "server busy: no descriptor is free";
    if (msg->type == MSG_RELAY) {
        answer_failure(front, msg->relay.id, ERR_BUSY, busy);
    } else {
        struct msg_relay_answer told = {.id = msg->relay_answer.id, .kind = ERR_BUSY};
        memcpy(told.text, busy, sizeof busy);
        relay_pass_answer(front, &told, -1);
    }
}

void relays_lose_front(struct front *front)
{
    struct warden *warden = front->warden;
    for (struct relay_pending *pending = warden->relays, *next; pending; pending = next) {
        next = pending->next;
        if (pending->asker == front) {
            drop(warden, pending);
        } else if (pending->asked == front) {
            ask(warden, pending, front->next);
        }
    }
}
