/* What time it is, in nanoseconds. Any thread; never blocks. */
#ifndef RTMW_NET_NOW_H
#define RTMW_NET_NOW_H

#include <stdint.h>

uint64_t now_realtime_ns(void);
uint64_t now_monotonic_ns(void);

#endif
