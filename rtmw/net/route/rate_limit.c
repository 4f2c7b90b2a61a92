/* Bytes a second: see rate_limit.h. */
#include "rate_limit.h"

#include "../../shm/atomics.h"

enum { PARTS = 100 }; /* the bytes of such a part of a second leave at once */

#define SECOND_NS UINT64_C(1000000000)

void rate_limit_set(struct rate_limit *l, uint64_t bytes_per_second)
{
    store_relaxed(&l->bytes_per_second, bytes_per_second);
    l->free_ns = 0;
}

uint64_t rate_limit_free_ns(const struct rate_limit *l, uint64_t now) { return l->free_ns > now ? l->free_ns : 0; }

uint64_t rate_limit_burst(const struct rate_limit *l, uint64_t most)
{
    uint64_t part = l->bytes_per_second / PARTS + 1;
    return l->bytes_per_second && part < most ? part : most;
}

void rate_limit_charge(struct rate_limit *l, uint64_t bytes, uint64_t now)
{
    if (!l->bytes_per_second) return;
    if (l->free_ns < now) l->free_ns = now;
    l->free_ns += bytes * SECOND_NS / l->bytes_per_second;
}
