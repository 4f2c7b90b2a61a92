/* A limit of bytes a second: of the link, of a lane, or of what leaves towards a host. Bytes sent are a debt until they
 * would have left at that rate. All functions: with the engine's lock. */
#ifndef RTMW_NET_RATE_LIMIT_H
#define RTMW_NET_RATE_LIMIT_H

#include <stdint.h>

struct rate_limit {
    uint64_t bytes_per_second; /* 0: no limit. Written with the engine's lock; any thread reads it, atomically */
    uint64_t free_ns;          /* when what was sent will have left, CLOCK_MONOTONIC */
};

/* Ends the debt, too: it was made at the rate before, and can be minutes of a low one. */
void rate_limit_set(struct rate_limit *, uint64_t bytes_per_second);
/* When something may be sent again; 0: at once. */
uint64_t rate_limit_free_ns(const struct rate_limit *, uint64_t now);
/* Bytes that may leave at once, of `most`: little, so that a rate holds over short times, too. */
uint64_t rate_limit_burst(const struct rate_limit *, uint64_t most);
void rate_limit_charge(struct rate_limit *, uint64_t bytes, uint64_t now);

#endif
