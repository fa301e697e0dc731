/* How many sessions there may be, and how much they may hold. Runs in the warden; changes nothing but the
 * counts.
 *
 * There are two bounds for all of them together, bytes and a number, and of N keys each has half of one Nth
 * of both that no other key can take: what its sessions do not use of that is kept for it. A key at its bound
 * makes room itself: of its sessions goes the one that it has not used for longest, but none that it has used
 * within session_evict_after_ms. Bytes are those that were there when jobs began and ended, so what runs may
 * pass the bound, by a workspace each. */
#include "server/sessions/sessions_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "config/server/config.h"
#include "jail/base/cleanup.h"
#include "jail/base/clock.h"
#include "jail/base/err.h"
#include "jail/resources/cgroup_tree.h"
#include "jail/resources/idmap.h"
#include "jail/resources/scratch.h"
#include "server/host/host.h"
#include "server/host/memory.h"

/* What the kernel and we have for one beside its files: a mount, a file system, its directories. */
#define SESSION_OWN_BYTES 16384u
/* In memory, of all that the server may use. */
#define MEMORY_PARTS 4

/* What one key may have of each. */
struct room {
    uint64_t bytes, count;
};

/* In memory each has a descriptor and, where jails have ids of their own, one of those, as long as it lasts:
 * half of them are left for jobs. */
void sessions_measure_host(struct sessions *sessions)
{
    const struct host *host = sessions->options.host;
    uint32_t base, ids;
    struct rlimit files;
    sessions->most = UINT64_MAX;
    if (sessions->disk) {
        return;
    }
    idmap_pool_range(host->ids, &base, &ids);
    if (ids > 0) {
        sessions->most = ids / 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < sessions->most) {
        sessions->most = files.rlim_cur / 2;
    }
    sessions->memory_bytes =
        host_memory_bytes(host->cgroups ? jail_cgroup_tree_path(host->cgroups) : NULL) / MEMORY_PARTS;
}

void session_count(struct session *session, uint64_t bytes, bool there)
{
    struct sessions *all = session->all;
    bool was_there = session->counted_bytes > 0;
    uint64_t counts = there ? SESSION_OWN_BYTES + bytes : 0;
    all->count += there - (size_t)was_there;
    session->owner->count += there - (uint32_t)was_there;
    all->bytes += counts - session->counted_bytes;
    session->owner->bytes += counts - session->counted_bytes;
    session->counted_bytes = counts;
}

void session_recount(struct session *session)
{
    uint64_t bytes, inodes;
    if (session->counted_bytes > 0 && !session_is_on_disk(session) &&
        scratch_usage(session->fd, &bytes, &inodes) == 0) {
        session_count(session, bytes, true);
    }
}

static uint64_t unused(uint64_t share, uint64_t used)
{
    return share > used ? share - used : 0;
}

uint64_t sessions_bytes(const struct sessions *sessions, const struct server_config *config,
                        uint64_t *ret_most)
{
    *ret_most =
        config->max_session_bytes_total > 0 ? config->max_session_bytes_total : sessions->memory_bytes;
    return sessions->bytes;
}

/* All that the others do not have, and is not kept for them. */
static struct room room_of(const struct sessions *sessions, const struct server_config *config,
                           const struct session_owner *owner)
{
    uint64_t bytes;
    sessions_bytes(sessions, config, &bytes);
    struct room bound = {.bytes = bytes > 0 ? bytes : UINT64_MAX, .count = config->max_sessions};
    bound.count = bound.count < sessions->most ? bound.count : sessions->most;
    struct room taken = {.bytes = sessions->bytes - owner->bytes, .count = sessions->count - owner->count};
    uint64_t own_most = 0;
    for (size_t i = 0; i < config->n_keys; i++) {
        const struct key_config *key = config->keys[i];
        if (sessions_by_hash(key->sha256, owner->hash) == 0) {
            own_most = key->max_sessions;
            continue;
        }
        struct session_owner *const *found = tfind(key->sha256, &sessions->owners, sessions_by_hash);
        taken.bytes += unused(bound.bytes / (2 * config->n_keys), found ? (*found)->bytes : 0);
        taken.count += unused(bound.count / (2 * config->n_keys), found ? (*found)->count : 0);
    }
    struct room room = {.bytes = unused(bound.bytes, taken.bytes), .count = unused(bound.count, taken.count)};
    room.count = own_most > 0 && own_most < room.count ? own_most : room.count;
    return room;
}

