/* struct helper: a small process of ours that answers one parent over a socket and does nothing else. */
#pragma once

#include <sys/types.h>

struct helper {
    pid_t pid;
    int sock; /* SOCK_SEQPACKET, blocking */
};

#define HELPER_NONE ((struct helper){.pid = -1, .sock = -1})

/* Forks, never execs; call while single-threaded. The process runs `run` with its end of the socket, which is
 * the only descriptor that it has, and `arg`, and ends when that returns, or with its parent. 0 or -errno. */
int helper_start(const char *name, void (*run)(int sock, void *arg), void *arg, struct helper *ret);
/* Kills it, whatever it is doing. Takes one that never started. */
void helper_stop(struct helper *helper);
