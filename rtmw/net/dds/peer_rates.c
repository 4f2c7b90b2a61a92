/* Limits of bytes towards single hosts: see peer_rates.h. */
#include "peer_rates.h"

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
        uint64_t at = rate_limit_free_ns(&r->limits[next_of(&peers)], now);
        if (at > latest) latest = at;
    }
    return latest;
}

uint64_t peer_rates_burst(const struct peer_rates *r, uint64_t peers, uint64_t most)
{
    while (peers) most = rate_limit_burst(&r->limits[next_of(&peers)], most);
    return most;
}

void peer_rates_charge(struct peer_rates *r, uint64_t peers, uint64_t bytes, uint64_t now)
{
    while (peers) rate_limit_charge(&r->limits[next_of(&peers)], bytes, now);
}
