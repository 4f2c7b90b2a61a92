/* Messages give way to others: which ones, and in which order (requirements P2, P3, P5).
 *
 *   hints       which topics have messages that may go
 *   retention   what a topic keeps for its subscribers, and for late ones; what is more is trimmed as it publishes
 *   abandoned   what history keeps where nobody publishes any more
 *   eviction    what gives way over all topics when descriptors or pages run short
 *
 * Callers rely on this: nothing that a RELIABLE subscriber needs is taken, whoever dies meanwhile. Where only messages
 * behind a needed one are left, their blocks go: within.c. The lock is held in all of it.
 */
#include "reclaim.h"

#include "bitmap.h"
#include "topics.h"

/* ======== retention ======== */

/* The messages that a topic keeps for its subscribers, and those that may be passed over (requirement P5).
 *
 *   subscriber    its unread messages are kept                              evicted unread
 *   RELIABLE      all; the publisher waits when there are `depth` of them   never, unless they have expired
 *   ADAPTIVE      all, while the pool is above its low-water mark           beyond depth below it, all when it is empty
 *   TIMELY        `depth` of them in each band                              beyond depth, all when the pool is empty
 *
 * A publisher asks who has read what only when its queue has grown by a quarter since it last asked: publishing does
 * not cost more with more subscribers. It asks before it appends: asked after it, a SIGNAL would keep one message less.
 * The answer that it remembers is void when `epoch` changes: a subscriber has joined.
 * Cursors only move forward, so an old answer errs on the side of keeping.
 */

enum { LEEWAY = 32, READ_LEEWAY = 8 };

/* The messages that this subscriber needs of the band are behind the sequence returned; the newest: it needs nothing. */
static uint64_t needs_behind(const struct outlook *o, struct subscriber_block *block, uint32_t wanted)
{
    uint64_t cursor = sequence_near(link_tag(load_seq(&block->cursor[o->band])), o->newest.sequence); /* before taken */
    uint64_t depth = load_relaxed(&block->depth), from = cursor > o->passed.sequence ? cursor : o->passed.sequence;
    uint32_t all = standing_count(&o->newest, wanted), behind = all - load_seq(&block->taken[o->band]);
    uint32_t kept = all - standing_count(&o->passed, wanted), unread = behind < kept ? behind : kept;
    if (unread == 0 || unread > INT32_MAX) return o->newest.sequence;
    rtmw_reliability asked = load_relaxed(&block->reliability);
    bool reliable = o->offered && asked == RTMW_RELIABLE;
    if (reliable || unread <= depth || (asked == RTMW_ADAPTIVE && o->look == LOOK_UNNEEDED)) return from;
    return from + (unread - depth);
}

static void lower_floors(struct outlook *o, uint32_t wanted, uint64_t needs)
{
    for (uint32_t i = 0; i <= OFFERS; i++)
        if ((wanted >> i & 1) && needs < o->floor[i]) o->floor[i] = needs;
}

static bool counts(const struct outlook *o, struct subscriber_block *block)
{
    return o->look != LOOK_UNREAD || (o->offered && load_relaxed(&block->reliability) == RTMW_RELIABLE);
}

struct outlook outlook_begin(struct rtmw_region *r, uint32_t topic, uint32_t band, enum look look)
{
    struct topic *t = &r->topics[topic];
    struct outlook o = {.topic = topic, .band = band, .look = look};
    o.passed = passed_standing(r, &t->band[band]);
    o.newest = newest_standing(r, &t->band[band]);
    o.kept = o.newest.sequence > o.passed.sequence ? o.newest.sequence - o.passed.sequence : 0;
    o.offered = load_seq(&t->reliable); /* after the newest: it is offered and promised before it is published */
    uint64_t history = load_relaxed(&t->history), origin = load_relaxed(&t->band[band].origin); /* likewise */
    uint64_t all = o.newest.sequence > origin ? o.newest.sequence - origin : 0; /* that late subscribers may get */
    o.history = history < all ? history : all;
    return o;
}

struct outlook outlook_beside(struct rtmw_region *r, uint32_t topic, uint32_t band, enum look look,
                              struct traversal *traversal)
{
    struct topic *t = &r->topics[topic];
    struct outlook o = outlook_begin(r, topic, band, look);
    for (uint32_t i = 0; i <= OFFERS; i++) o.floor[i] = o.newest.sequence;
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(r, topic, &slot)); slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        o.subscribers++;
        if (!counts(&o, block)) continue;
        uint32_t wanted = wanted_by(&t->band[band], block);
        uint64_t needs = needs_behind(&o, block, wanted);
        bool added = traversal && traversal_adds(traversal, r, &o, block, word, needs);
        if (load_seq(&r->subscriber_words[slot]) != word) {
            if (added) traversal->count--;
            slot--; /* it has another owner meanwhile: look at it again */
        } else if (!added) {
            lower_floors(&o, wanted, needs);
        }
    }
    return o;
}

struct outlook outlook_of(struct rtmw_region *r, uint32_t topic, uint32_t band, enum look look)
{
    return outlook_beside(r, topic, band, look, NULL);
}

