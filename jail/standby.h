/* Jails that are started ahead of their job, for interpreters that cannot be forked.
 *
 * A standby jail is an ordinary one: jail_spawn() with `standby` set. Its program is a launcher, which starts
 * the interpreter and then makes the system call inotify_init1(2). PID 1 hears of it, because the policy
 * denies that call and names it (NOTIFY), and leaves it unanswered: the jail is JAIL_PARKED. Handed a
 * program, PID 1 puts the job's descriptors in the place of those that the launcher was started with, and
 * denies the call as it would any other. The launcher reads its program from descriptor 63.
 *
 * A kernel's launcher (`kernel` of jail_spawn()) makes the call again when its program has ended, with the
 * program's exit status as the argument; or, where it cannot choose that, with a larger one, and the status
 * behind a 0 at the beginning of descriptor 63. Then the jail is JAIL_PARKED again, and jail_has_called().
 * Everything of the program lives on in there; only its standard descriptors and the bridge's lead nowhere
 * until PID 1 has put those of the next in their place. */
#pragma once

#include <stdbool.h>

struct err;
struct jail;
struct jail_plan;

/* True if a job of this plan can be run in a jail of that one: they differ in nothing but the script, the
 * program's last arguments and the limits that the parent alone enforces. */
bool jail_standby_fits(const struct jail_plan *standby, const struct jail_plan *job);

/* What the launcher reads: how many arguments, the arguments, each ending with NUL, then the script. It is
 * copied from the first bytes of `input_fd`, as the job's plan has it. An anonymous file, at its beginning.
 * `input_fd` -1: the script is a file in the jail, and its path the first of the arguments. */
int jail_standby_program(const struct jail_plan *standby, const struct jail_plan *job, int input_fd,
                         int *ret_fd, struct err *reterr);

/* Hands a program to a parked jail: its pipes (JAIL_PROGRAM_FDS of them), which stay the caller's, and the
 * file from jail_standby_program(). Limits and deadline are those of `plan`, which must fit. */
int jail_standby_run(struct jail *jail, const struct jail_plan *plan, const int *fds, int program_fd,
                     struct err *reterr);
