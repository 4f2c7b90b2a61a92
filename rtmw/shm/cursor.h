/* The cursor of a subscriber in a band: the message it took last, as the region shows it, and how it moves on. */
#ifndef RTMW_CURSOR_H
#define RTMW_CURSOR_H

#include "outcome.h"

static inline void set_cursor(rtmw_subscriber *s, uint32_t band)
{
    uint64_t word = link_make(s->sequence[band] & TAG_MASK, s->index[band]);
    if (s->qos.reliability == RTMW_RELIABLE)
        store_seq(&s->block->cursor[band],
                  word); /* pairs with reliable_room: cursor, then `room`; `room`, then cursor */
    else
        store_release(&s->block->cursor[band], word);
}

/* To the next message of a band, whatever it is: STEP_OK, STEP_NONE or STEP_DAMAGED. */
static inline int step(rtmw_subscriber *s, uint32_t band)
{
    uint64_t missed = 0;
    int stepped = queue_step(s->region, &s->topic->band[band], &s->index[band], &s->sequence[band], &missed);
    if (stepped != STEP_OK) return stepped;
    set_cursor(s, band);
    if (missed) outcome_missed(s, band, s->sequence[band] - 1, missed);
    return STEP_OK;
}

#endif