/* The newest `keep` messages, and those of the history, stay; expired ones go whatever stands in their way. */
uint32_t outlook_pass(struct rtmw_region *r, const struct outlook *o, uint64_t keep, struct passing *which)
{
    if (keep < o->history) keep = o->history;
    which->up_to = o->newest.sequence > keep ? o->newest.sequence - keep : 0;
    which->floor = o->floor;
    return queue_pass(r, &r->topics[o->topic].band[o->band], which);
}

static bool is_needed(const struct outlook *o, const struct descriptor *last, uint64_t now)
{
    return o->floor[offer_of(last)] < o->newest.sequence && !(now && is_expired(last, now));
}

/* A queue is never without its last message; but when nobody needs that, its block may go. Its state is read while it is
 * last, so that it is not another message by the time that it is emptied. NULL: it has to stay. `now`: see struct passing */
static struct descriptor *spare_last(struct rtmw_region *r, const struct outlook *o, uint64_t now, uint64_t *state)
{
    struct band *band = &r->topics[o->topic].band[o->band];
    uint64_t tail = load_seq(&band->tail);
    struct descriptor *last = descriptor_at(r, link_index(tail));
    if (!last || o->history || !load_relaxed(&last->block_granules)) return NULL;
    *state = load_seq(&last->state);
    if (link_tag(tail) != (o->newest.sequence & TAG_MASK) || is_needed(o, last, now)) return NULL;
    return load_seq(&band->tail) == tail ? last : NULL;
}

bool outlook_empty_last(struct rtmw_region *r, const struct outlook *o, uint64_t now)
{
    uint64_t state;
    struct descriptor *last = o->kept == 1 ? spare_last(r, o, now, &state) : NULL;
    return last && descriptor_empty(r, last, state, NIL);
}

/* So that a stream of large messages that are read at once goes through one block, which stays in the cache. Messages
 * before the last one are passed over first, if nobody needs them: `place` counts an emptied message while it is behind
 * head's. */
uint32_t inherit_last(struct rtmw_publisher *p, uint32_t band, uint64_t size)
{
    uint64_t state;
    struct outlook o = outlook_of(p->region, p->topic_index, band, LOOK_UNNEEDED);
    struct passing which = {.granules = UINT64_MAX, .most = TRIM_MOST};
    if (o.kept > 1 && outlook_pass(p->region, &o, 1, &which) < o.kept - 1) return NIL;
    struct descriptor *last = spare_last(p->region, &o, 0, &state);
    return last ? descriptor_inherit(p->region, last, state, size, band) : NIL;
}

/* By how many messages a queue grows at least before somebody asks again. Few where they have blocks: what is passed sooner is
 * written anew sooner, while it lies in the cache. */
static uint64_t leeway_for(uint64_t size) { return size <= IN_PLACE ? READ_LEEWAY : size <= PAGE ? LEEWAY / 8 : 1; }

/* Has each subscriber come to this sequence of the band? Then nobody needs what is up to it. Other than an outlook this
 * reads one line of each subscriber and none of a message. A slot that gets another owner meanwhile does no harm: its last
 * owner needs nothing any more, and the new one is not counted on before it is ACTIVE. */
static bool all_have_read(struct rtmw_publisher *p, uint32_t band, uint64_t sequence)
{
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(p->region, p->topic_index, &slot)); slot++)
        if (sequence_near(link_tag(load_seq(&block->cursor[band])), sequence) < sequence) return false;
    return true;
}

/* Passing over 32 small messages takes several times as long as a publish. So it is done 8 at a time where each message is read
 * before the next one comes. Where a subscriber is behind, messages come in a stream, and 32 at a time cost less. */
static bool is_early(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint64_t keep, uint64_t step)
{
    if (step != READ_LEEWAY || length >= keep + LEEWAY) return false;
    return !all_have_read(p, band, TAG_MASK + 1 + link_tag(load_relaxed(&p->topic->band[band].tail)));
}

/* The lines of the oldest message, which the subscribers wrote last, and of head: asked for together, before they are needed
 * one after the other. */
static void fetch_oldest(struct rtmw_region *r, struct band *band)
{
    struct descriptor *d = descriptor_at(r, link_index(load_relaxed(&band->head)));
    prefetch_to_write(band);
    if (d) prefetch_to_write(d);
}

/* How many of those before the newest `keep`. Mostly all have read them; else it is seen who needs which. */
static uint32_t pass_unneeded(struct rtmw_publisher *p, uint32_t band, uint64_t keep)
{
    uint64_t tail = link_tag(load_seq(&p->topic->band[band].tail));
    uint64_t history = load_relaxed(&p->topic->history); /* after tail: it is promised before it is published */
    uint64_t up_to = TAG_MASK + 1 + tail - (keep > history ? keep : history); /* above all tags: none is below 0 */
    if (all_have_read(p, band, up_to)) return queue_evict(p->region, &p->topic->band[band], up_to, TRIM_MOST);
    enum look look = is_pressed(p, band) ? LOOK_SPARE : LOOK_UNNEEDED;
    struct outlook o = outlook_of(p->region, p->topic_index, band, look);
    struct passing which = {.granules = UINT64_MAX, .most = TRIM_MOST};
    return outlook_pass(p->region, &o, keep, &which);
}

/* Something of another queue goes, as it would where there is no descriptor left. */
static bool others_give_way(struct rtmw_publisher *p, uint32_t band)
{
    p->region->short_of_pages = false;
    struct search search = search_begin(p, band, 0);
    return make_room(&search);
}

