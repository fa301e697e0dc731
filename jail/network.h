/* The network namespace of a jail, made by the parent while PID 1 builds the rest. */
#pragma once

/* Makes a network namespace that belongs to the user namespace `userns` (a descriptor). Returns a descriptor
 * of it, or -errno. Blocks for as long as that takes, a few hundred microseconds. */
int network_new(int userns);
