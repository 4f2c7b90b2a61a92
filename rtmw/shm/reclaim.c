/* Messages give way to others: which ones, and in which order (requirements P2, P3, P5).
 *
 *   retention   what a topic keeps for its subscribers, and for late ones
 *   abandoned   what history keeps where nobody publishes any more
 *   eviction    what gives way over all topics when descriptors or pages run short
 *   within      what gives way within a queue, behind a message that is needed
 *   thinning    what the min_interval of a subscriber will leave out
 *
 * Callers rely on this: nothing that a RELIABLE subscriber needs is taken, whoever dies meanwhile. The lock is held in all of it.
 * Which topics have messages that may go: the hints of queue.c.
 */
#include "reclaim.h"
#include "bitmap.h"

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

enum { PASS_TOPICS = 1024 };

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
 *   6  blocks of such messages behind one that is needed (within)
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

/* ======== within ======== */

/* Memory that gives way within a queue: blocks of messages behind one that is needed (requirement P5).
 *
 *   head                                                              tail
 *    ▼                                                                 ▼
 *    D needed ──► D needed ──► D expired ──► D thinned ──► D flood ──► D last
 *    by a RELIABLE subscriber  └─ these become EMPTIED: they stay in
 *    that stands still            the queue, their blocks are given back
 *
 * Eviction moves head, so it ends at the oldest message that a RELIABLE subscriber needs. When nothing else gives way, the
 * queues are traversed. A message may go if no subscriber needs it: it has expired, or nobody behind it asks for its type and
 * reliability, or it comes sooner than the min_interval of those who do. Descriptors stay, since a link cannot be taken out
 * of the middle of a queue; so messages without a block give nothing.
 *
 * A message is emptied as the last one is (finish_emptying): the evictor says EMPTIED, then looks for holders; a reader
 * holds, then looks at the state. One of the two sees the other. Two cases need more:
 *   - A reader whose cursor is at a message that it gets holds that, and may not have looked at the state yet. So the
 *     evictor leaves alone what is held, and looks at the holders after it looked at the cursors.
 *   - A reader that comes to a message with a lifetime holds it, and then reads the clock. Either the evictor sees it
 *     hold, or the clock that it reads shows no earlier time than the evictor's: it finds the message expired too.
 *
 * The messages that the min_interval of a subscriber leaves out are foretold: see thinning.
 *
 * A traversal goes on where it ended in the call before, with what it has foretold. It begins anew when a subscriber with an
 * interval has moved otherwise than foretold, and now and then, for what has expired since.
 */

enum { LOOKS_A_TRAVERSAL = 8, ANEW_NS = 1000000, ANEW_NS_A_MESSAGE = 1000 };
enum { LOOKS_WHEN_LOW = 256, ROOM_WHEN_LOW = 32 /* messages */ };

/* ---- what its readers need ---- */

/* A subscriber that may need less than all of its offers behind a sequence. false: it is not added, and needs all of them. */
bool traversal_adds(struct traversal *traversal, struct rtmw_region *r, const struct outlook *o,
                    struct subscriber_block *block, uint64_t word, uint64_t needs)
{
    uint64_t offers = load_relaxed(&r->topics[o->topic].band[o->band].offers);
    struct reader reader = {.word = word, .behind = needs, .type = load_relaxed(&block->type)};
    reader.reliability = load_relaxed(&block->reliability);
    reader.exact = load_relaxed(&block->exact);
    if (o->offered && reader.reliability == RTMW_RELIABLE) reader.interval = load_relaxed(&block->min_interval_ns);
    bool is_counted_together =
        offer_at(offers, OFFERS - 1) != 0; /* some of its messages may be, so offers do not tell */
    if (traversal->count == READERS || (!reader.interval && !is_counted_together)) return false;
    if (reader.interval) reader_foresees(&reader, r, traversal, block);
    traversal->reader[traversal->count++] = reader;
    return true;
}