/* How far a queue may grow before a publisher asks again; 0: it may not. A queue that keeps descriptors for nothing
 * leaves the last eighth of them to others, unless something else may go. One that holds few may always grow. */
static uint64_t growth_of(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint64_t step)
{
    uint64_t few = p->region->header->descriptors / 32 + 1, grow = length / 4 < step ? step : length / 4;
    if (length < few || !descriptors_are_low(p->region, band)) return grow < few ? grow : few;
    uint32_t room = room_when_low(p, band);
    return room ? room : others_give_way(p, band);
}

static void ask_again_at(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint32_t epoch)
{
    p->trim_at[band] = length;
    p->trim_epoch = epoch;
}

__attribute__((noinline)) static bool trim_long(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint64_t keep,
                                                uint64_t step)
{
    uint32_t epoch = load_relaxed(&p->topic->epoch);
    if (epoch == p->trim_epoch && length < p->trim_at[band]) return true;
    if (is_early(p, band, length, keep, step)) return ask_again_at(p, band, keep + LEEWAY, epoch), true;
    fetch_oldest(p->region, &p->topic->band[band]);
    uint32_t passed = pass_unneeded(p, band, keep);
    uint64_t grow = passed ? 0 : growth_of(p, band, length, step);
    ask_again_at(p, band, grow ? length + grow : 0, epoch);
    return passed || grow;
}

bool queue_trim(struct rtmw_publisher *p, uint32_t band, uint64_t size)
{
    struct band *b = &p->topic->band[band];
    uint64_t tail = link_tag(load_relaxed(&b->tail)), head = link_tag(load_relaxed(&b->head));
    uint64_t length = (tail - head) & TAG_MASK, keep = size > IN_PLACE ? 1 : p->qos.depth, step = leeway_for(size);
    return __builtin_expect(length < keep + step, 1) || trim_long(p, band, length, keep, step);
}

/* ======== abandoned ======== */

/* Messages that `history` keeps on a topic without a publisher: they give way when memory runs short, and on request.
 *
 *   origin ──┐ raised: late subscribers do not get what is up to here, and history does not keep it
 *            ▼
 *   D ─► D ─► D ─► D ◄─ tail          queue, cursors and counts stay as they are
 *
 * A message is forgotten by raising `origin` of its band to its sequence. It is then a message like any other: it stays
 * for those that have it unread, and gives way when it is spare. `origin` only grows, so to forget twice, or late, does
 * no harm. A forgotten message was published before nobody published: the evictor reads its sequence first, and then
 * sees that no publisher's slot names the topic. What a publisher that opens later promises to keep is newer.
 *
 * Those that have all read give way first of all that is not spare, to publishers of the same or a higher priority;
 * those that a subscriber has unread, which is not RELIABLE, give way last. In both cases the oldest message goes first.
 * A list of the oldest is made in one pass over at most PASS_TOPICS topics, and serves the next evictions. After a pass
 * that found nothing the next one waits until a publisher that kept history is gone, or AGAIN_NS are over.
 */

enum { PASS_TOPICS = 1024, TALLY_TOPICS = 256, AGAIN_NS = 10000000 };

static void raise_origin(struct band *band, uint64_t least)
{
    for (uint64_t seen = load_seq(&band->origin); seen < least && !cas64(&band->origin, seen, least);)
        seen = load_seq(&band->origin);
}

static void forget_up_to(struct rtmw_region *r, uint32_t topic, uint32_t band, uint64_t sequence)
{
    raise_origin(&r->topics[topic].band[band], sequence);
    evictable_mark(r, topic, band);
}

/* ---- the oldest ---- */

static bool has_something(struct rtmw_region *r, const struct outlook *o, uint32_t last)
{
    if (!r->short_of_pages) return o->kept > 1;
    if (((o->newest.granules - o->passed.granules) & PLACE_GRANULES_MASK) == 0) return false;
    return o->kept > 1 || !descriptor_is_held(&r->descriptors[last]); /* of the last message only the block can go */
}

/* The oldest message of a band, if history keeps it and it may go to a publisher of this priority. */
static bool kept_oldest(struct search *s, uint32_t topic, uint32_t band, enum look look, struct glimpse *oldest,
                        struct outlook *o)
{
    struct rtmw_region *r = s->publisher->region;
    *o = outlook_begin(r, topic, band, look);
    if (!o->history || !o->kept || o->kept > o->history) return false;
    if (!glimpse_first(r, &r->topics[topic].band[band], s->now, oldest)) return false;
    if (!has_something(r, o, oldest->index) || (band > s->band && !oldest->expired)) return false;
    *o = outlook_of(r, topic, band, look);
    return o->kept && o->kept <= o->history && (oldest->expired || oldest->sequence <= o->floor[oldest->offer]);
}

/* Sorted, oldest first; what does not fit is younger than all that is listed. */
static void list_insert(struct abandoned *list, struct kept_message message)
{
    uint32_t at = list->count < LISTED ? list->count++ : LISTED;
    if (at == LISTED && message.published_ns < list->horizon_ns) list->horizon_ns = message.published_ns;
    if (at == LISTED && message.published_ns >= list->oldest[LISTED - 1].published_ns) return;
    if (at == LISTED) list->horizon_ns = list->oldest[--at].published_ns;
    for (; at > 0 && message.published_ns < list->oldest[at - 1].published_ns; at--)
        list->oldest[at] = list->oldest[at - 1];
    list->oldest[at] = message;
}

