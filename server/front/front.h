/* The front: HTTP, authentication, JSON, metrics, logs. A process of its own, without privileges, that never
 * clones. */
#pragma once

/* Runs until told to stop. Descriptors 3 (channel to the warden) and 4 (listening socket, bound and
 * listening) are there; the first message on the channel is MSG_CONFIG. Stops when the channel closes, after
 * a drain (MSG_STATE draining) when the last request is answered. Returns the exit code of the process. */
int front_main(int channel_fd, int listen_fd);
