/* Time in nanoseconds, from the monotonic clock unless a name says otherwise. */
#pragma once

#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

static inline uint64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Since the epoch: for what people and other machines read, never for how long something takes. */
static inline uint64_t clock_wall_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_wall_ms(void)
{
    return clock_wall_ns() / NS_PER_MS;
}

/* User and system time together. */
static inline uint64_t rusage_cpu_ns(const struct rusage *usage)
{
    return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) * NS_PER_S +
           ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000;
}