static void list_topic(struct search *s, struct abandoned *list, uint32_t topic, enum look look)
{
    struct topic *t = &s->publisher->region->topics[topic];
    uint32_t bands = load_seq(&t->bands);
    struct glimpse oldest;
    struct outlook o;
    for (uint32_t band = 0; band < BANDS; band++)
        if ((bands & (1u << band)) && kept_oldest(s, topic, band, look, &oldest, &o))
            list_insert(list, (struct kept_message){oldest.published_ns, topic, band});
}

static bool list_make(struct search *s, struct abandoned *list, enum look look)
{
    struct rtmw_region *r = s->publisher->region;
    uint32_t gone = load_seq(&r->hints->abandoned), topics = load_seq(&r->hints->topics_top);
    bool is_vain = gone == list->gone && s->now - list->made_ns < AGAIN_NS && list->was_vain;
    if (!gone || is_vain) return false;
    if (topics > r->header->topics) topics = r->header->topics;
    struct marks published;
    mark_published(r, &published);
    *list = (struct abandoned){.horizon_ns = UINT64_MAX, .made_ns = s->now, .gone = gone, .scan = list->scan};
    list->of_pages = r->short_of_pages;
    for (uint32_t looked = 0; looked < topics && looked < PASS_TOPICS; looked++) {
        uint32_t topic = list->scan++ % topics;
        if (load_relaxed(&r->topics[topic].history) && !is_marked(&published, topic)) list_topic(s, list, topic, look);
    }
    list->was_vain = !list->count;
    return list->count > 0;
}

/* ---- giving way ---- */

/* The look at publishers comes after the look at the message: see above. */
static bool oldest_gives_way(struct search *s, struct kept_message at, enum look look)
{
    struct rtmw_region *r = s->publisher->region;
    struct glimpse oldest;
    struct outlook o;
    if (!kept_oldest(s, at.topic, at.band, look, &oldest, &o) || oldest.published_ns != at.published_ns) return false;
    if (is_published(r, at.topic)) return false;
    forget_up_to(r, at.topic, at.band, oldest.sequence);
    o.history = o.kept - 1;
    struct passing which = {.now = s->now, .granules = UINT64_MAX, .most = 1};
    bool gave = outlook_pass(r, &o, 1, &which) || outlook_empty_last(r, &o, s->now);
    if (gave && r->short_of_pages) stash_flush(r);
    return gave;
}

/* The next message of a queue that has given way belongs into the list, unless one that is not listed may be older. */
static void list_follow(struct search *s, struct abandoned *list, struct kept_message at, enum look look)
{
    struct glimpse oldest;
    struct outlook o;
    if (!kept_oldest(s, at.topic, at.band, look, &oldest, &o) || oldest.published_ns > list->horizon_ns) return;
    list_insert(list, (struct kept_message){oldest.published_ns, at.topic, at.band});
}

static bool list_gives(struct search *s, struct abandoned *list, enum look look)
{
    while (list->count && s->looks-- > 0) {
        struct kept_message first = list->oldest[0];
        list->count--;
        for (uint32_t i = 0; i < list->count; i++) list->oldest[i] = list->oldest[i + 1];
        if (!oldest_gives_way(s, first, look)) continue;
        list_follow(s, list, first, look);
        return true;
    }
    return false;
}

/* What is listed already; then, once, what a new pass finds. */
bool abandoned_gives(struct search *s, enum look look)
{
    struct rtmw_region *r = s->publisher->region;
    struct abandoned *list = &r->abandoned[look == LOOK_UNREAD][s->band];
    if (list->of_pages != r->short_of_pages) list->count = list->was_vain = 0;
    return list_gives(s, list, look) || (!list->count && list_make(s, list, look) && list_gives(s, list, look));
}

/* ---- who is in the way ---- */

static void tally_band(struct rtmw_region *r, uint32_t topic, uint32_t band, struct tally *tally)
{
    struct outlook o = outlook_begin(r, topic, band, LOOK_UNREAD);
    uint64_t granules = (o.newest.granules - o.passed.granules) & PLACE_GRANULES_MASK;
    uint64_t held = r->short_of_pages ? granules : o.kept;
    if (o.history && o.kept <= o.history)
        tally->history += held;
    else if (o.offered)
        tally->unread += held;
}

/* A part of a round. Until the first one has ended, what it has seen is what is known. */
static void tally_some(struct rtmw_region *r, struct known_tally *known)
{
    uint32_t topics = load_seq(&r->hints->topics_top), looked = 0;
    if (topics > r->header->topics) topics = r->header->topics;
    if (!known->scan) known->sum = (struct tally){0};
    for (; known->scan < topics && looked < TALLY_TOPICS; looked++, known->scan++)
        for (uint32_t bands = load_seq(&r->topics[known->scan].bands) & ((1u << BANDS) - 1); bands; bands &= bands - 1)
            tally_band(r, known->scan, (uint32_t)__builtin_ctz(bands), &known->sum);
    bool is_over = known->scan >= topics;
    if (is_over || !known->at_ns) known->history_holds = known->sum.history > known->sum.unread;
    if (!is_over) return;
    known->scan = 0;
    known->at_ns = monotonic_ns();
}

