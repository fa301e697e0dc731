/* The network namespace of a jail, made by the parent while PID 1 builds the rest. */
#pragma once

#include <stddef.h>

/* Makes a network namespace that belongs to the user namespace `userns` (a descriptor), and sends a
 * descriptor of it over `sock`, with the message. 0, or -errno and nothing was sent. Blocks for as long as
 * that takes, a few hundred microseconds. */
int network_send(int userns, int sock, const void *message, size_t size);
