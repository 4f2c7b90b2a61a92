/* What leaves towards single hosts: see peer_rates.h. */
#include "peer_rates.h"

#include "../../shm/atomics.h"

enum { PARTS = 100 }; /* what may leave in so many parts of a second leaves at once */

#define SECOND_NS UINT64_C(1000000000)

/* The number of the lowest bit, which is cleared. */
static uint32_t next_of(uint64_t *peers)
{
    uint32_t n = (uint32_t)__builtin_ctzll(*peers);
    *peers &= *peers - 1;
    return n;
}

uint64_t peer_rates_free_ns(const struct peer_rates *r, uint64_t peers, uint64_t now)
{
    uint64_t latest = 0;
    while (peers) {
        uint32_t n = next_of(&peers);
        uint64_t at = load_relaxed(&r->bytes_per_second[n]) ? r->free_ns[n] : 0;
        if (at > now && at > latest) latest = at;
    }
    return latest;
}

uint64_t peer_rates_burst(const struct peer_rates *r, uint64_t peers, uint64_t most)
{
    while (peers) {
        uint64_t limit = load_relaxed(&r->bytes_per_second[next_of(&peers)]);
        if (limit && limit / PARTS + 1 < most) most = limit / PARTS + 1;
    }
    return most;
}

void peer_rates_charge(struct peer_rates *r, uint64_t peers, uint64_t bytes, uint64_t now)
{
    while (peers) {
        uint32_t n = next_of(&peers);
        uint64_t limit = load_relaxed(&r->bytes_per_second[n]);
        if (r->free_ns[n] < now) r->free_ns[n] = now;
        if (limit) r->free_ns[n] += bytes * SECOND_NS / limit;
    }
}
