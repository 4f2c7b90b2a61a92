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
#include "retention.h"
#include "topics.h"

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