bool history_is_in_the_way(struct rtmw_region *r)
{
    uint64_t now = monotonic_ns();
    lock_take(&r->lock);
    if (r->tally.scan || now - r->tally.at_ns >= AGAIN_NS) tally_some(r, &r->tally);
    bool holds = r->tally.history_holds;
    lock_give(&r->lock);
    return holds;
}

/* ---- on request ---- */

/* Messages that a late subscriber would have got. The sequences are read while the topic has this life, and looked at
 * before the publishers; so nothing of a later publisher, or of another topic in this slot, is forgotten. */
static uint64_t forget_bands(struct rtmw_region *r, uint64_t life, bool alone)
{
    uint32_t topic = link_index(life), bands = load_seq(&r->topics[topic].bands);
    uint64_t last[BANDS], kept = 0;
    for (uint32_t b = 0; b < BANDS; b++) last[b] = band_last_sequence(r, &r->topics[topic].band[b]);
    if (topic_life(r, topic) != life || (alone && is_published(r, topic))) return 0;
    for (uint32_t b = 0; b < BANDS; b++) {
        uint64_t start = band_start(&r->topics[topic].band[b], last[b]);
        if (!(bands & (1u << b)) || start >= last[b]) continue;
        kept += last[b] - start;
        forget_up_to(r, topic, b, last[b]);
    }
    return kept;
}

/* What all have read goes at once; the rest when it is read, or memory is short. */
static void drop_spare(struct rtmw_region *r, uint32_t topic)
{
    struct passing which = {.now = monotonic_ns(), .granules = UINT64_MAX, .most = TRIM_MOST};
    for (uint32_t b = 0; b < BANDS; b++) {
        struct outlook o = outlook_of(r, topic, b, LOOK_UNNEEDED);
        for (uint64_t left = o.kept; left > 0 && outlook_pass(r, &o, 1, &which); left--) {}
        o = outlook_of(r, topic, b, LOOK_UNNEEDED);
        outlook_empty_last(r, &o, which.now);
    }
    stash_flush(r);
}

uint64_t topic_forget(struct rtmw_region *r, uint64_t life, bool alone)
{
    uint64_t kept = forget_bands(r, life, alone);
    if (kept) drop_spare(r, link_index(life));
    return kept;
}

/* ======== eviction ======== */

/* Messages that give way when descriptors or pages run short, over all topics (requirements P2, P3, P5).
 *
 *   1  passed messages whose memory nobody has used again
 *   2  what is spare: expired, read by all, or beyond the depth of the subscribers that have not; of any band
 *   3  what `history` keeps on topics without a publisher, of the publisher's band and below: the oldest (abandoned)
 *   4  unread messages that no RELIABLE pair needs: of lower bands than the publisher's, the lowest first; then of its
 *      own band, where a topic holds more than the publisher's
 *   5  as 3, what a subscriber has unread that is not RELIABLE
 *   6  blocks of such messages behind one that is needed (within.c)
 *
 * In each band the topic that holds most of what is short gives way, of up to eight that are looked at; its oldest go.
 * So no load of low priority keeps an urgent message out; and what RELIABLE subscribers need, which cannot go, is kept
 * out of the reserve (first_open in core.h) by those below.
 *
 * Topics are found through a bitmap a band: see hints, at the top.
 *
 * Each call looks at a bounded number of topics for what is spare, and at further ones for what is unread; the next call
 * goes on behind them. Some of these looks are for each band, so that no crowd in a lower one that has to stay hides what
 * may go in a higher one. The topic that gave way last is always among those that are looked at. A publisher above the
 * lowest band looks at more topics, as many as a call has time for: 50 microseconds in all.
 *
 * A large message needs many to give way, so its call has more looks, in as many turns. But the turn that frees nothing,
 * which is the last one, looks through each table at most once, however large the message is. A publisher that waits for
 * memory, or tries again and again, looks so far once in ten milliseconds; its calls in between look as far in a turn as
 * those for a small message.
 *
 * For what lies within queues topics are looked at in turn, and not by the bitmap: a topic that is pinned may have some.
 */

enum {
    CANDIDATES = 8,
    LOOK = 8, /* in units of a glance: at how much a band holds, and not at what its subscribers need */
    LOOKS = 48 * LOOK,
    LOOKS_URGENT = 128 * LOOK, /* of a publisher above the lowest band: 100 topics with a subscriber each, and more */
    SPARE_LOOKS = 24 * LOOK,
    LOOKS_A_PAGE = 8 * LOOK, /* of the message */
    LOOKS_A_BAND = 6 * LOOK,
    SPARE_LOOKS_A_BAND = 3 * LOOK,
    SUBSCRIBERS_A_GLANCE = 8,
    LOOKS_WITHIN = 32 * LOOK,
    UNREAD_MOST = 8,
    RELIEF_EVERY_NS = 1000000,
    RECLAIM_FOR = 4, /* pages of a message that are worth another look at stashes */
    RECLAIM_EVERY_NS = 1000000,
    RECLAIM_AGAIN_NS = 10000000, /* by a publisher that waits, and comes again and again */
    SWEEP_EVERY_NS = 10000000
};

/* ---- one band of a topic ---- */

static bool is_all_kept(const struct outlook *o) { return o->kept <= (o->history ? o->history : 1); }

