/* Loopback, through libnl-3: the only file that includes it. */
#pragma once

struct err;

/* Sets lo up over `netlink_fd`, a NETLINK_ROUTE socket that was opened in the jail's network namespace, and
 * reads the flag back. The descriptor is closed. Runs in the parent. */
int netns_loopback_up(int netlink_fd, struct err *reterr);
