/* The cursor of a subscriber in a band: the message it took last, as the region shows it, and how it moves on. */
#ifndef RTMW_CURSOR_H
#define RTMW_CURSOR_H

#include "outcome.h"
#include "standing.h"

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

/* Publishes its count of taken messages, then its position: see needs_behind in retention.c. Of a RELIABLE one before it
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
