/* Ids of an ordinary user's own (subuid(5)), so that each of its jails has another one outside. */
#pragma once

#include <stdint.h>

struct err;

#define SUB_IDS_WHY_BYTES 160

/* Enters a user and a mount namespace in which this process is still itself, has every capability, and maps
 * `count` ids from `first` on to ids that /etc/subuid and /etc/subgid give its user, by newuidmap(1) and
 * newgidmap(1). Call once, single-threaded, early.
 * 1: it has. 0: it has not, for what `why` says, and nothing has changed. ERR_HOST: it is in a namespace that
 * it cannot live in. */
int sub_ids_enter(uint32_t first, uint32_t count, char why[static SUB_IDS_WHY_BYTES], struct err *reterr);
