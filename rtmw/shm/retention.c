/* What may be evicted, and when a RELIABLE publisher must wait (requirement P5).
 *
 *   subscriber    its unread messages are kept                              evicted unread
 *   RELIABLE      all; the publisher waits when there are `depth` of them   never
 *   ADAPTIVE      all, while the pool is above its low-water mark           beyond depth below it, all when it is empty
 *   TIMELY        `depth` of them                                           beyond depth, all when the pool is empty
 *
 * A publisher asks who has read what only when its queue has grown by a quarter since it last asked: publishing does
 * not cost more with more subscribers. What it remembers is void when `epoch` changes: a subscriber has joined.
 * Cursors only move forward, so an old answer errs on the side of keeping, and of waiting.
 */
#include "core.h"

enum { BATCH = 64, LEEWAY = 32, TRIM_EVERY_NS = 10000000 };

struct subscriber_block *next_subscriber(struct rtmw_region *r, uint32_t topic, uint32_t *slot)
{
    uint32_t top = load_seq(&r->hints->subscribers_top);
    for (; *slot < top && *slot < r->header->subscribers; ++*slot) {
        uint64_t word = load_seq(&r->subscriber_words[*slot]);
        if (slot_state_of(word) == SLOT_ACTIVE && slot_topic(word) == topic) return &r->subscribers[*slot];
    }
    return NULL;
}

static uint64_t cursor_sequence(struct subscriber_block *block, uint32_t band, uint64_t near)
{
    return sequence_near(link_tag(load_seq(&block->cursor[band])), near);
}

uint64_t unread_by(struct rtmw_region *r, struct topic *t, struct subscriber_block *block)
{
    uint64_t unread = 0;
    uint32_t bands = load_seq(&t->bands);
    for (uint32_t b = 0; b < BANDS; b++) {
        if (!(bands & (1u << b))) continue;
        uint64_t tail = band_tail_sequence(r, &t->band[b]), cursor = cursor_sequence(block, b, tail);
        if (tail > cursor) unread += tail - cursor;
    }
    return unread;
}

/* What of that still lies in the queues. */
uint64_t waiting_for(struct rtmw_region *r, struct topic *t, struct subscriber_block *block)
{
    uint64_t waiting = 0;
    for (uint32_t b = 0; b < BANDS; b++) {
        uint64_t tail = band_tail_sequence(r, &t->band[b]), cursor = cursor_sequence(block, b, tail);
        uint64_t head = band_head_sequence(&t->band[b], tail), before = head > cursor + 1 ? head - 1 : cursor;
        if (tail > before) waiting += tail - before;
    }
    return waiting;
}

static uint64_t total_of(struct rtmw_region *r, struct topic *t)
{
    uint64_t total = 0;
    uint32_t bands = load_seq(&t->bands);
    for (uint32_t b = 0; b < BANDS; b++)
        if (bands & (1u << b)) total += band_tail_sequence(r, &t->band[b]);
    return total;
}

static bool waits_for(struct rtmw_publisher *p, struct subscriber_block *block)
{
    return load_relaxed(&block->reliability) == RTMW_RELIABLE &&
           types_match(p->block->type, load_relaxed(&block->type));
}

uint32_t reliable_room(struct rtmw_publisher *p)
{
    if (p->qos.reliability != RTMW_RELIABLE) return UINT32_MAX;
    struct rtmw_region *r = p->region;
    uint32_t epoch = load_seq(&p->topic->epoch);
    uint64_t total = total_of(r, p->topic);
    if (epoch == p->gate_epoch && total < p->gate && p->gate - total <= INT32_MAX) return (uint32_t)(p->gate - total);
    int64_t room = INT32_MAX;
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(r, p->topic_index, &slot)); slot++) {
        if (!waits_for(p, block)) continue;
        int64_t left = (int64_t)load_relaxed(&block->depth) - (int64_t)unread_by(r, p->topic, block);
        if (left < room) room = left;
    }
    p->gate = total + (uint64_t)(room > 0 ? room : 0);
    p->gate_epoch = epoch;
    return room > 0 ? (uint32_t)room : 0;
}

/* A subscriber that stands still while a publisher waits for it: since when, and where. One word, so that what two
 * publishers write about it never mixes. */
