/* Inside a template: the loop that turns one warm process into many jails.
 *
 * A template is itself the program of a jail. It has started an interpreter and imported what programs
 * usually want, and never runs a byte of theirs. On the parent's word it clones itself into fresh namespaces;
 * the copy's first process becomes PID 1 of a new jail, the second one waits, parked, until a program is
 * handed to it. zygote_serve() returns in that second process only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a parked process has been given to run. The strings live as long as the process. */
struct zygote_run {
    char **
        argv; /* argv[0] is the interpreter, as for execve; the script's path is among them; ends with NULL */
    size_t argc;
    char **envp; /* the program's whole environment, NAME=VALUE; ends with NULL */
    size_t envc;
    bool bridge; /* descriptors 3 and 4 are the bridge's; close-on-exec */
};

/* Serves `sock` (SOCK_SEQPACKET to the parent, taken over) until end of file; then exits the process with 0.
 * Returns 0 in a job's process, exactly once per job: it is now confined for good (uid, namespaces, rlimits,
 * seccomp), descriptors 0, 1 and 2 (and the bridge's, if it has one) are the job's, every other one is
 * closed, the working directory is set; what is left is to run the program and to exit as it would. Anything
 * that fails before is reported to the parent and never returns.
 *
 * `park` (NULL: none) is called in each process that is about to be parked, before the parent hears of it:
 * what is done there no job has to wait for, unless it `is_awaited`. It is not confined yet, and knows
 * nothing of its job.
 *
 * Call it single-threaded, with SIGCHLD at its default and nothing open but `sock` and 0, 1, 2. */
int zygote_serve(int sock, void (*park)(void *argument, bool is_awaited), void *argument,
                 struct zygote_run *ret);
