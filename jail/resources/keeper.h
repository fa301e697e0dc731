/* struct keeper: holds the mounts of workspaces that several jails share, in a mount namespace of its own.
 *
 * A mount can be copied only by a process in whose mount namespace it is attached, and each jail needs a
 * copy. The warden's own namespace may be the host's, where a mount would need a directory that somebody
 * could remove, and every jail would inherit all workspaces. So a small process keeps them where nobody else
 * is. */
#pragma once

#include <stdint.h>

struct err;
struct keeper;

/* Forks the process; call while single-threaded. It ends with its parent. */
int keeper_new(struct keeper **ret, struct err *reterr);
/* Ends it. Mounts whose copies are still in use live on in the jails that have them. Takes NULL. */
void keeper_free(struct keeper *keeper);

/* Hangs up when the process is gone; there is nothing else to wait for. */
int keeper_fd(const struct keeper *keeper);

/* Each waits for the process's answer. -EPIPE: it is gone, and everything that it kept cannot be copied any
 * more. */

/* Attaches a detached mount (scratch_open()) under a number of the caller's, which must be new. Its
 * descriptor stays the caller's and goes on working. */
int keeper_add(struct keeper *keeper, uint64_t number, int mount_fd, struct err *reterr);
/* A detached copy of the working directory of that mount, for one jail. */
int keeper_copy(struct keeper *keeper, uint64_t number, int *ret_fd, struct err *reterr);
/* Forgets the mount. */
int keeper_drop(struct keeper *keeper, uint64_t number, struct err *reterr);
