/* Signals that a command decides about itself before they end it. */
#pragma once

#include <signal.h>
#include <stddef.h>

/* Those of `n` signals that whoever started this process has not had ignored (nohup, a shell's `&`). SIGCHLD
 * gets its default: inherited as ignored, no child's end could be waited for. */
static inline sigset_t signals_to_heed(const int *signals, size_t n)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < n; i++) {
        struct sigaction inherited;
        if (sigaction(signals[i], NULL, &inherited) < 0 || inherited.sa_handler != SIG_IGN) {
            sigaddset(&set, signals[i]);
        }
    }
    signal(SIGCHLD, SIG_DFL);
    return set;
}
