/* The clocks of this host. */
#include "now.h"

#include <pthread.h>

#include "../../shm/clock.h"

uint64_t now_realtime_ns(void) { return clock_ns(CLOCK_REALTIME); }
uint64_t now_monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static uint64_t began_ns; /* where CLOCK_MONOTONIC began, by CLOCK_REALTIME. Written once, in `begin` */

static void begin(void) { began_ns = now_realtime_ns() - now_monotonic_ns(); }

uint64_t now_steady_ns(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    return began_ns + now_monotonic_ns();
}
