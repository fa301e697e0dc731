/* Outer ids: every concurrent jail of a privileged parent gets a uid of its own; an unprivileged one maps
 * itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct idmap_pool;

/* How this process can make jails. */
enum idmap_mode {
    IDMAP_RANGE, /* CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID over a range of ids: one outer uid per jail */
    IDMAP_SELF,  /* an ordinary user in a user namespace of its own: every jail is that user outside */
};

/* `base` and `count`: the range used in IDMAP_RANGE. ERR_HOST where it is not mapped in our user namespace,
 * or where we are uid 0 without the capabilities (a jail must never be uid 0 outside). In IDMAP_SELF this
 * process enters a user and a mount namespace of its own (as itself, with a fresh capability set there). Call
 * once, single-threaded, early. */
int idmap_pool_new(uint32_t base, uint32_t count, struct idmap_pool **ret, struct err *reterr);
void idmap_pool_free(struct idmap_pool *pool);
enum idmap_mode idmap_pool_mode(const struct idmap_pool *pool);

/* The range of outer ids; a count of 0 in IDMAP_SELF. */
void idmap_pool_range(const struct idmap_pool *pool, uint32_t *ret_base, uint32_t *ret_count);

/* Takes an outer id that no other jail of this pool has. -EAGAIN where all are taken (IDMAP_RANGE). */
int idmap_take(struct idmap_pool *pool, uint32_t *ret_uid, uint32_t *ret_gid);
void idmap_give_back(struct idmap_pool *pool, uint32_t uid);
