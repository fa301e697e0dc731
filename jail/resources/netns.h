/* Loopback, through libnl-3: the only file that includes it. */
#pragma once

#include <stdbool.h>

struct err;

/* Sets lo up over `netlink_fd`, a NETLINK_ROUTE socket that was opened in the jail's network namespace, and
 * reads the flag back. The descriptor is closed. Runs in the parent. */
int netns_loopback_up(int netlink_fd, struct err *reterr);
/* Whether it is a socket of an EGRESS step. Whose network it is in need not be asked: a PID 1 that was taken
 * over has no other to listen in. */
bool netns_is_way_out(int fd);
