/* The clocks of this host. */
#include "now.h"

#include "../../shm/clock.h"

uint64_t now_realtime_ns(void) { return clock_ns(CLOCK_REALTIME); }
uint64_t now_monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

uint64_t now_on_monotonic(uint64_t expires_ns)
{
    if (!expires_ns) return 0;
    uint64_t real = now_realtime_ns(), now = now_monotonic_ns();
    return expires_ns > real ? now + (expires_ns - real) : 1;
}
