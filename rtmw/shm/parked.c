/* Parked subscriptions: a place in the queues that outlives its process, for a bounded time.
 *
 * A RELIABLE subscriber whose program is started again would lose what is published while the program is away. So it is
 * parked: its slot stays ACTIVE, without an owner, until another subscriber takes the slot over.
 *
 *            park                         resume: owner and generation, by CAS
 *   ACTIVE, owner me ──► ACTIVE, owner NOBODY ──────────────────────────────► ACTIVE, owner the next process
 *                             │
 *                             └── its time is over ──► FREE
 *
 * Invariants of a parked subscriber:
 *   - It counts as any other one: publishers wait when it has `depth` unread messages, and nothing behind its cursors is
 *     evicted.
 *   - Its cursors hold no descriptor, so a sweep has nothing to do for it, and does not find it: no participant owns it.
 *   - Once its time is over nobody counts on it (next_subscriber). A sweep, or a publisher that waits, frees its slot.
 *
 * The subscriber that resumes leaves the slot that it was opened in, and has the parked one from then on. The cursors of
 * that slot never move forward meanwhile: a publisher that looks at all slots one after the other must not find the
 * messages unneeded in both. The CAS gives the slot another generation, so who has read `parked_until_ns` before frees
 * nothing. A process that dies before the CAS leaves the slot parked; one that dies after it is swept, and so is the slot.
 */
#include <stdlib.h>

#include "cursor.h"
#include "topics.h"
#include "waiting.h"

/* The time is that of this parking only if the word is still the same after it was read: a subscriber that resumes clears
 * it. */
bool parked_is_over(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint64_t until = load_acquire(&r->subscribers[slot].parked_until_ns);
    return monotonic_ns() >= until && load_seq(&r->subscriber_words[slot]) == word;
}

bool parked_end(struct rtmw_region *r, uint32_t slot, uint64_t word)
{
    uint32_t topic = slot_topic(word);
    if (!slot_is_parked(word) || topic >= r->header->topics || !parked_is_over(r, slot, word)) return false;
    if (!slot_free(&r->subscriber_words[slot], word)) return false;
    topic_unpin(r, topic);
    fetch_add(&r->topics[topic].epoch, 1u);
    wake_publishers(&r->topics[topic]);
    return true;
}

uint32_t parked_sweep(struct rtmw_region *r)
{
    uint32_t top = load_seq(&r->hints->subscribers_top), ended = 0;
    for (uint32_t slot = 0; slot < top && slot < r->header->subscribers; slot++)
        ended += parked_end(r, slot, load_seq(&r->subscriber_words[slot]));
    return ended;
}

/* The cursors stay where they are, and hold nothing from here on. */
static void rest_all(rtmw_subscriber *s)
{
    for (uint32_t band = 0; band < BANDS; band++) {
        uint32_t held = s->index[band];
        s->index[band] = NIL;
        set_cursor(s, band);
        if (held != NIL) let_go(s->region, held);
    }
}

static bool park(rtmw_subscriber *s, uint16_t key, uint64_t for_ns)
{
    struct rtmw_region *r = s->region;
    uint64_t word = slot_make(slot_generation(s->word), s->topic_index, NOBODY, SLOT_ACTIVE);
    rest_all(s);
    store_relaxed(&s->block->armed, 0u);
    store_relaxed(&s->block->own_socket, 0u);
    store_relaxed(&s->block->lease_ns, 0);
    store_relaxed(&s->block->parked_key, key);
    store_release(&s->block->parked_until_ns, monotonic_ns() + for_ns);
    return cas64(&r->subscriber_words[s->slot], s->word, word); /* fails if it has lapsed */
}

bool rtmw_subscriber_park(rtmw_subscriber *s, uint16_t key, uint64_t for_ns)
{
    struct rtmw_region *r = s->region;
    bool may_park = s->qos.reliability == RTMW_RELIABLE && for_ns && limit_of(for_ns), parked = false;
    pollable_close(s);
    if (!is_forked(r) && !is_swept(r)) {
        lock_take(&r->lock);
        parked = may_park && park(s, key, for_ns);
        if (!parked) subscriber_give_back(s);
        lock_give(&r->lock);
        wake_publishers(s->topic);
    }
    free(s);
    return parked;
}

static bool is_like(const rtmw_subscriber *s, const struct subscriber_block *block, uint16_t key)
{
    return load_relaxed(&block->parked_key) == key && load_relaxed(&block->type) == s->type &&
           load_relaxed(&block->reliability) == (uint8_t)s->qos.reliability &&
           load_relaxed(&block->exact) == (uint8_t)s->exact;
}

/* Its place in a band is the earlier one: its own, which it asked for with `history`, or the parked one. Messages behind
 * the parked one are not old: they would have come to that, had it been there. */
static void move_back(rtmw_subscriber *s, uint32_t band, const struct subscriber_block *parked)
{
    uint64_t newest = band_tail_sequence(s->region, &s->topic->band[band]);
    uint64_t sequence = sequence_near(link_tag(load_seq(&parked->cursor[band])), newest);
    s->began[band] = sequence;
    if (sequence >= s->sequence[band]) return;
    if (s->index[band] != NIL) let_go(s->region, s->index[band]);
    s->index[band] = NIL;
    s->place[band] = NIL;
    s->sequence[band] = sequence;
    s->taken[band] = load_seq(&parked->taken[band]);
    s->every[band] = NOT_EVERY;
}

/* The slot is its own already, and has the word `mine`. The block is filled behind the cursors: see above. */
static void move_to(rtmw_subscriber *s, uint32_t slot, uint64_t mine)
{
    struct rtmw_region *r = s->region;
    uint64_t left = s->word;
    uint32_t from = s->slot;
    for (uint32_t band = 0; band < BANDS; band++) move_back(s, band, &r->subscribers[slot]);
    s->slot = slot;
    s->word = mine;
    s->block = &r->subscribers[slot];
    s->histogram = slot < r->header->histograms ? &r->histograms[slot] : NULL;
    for (uint32_t band = 0; band < BANDS; band++) set_cursor(s, band);
    subscriber_fill(s);
    slot_free(&r->subscriber_words[from], left);
    fetch_add(&s->topic->epoch, 1u); /* pairs with reliable_room: its depth may be another one */
}

static bool resume(rtmw_subscriber *s, uint16_t key)
{
    struct rtmw_region *r = s->region;
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(r, s->topic_index, &slot)); slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        uint64_t mine = slot_make(slot_generation(word) + 1, s->topic_index, r->me, SLOT_ACTIVE);
        if (!slot_is_parked(word) || slot_topic(word) != s->topic_index || !is_like(s, block, key)) continue;
        if (!cas64(&r->subscriber_words[slot], word, mine)) continue;
        return move_to(s, slot, mine), true;
    }
    return false;
}

bool rtmw_subscriber_resume(rtmw_subscriber *s, uint16_t key)
{
    struct rtmw_region *r = s->region;
    if (region_state(r) != RTMW_OK) return false;
    lock_take(&r->lock);
    bool resumed = resume(s, key);
    lock_give(&r->lock);
    if (resumed) wake_publishers(s->topic);
    return resumed;
}
