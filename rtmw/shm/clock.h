/* The clocks of this host in nanoseconds, and waiting times as the system takes them. Any thread, and handlers of
 * signals; never blocks.
 *
 * No other file reads a clock, so a test puts its own in place here: by -Dclock_gettime=its_own (tests/native/clock.c), or
 * for a whole program by a library that is preloaded (tests/wall_clock.py). The durable log gets it in its table of calls
 * (rtmw/log/io.h).
 */
#ifndef RTMW_CLOCK_H
#define RTMW_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC orders, measures and ends lifetimes; CLOCK_REALTIME is what people and other hosts read. */
static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
