/* What the warden never needs, whoever runs in it, is not to be had from its process. */
#pragma once

struct err;

/* From here on the calls that are listed there fail with ENOSYS, here and in everything that is started from
 * here. Needs no_new_privs or CAP_SYS_ADMIN. */
int warden_filter_enter(struct err *reterr);
