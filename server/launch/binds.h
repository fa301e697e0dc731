/* struct launch_binds: what `immure run` shows of the caller's files, beside what the policy shows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail/plan/plan.h"
#include "policy/policy.h"

struct err;

struct launch_binds {
    struct policy_bind rows[JAIL_BINDS_GIVEN_MAX];
    size_t n_rows;
    int fds[JAIL_BINDS_GIVEN_MAX]; /* one mount each, once opened; -1 before */
};

/* Adds DIR or DIR:DEST of the option `option` (--ro, --rw); without DEST it is shown where it is. A place
 * that is shown already becomes writable where `writable` says so. ERR_INVALID, or ERR_DENIED where that
 * would show secrets. */
int launch_binds_add(struct launch_binds *binds, const char *option, const char *text, bool writable,
                     struct err *reterr);

/* Opens the mounts. `mapped`: files of the owner of each appear, and are made, as outer_uid's and
 * outer_gid's; otherwise their owners are what they are. */
int launch_binds_open(struct launch_binds *binds, bool mapped, uint32_t outer_uid, uint32_t outer_gid,
                      struct err *reterr);

void launch_binds_clear(struct launch_binds *binds);
