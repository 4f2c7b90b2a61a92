/* Topics and types that nobody uses give their slots back, when a new one finds the table full.
 *
 *              a maker             its name is decided              nobody uses it, it seems
 *      FREE ───────────────► CLAIMED ────────────────────► ACTIVE ─────────────────────────► RETIRING
 *       ▲                       ▲ │                          ▲        somebody does            │ │
 *       └───────────────────────┼─┘ reset                    └─────────────────────────────────┘ │
 *                               └────────────────────────────────────────────────────────────────┘ nobody does
 *
 * A topic is idle if and only if: (1) no endpoint's slot names it, whatever the state of that slot; (2) nobody traces it;
 * (3) no publisher promised `history`, or its queues hold no message that has not expired. Their other messages were
 * promised to nobody: they are kept while memory and slots are plenty. When no topic is idle, the one without (1) and (2)
 * on which the last message is the oldest forgets what it keeps (abandoned.c), and so becomes idle.
 *
 * Two looks: the retirer makes the word RETIRING and then looks for users; a user claims its endpoint (or sets its tracer
 * bit) and then looks at the word. One of the two sees the other. A user that finds the word RETIRING makes it ACTIVE
 * again, and the retirer's last CAS fails. Another retirer makes it RETIRING by itself, with the same effect. So nobody waits
 * for a retirer, which may be stopped or dead: it keeps the one slot that it has CLAIMED. The word carries its owner, so that
 * the last CAS never meets the RETIRING of another process.
 *
 * A type is unused if and only if: (1) no endpoint's block names it, whatever the state of its slot; (2) no descriptor that is
 * not FREE does, and so no message that lies in a queue or is held. The looks come in this order: a publisher that the first
 * does not see any more has linked its messages, which the second sees. An endpoint names its type in its block, and then
 * looks at the type's word. The offers of a band may go on naming a type that is gone: see topic_reset. So may not the last
 * message of a topic that is FREE, unless somebody held it when that was reset: then it is reset once more, when slots of
 * types are short (reset_free_topics).
 *
 * A topic that is FREE keeps its queues, each with its last message. A process that has the slot CLAIMED resets what
 * belongs to a life (topic_reset): the retirer, and again the next maker, because the retirer may have died in it. The
 * last sequence of each band becomes its `began` and its `origin`: messages that are not newer do not belong to the next topic. So
 * sequences go on, and head, tail and cursor words never repeat; a process that still evicts, sweeps or looks at old
 * messages does to them what it would have done before.
 */
#include <string.h>

#include "topics.h"

enum { SHARE = 64 }; /* one of so many slots is given back at once, and one more */

static void mark(struct marks *used, const struct rtmw_region *r, const uint64_t *words, uint32_t top)
{
    for (uint32_t slot = 0; slot < top; slot++) {
        uint64_t word = load_seq(&words[slot]);
        uint32_t topic = slot_topic(word);
        if (slot_state_of(word) != SLOT_FREE && topic < r->header->topics)
            used->bit[topic / 64] |= UINT64_C(1) << topic % 64;
    }
}

void mark_published(struct rtmw_region *r, struct marks *published)
{
    uint32_t top = load_seq(&r->hints->publishers_top);
    memset(published, 0, sizeof *published);
    mark(published, r, r->publisher_words, top < r->header->publishers ? top : r->header->publishers);
}

/* Topics that endpoints name. */
static void mark_used(struct rtmw_region *r, struct marks *used)
{
    uint32_t top = load_seq(&r->hints->subscribers_top);
    mark_published(r, used);
    mark(used, r, r->subscriber_words, top < r->header->subscribers ? top : r->header->subscribers);
}

bool is_published(struct rtmw_region *r, uint32_t topic)
{
    uint32_t top = load_seq(&r->hints->publishers_top);
    for (uint32_t slot = 0; slot < top && slot < r->header->publishers; slot++) {
        uint64_t word = load_seq(&r->publisher_words[slot]);
        if (slot_state_of(word) != SLOT_FREE && slot_topic(word) == topic) return true;
    }
    return false;
}

