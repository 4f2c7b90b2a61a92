/* What lies in a queue, counted without a walk: queue.c. (Its steps are declared in core.h.)
 *
 * Where a message stands in its band: how many messages there are up to it, of which offers, and how much memory they took.
 *
 *   sequence ─ count[0] ─ count[1] ─ count[2]        count[3] = sequence − the others
 *   all        of three offers, apart                of every further offer, together
 *
 * Each appender writes its message's standing as the predecessor's plus its own message, so a difference of two standings
 * says in O(1) how many messages, and how many of those that a subscriber gets, lie between two messages.
 */
#ifndef RTMW_QUEUE_H
#define RTMW_QUEUE_H

#include "bitmap.h"
#include "core.h"

struct standing {
    uint64_t sequence, granules;
    uint32_t count[OFFERS];
};

/* Of a message that cannot begin another life meanwhile, or whose life the caller validates afterwards by loading head or
 * tail: that load is why these are acquire. */
static inline struct standing standing_of(const struct descriptor *d)
{
    struct standing at = {load_acquire(&d->sequence), place_granules(load_acquire(&d->place)), {0}};
    for (uint32_t i = 0; i < OFFERS; i++) at.count[i] = load_acquire(&d->count[i]);
    return at;
}

/* Acquire, as above. */
static inline uint32_t offer_of(const struct descriptor *d)
{
    uint32_t offer = load_acquire(&d->offer);
    return offer < OFFERS ? offer : OFFERS;
}

/* The standing just before the message of this one. */
static inline struct standing standing_before(const struct descriptor *d)
{
    struct standing at = standing_of(d);
    uint32_t offer = offer_of(d);
    at.sequence--;
    at.granules = (at.granules - load_acquire(&d->block_granules)) & PLACE_GRANULES_MASK;
    if (offer < OFFERS) at.count[offer]--;
    return at;
}

/* How many messages of the offers in `wanted` there are, modulo 2^32. Bit OFFERS: those that are counted together. */
static inline uint32_t standing_count(const struct standing *at, uint32_t wanted)
{
    uint32_t sum = 0, rest = (uint32_t)at->sequence;
    for (uint32_t i = 0; i < OFFERS; i++) {
        rest -= at->count[i];
        if (wanted & (1u << i)) sum += at->count[i];
    }
    return wanted & (1u << OFFERS) ? sum + rest : sum;
}

static inline uint32_t count_up_to(const struct descriptor *d, uint32_t wanted)
{
    struct standing at = standing_of(d);
    return standing_count(&at, wanted);
}

/* The index of an offer in its band, made there if need be; OFFERS if that has three others already. */
uint32_t offer_claim(struct band *, uint32_t type, uint32_t reliability);

/* A subscriber gets every offer that there is in the band, and so every message. */
static inline bool is_every_offer(uint64_t offers, uint32_t wanted)
{
    for (uint32_t i = 0; i < OFFERS; i++)
        if (offer_at(offers, i) && !(wanted & (1u << i))) return false;
    return true;
}

/* Which offers of a band a subscriber gets: a bit each. Offers that are counted together may be for it. */
static inline uint32_t offers_wanted(uint64_t offers, uint32_t type, uint32_t reliability, bool exact)
{
    uint32_t wanted = 1u << OFFERS;
    for (uint32_t i = 0; i < OFFERS; i++) {
        uint64_t offer = offer_at(offers, i);
        if (offer && types_match(offer_type(offer), type) &&
            reliabilities_match(offer_reliability(offer), reliability, exact))
            wanted |= 1u << i;
    }
    return wanted;
}

/* ======== unread: what a subscriber has yet to take ======== */

/* Messages behind a subscriber's cursor that it gets by type and reliability. */
struct unread {
    uint64_t waiting; /* still in the queue */
    uint64_t gone;    /* passed over already: it will count them at its next take */
};

struct standing newest_standing(struct rtmw_region *, struct band *);
struct standing passed_standing(struct rtmw_region *, struct band *);
struct standing first_standing(struct rtmw_region *, struct band *); /* lock held */
uint32_t wanted_by(struct band *, struct subscriber_block *);        /* the offers that it gets: a bit each */
struct unread unread_in(struct rtmw_region *, struct band *, struct subscriber_block *, uint32_t taken);
struct unread unread_by(struct rtmw_region *, struct topic *, struct subscriber_block *); /* in all bands */

/* ======== hints: which topics have messages that may give way ======== */

/* The bitmap of a band, a bit a topic. */
static inline uint64_t *evictable_map(struct rtmw_region *r, uint32_t band)
{
    return r->evictable + band * BITMAP_WORDS(r->header->topics);
}

void evictable_repair(struct rtmw_region *); /* after a search in vain: some of the hints. Lock held */

#endif
