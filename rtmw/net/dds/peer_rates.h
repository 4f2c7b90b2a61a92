/* Limits of what leaves towards single hosts. A route has a bit for each limited host that reads it, and what it sends is
 * charged to all of these: one datagram may serve them all. Only the sender uses `free_ns`, with the engine's lock. */
#ifndef RTMW_NET_PEER_RATES_H
#define RTMW_NET_PEER_RATES_H

#include <stdint.h>

enum { LIMITED_PEERS = 64 };

struct peer_rates {
    uint64_t bytes_per_second[LIMITED_PEERS]; /* 0: no limit. Any thread, atomically */
    uint64_t free_ns[LIMITED_PEERS];          /* when what was sent will have left, CLOCK_MONOTONIC */
};

/* When something may be sent to all of them again; 0: at once. */
uint64_t peer_rates_free_ns(const struct peer_rates *, uint64_t peers, uint64_t now);
/* Bytes that may leave at once, of `most`: little, so that a rate holds over short times, too. */
uint64_t peer_rates_burst(const struct peer_rates *, uint64_t peers, uint64_t most);
void peer_rates_charge(struct peer_rates *, uint64_t peers, uint64_t bytes, uint64_t now);

#endif