/* Is a message of this band there, of this life, and not expired? Walks as a subscriber would. */
static bool has_messages(struct rtmw_region *r, struct band *band, uint64_t now)
{
    uint64_t sequence = band_start(band, band_tail_sequence(r, band)), missed = 0;
    uint32_t index = NIL;
    bool kept = false;
    while (!kept && queue_step(r, band, &index, &sequence, &missed) == STEP_OK)
        kept = !is_expired(&r->descriptors[index], now);
    if (index != NIL) let_go(r, index);
    return kept;
}

static bool keeps_messages(struct rtmw_region *r, struct topic *t)
{
    uint64_t now = monotonic_ns();
    for (uint32_t b = 0; b < BANDS; b++)
        if (has_messages(r, &t->band[b], now)) return true;
    return false;
}

static bool is_used(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    struct topic *t = &r->topics[topic];
    return is_marked(used, topic) || load_seq(&t->tracers[0]) | load_seq(&t->tracers[1]); /* pairs with trace_begin */
}

static bool is_idle(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    struct topic *t = &r->topics[topic];
    return !is_used(r, topic, used) && (!load_seq(&t->history) || !keeps_messages(r, t));
}

static bool begin_to_retire(struct rtmw_region *r, uint64_t *word, uint64_t seen)
{
    return cas64(word, seen, slot_make(slot_generation(seen), 0, r->me, SLOT_RETIRING));
}

static bool is_retiring_by_me(struct rtmw_region *r, uint64_t seen)
{
    return seen == slot_make(slot_generation(seen), 0, r->me, SLOT_RETIRING);
}

/* CLAIMED by me, in another life, so that nobody takes it for half made; 0: it was rescued. */
static uint64_t end_retiring(struct rtmw_region *r, uint64_t *word, uint64_t seen)
{
    uint64_t mine = slot_make(slot_generation(seen) + 1, 0, r->me, SLOT_CLAIMED);
    return cas64(word, seen, mine) ? mine : 0;
}

/* ---- topics ---- */

static bool begin_topic(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    uint64_t *word = &r->topics[topic].word, seen = load_seq(word);
    return slot_is_there(seen) && is_idle(r, topic, used) && begin_to_retire(r, word, seen);
}

/* The state of the topic is dropped at once, by a process that has the slot to itself. */
static void give_back(struct rtmw_region *r, uint32_t topic, uint64_t mine)
{
    topic_reset(r, topic);
    slot_free(&r->topics[topic].word, mine);
}

static bool end_topic(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    uint64_t *word = &r->topics[topic].word, seen = load_seq(word);
    if (!is_retiring_by_me(r, seen)) return false;
    if (!is_idle(r, topic, used)) return slot_rescue(word, seen), false;
    uint64_t mine = end_retiring(r, word, seen);
    if (mine) give_back(r, topic, mine);
    return mine != 0;
}

/* Looks at topics from `first` on, at most `count`, and retires some of them; how many it looked at. */
static uint32_t retire_some(struct rtmw_region *r, uint32_t first, uint32_t count, uint32_t *retired)
{
    struct marks used;
    uint32_t topics = r->header->topics, looked = 0, begun = 0;
    mark_used(r, &used);
    for (; looked < count && begun <= topics / SHARE; looked++)
        begun += begin_topic(r, (first + looked) % topics, &used);
    if (!begun) return looked;
    mark_used(r, &used); /* pairs with endpoint_claim */
    for (uint32_t i = 0; i < looked; i++) *retired += end_topic(r, (first + i) % topics, &used);
    return looked;
}

uint32_t retire_topics(struct rtmw_region *r)
{
    uint32_t topics = r->header->topics, looked = 0, retired = 0;
    uint32_t first = load_relaxed(&r->hints->topics_made) % topics; /* the oldest, about */
    while (looked < topics && !retired) looked += retire_some(r, (first + looked) % topics, topics - looked, &retired);
    return retired;
}

