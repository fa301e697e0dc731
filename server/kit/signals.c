/* Names of signals, as verdicts and logs have them. Runs in every process. Pure. */
#include "server/kit/signals.h"

#include <stdio.h>
#include <string.h>

const char *signal_name(int number, char ret[SIGNAL_NAME_BYTES])
{
    const char *name = sigabbrev_np(number);
    if (name) {
        snprintf(ret, SIGNAL_NAME_BYTES, "SIG%s", name);
    } else {
        snprintf(ret, SIGNAL_NAME_BYTES, "SIG%d", number);
    }
    return ret;
}
