/* Places in the life of an approval at which tests end the warden with SIGKILL (tests/fort). Nothing in any
 * build but those with HOOKS=1. */
#pragma once

/* server/kit/die_here.c, which is in those builds alone. */
void die_here_if_wanted(const char *place);

static inline void die_here(const char *place)
{
#ifdef IMMURE_HOOKS
    die_here_if_wanted(place);
#else
    (void)place;
#endif
}