/* Pages or descriptors, whichever are short, that a band holds and may have to give. */
static uint64_t share_of(const struct rtmw_region *r, const struct outlook *o)
{
    if (r->short_of_pages) return (o->newest.granules - o->passed.granules) & PLACE_GRANULES_MASK;
    return is_all_kept(o) ? 0 : o->kept;
}

/* The last message of a queue stays, but its block may be taken from it. */
static bool has_block_to_give(struct rtmw_region *r, const struct outlook *o, const struct glimpse *last)
{
    return o->kept == 1 && !o->history && load_relaxed(&r->descriptors[last->index].block_granules);
}

/* The holder of the last message tells nobody when it lets go: so that message is looked at again. */
static bool may_be_emptied(struct rtmw_region *r, const struct outlook *o, const struct glimpse *last)
{
    return has_block_to_give(r, o, last) && !descriptor_is_held(&r->descriptors[last->index]);
}

static bool oldest_may_go(struct rtmw_region *r, const struct outlook *o, const struct glimpse *oldest)
{
    if (is_all_kept(o) && !(r->short_of_pages && may_be_emptied(r, o, oldest))) return false;
    return oldest->expired || oldest->sequence <= o->floor[oldest->offer];
}

/* Nothing of it may go before something changes, whoever asks. */
static bool nothing_may_go(struct rtmw_region *r, const struct outlook *o, const struct glimpse *oldest)
{
    if (is_all_kept(o)) return !has_block_to_give(r, o, oldest);
    return o->look == LOOK_UNREAD && !oldest->expires && oldest->sequence > o->floor[oldest->offer];
}

/* true: something of it may go. Else it is not looked at again before something has changed, or time passes. */
static bool may_give_way(struct rtmw_region *r, const struct outlook *o, uint64_t now)
{
    struct glimpse oldest;
    if (!glimpse_first(r, &r->topics[o->topic].band[o->band], now, &oldest)) return false;
    if (oldest_may_go(r, o, &oldest)) return true;
    if (!nothing_may_go(r, o, &oldest)) return false;
    fetch_or(&r->topics[o->topic].pinned, 1u << o->band);
    bitmap_clear(evictable_map(r, o->band), o->topic);
    fetch_and(&r->topics[o->topic].evictable, ~(1u << o->band));
    struct outlook again = outlook_of(r, o->topic, o->band, LOOK_UNREAD);
    bool found = glimpse_first(r, &r->topics[o->topic].band[o->band], now, &oldest);
    if (found && !nothing_may_go(r, &again, &oldest)) evictable_mark(r, o->topic, o->band);
    return false;
}

/* ---- the search ---- */

/* In the band of the message itself only what another topic has more of gives way, so that equals leave each other alone. */
static bool is_fair(const struct search *s, const struct outlook *o, uint64_t share)
{
    if (o->look != LOOK_UNREAD || o->band < s->band || o->topic == s->publisher->topic_index) return true;
    return share > s->own + s->need;
}

static int64_t *looks_for(struct search *s, enum look look)
{
    return look == LOOK_UNREAD ? &s->looks : &s->spare_looks;
}

/* Takes away the looks beyond `most`, to be given back later. */
static int64_t set_aside(int64_t *looks, int64_t most)
{
    int64_t aside = *looks > most ? *looks - most : 0;
    *looks -= aside;
    return aside;
}

static void consider(struct search *s, uint32_t topic, uint32_t band, enum look look, struct victim *best)
{
    struct rtmw_region *r = s->publisher->region;
    if (best->share && best->outlook.topic == topic) return;
    struct outlook o = outlook_begin(r, topic, band, look);
    uint64_t share = share_of(r, &o);
    bool is_most = share > best->share && is_fair(s, &o, share), is_kept = !share && is_all_kept(&o);
    *looks_for(s, look) -= 1;
    if (!is_most && share > best->next) best->next = share;
    if (!is_most && !is_kept) return;
    if (is_most) o = outlook_of(r, topic, band, look);
    *looks_for(s, look) -= LOOK + o.subscribers / SUBSCRIBERS_A_GLANCE;
    bool gives = may_give_way(r, &o, s->now); /* one that keeps all it has is not named any more */
    if (gives && is_most) *best = (struct victim){o, share, best->share};
}

/* The topic that gave way last, and the next ones of the bitmap, from where the last search ended on; the one that holds
 * most. */
static struct victim choose(struct search *s, uint32_t band, enum look look)
{
    struct rtmw_region *r = s->publisher->region;
    uint32_t *hand = &r->evict_scan[look == LOOK_UNREAD][band];
    uint32_t topics = r->header->topics, start = *hand < topics ? *hand : 0;
    uint32_t from[] = {start, 0}, end[] = {topics, start}, looked = 0;
    struct victim best = {.share = 0};
    uint32_t own = look == LOOK_UNREAD && band == s->band ? s->publisher->topic_index : topics;
    uint32_t last = r->evicted_last[look == LOOK_UNREAD][band];
    if (own < topics) consider(s, own, band, look, &best);
    if (last != own) consider(s, last, band, look, &best);
    for (int part = 0; part < 2; part++)
        for (uint64_t topic = from[part]; *looks_for(s, look) > 0; topic++) {
            topic = bitmap_next(evictable_map(r, band), topic, end[part]);
            if (topic == BITMAP_END) break;
            if (looked++ >= CANDIDATES && best.share) return best;
            consider(s, (uint32_t)topic, band, look, &best);
            *hand = (uint32_t)topic + 1;
        }
    return best;
}