/* Each reader that was added is asked: they foretell. */
static bool somebody_needs(const struct outlook *o, struct traversal *traversal, const struct glimpse *g)
{
    bool needed = !g->expired && g->sequence > o->floor[g->offer];
    for (uint32_t i = 0; i < traversal->count; i++) needed |= reader_needs(&traversal->reader[i], g);
    return needed;
}

/* ---- the traversal ---- */

/* The traversal of this band, or the one that is given up for it. */
static struct traversal *traversal_of(struct rtmw_region *r, const struct outlook *o)
{
    for (uint32_t i = 0; i < TRAVERSALS; i++) {
        struct traversal *traversal = &r->within.traversal[i];
        if (traversal->topic == o->topic && traversal->band == o->band && traversal->look == o->look) return traversal;
    }
    struct traversal *traversal = &r->within.traversal[r->within.turn++ % TRAVERSALS];
    *traversal = (struct traversal){.topic = o->topic, .band = o->band, .look = o->look};
    return traversal;
}

static bool is_same_guess(const struct reader *one, const struct reader *other)
{
    bool same = one->guesses == other->guesses;
    for (uint32_t i = 0; same && i < one->guesses; i++) same = one->began[i] == other->began[i];
    return same;
}

/* The forecast about it is true yet, or it has come past that. */
static bool reader_goes_on(struct reader *reader, const struct reader *now, const struct traversal *traversal)
{
    if (reader->word != now->word || reader->interval != now->interval) return false;
    bool is_past = traversal->stage == traversal->band && now->behind >= traversal->sequence && !now->above;
    if (!now->interval || is_past) return *reader = *now, true;
    if (!is_same_guess(reader, now)) return false;
    reader->behind = now->behind;
    reader->frozen |= now->frozen;
    return true;
}

/* Messages published in a higher band since the traversal left that are taken before the rest of this band: the forecast
 * about the readers that have them unread is a lower bound from here on. */
static void freeze_readers(struct traversal *traversal, const struct traversal *now)
{
    bool more = false;
    for (uint32_t band = traversal->band + 1; band < BANDS; band++)
        if (band > traversal->stage)
            more |= now->last[band] > traversal->last[band];
        else
            traversal->last[band] = now->last[band];
    for (uint32_t i = 0; more && i < traversal->count; i++) traversal->reader[i].frozen |= now->reader[i].above;
}

static bool traversal_goes_on(struct traversal *traversal, const struct traversal *now)
{
    bool same = traversal->begun && traversal->epoch == now->epoch && traversal->count == now->count;
    for (uint32_t i = 0; same && i < now->count; i++)
        same = reader_goes_on(&traversal->reader[i], &now->reader[i], traversal);
    if (same) freeze_readers(traversal, now);
    return same;
}

/* The next message of the stage, or the oldest. false: where it was is passed. */
static bool traversal_step(struct rtmw_region *r, const struct traversal *traversal, uint64_t now, struct glimpse *g)
{
    struct band *band = &r->topics[traversal->topic].band[traversal->stage];
    if (!traversal->sequence) return glimpse_first(r, band, now, g);
    g->index = traversal->index;
    g->sequence = traversal->sequence;
    return glimpse_again(r, band, now, g) && glimpse_next(r, band, now, g);
}

/* How many granules it gave back. The look at holders comes after those at cursors: see above. */
static uint64_t empty_one(struct rtmw_region *r, const struct glimpse *g)
{
    struct descriptor *d = &r->descriptors[g->index];
    uint64_t granules = load_relaxed(&d->block_granules);
    if (!granules || state_kind(g->state) != QUEUED || descriptor_is_held(d)) return 0;
    return descriptor_empty(r, d, g->state, NIL) ? granules : 0;
}

/* The stage is the next band in which a reader has something to take that a later one depends on, or the last. */
static void find_stage(struct traversal *traversal)
{
    for (; traversal->stage > traversal->band; traversal->stage--, traversal->sequence = 0) {
        uint64_t last = traversal->last[traversal->stage];
        bool unread = false;
        for (uint32_t i = 0; i < traversal->count; i++)
            unread |= traversal->reader[i].interval && traversal->reader[i].cursor[traversal->stage] < last;
        if (unread && traversal->sequence < last) return;
    }
}

