/* The system calls that a front's filter denies, seen from the warden. */
#pragma once

#include <stddef.h>

/* Whether this descriptor, which came from a front, is where its denied calls wait. */
int front_denials_check(int listener);

/* Answers the call that waits first with EPERM. 1 and the call's name, 0 where none waits (its caller was
 * killed), -errno where the listener is of no use any more. */
int front_denials_answer(int listener, char *ret_name, size_t size);
