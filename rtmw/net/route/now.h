/* The time now, in nanoseconds. Any thread; never blocks. */
#ifndef RTMW_NET_NOW_H
#define RTMW_NET_NOW_H

#include <stdint.h>

uint64_t now_realtime_ns(void);
uint64_t now_monotonic_ns(void);
/* CLOCK_REALTIME as it was when this was first asked, and from there on by CLOCK_MONOTONIC: nobody sets it. Nodes date what
 * they send each other by it, and compare it with that of others (inbound.c). Engine and lines have one each, for each is a module
 * of Python's and has this file: a time of the one says nothing to the other, whose peers measure it by its own messages. */
uint64_t now_steady_ns(void);

#endif