static bool is_at_end(const struct traversal *traversal, uint64_t up_to)
{
    return traversal->begun && traversal->stage == traversal->band && traversal->sequence >= up_to;
}

/* Takes in the message to which the traversal has come; returns how many granules it gave back. */
static uint64_t come_to(struct search *s, const struct outlook *o, struct traversal *traversal, const struct glimpse *g)
{
    if (traversal->stage > traversal->band) {
        for (uint32_t i = 0; i < traversal->count; i++) reader_foretells(&traversal->reader[i], traversal->stage, g);
        return 0;
    }
    bool needed = somebody_needs(o, traversal, g);
    traversal->seen++;
    traversal->unneeded += !needed;
    return s->need && !needed ? empty_one(s->publisher->region, g) : 0;
}

/* Until enough is given back, or the looks are used up. Where nothing is needed, messages are only counted. */
static bool traverse(struct search *s, const struct outlook *o, struct traversal *traversal, uint64_t up_to)
{
    struct glimpse g;
    uint64_t given = 0;
    for (find_stage(traversal); !is_at_end(traversal, up_to); find_stage(traversal)) {
        if (!traversal->begun || s->looks_within <= 0 || (s->need && given >= s->need)) break;
        uint64_t end = traversal->stage == traversal->band ? up_to : traversal->last[traversal->stage];
        s->looks_within -= LOOKS_A_MESSAGE + traversal->count / LOOKS_A_TRAVERSAL;
        traversal->begun = traversal_step(s->publisher->region, traversal, s->now, &g) && g.sequence <= end;
        if (!traversal->begun) break;
        traversal->sequence = g.sequence;
        traversal->index = g.index;
        given += come_to(s, o, traversal, &g);
    }
    return given > 0;
}

/* Before its subscribers are asked: what came later is younger than what is traversed. */
static void look_at_bands(struct rtmw_region *r, const struct outlook *o, struct traversal *now)
{
    struct topic *t = &r->topics[o->topic];
    now->epoch = load_seq(&t->epoch);
    for (uint32_t bands = load_seq(&t->bands), band = 0; band < BANDS; band++)
        if (bands & (1u << band)) now->last[band] = band_last_sequence(r, &t->band[band]);
}

/* The traversal of this band goes on, or begins anew unless it is too early for that. */
static struct traversal *traverse_on(struct search *s, const struct outlook *o, uint64_t up_to, bool *gave)
{
    struct rtmw_region *r = s->publisher->region;
    struct traversal *traversal = traversal_of(r, o),
                     now = {.topic = o->topic, .band = o->band, .look = o->look, .began_ns = s->now};
    if (is_at_end(traversal, up_to)) {
        if (s->now - traversal->began_ns < ANEW_NS + o->kept * ANEW_NS_A_MESSAGE) return traversal;
        traversal->begun = false;
    }
    look_at_bands(r, o, &now);
    now.begun = true;
    now.stage = BANDS - 1;
    now.clogged = traversal->clogged;
    now.end = traversal->end;
    struct outlook asked = outlook_beside(r, o->topic, o->band, o->look, &now);
    s->looks_within -= LOOKS_A_TRAVERSAL + asked.subscribers / LOOKS_A_TRAVERSAL;
    if (!traversal_goes_on(traversal, &now)) *traversal = now;
    *gave = traverse(s, &asked, traversal, up_to);
    if (is_at_end(traversal, up_to)) {
        traversal->clogged = traversal->unneeded > traversal->seen / 2;
        traversal->end = up_to;
        r->within.came_to_end = true;
    }
    return traversal;
}

static uint64_t last_to_go(const struct outlook *o)
{
    uint64_t keep = o->history ? o->history : 1;
    return o->newest.sequence > keep ? o->newest.sequence - keep : 0;
}

