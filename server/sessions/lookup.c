/* What is found in the table of sessions: whose they are, how many there are, and what is told of them. Runs
 * in the warden; changes nothing. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "config/server/config.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/resources/scratch.h"
#include "server/callers/admission.h"

/* What scratch_open() makes besides the workspace. */
#define OWN_INODES 5

uint64_t sessions_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NS_PER_MS;
}

/* The hash of the key of that name; zeros where the server is open and has none. */
static int owner_of(const struct server_config *config, const char *key, unsigned char ret[KEY_HASH_BYTES],
                    uint32_t *ret_max_sessions)
{
    memset(ret, 0, KEY_HASH_BYTES);
    *ret_max_sessions = 0;
    for (size_t i = 0; i < config->n_keys; i++) {
        if (strcmp(config->keys[i].name, key) == 0) {
            memcpy(ret, config->keys[i].sha256, KEY_HASH_BYTES);
            *ret_max_sessions = admission_sessions_of(config, &config->keys[i]);
            return 0;
        }
    }
    return config->open ? 0 : -ENOENT;
}

static bool belongs_to(const struct session *session, const unsigned char owner[KEY_HASH_BYTES])
{
    return memcmp(session->owner, owner, KEY_HASH_BYTES) == 0;
}

struct session *sessions_named(const struct sessions *sessions, const char *session_id)
{
    struct session *session = sessions->first;
    while (session && strcmp(session->id, session_id) != 0) {
        session = session->next;
    }
    return session;
}

int session_find(const struct sessions *sessions, const struct server_config *config, const char *key,
                 const char *session_id, struct session **ret, struct err *reterr)
{
    unsigned char owner[KEY_HASH_BYTES];
    uint32_t most;
    struct session *session = sessions_named(sessions, session_id);
    *ret = NULL;
    if (session && (owner_of(config, key, owner, &most) < 0 || !belongs_to(session, owner))) {
        return err_set(reterr, ERR_DENIED, EACCES, "session_id", "this key may not use the session '%.130s'",
                       session_id);
    }
    *ret = session;
    return 0;
}

/* Milliseconds until the first of the owner's sessions (NULL: of all) expires, if none is used again. */
static uint64_t until_expiry_ms(const struct sessions *sessions, const unsigned char *owner)
{
    uint64_t now_ns = clock_now_ns(), earliest_ns = now_ns + sessions->idle.timeout_ns;
    for (const struct session *session = sessions->first; session; session = session->next) {
        bool counts = !session->lost && (!owner || belongs_to(session, owner));
        if (counts && session->deadline.queue && session->deadline.at_ns < earliest_ns) {
            earliest_ns = session->deadline.at_ns;
        }
    }
    return earliest_ns > now_ns ? (earliest_ns - now_ns) / NS_PER_MS : 0;
}

static int check_room(const struct sessions *sessions, const struct server_config *config,
                      const unsigned char owner[KEY_HASH_BYTES], uint32_t key_most,
                      uint64_t *ret_retry_after_ms, struct err *reterr)
{
    uint32_t n = 0;
    for (const struct session *session = sessions->first; session; session = session->next) {
        n += !session->lost && belongs_to(session, owner);
    }
    if (key_most > 0 && n >= key_most) {
        *ret_retry_after_ms = until_expiry_ms(sessions, owner);
        return err_set(reterr, ERR_RATE, EAGAIN, NULL, "this key has the %u sessions that it may have", n);
    }
    if (sessions->count >= config->max_sessions) {
        *ret_retry_after_ms = until_expiry_ms(sessions, NULL);
        return err_set(reterr, ERR_BUSY, EAGAIN, NULL, "server busy: there is no room for another session");
    }
    return 0;
}

int sessions_look_up(const struct sessions *sessions, const struct server_config *config, const char *key,
                     const char *session_id, unsigned char ret_owner[KEY_HASH_BYTES], struct session **ret,
                     uint64_t *ret_retry_after_ms, struct err *reterr)
{
    uint32_t key_most;
    *ret_retry_after_ms = 0;
    if (owner_of(config, key, ret_owner, &key_most) < 0) {
        return err_set(reterr, ERR_INTERNAL, ENOENT, "key", "a job's key is not in the configuration");
    }
    int r = session_find(sessions, config, key, session_id, ret, reterr);
    return r < 0 || *ret ? r : check_room(sessions, config, ret_owner, key_most, ret_retry_after_ms, reterr);
}

int session_try(const struct sessions *sessions, const struct server_config *config, const char *key,
                const char *session_id, struct session **ret, struct err *reterr)
{
    unsigned char owner[KEY_HASH_BYTES];
    uint64_t retry_after_ms;
    return sessions_look_up(sessions, config, key, session_id, owner, ret, &retry_after_ms, reterr);
}

static struct session_row row_of(const struct session *session)
{
    struct session_row row = {
        .created_ms = session->created_ms, .used_ms = session->used_ms, .jobs = session->jobs};
    memcpy(row.session_id, session->id, sizeof row.session_id);
    if (session_is_on_disk(session)) {
        row.bytes = session->usage.bytes;
        row.files = session->usage.files;
    } else if (scratch_usage(session->fd, &row.bytes, &row.files) == 0) {
        row.files -= row.files > OWN_INODES ? OWN_INODES : row.files;
    } else {
        row.bytes = row.files = 0;
    }
    if (session->deadline.queue) {
        uint64_t now_ns = clock_now_ns(), at_ns = session->deadline.at_ns;
        row.expires_ms = sessions_now_ms() + (at_ns > now_ns ? (at_ns - now_ns) / NS_PER_MS : 0);
    }
    return row;
}

size_t sessions_list(const struct sessions *sessions, const struct server_config *config, const char *key,
                     struct session_row *ret, size_t max)
{
    unsigned char owner[KEY_HASH_BYTES];
    uint32_t most;
    size_t n = 0;
    if (owner_of(config, key, owner, &most) < 0) {
        return 0;
    }
    for (const struct session *session = sessions->first; session && n < max; session = session->next) {
        if (!session->lost && belongs_to(session, owner)) {
            ret[n++] = row_of(session);
        }
    }
    return n;
}

size_t sessions_count(const struct sessions *sessions)
{
    return sessions->count;
}
