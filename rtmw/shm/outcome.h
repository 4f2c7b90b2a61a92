/* The outcome of a message for a subscriber: taken, skipped, or missed. It is counted once, by its cause, and traced. */
#ifndef RTMW_OUTCOME_H
#define RTMW_OUTCOME_H

#include "histogram.h"
#include "trace.h"

/* The clock is read once a take, unless the message is younger than what was read. */
static inline void outcome_taken(rtmw_subscriber *s, uint32_t band, struct descriptor *d, uint64_t size)
{
    uint64_t published_ns = load_relaxed(&d->published_ns);
    count_up(&s->block->received, 1);
    count_up(&s->block->bytes, size);
    if (s->histogram) {
        if (s->taken_ns < published_ns) s->taken_ns = monotonic_ns();
        histogram_record(s->histogram, s->taken_ns > published_ns ? s->taken_ns - published_ns : 0);
    }
    if (is_traced(s->topic)) trace_reached(s, TRACE_TAKEN, band);
}

/* The cursor is at it, and steps over it. */
static inline void outcome_skipped(rtmw_subscriber *s, uint32_t band, uint64_t *counter, enum trace_kind cause)
{
    count_up(counter, 1);
    if (is_traced(s->topic)) trace_reached(s, cause, band);
}

/* From a RELIABLE subscriber that is counted on only what it would not get any more is taken away, which is what has expired
 * or will be thinned: but for what lay there when it lapsed. */
static inline bool is_counted_on(rtmw_subscriber *s, uint32_t band, uint64_t first)
{
    if (s->qos.reliability != RTMW_RELIABLE || !load_relaxed(&s->topic->reliable)) return false;
    return first > s->rejoined[band] && !is_lapsed(s);
}

/* So many are gone before the cursor came to them, the last of them with this sequence. */
static inline void outcome_gone(rtmw_subscriber *s, uint32_t band, uint64_t last, uint64_t count)
{
    bool expired = is_counted_on(s, band, last - count + 1); /* a message to be thinned is emptied, not passed over */
    count_up(expired ? &s->block->expired : &s->block->missed, count);
    if (is_traced(s->topic)) trace_gone(s, expired ? TRACE_EXPIRED : TRACE_MISSED, band, last, count);
}

#endif
