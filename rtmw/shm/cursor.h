/* The cursor of a subscriber in a band: the message it took last, as the region shows it, and how it moves on. */
#ifndef RTMW_CURSOR_H
#define RTMW_CURSOR_H

#include "outcome.h"
#include "standing.h"

/* Which offers of a band it gets; found again when the band has got another one. */
static inline uint32_t wanted_here(rtmw_subscriber *s, uint32_t band)
{
    uint64_t offers = load_relaxed(&s->topic->band[band].offers);
    if (__builtin_expect(offers != s->offers[band] || !s->wanted[band], 0)) {
        s->offers[band] = offers;
        s->wanted[band] = offers_wanted(offers, s->type, s->qos.reliability, s->exact);
    }
    return s->wanted[band];
}

/* What it has taken, then where it is: see needs_behind in retention.c. */
static inline void set_cursor(rtmw_subscriber *s, uint32_t band)
{
    uint64_t word = link_make(s->sequence[band] & TAG_MASK, s->index[band]);
    store_release(&s->block->taken[band], s->taken[band]);
    if (s->qos.reliability == RTMW_RELIABLE)
        store_seq(&s->block->cursor[band], word); /* pairs with reliable_room and set_aside: this, then `room`, `pinned` */
    else
        store_release(&s->block->cursor[band], word);
}

/* Of the messages between two that it came to, some were for it, and the others were not. */
static inline void count_gap(rtmw_subscriber *s, uint32_t band, uint64_t gap, uint32_t wanted)
{
    uint64_t lost = wanted <= gap ? wanted : gap;
    if (lost) outcome_gone(s, band, s->sequence[band] - (s->index[band] != NIL), lost);
    if (gap > lost) count_up(s->type == TYPE_ANY ? &s->block->unmatched : &s->block->other_types, gap - lost);
}

/* Before the oldest message that is kept: nothing is held, and nothing counted. */
void cursor_to_head(rtmw_subscriber *, uint32_t band);

/* To the next message of a band, whatever it is: STEP_OK, STEP_NONE or STEP_DAMAGED. */
static inline int step(rtmw_subscriber *s, uint32_t band)
{
    uint64_t missed = 0;
    int stepped = queue_step(s->region, &s->topic->band[band], &s->index[band], &s->sequence[band], &missed);
    if (stepped != STEP_OK) return stepped;
    const struct descriptor *d = &s->region->descriptors[s->index[band]];
    struct standing at = standing_of(d);
    uint32_t before = s->taken[band], wanted = wanted_here(s, band);
    s->taken[band] = standing_count(&at, wanted);
    set_cursor(s, band);
    if (__builtin_expect(missed, 0))
        count_gap(s, band, missed, s->taken[band] - before - (wanted >> offer_of(d) & 1));
    return STEP_OK;
}

#endif
