/* struct housekeeper: counts and removes what programs left in directories of the host, beside its parent,
 * which such a tree must not hold up. */
#pragma once

#include "jail/resources/tree.h"

struct err;
struct housekeeper;

enum housekeeper_task { HOUSEKEEPER_MEASURE, HOUSEKEEPER_CLEAR };

/* Forks the process; call while single-threaded. It ends with its parent. */
int housekeeper_new(struct housekeeper **ret, struct err *reterr);
/* Ends it, in the midst of its task if need be. Takes NULL. */
void housekeeper_free(struct housekeeper *housekeeper);

/* Readable when the task has ended, or the process. */
int housekeeper_fd(const struct housekeeper *housekeeper);

/* Gives it a task and returns; it has one at a time. `limits` are of HOUSEKEEPER_MEASURE. -EPIPE: it is gone.
 */
int housekeeper_begin(struct housekeeper *housekeeper, enum housekeeper_task task, int dirfd,
                      const struct tree_limits *limits);
/* How the task ended: 0 or -errno, and what was counted. -EPIPE: the process is gone. */
int housekeeper_end(struct housekeeper *housekeeper, struct tree_usage *ret);