/* The same, with at most so many looks. */
static struct victim choose_within(struct search *s, uint32_t band, enum look look, int64_t looks)
{
    int64_t aside = set_aside(looks_for(s, look), looks);
    struct victim victim = choose(s, band, look);
    *looks_for(s, look) += aside;
    return victim;
}

static bool give_way(struct search *s, const struct outlook *o)
{
    struct rtmw_region *r = s->publisher->region;
    struct passing which = {.now = s->now, .most = o->look == LOOK_UNREAD ? UNREAD_MOST : TRIM_MOST};
    which.granules = r->short_of_pages ? s->need : UINT64_MAX;
    if (!outlook_pass(r, o, 1, &which) && !outlook_empty_last(r, o, s->now)) return false;
    if (r->short_of_pages) stash_flush(r);
    return true;
}

/* The band that gave way last in this call does so again, while it holds about as much as the next one: its subscribers
 * are asked once. They only move forward, so an old answer errs on the side of keeping. */
static bool gives_more(struct search *s, struct victim *v)
{
    if (!v->share) return false;
    struct outlook now = outlook_begin(s->publisher->region, v->outlook.topic, v->outlook.band, v->outlook.look);
    uint64_t share = share_of(s->publisher->region, &now);
    bool gives = share >= v->next - v->next / 8 && is_fair(s, &now, share) && give_way(s, &v->outlook);
    if (!gives) v->share = 0;
    return gives;
}

static bool band_gives(struct search *s, uint32_t band, enum look look, int64_t looks, struct victim *victim)
{
    *victim = choose_within(s, band, look, looks);
    if (victim->share && !give_way(s, &victim->outlook)) victim->share = 0;
    if (victim->share) s->publisher->region->evicted_last[look == LOOK_UNREAD][band] = victim->outlook.topic;
    return victim->share > 0;
}

/* The lowest band first; some looks for each, and then all that are left. */
static bool search_bands(struct search *s, uint32_t highest, enum look look, struct victim *victim)
{
    int64_t looks[] = {look == LOOK_UNREAD ? LOOKS_A_BAND : SPARE_LOOKS_A_BAND, INT64_MAX};
    if (gives_more(s, victim)) return true;
    for (int round = 0; round < 2; round++)
        for (uint32_t band = 0; band <= highest && *looks_for(s, look) > 0; band++)
            if (band_gives(s, band, look, looks[round], victim)) return true;
    return false;
}

/* ---- within queues ---- */

/* The messages of a band that may go: unread ones, where those at its head may; else what is spare. */
static enum look look_within(struct search *s, struct outlook *o)
{
    o->look = LOOK_UNREAD;
    return o->band <= s->band && is_fair(s, o, share_of(s->publisher->region, o)) ? LOOK_UNREAD : LOOK_SPARE;
}

static bool band_gives_within(struct search *s, uint32_t topic, uint32_t band)
{
    struct rtmw_region *r = s->publisher->region;
    struct outlook o = outlook_begin(r, topic, band, LOOK_SPARE);
    s->looks_within--;
    if (is_all_kept(&o) || !share_of(r, &o)) return false;
    o.look = look_within(s, &o);
    return empty_within(s, &o);
}

/* The publisher's own queue is not among the others. */
static bool is_others_turn(const struct search *s, uint32_t bands)
{
    const struct within *at = &s->publisher->region->within;
    return (bands & (1u << at->band)) && (at->topic != s->publisher->topic_index || at->band != s->band);
}

/* From the band at the hand on; that stays where something gave way, and where the looks are used up. */
static bool topic_gives_within(struct search *s)
{
    struct rtmw_region *r = s->publisher->region;
    struct within *at = &r->within;
    uint32_t bands = load_seq(&r->topics[at->topic].bands);
    s->looks_within--;
    for (; at->band < BANDS; at->band++) {
        if (is_others_turn(s, bands) && band_gives_within(s, at->topic, at->band)) return true;
        if (s->looks_within <= 0) return false;
    }
    return false;
}

/* Those of the other queues in turn. */
static bool others_give_within(struct search *s)
{
    struct rtmw_region *r = s->publisher->region;
    struct within *at = &r->within;
    uint32_t topics = load_seq(&r->hints->topics_top);
    if (topics > r->header->topics) topics = r->header->topics;
    for (uint32_t looked = 0; looked <= topics && s->looks_within > 0; looked++) {
        if (at->topic >= topics) at->topic = at->band = 0;
        if (topic_gives_within(s)) return true;
        if (s->looks_within <= 0) break;
        at->topic++;
        at->band = 0;
    }
    return false;
}

static bool own_gives_within(struct search *s)
{
    return s->looks_within > 0 && band_gives_within(s, s->publisher->topic_index, s->band);
}

/* The publisher's own queue, in which the last call may have ended; then the others; then what has come to the own one since.
 * Where the traversal of its own has come to the end and found nothing, the others are first in the next call: it would begin
 * anew, and may use up all looks. */
static bool search_within(struct search *s)
{
    struct within *at = &s->publisher->region->within;
    bool others_first = at->others_first;
    if (!s->publisher->region->short_of_pages || s->looks_within <= 0) return false;
    at->others_first = false;
    if (others_first && others_give_within(s)) return true;
    at->came_to_end = false;
    if (own_gives_within(s)) return true;
    at->others_first = at->came_to_end;
    return others_give_within(s) || own_gives_within(s);
}

