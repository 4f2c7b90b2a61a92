/* Latency histograms, after Gil Tene's HdrHistogram: every message is counted, and a percentile is right to 1/32.
 *
 *   bucket   0 …  31      4 ns each      0 … 127 ns
 *           32 …  63      4 ns each      128 … 255 ns
 *           64 …  95      8 ns each      256 … 511 ns      and so on, twice as wide each 32 buckets:
 *          992 … 1023     4.3 s each     137 … 275 s       what took longer is counted in the last one
 *
 * The owner of a subscriber alone writes its histogram, and readers need no lock: a reader sees of each count one that was
 * there, between the beginning and the end of its reading. Each only grows, but for a time that is forgotten as soon as it
 * was recorded. The slot's next owner begins with zeros.
 */
#ifndef RTMW_HISTOGRAM_H
#define RTMW_HISTOGRAM_H

#include "atomics.h"
#include "layout.h"

enum { UNIT_BITS = 2, PART_BITS = 5, PARTS = 1 << PART_BITS };

static inline uint32_t histogram_bucket(uint64_t ns)
{
    uint64_t units = ns >> UNIT_BITS;
    uint32_t width_bits = units < PARTS ? 0 : 63 - PART_BITS - (uint32_t)__builtin_clzll(units);
    uint64_t bucket = ((uint64_t)width_bits << PART_BITS) + (units >> width_bits);
    return bucket < HISTOGRAM_BUCKETS ? (uint32_t)bucket : HISTOGRAM_BUCKETS - 1;
}

/* The shortest time of a bucket. That of the next one is where it ends. */
static inline uint64_t histogram_lowest_ns(uint32_t bucket)
{
    uint32_t width_bits = bucket < 2 * PARTS ? 0 : (bucket >> PART_BITS) - 1;
    return ((uint64_t)bucket - ((uint64_t)width_bits << PART_BITS)) << width_bits << UNIT_BITS;
}

static inline void histogram_record(struct histogram *histogram, uint64_t ns)
{
    count_up(&histogram->count[histogram_bucket(ns)], 1);
}

/* Of the time that was recorded last. A count never goes below zero, which would look like the most there can be. */
static inline void histogram_forget(struct histogram *histogram, uint64_t ns)
{
    uint64_t *count = &histogram->count[histogram_bucket(ns)], before = load_relaxed(count);
    if (before) store_relaxed(count, before - 1);
}

static inline void histogram_clear(struct histogram *histogram)
{
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) store_relaxed(&histogram->count[bucket], 0);
}

RTMW_PIN(HISTOGRAM_BUCKETS == 32 * PARTS);

#endif
