/* What is found in the table of sessions: whose they are, how many there are, and what is told of them. Runs
 * in the warden. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/resources/scratch.h"

/* What scratch_open() makes besides the workspace. */
#define OWN_INODES 5

/* The hash of the key of that name; zeros where the server is open and has none. */
static int hash_of(const struct server_config *config, const char *key, unsigned char ret[KEY_HASH_BYTES])
{
    memset(ret, 0, KEY_HASH_BYTES);
    const struct key_config *found = server_config_key(config, key);
    if (found) {
        memcpy(ret, found->sha256, KEY_HASH_BYTES);
    }
    return found || config->open ? 0 : -ENOENT;
}

static int no_key(struct err *reterr)
{
    return err_set(reterr, ERR_INTERNAL, ENOENT, "key", "a job's key is not in the configuration");
}

int sessions_owner_of(struct sessions *sessions, const unsigned char hash[KEY_HASH_BYTES],
                      struct session_owner **ret, struct err *reterr)
{
    struct session_owner **found = tfind(hash, &sessions->owners, sessions_by_hash);
    if (found) {
        *ret = *found;
        return 0;
    }
    struct session_owner *owner = calloc(1, sizeof *owner);
    if (owner) {
        memcpy(owner->hash, hash, KEY_HASH_BYTES);
    }
    if (!owner || !tsearch(owner, &sessions->owners, sessions_by_hash)) {
        free(owner);
        return err_errno(reterr, ENOMEM, "making a session");
    }
    *ret = owner;
    return 0;
}

int sessions_owner(struct sessions *sessions, const struct server_config *config, const char *key,
                   struct session_owner **ret, struct err *reterr)
{
    unsigned char hash[KEY_HASH_BYTES];
    return hash_of(config, key, hash) < 0 ? no_key(reterr) : sessions_owner_of(sessions, hash, ret, reterr);
}

static bool belongs_to(const struct session *session, const unsigned char hash[KEY_HASH_BYTES])
{
    return sessions_by_hash(session->owner, hash) == 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

int sessions_index(struct session *session)
{
    return tsearch(session->id, &session->all->by_id, by_text) ? 0 : -ENOMEM;
}

void sessions_unindex(const struct session *session)
{
    tdelete(session->id, &session->all->by_id, by_text);
}

struct session *sessions_named(const struct sessions *sessions, const char *session_id)
{
    char *const *found = tfind(session_id, &sessions->by_id, by_text);
    return found ? CONTAINER_OF(*found, struct session, id) : NULL;
}

int session_find(const struct sessions *sessions, const struct server_config *config, const char *key,
                 const char *session_id, struct session **ret, struct err *reterr)
{
    unsigned char hash[KEY_HASH_BYTES];
    struct session *session = sessions_named(sessions, session_id);
    *ret = NULL;
    if (session && (hash_of(config, key, hash) < 0 || !belongs_to(session, hash))) {
        return err_set(reterr, ERR_DENIED, EACCES, "session_id",
                       "this key may not use the session: it is another key's");
    }
    *ret = session;
    return 0;
}

int sessions_find_asked(const struct sessions *sessions, const struct session_ask *ask, struct session **ret,
                        struct err *reterr)
{
    int r = session_find(sessions, ask->config, ask->key, ask->session_id, ret, reterr);
    if (r == 0 && *ret && (*ret)->held) {
        return err_set(reterr, ERR_BUSY, EBUSY, NULL,
                       "server busy: the workspace of this session is being copied");
    }
    return r < 0 || *ret || !ask->kept
               ? r
               : err_set(reterr, ERR_CONFLICT, ENOENT, "session",
                         "session: there is none of that name to be kept; it has ended, or never was");
}

int session_try(const struct sessions *sessions, const struct session_ask *ask, struct session **ret,
                struct err *reterr)
{
    struct session_owner nobody = {0};
    uint64_t retry_after_ms;
    int r = sessions_find_asked(sessions, ask, ret, reterr);
    if (r < 0) {
        return r;
    }
    if (hash_of(ask->config, ask->key, nobody.hash) < 0) {
        return no_key(reterr);
    }
    const struct session_want want = {.session = *ret, .count = !*ret};
    struct session_owner *const *owner = tfind(nobody.hash, &sessions->owners, sessions_by_hash);
    return *ret && !session_is_on_disk(*ret)
               ? 0
               : sessions_check_room(sessions, ask->config, owner ? *owner : &nobody, &want, &retry_after_ms,
                                     reterr);
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
        row.expires_ms = clock_wall_ms() + (at_ns > now_ns ? (at_ns - now_ns) / NS_PER_MS : 0);
    }
    return row;
}

size_t sessions_list(const struct sessions *sessions, const struct server_config *config, const char *key,
                     struct session_row *ret, size_t max)
{
    unsigned char hash[KEY_HASH_BYTES];
    size_t n = 0;
    if (hash_of(config, key, hash) < 0) {
        return 0;
    }
    for (const struct session *session = sessions->first; session && n < max; session = session->next) {
        if (!session->lost && !session->staged && belongs_to(session, hash)) {
            ret[n++] = row_of(session);
        }
    }
    return n;
}

size_t sessions_count(const struct sessions *sessions)
{
    return sessions->count;
}