static void watch(struct rtmw_region *r, uint32_t topic, uint32_t slot)
{
    uint64_t word = load_seq(&r->subscriber_words[slot]);
    if (slot_state_of(word) != SLOT_ACTIVE || slot_topic(word) != topic) return;
    struct subscriber_block *block = &r->subscribers[slot];
    uint32_t position = 0, tick = (uint32_t)(monotonic_ns() >> 20);
    for (uint32_t b = 0; b < BANDS; b++) position += (uint32_t)link_tag(load_seq(&block->cursor[b]));
    uint64_t stall = load_seq(&block->stall);
    if ((uint32_t)(stall >> 32) != position || stall == 0) {
        cas64(&block->stall, stall, ((uint64_t)position << 32) | tick);
        return;
    }
    int32_t stood = (int32_t)(tick - (uint32_t)stall); /* below 0: another publisher wrote it after I read the clock */
    if (stood < 0 || (uint64_t)stood << 20 < load_relaxed(&block->lease_ns)) return;
    if (cas64(&r->subscriber_words[slot], word, (word & ~UINT64_C(15)) | SLOT_LAPSED)) {
        fetch_add(&r->topics[topic].epoch, 1u);
        wake_subscribers(r, &r->topics[topic], topic);
    }
}

/* Memory is waited for from everybody who has something unread, on any topic; room only from the full ones of mine. */
static bool is_waited_for(struct rtmw_publisher *p, uint32_t topic, struct subscriber_block *block, bool for_memory)
{
    struct topic *t = &p->region->topics[topic];
    if (load_relaxed(&block->reliability) != RTMW_RELIABLE || !load_relaxed(&t->reliable)) return false;
    uint64_t unread = unread_by(p->region, t, block);
    if (for_memory) return unread > 0;
    return topic == p->topic_index && waits_for(p, block) && unread >= load_relaxed(&block->depth);
}

void expel_stalled(struct rtmw_publisher *p, bool for_memory)
{
    struct rtmw_region *r = p->region;
    bool dead = false;
    uint32_t top = load_seq(&r->hints->subscribers_top);
    for (uint32_t slot = 0; slot < top && slot < r->header->subscribers; slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        uint32_t topic = slot_topic(word);
        if (slot_state_of(word) != SLOT_ACTIVE || topic >= r->header->topics) continue;
        if (!is_waited_for(p, topic, &r->subscribers[slot], for_memory)) continue;
        dead |= participant_is_dead(r, slot_owner(word));
        if (load_relaxed(&r->subscribers[slot].lease_ns)) watch(r, topic, slot);
    }
    if (dead && sweep_the_dead(r)) p->gate_epoch--; /* ask again */
}

/* The last sequence of a band that nobody needs. `pressed`: memory is short. `reliable_only`: it is gone. */
static uint64_t floor_of(struct rtmw_region *r, uint32_t topic, uint32_t band, bool pressed, bool reliable_only)
{
    uint64_t tail = band_tail_sequence(r, &r->topics[topic].band[band]), floor = tail;
    bool offered = load_seq(&r->topics[topic].reliable); /* else a RELIABLE subscriber is matched with nobody */
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(r, topic, &slot)); slot++) {
        rtmw_reliability asked = load_relaxed(&block->reliability);
        bool reliable = offered && asked == RTMW_RELIABLE;
        if (reliable_only && !reliable) continue;
        uint64_t needs = cursor_sequence(block, band, tail);
        uint64_t depth = load_relaxed(&block->depth);
        if (!reliable && (pressed || asked != RTMW_ADAPTIVE) && tail > depth && needs < tail - depth)
            needs = tail - depth;
        if (needs < floor) floor = needs;
    }
    return floor;
}

static uint32_t evict_unneeded(struct rtmw_region *r, uint32_t topic, uint32_t band, uint64_t keep, bool pressed)
{
    struct topic *t = &r->topics[topic];
    uint64_t history = load_relaxed(&t->history), floor = floor_of(r, topic, band, pressed, false);
    uint64_t tail = band_tail_sequence(r, &t->band[band]);
    if (keep < history) keep = history;
    if (tail <= keep) return 0;
    return queue_evict(r, &t->band[band], floor < tail - keep ? floor : tail - keep, BATCH);
}

/* A queue is never without its last message; but when all have read a large one, its block may go. Its state is read
 * while it is last, so that it is not another message by the time that it is emptied. NULL: it has to stay. */
static struct descriptor *spare_last(struct rtmw_region *r, uint32_t topic, uint32_t band, bool unread_too,
                                     uint64_t *state)
{
    struct topic *t = &r->topics[topic];
    uint64_t tail = load_seq(&t->band[band].tail), sequence = band_tail_sequence(r, &t->band[band]);
    struct descriptor *last = descriptor_at(r, link_index(tail));
    if (!last || !load_relaxed(&last->block_granules) || load_relaxed(&t->history)) return NULL;
    *state = load_seq(&last->state);
    if (floor_of(r, topic, band, unread_too, unread_too) < sequence || load_seq(&t->band[band].tail) != tail)
        return NULL;
    return last;
}

static bool empty_last(struct rtmw_region *r, uint32_t topic, uint32_t band, bool unread_too)
{
    uint64_t state;
    struct descriptor *last = spare_last(r, topic, band, unread_too, &state);
    return last && descriptor_empty(r, last, state, NIL);
}

