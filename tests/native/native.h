/* What the native tests share: a domain of their own, checks that say what they found, payloads that prove themselves. */
#ifndef RTMW_NATIVE_H
#define RTMW_NATIVE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "inspect.h"
#include "core.h"

#define CHECK(condition, ...)                                                                    \
    do {                                                                                         \
        if (!(condition)) fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                 \
    } while (0)

__attribute__((noreturn, format(printf, 4, 5))) void fail(const char *file, int line, const char *what, const char *format, ...);

/* A fresh region whose names go away when this process ends, also by a signal or after `seconds`. */
uint32_t domain_make(uint64_t pool_bytes, uint32_t seconds);
struct rtmw_region *attach(uint32_t domain);
/* Publish and subscribe raw bytes; what else the publisher's QoS says is usual. */
rtmw_publisher *publish_on(struct rtmw_region *, const char *topic, rtmw_reliability, uint8_t priority);
rtmw_subscriber *subscribe_to(struct rtmw_region *, const char *topic, rtmw_subscriber_qos);
/* In a process of its own, which must end well. */
void alone(void (*work)(void));
void *native_mmap(void *, size_t, int, int, int, off_t);
int native_munmap(void *, size_t);

uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t limit);

/* A payload is a function of who published it, as which of his messages, and of its size. */
struct origin {
    uint32_t publisher, topic, band;
    uint64_t number;
};
void payload_write(void *data, uint64_t size, struct origin);
bool payload_is(const void *data, uint64_t size, struct origin);
bool payload_origin(const void *data, uint64_t size, struct origin *); /* false: too small to say */

/* Sweep, free what is passed, and see that every descriptor and granule is free but what lies in queues. */
void books_must_balance(struct rtmw_region *);

#endif
