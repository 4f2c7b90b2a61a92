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
#include "retention.h"
#include "topics.h"

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
