/* PID 1 of a new jail, from clone to the point where it becomes the jail's init. */
#pragma once

struct child;

/* PID 1's entry: waits for PHASE_IDMAP, applies the plan, stays behind as init. Never returns. */
void child_main(struct child *child) __attribute__((noreturn));