/* So that a stream of large messages that are read at once goes through one block, which stays in the cache. */
uint32_t inherit_last(struct rtmw_publisher *p, uint32_t band, uint64_t size)
{
    uint64_t state;
    struct descriptor *last = spare_last(p->region, p->topic_index, band, false, &state);
    return last ? descriptor_inherit(p->region, last, state, size) : NIL;
}

/* All of a band that nobody needs, batch by batch; others may add to it meanwhile. */
static uint32_t trim_band(struct rtmw_region *r, uint32_t topic, uint32_t band, bool pressed)
{
    uint32_t evicted = 0, batch = 1;
    while (batch && evicted < r->header->descriptors) evicted += batch = evict_unneeded(r, topic, band, 1, pressed);
    return evicted;
}

static bool trim_everything(struct rtmw_region *r, bool pressed)
{
    uint32_t evicted = 0;
    for (uint32_t topic = 0; topic < load_seq(&r->hints->topics_top) && topic < r->header->topics; topic++)
        for (uint32_t band = 0; band < BANDS; band++) {
            if (!(load_seq(&r->topics[topic].bands) & (1u << band))) continue;
            evicted += trim_band(r, topic, band, pressed);
            evicted += empty_last(r, topic, band, false);
        }
    return evicted > 0;
}

/* Low: before anybody loses something unread, what nobody needs goes on all topics. */
static bool is_pressed(struct rtmw_region *r)
{
    if (!pool_is_low(r)) return false;
    uint64_t now = monotonic_ns();
    if (now - r->trimmed_ns < TRIM_EVERY_NS) return true;
    r->trimmed_ns = now;
    trim_everything(r, false);
    reclaim_passed(r);
    return pool_is_low(r);
}

void queue_trim(struct rtmw_publisher *p, uint32_t band, bool has_block)
{
    struct band *b = &p->topic->band[band];
    uint64_t tail = link_tag(load_relaxed(&b->tail)), head = link_tag(load_relaxed(&b->head));
    uint64_t length = (tail - head) & TAG_MASK, keep = has_block ? 1 : p->qos.depth, step = has_block ? 1 : LEEWAY;
    if (length < keep + step) return;
    uint32_t epoch = load_relaxed(&p->topic->epoch);
    if (epoch == p->trim_epoch && length < p->trim_at[band]) return;
    uint32_t evicted = evict_unneeded(p->region, p->topic_index, band, keep, is_pressed(p->region));
    uint64_t grow = length / 4 < step ? step : length / 4, most = p->region->header->descriptors / 32;
    p->trim_at[band] = evicted ? 0 : length + (grow < most ? grow : most);
    p->trim_epoch = epoch;
}

/* Evict unread messages, the oldest of one band: one whose oldest has expired, else the lowest. History stays. */
static bool evict_unread(struct rtmw_publisher *p, uint32_t most)
{
    struct rtmw_region *r = p->region;
    uint64_t now = realtime_ns(r, monotonic_ns()), history = load_relaxed(&p->topic->history);
    for (int expired_only = 1; expired_only >= 0; expired_only--)
        for (uint32_t band = 0; band < BANDS; band++) {
            struct band *b = &p->topic->band[band];
            struct descriptor *oldest = descriptor_at(r, link_index(load_seq(&b->head)));
            if (!oldest) continue;
            uint64_t expires = load_relaxed(&oldest->expires_ns);
            if (expired_only && (!expires || expires > now)) continue;
            uint64_t tail = band_tail_sequence(r, b), floor = floor_of(r, p->topic_index, band, true, true);
            if (tail <= history) continue;
            if (floor > tail - history) floor = tail - history;
            if (queue_evict(r, b, floor, expired_only ? 1 : most)) return true;
        }
    for (uint32_t band = 0; band < BANDS; band++) /* only last ones are left */
        if (empty_last(r, p->topic_index, band, true)) return true;
    return false;
}

/* First what nobody needs, everywhere, and what the dead had; then, turn by turn, more and more that is unread. */
bool make_room(struct rtmw_publisher *p, uint32_t turn)
{
    struct rtmw_region *r = p->region;
    if (turn == 0) {
        bool room = trim_everything(r, true);
        room |= sweep_if_due(r, TRIM_EVERY_NS) > 0;
        room |= reclaim_passed(r) > 0;
        if (room || descriptors_used(r) < (int64_t)r->header->descriptors) return true;
    }
    if (p->qos.reliability == RTMW_RELIABLE) return false;
    bool room = evict_unread(p, turn < 7 ? 1u << (turn ? turn - 1 : 0) : BATCH);
    stash_flush(r);
    return room;
}
