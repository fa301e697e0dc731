/* The configuration as the warden hands it over, and its callers, which may become others. */
#pragma once

#include <stddef.h>

struct err;
struct front;
struct server_config;

/* `fd` is an anonymous file with a packed Server message. */
int callers_read_config(int fd, struct server_config **ret, struct err *reterr);
/* The same, of which only keys and teams are others than the front's: it has those from now on. On failure it
 * has to end. */
int callers_take(struct front *front, int fd, struct err *reterr);
/* Of replies that wait to be read: half of what all may have, where there are several keys. */
size_t callers_unread_bytes(const struct server_config *config);
