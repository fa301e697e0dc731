/* The file of keys is read again as soon as it changes. Runs in the warden.
 *
 * What is watched is its directory, since editors and `immure key` put a new file in the place of the old
 * one. Where it is a link, what it leads through may change there instead (Kubernetes puts a new directory in
 * the place of `..data`), so whatever happens in the directory, the file is looked at. A change is a reload
 * like any other (reload.c): all or nothing. Several changes in a moment are one. */
#include "server/warden/warden_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/base/loop.h"
#include "server/kit/log.h"
#include "server/run/settings.h"

#define SETTLE_NS (100 * NS_PER_MS)

/* A file that is taken away is a change, too: its keys go on counting, and the log has to say so. */
#define CHANGES (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE)

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* None is another one, too. */
static bool is_another(const struct keys_watch *keys)
{
    struct stat now = {0};
    stat(keys->path, &now);
    return now.st_dev != keys->seen.st_dev || now.st_ino != keys->seen.st_ino;
}

/* A link is all that it will be once it is made; any other file is still to be written. */
static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && (S_ISLNK(st.st_mode) || st.st_nlink > 1);
}

static bool concerns(const struct keys_watch *keys, const struct inotify_event *event, const char *about)
{
    bool own = event->len > 0 && strcmp(about, file_name(keys->path)) == 0;
    if (event->mask & IN_Q_OVERFLOW) {
        return true; /* about everything */
    }
    if (own && (event->mask & IN_CREATE)) {
        return is_link(keys->path);
    }
    return own || is_another(keys);
}

static bool any_concerns(const struct keys_watch *keys, const char *events, size_t size)
{
    for (size_t at = 0; at + sizeof(struct inotify_event) <= size;) {
        struct inotify_event event;
        memcpy(&event, events + at, sizeof event);
        if (concerns(keys, &event, events + at + sizeof event)) {
            return true;
        }
        at += sizeof event + event.len;
    }
    return false;
}

static void on_change(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    struct keys_watch *keys = &warden->keys;
    char buffer[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
    ssize_t n = read(keys->fd, buffer, sizeof buffer);
    if (n > 0 && any_concerns(keys, buffer, (size_t)n)) {
        loop_timer_set(keys->timer, clock_now_ns() + SETTLE_NS);
    }
}

static void note_seen(struct keys_watch *keys)
{
    keys->seen = (struct stat){0};
    stat(keys->path, &keys->seen);
}

static void on_settled(void *arg, uint32_t events)
{
    (void)events;
    struct warden *warden = arg;
    note_seen(&warden->keys);
    LOG(warden->log, LOG_INFO, "key_file_changed", LOG_FIELD_STR("key_file", warden->keys.path));
    warden->keys.changed(warden);
}

static int watch(struct warden *warden, struct err *reterr)
{
    struct keys_watch *keys = &warden->keys;
    CLEANUP(freep) char *directory = strdup(keys->path);
    if (!directory) {
        return err_errno(reterr, ENOMEM, "watching the file of keys");
    }
    char *slash = strrchr(directory, '/'); /* the path is absolute */
    slash[slash == directory] = '\0';
    keys->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (keys->fd < 0 || inotify_add_watch(keys->fd, directory, CHANGES | IN_ONLYDIR) < 0) {
        return err_errno(reterr, errno, "watching %.150s", directory);
    }
    note_seen(keys);
    int r = loop_add(warden->loop, keys->fd, EPOLLIN, on_change, warden, &keys->source, reterr);
    return r < 0 ? r : loop_add_timer(warden->loop, on_settled, warden, &keys->timer, reterr);
}

void warden_keys_stop(struct warden *warden)
{
    if (!warden->keys.path) {
        return;
    }
    loop_remove(warden->keys.source);
    loop_remove(warden->keys.timer);
    fd_closep(&warden->keys.fd);
    free(warden->keys.path);
    warden->keys = (struct keys_watch){.fd = -1};
}

void warden_keys_watch(struct warden *warden, void (*changed)(struct warden *warden))
{
    const char *path = warden->settings->config->key_file;
    struct err err = {0};
    if (path && warden->keys.path && strcmp(warden->keys.path, path) == 0) {
        return;
    }
    warden_keys_stop(warden);
    if (!path || path[0] == '\0') {
        return;
    }
    warden->keys = (struct keys_watch){.path = strdup(path), .fd = -1, .changed = changed};
    if (!warden->keys.path || watch(warden, &err) < 0) {
        log_err(warden->log, LOG_WARNING, "key_file_unwatched", &err); /* SIGHUP reads it still */
        warden_keys_stop(warden);
    }
}
