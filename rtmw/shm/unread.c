/* How much of a queue a subscriber has yet to take, as anybody can tell from the region.
 *
 * Counted are the messages that it gets by type and reliability. Which of them have expired, or will be thinned, is found
 * by room.c where it matters.
 */
#include "unread.h"

uint32_t offer_claim(struct band *band, uint32_t type, uint32_t reliability)
{
    uint64_t offer = offer_make(type, reliability);
    for (uint32_t i = 0; i < OFFERS;) {
        uint64_t offers = load_relaxed(&band->offers), there = offer_at(offers, i);
        if (there == offer) return i;
        if (there)
            i++;
        else if (cas64(&band->offers, offers, offers | (offer << (i * OFFER_BITS))))
            return i;
    }
    return OFFERS;
}

/* The newest message's standing; zeros when nothing was published yet. */
struct standing newest_standing(struct rtmw_region *r, struct band *band)
{
    struct standing at = {0};
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t tail = load_seq(&band->tail);
        struct descriptor *d = descriptor_at(r, link_index(tail));
        if (!d) return (struct standing){0};
        at = standing_of(d);
        if (load_seq(&band->tail) == tail) break;
    }
    return at;
}

/* The standing of all that is passed: just before the oldest message kept. */
struct standing passed_standing(struct rtmw_region *r, struct band *band)
{
    struct standing at = {0};
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t head = load_seq(&band->head);
        struct descriptor *d = descriptor_at(r, link_index(head));
        if (!d) return (struct standing){0};
        at = standing_before(d);
        if (load_seq(&band->head) == head) break;
    }
    return at;
}

/* The standing of the message of this sequence, which is in the queue; else of all that is passed by now. Walks from head,
 * so that nothing is evicted that a subscriber has unread. */
static struct standing standing_at(struct rtmw_region *r, struct band *band, uint64_t sequence)
{
    struct glimpse g;
    bool found = glimpse_first(r, band, 0, &g);
    for (uint32_t looked = 0; found && g.sequence < sequence && looked < r->header->descriptors; looked++)
        found = glimpse_next(r, band, 0, &g);
    struct descriptor *d = found && g.sequence == sequence ? descriptor_at(r, g.index) : NULL;
    struct standing at = d ? standing_of(d) : passed_standing(r, band);
    return d && band_head_sequence(band, sequence) > sequence ? passed_standing(r, band) : at;
}

/* The standing behind which a band begins for who wants what is kept: all that is passed, or is of an earlier life of the
 * topic's slot, or was forgotten. */
struct standing first_standing(struct rtmw_region *r, struct band *band)
{
    struct standing at = passed_standing(r, band);
    uint64_t origin = load_seq(&band->origin);
    for (uint32_t in_vain = 0; at.sequence < origin && in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t head = load_seq(&band->head);
        at = standing_at(r, band, origin);
        if (load_seq(&band->head) == head) break; /* an origin that is not there is damage */
    }
    return at;
}

uint32_t wanted_by(struct band *band, struct subscriber_block *block)
{
    return offers_wanted(load_relaxed(&band->offers), load_relaxed(&block->type), load_relaxed(&block->reliability),
                         load_relaxed(&block->exact));
}

/* A difference of counts that move while they are read; below 0: the cursor has come past what was read first. */
static uint32_t at_least_0(uint32_t difference) { return difference > INT32_MAX ? 0 : difference; }

struct unread unread_in(struct rtmw_region *r, struct band *band, struct subscriber_block *block, uint32_t taken)
{
    struct standing passed = passed_standing(r, band), newest = newest_standing(r, band);
    uint32_t wanted = wanted_by(band, block), all = standing_count(&newest, wanted);
    uint32_t behind = at_least_0(all - taken), kept = at_least_0(all - standing_count(&passed, wanted));
    return kept < behind ? (struct unread){kept, behind - kept} : (struct unread){behind, 0};
}

struct unread unread_by(struct rtmw_region *r, struct topic *t, struct subscriber_block *block)
{
    struct unread sum = {0, 0};
    uint32_t bands = load_seq(&t->bands);
    for (uint32_t b = 0; b < BANDS; b++) {
        if (!(bands & (1u << b))) continue;
        struct unread one = unread_in(r, &t->band[b], block, load_seq(&block->taken[b]));
        sum.waiting += one.waiting;
        sum.gone += one.gone;
    }
    return sum;
}
