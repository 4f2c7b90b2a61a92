/* Messages that give way when descriptors or pages run short, over all topics (requirements P2, P3, P5).
 *
 *   1  passed messages whose memory nobody has used again
 *   2  what is spare: expired, read by all, or beyond the depth of the subscribers that have not; of any band
 *   3  what `history` keeps on topics without a publisher, of the publisher's band and below: the oldest (abandoned.c)
 *   4  unread messages that no RELIABLE pair needs: of lower bands than the publisher's, the lowest first; then of its
 *      own band, where a topic holds more than the publisher's
 *   5  as 3, what a subscriber has unread that is not RELIABLE
 *   6  blocks of such messages behind one that is needed (within.c)
 *
 * In each band the topic that holds most of what is short gives way, of up to eight that are looked at; its oldest go.
 * So no load of low priority keeps an urgent message out; and what RELIABLE subscribers need, which cannot go, is kept
 * out of the reserve (first_open in core.h) by those below.
 *
 * Topics are found through a bitmap a band: evictable.c.
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
#include "bitmap.h"
#include "retention.h"

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