static bool has_too_many(const struct room *room, const struct session_owner *owner,
                         const struct session_want *want)
{
    return want->count > 0 && owner->count + want->count > room->count;
}

static uint64_t bytes_of(const struct session_want *want)
{
    return want->bytes + (uint64_t)want->count * SESSION_OWN_BYTES;
}

static bool is_over(const struct room *room, const struct session_owner *owner,
                    const struct session_want *want)
{
    return has_too_many(room, owner, want) || owner->bytes + bytes_of(want) > room->bytes;
}

/* For another one of its owner's. */
static bool may_go(const struct session *session, const struct server_config *config, uint64_t now_ns)
{
    return now_ns - session->idle_ns >= config->session_evict_after_ms * NS_PER_MS;
}

/* The idle ones of an owner, the one that has not been used for longest first. */
static struct session *next_idle(struct deadline *at, const struct session_owner *owner,
                                 const struct session *except)
{
    for (; at; at = at->next) {
        struct session *session = CONTAINER_OF(at, struct session, deadline);
        if (session->owner == owner && session != except && session->counted_bytes > 0) {
            return session;
        }
    }
    return NULL;
}

static int refuse(const struct sessions *sessions, const struct server_config *config,
                  const struct session_owner *owner, const struct session_want *want, const struct room *room,
                  uint64_t *ret_retry_after_ms, struct err *reterr)
{
    const struct session *oldest = next_idle(sessions->idle.first, owner, want->session);
    uint64_t now_ns = clock_now_ns();
    if (oldest) {
        uint64_t at_ns = oldest->idle_ns + config->session_evict_after_ms * NS_PER_MS;
        at_ns = at_ns < oldest->deadline.at_ns ? at_ns : oldest->deadline.at_ns;
        *ret_retry_after_ms = at_ns > now_ns ? (at_ns - now_ns) / NS_PER_MS : 0;
    }
    char what[160];
    if (has_too_many(room, owner, want)) {
        snprintf(what, sizeof what, "this key has %" PRIu32 " sessions, and may have %" PRIu64, owner->count,
                 room->count);
    } else if (want->bytes > 0) {
        snprintf(what, sizeof what,
                 "the sessions of this key hold %" PRIu64 " bytes, %" PRIu64
                 " more are asked for, and may hold %" PRIu64,
                 owner->bytes, bytes_of(want), room->bytes);
    } else {
        snprintf(what, sizeof what, "the sessions of this key hold %" PRIu64 " bytes, and may hold %" PRIu64,
                 owner->bytes, room->bytes);
    }
    return err_set(reterr, ERR_RATE, EDQUOT, NULL,
                   "%s: all of them are in use, or were within the last %" PRIu64 " s; delete one, or wait",
                   what, config->session_evict_after_ms / 1000);
}

int sessions_check_room(const struct sessions *sessions, const struct server_config *config,
                        const struct session_owner *owner, const struct session_want *want,
                        uint64_t *ret_retry_after_ms, struct err *reterr)
{
    struct room room = room_of(sessions, config, owner);
    struct session_owner left = *owner;
    uint64_t now_ns = clock_now_ns();
    for (const struct session *idle = next_idle(sessions->idle.first, owner, want->session);
         idle && is_over(&room, &left, want); idle = next_idle(idle->deadline.next, owner, want->session)) {
        if (may_go(idle, config, now_ns)) {
            left.count--;
            left.bytes -= idle->counted_bytes;
        }
    }
    return is_over(&room, &left, want)
               ? refuse(sessions, config, owner, want, &room, ret_retry_after_ms, reterr)
               : 0;
}

struct session *sessions_in_the_way(const struct sessions *sessions, const struct server_config *config,
                                    const struct session_owner *owner, const struct session_want *want)
{
    struct room room = room_of(sessions, config, owner);
    struct session *idle = next_idle(sessions->idle.first, owner, want->session);
    uint64_t now_ns = clock_now_ns();
    while (idle && !may_go(idle, config, now_ns)) {
        idle = next_idle(idle->deadline.next, owner, want->session);
    }
    return idle && is_over(&room, owner, want) ? idle : NULL;
}
