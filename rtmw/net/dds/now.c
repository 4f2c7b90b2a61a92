/* The clocks of this host. */
#include "now.h"

#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t now_realtime_ns(void) { return clock_ns(CLOCK_REALTIME); }
uint64_t now_monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

uint64_t now_on_monotonic(uint64_t expires_ns)
{
    if (!expires_ns) return 0;
    uint64_t real = now_realtime_ns(), now = now_monotonic_ns();
    return expires_ns > real ? now + (expires_ns - real) : 1;
}
