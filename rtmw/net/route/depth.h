/* Depth: how many messages of a route may wait on the bus, by what they weigh. Routes over DDS (../dds/outbound.c) and over links
 * (../link/depth.c) reckon with these. */
#ifndef RTMW_NET_DEPTH_H
#define RTMW_NET_DEPTH_H

#include <stdint.h>

enum {
    DEPTH_LEAST = 2,  /* messages that may wait on the bus, however large */
    DEPTH_USUAL = 64, /* from it on more of small messages may wait; a route of less wants the newest alone */
    WEIGHED = 16,     /* so many smaller ones, about, and the weight of a larger message is forgotten */
};

/* The weight of the messages of a route after another one, of this size. */
static inline uint64_t weight_after(uint64_t weight, uint64_t size)
{
    return size >= weight ? size : weight - (weight - size + WEIGHED - 1) / WEIGHED;
}

/* As many of `depth` as have no more than `bytes` together, and a few in any case. */
static inline uint32_t depth_within(uint32_t depth, uint64_t bytes, uint64_t weight)
{
    uint32_t least = depth < DEPTH_LEAST ? depth : DEPTH_LEAST;
    uint64_t most = weight ? bytes / weight : depth;
    return most >= depth ? depth : most > least ? (uint32_t)most : least;
}

#endif
