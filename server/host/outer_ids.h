/* Whose outer uids are whose, among the servers of one host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;

/* Where a server begins to look for a range of its own unless it is told where (config/server/server.proto).
 */
#define OUTER_IDS_BASE 1879048192u
/* How many a server has: more than jobs can run at once, so that each is used again as late as possible. */
#define OUTER_IDS_EACH 4096u

/* Takes `count` outer uids from `base` on (and, for more than one, the uid before them, which is the front's)
 * for as long as this process lives. Where another process has some of them: ERR_HOST if they are `fixed`,
 * else the next ones that nobody has, from `*ret_base` on. `*ret_told` is false where there is no telling:
 * /run is not writable, or not ours. */
int outer_ids_take(uint32_t base, uint32_t count, bool fixed, uint32_t *ret_base, bool *ret_told,
                   struct err *reterr);

/* Some server that was not told may give it to a jail. */
bool outer_ids_may_be_a_jails(uint32_t id);
