/* The back-off of front restarts. Runs in the warden. */
#include "server/kit/backoff.h"

#include "jail/base/clock.h"

uint64_t backoff_after_death(struct backoff *backoff, uint64_t lived_ns)
{
    if (lived_ns >= BACKOFF_LIFE_NS) {
        backoff->quick_deaths = 0;
        return 0;
    }
    backoff->quick_deaths++;
    if (backoff->quick_deaths <= BACKOFF_FREE) {
        return 0;
    }
    uint32_t doublings = backoff->quick_deaths - BACKOFF_FREE - 1;
    uint64_t delay_ns = doublings < 6 ? NS_PER_S << doublings : BACKOFF_MAX_NS;
    return delay_ns < BACKOFF_MAX_NS ? delay_ns : BACKOFF_MAX_NS;
}
