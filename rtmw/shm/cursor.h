/* How a subscriber moves on in a band: its cursor is at the message that it took last, as the region shows it; and each
 * message that it comes to has one outcome, which is counted by its cause and traced. */
#ifndef RTMW_CURSOR_H
#define RTMW_CURSOR_H

#include "histogram.h"
#include "queue.h"
#include "trace.h"

/* ======== outcome: taken, skipped, or missed ======== */

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

/* ======== cursor ======== */

/* Which offers of a band it gets. */
static inline uint32_t wanted_here(rtmw_subscriber *s, uint32_t band)
{
    return offers_wanted(load_relaxed(&s->topic->band[band].offers), s->type, s->qos.reliability, s->exact);
}

/* As taken_at, of a band that has got another offer since the cursor was at an earlier message, or some for others. */
uint32_t cursor_count(rtmw_subscriber *, uint32_t band, const struct descriptor *);

/* How many messages that it gets there are up to this one, to which the cursor has come. Mostly it gets all of them. */
static inline uint32_t taken_at(rtmw_subscriber *s, uint32_t band, const struct descriptor *d)
{
    bool all = load_relaxed(&s->topic->band[band].offers) == s->every[band];
    return __builtin_expect(all, 1) ? (uint32_t)s->sequence[band] - s->beside[band] : cursor_count(s, band, d);
}

/* Publishes its count of taken messages, then its position: see needs_behind in reclaim.c. Of a RELIABLE one before it
 * looks whether somebody waits for it to move, or has found that nothing may go before it does: see moved_on in take.c. */
static inline void set_cursor(rtmw_subscriber *s, uint32_t band)
{
    uint64_t word = link_make(s->sequence[band] & TAG_MASK, s->index[band]);
    store_release(&s->block->taken[band], s->taken[band]);
    if (s->qos.reliability == RTMW_RELIABLE)
        store_seq(&s->block->cursor[band], word);
    else
        store_release(&s->block->cursor[band], word);
}

/* Of the messages between two that it came to, some were for it, and the others were not. */
void cursor_count_gap(rtmw_subscriber *, uint32_t band, uint64_t gap, uint32_t wanted);

/* Before the oldest message that is kept: nothing is held, and nothing counted. */
void cursor_to_head(rtmw_subscriber *, uint32_t band);

/* The cursor has come to this message, and so many were gone before it. */
void cursor_count_missed(rtmw_subscriber *, uint32_t band, const struct descriptor *, uint64_t missed);

/* The message that a cursor which rests held last; NULL: that has begun another life, so all up to it are passed. */
static inline struct descriptor *place_of(rtmw_subscriber *s, uint32_t band)
{
    struct descriptor *d = descriptor_at(s->region, link_index(s->place[band]));
    return d && state_generation(load_acquire(&d->state)) == link_tag(s->place[band]) ? d : NULL;
}

/* Where a cursor is, or would be: the message is held, its own or one ahead of it. */
struct ahead {
    uint32_t index;
    uint64_t sequence, missed; /* so many between the cursor and it were gone */
};

static inline struct ahead ahead_of(const rtmw_subscriber *s, uint32_t band)
{
    return (struct ahead){s->index[band], s->sequence[band], 0};
}

/* From where the cursor is to the next message of a band, whatever it is: STEP_OK, STEP_NONE or STEP_DAMAGED. STEP_OK: that
 * one is held, and a message that was held before is let go. Else nothing has changed. */
__attribute__((always_inline)) static inline int go_ahead(rtmw_subscriber *s, uint32_t band, struct ahead *to)
{
    struct band *of = &s->topic->band[band];
    int stepped = STEP_PASSED;
    if (to->index == NIL) stepped = queue_resume(s->region, of, s->place[band], &to->index, &to->sequence);
    if (stepped == STEP_PASSED) stepped = queue_step(s->region, of, &to->index, &to->sequence, &to->missed);
    return stepped;
}

/* The cursor is there now, and says so. */
__attribute__((always_inline)) static inline void arrive(rtmw_subscriber *s, uint32_t band, const struct ahead *at)
{
    const struct descriptor *d = &s->region->descriptors[at->index];
    s->index[band] = at->index;
    s->sequence[band] = at->sequence;
    if (__builtin_expect(at->missed, 0)) cursor_count_missed(s, band, d, at->missed);
    s->taken[band] = taken_at(s, band, d);
    set_cursor(s, band);
}

/* To the next message of a band: as go_ahead, and the cursor is there. */
__attribute__((always_inline)) static inline int step(rtmw_subscriber *s, uint32_t band)
{
    struct ahead to = ahead_of(s, band);
    int stepped = go_ahead(s, band, &to);
    if (stepped == STEP_OK) arrive(s, band, &to);
    return stepped;
}

#endif