bool empty_within(struct search *s, const struct outlook *o)
{
    bool gave = false;
    traverse_on(s, o, last_to_go(o), &gave);
    return gave;
}

/* ---- descriptors that are kept for nothing ---- */

static bool is_oldest_needed(struct rtmw_region *r, const struct outlook *o, uint64_t now)
{
    struct glimpse oldest;
    if (!glimpse_first(r, &r->topics[o->topic].band[o->band], now, &oldest)) return false;
    return !oldest.expired && oldest.sequence > o->floor[oldest.offer];
}

uint32_t room_when_low(struct rtmw_publisher *p, uint32_t band)
{
    bool gave;
    struct search s = {.publisher = p, .now = monotonic_ns(), .looks_within = LOOKS_WHEN_LOW};
    struct outlook o = outlook_of(p->region, p->topic_index, band, LOOK_UNREAD);
    if (!is_oldest_needed(p->region, &o, s.now)) return ROOM_WHEN_LOW;
    const struct traversal *traversal = traverse_on(&s, &o, last_to_go(&o), &gave);
    if (traversal->clogged && traversal->end > o.passed.sequence) return 0;
    return is_at_end(traversal, last_to_go(&o)) ? ROOM_WHEN_LOW : 1;
}

/* ======== thinning ======== */

/* Which messages the min_interval of a RELIABLE subscriber will leave out: those are not needed (requirement P4).
 *
 *   band 7   ── cursor ── 1060 ───────────────────────┐     The subscriber takes the highest band first. It accepts a
 *   band 0   ── cursor ── 1000 ── 1050 ── 1170 ── …   │     message that lies at least the interval behind the one that
 *                          ▲ next                     │     it accepted last; the others are thinned. So a traversal
 *   what is accepted in band 0 follows from band 7 ◄──┘     follows the bands from the highest to its own.
 *
 * The traversal reads the cursors of the subscriber, and then `accepted_ns` (reader_foresees). So the subscriber has
 * decided on each message before these cursors. It may move on meanwhile: what it comes to is thinned, when it is
 * foretold again, by what it has accepted. Three things are not known. Each possible case is a guess, and is
 * followed:
 *   - A cursor comes to a message before `accepted_ns` says that it was accepted (accept in take.c). So the
 *     subscriber may be about to accept a message at a cursor.
 *   - A take looks at the bands one after the other. It may have found a higher one empty that is not empty any more.
 *     So the subscriber may take the next message of some band first. That is one message, since the take after it
 *     begins at the highest band again. When that message is emptied, the subscriber steps over it, and begins at the
 *     highest band.
 *   - Of a message that the subscriber holds no more another time may be read: that is one more guess.
 * A message that is thinned in all guesses may go. If there are more guesses than can be noted, or the next message
 * is not found, only a message may go that is thinned by what was accepted already (frozen): accepted_ns only grows.
 *
 * A message that is published in a higher band later is younger than all that was traversed, and is taken before the
 * rest of that. If it is accepted, it thins all of the rest; if not, what thins it does. So a message that was
 * foretold to be thinned is thinned; and one that was foretold to be accepted is a lower bound, by which further
 * messages are thinned (freeze_readers). One case is left: a publisher that is stopped between clock and link publishes
 * a message that is older than it seems. Then another message of the interval is delivered than would have been.
 *
 * A message with a lifetime may expire before it is accepted. From there on only the lower bound is known.
 */

enum { MOST_BEFORE_NEXT = 8 }; /* messages that are looked at to find the next one, where the cursor rests */

static bool is_thinned_by(const struct reader *reader, uint64_t accepted, uint64_t published)
{
    return accepted && published < accepted + reader->interval;
}