/* When something was published last. A hint: descriptors may begin another life meanwhile. */
static uint64_t last_published(struct rtmw_region *r, struct topic *t)
{
    uint64_t last = 0;
    for (uint32_t b = 0; b < BANDS; b++) {
        struct descriptor *d = descriptor_at(r, link_index(load_seq(&t->band[b].tail)));
        uint64_t published = d ? load_relaxed(&d->published_ns) : 0;
        if (published > last) last = published;
    }
    return last;
}

/* Of the topics that nobody uses, the life of the one on which the last message is the oldest; 0: all are used. */
static uint64_t find_oldest(struct rtmw_region *r)
{
    struct marks used;
    uint64_t oldest = 0, when = UINT64_MAX;
    mark_used(r, &used);
    for (uint32_t topic = 0; topic < r->header->topics; topic++) {
        uint64_t life = topic_life(r, topic), published = life ? last_published(r, &r->topics[topic]) : 0;
        if (!life || published >= when || is_used(r, topic, &used)) continue;
        oldest = life;
        when = published;
    }
    return oldest;
}

/* What the topic keeps is forgotten; then it is idle like any other, unless somebody has come to use it. */
bool retire_kept_topic(struct rtmw_region *r)
{
    for (uint32_t in_vain = 0; in_vain < SHARE; in_vain++) {
        uint64_t oldest = find_oldest(r);
        if (!oldest) return false;
        topic_forget(r, oldest, true);
        if (retire_topics(r)) return true;
    }
    return false;
}

/* ---- types ---- */

/* A last message of the topic names a type, though nobody holds it any more. */
static bool has_typed_rest(struct rtmw_region *r, struct topic *t)
{
    for (uint32_t b = 0; b < BANDS; b++) {
        struct descriptor *last = descriptor_at(r, link_index(load_seq(&t->band[b].tail)));
        if (last && load_seq(&last->type) != TYPE_RAW && !descriptor_is_held(last)) return true;
    }
    return false;
}

/* The same steps as of a topic that is retired, with the slot to itself. */
uint32_t reset_free_topics(struct rtmw_region *r)
{
    uint32_t reset = 0;
    for (uint32_t topic = 0; topic < r->header->topics; topic++) {
        uint64_t *word = &r->topics[topic].word, seen = load_seq(word);
        if (slot_state_of(seen) != SLOT_FREE || !has_typed_rest(r, &r->topics[topic])) continue;
        uint64_t mine = end_retiring(r, word, seen);
        if (mine) give_back(r, topic, mine);
        reset += mine != 0;
    }
    return reset;
}

static void mark_type(struct rtmw_region *r, struct marks *used, uint32_t type)
{
    if (type < r->header->types) used->bit[type / 64] |= UINT64_C(1) << type % 64;
}

static void mark_types(struct rtmw_region *r, struct marks *used)
{
    uint32_t publishers = load_seq(&r->hints->publishers_top), subscribers = load_seq(&r->hints->subscribers_top);
    memset(used, 0, sizeof *used);
    for (uint32_t slot = 0; slot < publishers && slot < r->header->publishers; slot++)
        if (slot_state_of(load_seq(&r->publisher_words[slot])) != SLOT_FREE)
            mark_type(r, used, load_seq(&r->publishers[slot].type));
    for (uint32_t slot = 0; slot < subscribers && slot < r->header->subscribers; slot++)
        if (slot_state_of(load_seq(&r->subscriber_words[slot])) != SLOT_FREE)
            mark_type(r, used, load_seq(&r->subscribers[slot].type));
    for (uint32_t i = 0; i < r->header->descriptors; i++)
        if (state_kind(load_seq(&r->descriptors[i].state)) != FREE)
            mark_type(r, used, load_seq(&r->descriptors[i].type));
}

static bool end_type(struct rtmw_region *r, uint32_t type, const struct marks *used)
{
    uint64_t *word = &r->types[type].word, seen = load_seq(word);
    if (!is_retiring_by_me(r, seen)) return false;
    if (is_marked(used, type)) return slot_rescue(word, seen), false;
    uint64_t mine = end_retiring(r, word, seen);
    return mine && slot_free(word, mine);
}

