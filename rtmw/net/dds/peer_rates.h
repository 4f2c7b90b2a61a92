/* Limits of what leaves towards single hosts. A route has a bit for each limited host that reads it, and what it sends is
 * charged to all of these: one datagram may serve them all. All functions: with the engine's lock. */
#ifndef RTMW_NET_PEER_RATES_H
#define RTMW_NET_PEER_RATES_H

#include "../route/sending.h"

enum { LIMITED_PEERS = 64 };

struct peer_rates {
    struct rate_limit limits[LIMITED_PEERS];
};

/* When something may be sent to all of them again; 0: at once. */
uint64_t peer_rates_free_ns(const struct peer_rates *, uint64_t peers, uint64_t now);
uint64_t peer_rates_burst(const struct peer_rates *, uint64_t peers,
                          uint64_t most); /* rate_limit_burst of the lowest */
void peer_rates_charge(struct peer_rates *, uint64_t peers, uint64_t bytes, uint64_t now);

#endif