/* It may accept a message of this time before anything else; unless what it has accepted thins that. */
static void guess(struct reader *reader, uint64_t published)
{
    if (is_thinned_by(reader, reader->began[0], published)) return;
    for (uint32_t i = 0; i < reader->guesses; i++)
        if (reader->began[i] == published) return;
    if (reader->guesses < GUESSES)
        reader->began[reader->guesses++] = published;
    else
        reader->frozen = true;
}

static void guess_at_cursor(struct reader *reader, struct rtmw_region *r, uint64_t cursor)
{
    struct descriptor *d = descriptor_at(r, link_index(cursor));
    uint64_t published = d ? load_acquire(&d->published_ns) : 0;
    if (published) guess(reader, published);
}

/* The first message of a band behind its cursor, as far as that is found. */
static void guess_next(struct reader *reader, struct rtmw_region *r, const struct traversal *traversal, uint32_t band,
                       uint64_t cursor)
{
    struct band *at = &r->topics[traversal->topic].band[band];
    struct glimpse g;
    bool found = glimpse_cursor(r, at, cursor, traversal->began_ns, &g);
    for (uint32_t looked = 0; found && g.sequence <= reader->cursor[band] && looked < MOST_BEFORE_NEXT; looked++)
        found = glimpse_next(r, at, traversal->began_ns, &g);
    if (found && g.sequence > reader->cursor[band])
        guess(reader, g.published_ns);
    else
        reader->frozen = true;
}

void reader_foresees(struct reader *reader, struct rtmw_region *r, const struct traversal *traversal,
                     struct subscriber_block *block)
{
    uint64_t cursor[BANDS];
    bool above = false;
    for (uint32_t band = 0; band < BANDS; band++) cursor[band] = load_seq(&block->cursor[band]);
    reader->began[0] = load_acquire(&block->accepted_ns); /* pairs with accept in take.c */
    reader->guesses = 1;
    for (uint32_t band = BANDS; band-- > 0;) {
        reader->cursor[band] = sequence_near(link_tag(cursor[band]), traversal->last[band]);
        if (band == traversal->band) reader->above = above;
        guess_at_cursor(reader, r, cursor[band]);
        bool unread = reader->cursor[band] < traversal->last[band];
        if (unread && above) guess_next(reader, r, traversal, band, cursor[band]);
        above |= unread;
    }
    if (reader->frozen) reader->guesses = 1;
    for (uint32_t i = 0; i < reader->guesses; i++) reader->accepted[i] = reader->began[i];
}

static bool is_for(const struct reader *reader, const struct glimpse *g)
{
    return !g->expired && types_match(g->type, reader->type) &&
           reliabilities_match(g->reliability, reader->reliability, reader->exact);
}

static bool is_thinned(const struct reader *reader, const struct glimpse *g)
{
    bool thinned = true;
    for (uint32_t i = 0; i < reader->guesses; i++)
        thinned &= is_thinned_by(reader, reader->accepted[i], g->published_ns);
    return thinned;
}

/* It is not thinned by each guess, so it may be accepted, and thins what comes soon after it. */
static void foretell(struct reader *reader, const struct glimpse *g)
{
    if (state_kind(g->state) == EMPTIED && state_is_at_rest(g->state)) return; /* nobody accepts it any more */
    reader->frozen |= g->expires || state_kind(g->state) == EMPTIED;
    for (uint32_t i = 0; i < reader->guesses && !reader->frozen; i++)
        if (!is_thinned_by(reader, reader->accepted[i], g->published_ns)) reader->accepted[i] = g->published_ns;
}

void reader_foretells(struct reader *reader, uint32_t band, const struct glimpse *g)
{
    if (!reader->interval || g->sequence <= reader->cursor[band] || !is_for(reader, g)) return;
    if (!is_thinned(reader, g)) foretell(reader, g);
}

bool reader_needs(struct reader *reader, const struct glimpse *g)
{
    if (g->sequence <= reader->behind || !is_for(reader, g)) return false;
    if (!reader->interval) return true;
    bool thinned = is_thinned(reader, g);
    if (!thinned) foretell(reader, g);
    return !thinned;
}
