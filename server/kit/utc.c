/* A moment as people and other programs read it. Runs in every process. */
#include "server/kit/utc.h"

#include <stdio.h>
#include <time.h>

void utc_write(uint64_t since_epoch_ms, char ret[static UTC_BYTES])
{
    struct tm utc = {0};
    time_t seconds = (time_t)(since_epoch_ms / 1000);
    gmtime_r(&seconds, &utc);
    size_t len = strftime(ret, UTC_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ret + len, UTC_BYTES - len, ".%03uZ", (unsigned)(since_epoch_ms % 1000));
}