/* All of them at once: there is nothing in a type that is worth keeping. */
uint32_t retire_types(struct rtmw_region *r)
{
    struct marks used;
    uint32_t begun = 0, retired = 0;
    reclaim_passed(r);
    mark_types(r, &used);
    for (uint32_t type = 0; type < r->header->types; type++) {
        uint64_t *word = &r->types[type].word, seen = load_seq(word);
        begun += slot_is_there(seen) && !is_marked(&used, type) && begin_to_retire(r, word, seen);
    }
    if (!begun) return 0;
    mark_types(r, &used); /* pairs with type_stands */
    for (uint32_t type = 0; type < r->header->types; type++) retired += end_type(r, type, &used);
    return retired;
}

/* ---- who uses one ---- */

void slot_rescue(uint64_t *word, uint64_t seen)
{
    cas64(word, seen, slot_make(slot_generation(seen), 0, 0, SLOT_ACTIVE));
}

static bool stands(uint64_t *word, uint64_t life)
{
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t seen = load_seq(word);
        if (!slot_is_there(seen) || slot_generation(seen) != link_tag(life)) return false;
        if (slot_state_of(seen) == SLOT_ACTIVE) return true;
        slot_rescue(word, seen);
    }
    return false;
}

bool topic_stands(struct rtmw_region *r, uint64_t life) { return stands(&r->topics[link_index(life)].word, life); }

bool type_stands(struct rtmw_region *r, uint64_t life)
{
    return link_index(life) >= r->header->types || stands(&r->types[link_index(life)].word, life);
}

/* ---- a new life of a topic ---- */

/* The offers of the next life begin at 0: else a subscriber that has counted before one of them came, as all do that are
 * there before the publisher, takes messages of the last life for unread ones. So these are counted together, as of a
 * further offer. The last one stays, and is nobody's message any more: unless a reader of the last life holds it, it no
 * longer uses its type. */
static void forget_offers(struct rtmw_region *r, struct band *band)
{
    struct descriptor *last = descriptor_at(r, link_index(load_seq(&band->tail)));
    if (!last) return;
    for (uint32_t i = 0; i < OFFERS; i++) store_relaxed(&last->count[i], 0u);
    store_relaxed(&last->offer, (uint8_t)OFFERS);
    if (!descriptor_is_held(last)) store_relaxed(&last->type, (uint16_t)TYPE_RAW);
}

/* All but the last message goes; an evictor that is there at the same time helps. */
static void drop_band(struct rtmw_region *r, struct band *band)
{
    uint64_t last = queue_catch_up(r, band);
    store_relaxed(&band->origin, last);
    store_relaxed(&band->began, last);
    for (uint32_t left = r->header->descriptors; left > 0 && band_head_sequence(band, last) < last; left--)
        queue_evict(r, band, last, STASH);
    forget_offers(r, band);
}

/* Within a life of a topic offers stay, also those of a type that is gone. Another type in its slot then goes on counting
 * where that ended. This does no harm: who takes the new type begins behind all messages of the old one, which were passed
 * before its slot was given back, and counts differences from there. */
void topic_reset(struct rtmw_region *r, uint32_t topic)
{
    struct topic *t = &r->topics[topic];
    uint32_t bands = load_seq(&t->bands);
    store_relaxed(&t->retired_bytes, 0);
    store_relaxed(&t->history, 0u);
    store_relaxed(&t->timely, 0u);
    store_relaxed(&t->reliable, 0u);
    for (uint32_t b = 0; b < BANDS; b++)
        if (bands & (1u << b)) drop_band(r, &t->band[b]);
    for (uint32_t b = 0; b < BANDS; b++) {
        store_relaxed(&t->band[b].offers, 0);
        if (bands & (1u << b)) evictable_mark(r, topic, b); /* messages that history kept may go */
    }
}
