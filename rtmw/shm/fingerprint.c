/* One number for all endpoints, and one for all participants, for programs that look again and again whether anything has
 * changed: the node, say. Two equal numbers mean that nothing has come or gone in between, but for one chance in 2^64.
 *
 * The words of slots carry generations, so an endpoint that has gone and come again changes the number too. The words do
 * not carry the limits of a subscriber, which may change while it is open (rtmw_subscriber_adjust).
 */
#include "fingerprint.h"

#define FIRST UINT64_C(0x9E3779B97F4A7C15)

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xBF58476D1CE4E5B9);
    return hash ^ (hash >> 29);
}

static uint64_t mix_limits(uint64_t hash, const struct subscriber_block *s)
{
    return mix(mix(hash, load_relaxed(&s->depth)), load_relaxed(&s->min_interval_ns));
}

uint64_t endpoints_fingerprint(struct rtmw_region *r)
{
    uint64_t hash = FIRST;
    uint32_t publishers = load_seq(&r->hints->publishers_top), subscribers = load_seq(&r->hints->subscribers_top);
    for (uint32_t i = 0; i < publishers && i < r->header->publishers; i++)
        hash = mix(hash, load_seq(&r->publisher_words[i]));
    for (uint32_t i = 0; i < subscribers && i < r->header->subscribers; i++) {
        uint64_t word = load_seq(&r->subscriber_words[i]);
        hash = mix(hash, word);
        if (slot_state_of(word) >= SLOT_ACTIVE) hash = mix_limits(hash, &r->subscribers[i]);
    }
    return mix(hash, ((uint64_t)publishers << 32) | subscribers);
}

uint64_t participants_fingerprint(struct rtmw_region *r)
{
    uint64_t hash = FIRST;
    for (uint32_t i = 0; i < PARTICIPANTS; i++) hash = mix(hash, load_seq(&r->participants[i].word));
    return hash;
}