static uint64_t less_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* For so many pages of its message a call looks further than for a small one. */
static uint64_t pages_looked_for(rtmw_publisher *p, uint64_t size, uint64_t now)
{
    bool comes_again = now - load_relaxed(&p->waited_ns) < RECLAIM_EVERY_NS;
    if (size < PAGE || (comes_again && now - p->reclaimed_ns < RECLAIM_AGAIN_NS)) return 0;
    p->reclaimed_ns = now;
    return size / PAGE;
}

/* All looks of a call, and how many of them one turn may use: so that it looks through each table once at most. */
static void allow_looks(struct search *s, uint64_t size)
{
    const struct rtmw_region *r = s->publisher->region;
    uint64_t topics = less_of(load_seq(&r->hints->topics_top), r->header->topics), descriptors = r->header->descriptors;
    uint64_t pages = pages_looked_for(s->publisher, size, s->now), base = s->band ? LOOKS_URGENT : LOOKS;
    s->looks = (int64_t)(base + LOOKS_A_PAGE * (size / PAGE));
    s->spare_looks = (int64_t)(SPARE_LOOKS + LOOKS_A_PAGE * (size / PAGE));
    s->looks_within = (int64_t)(LOOKS_WITHIN + LOOKS_A_PAGE * (size / PAGE));
    s->turn_looks = (int64_t)(base + LOOKS_A_PAGE * less_of(pages, topics));
    s->turn_within = (int64_t)(LOOKS_WITHIN + less_of(LOOKS_A_PAGE * pages, LOOKS_A_MESSAGE * descriptors));
    s->reclaims = 1 + less_of(pages / RECLAIM_FOR, descriptors / RECLAIM_LOOKED_AT);
}

struct search search_begin(rtmw_publisher *p, uint32_t band, uint64_t size)
{
    struct rtmw_region *r = p->region;
    struct search s = {.publisher = p, .band = band, .now = monotonic_ns(), .hinted = true};
    struct outlook mine = outlook_begin(r, p->topic_index, band, LOOK_UNREAD);
    s.need = r->short_of_pages ? (size + GRANULE - 1) / GRANULE : 1;
    s.own = share_of(r, &mine);
    allow_looks(&s, size);
    return s;
}

/* As long as the call may. */
static bool reclaim_in_turn(struct search *s)
{
    bool found = false;
    while (!found && s->reclaims > 0) {
        s->reclaims--;
        found = reclaim_stashed(s->publisher->region) > 0;
    }
    return found;
}

/* As long as there are any in this call. */
static bool reclaim_what_is_hinted(struct search *s)
{
    s->hinted = s->hinted && reclaim_hinted(s->publisher->region) > 0;
    return s->hinted;
}

bool make_spare_room(struct search *s) { return search_bands(s, BANDS - 1, LOOK_SPARE, &s->spare); }

static bool try_all(struct search *s)
{
    struct rtmw_region *r = s->publisher->region;
    if (reclaim_what_is_hinted(s) || sweep_if_due(r, SWEEP_EVERY_NS)) return true;
    if (s->now - r->reclaimed_ns >= RECLAIM_EVERY_NS && reclaim_in_turn(s)) return true;
    if (make_spare_room(s) || abandoned_gives(s, LOOK_SPARE)) return true;
    if (search_bands(s, s->band, LOOK_UNREAD, &s->unread) || abandoned_gives(s, LOOK_UNREAD)) return true;
    return reclaim_in_turn(s) || search_within(s);
}

/* After descriptor_claim found nothing. true: try again. */
bool make_room(struct search *s)
{
    if (s->looks <= 0) return false;
    s->looks -= LOOK;
    int64_t looks = set_aside(&s->looks, s->turn_looks), spare_looks = set_aside(&s->spare_looks, s->turn_looks);
    int64_t looks_within = set_aside(&s->looks_within, s->turn_within);
    bool gave = try_all(s);
    s->looks += looks;
    s->spare_looks += spare_looks;
    s->looks_within += looks_within;
    return gave;
}

/* Memory is low: before this topic keeps less than it could, one that holds more lets go of what is spare. */
static bool relieve(rtmw_publisher *p, uint32_t band)
{
    struct rtmw_region *r = p->region;
    r->short_of_pages = !descriptors_are_low(r, band);
    struct search s = search_begin(p, band, 0);
    struct victim most = {.share = s.own};
    for (uint32_t b = 0; b < BANDS && s.spare_looks > 0; b++) {
        struct victim victim = choose_within(&s, b, LOOK_SPARE, LOOKS_A_BAND);
        if (victim.share > most.share && victim.outlook.topic != p->topic_index) most = victim;
    }
    s.need = UINT64_MAX;
    return most.share > s.own && give_way(&s, &most.outlook);
}

bool is_pressed(rtmw_publisher *p, uint32_t band)
{
    struct rtmw_region *r = p->region;
    if (!pool_is_low(r, band)) return false;
    uint64_t now = monotonic_ns();
    if (now - p->relieved_ns >= RELIEF_EVERY_NS) {
        p->relieved_ns = now;
        p->relieved = reclaim_hinted(r) > 0 || relieve(p, band);
    }
    return !p->relieved;
}
