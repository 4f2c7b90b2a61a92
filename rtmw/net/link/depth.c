/* Depth: how many messages of a RELIABLE route may wait on the bus. A publisher waits when there are so many.
 *
 * Of large messages no more wait than have a share of the pool together, as those of a route over DDS: the other publishers of
 * this host need the rest of it.
 *
 * Of small ones more than `depth` may wait, if that is as usual. Else, the publisher stands still after 64 of them, and publisher
 * and sender wake each other for each few. They are bounded by number and bytes, and all routes of a line share a part of the pool.
 * Not so where somebody waits longer behind them than the publisher means: while the line is cut, where its way is slow, and
 * where a subscriber is to get few of them (min_interval).
 */
#include "../route/sending.h"
#include "link.h"

enum {
    SMALL_MOST = 512,
    SMALL_BYTES = 512 << 10,
    SMALL_COST = 1024, /* of a smaller one: a descriptor, of which there are few */
};

static bool is_swift(const struct line *l)
{
    for (int c = 0; c < PAIR; c++)
        if (!l->channel[c] || channel_is_slow(l->channel[c])) return false;
    return true;
}

static uint32_t small_depth(const struct out *o)
{
    uint64_t share = o->line->zero_copy_most / larger(o->line->out_count, 1);
    return (uint32_t)least(SMALL_MOST, least(SMALL_BYTES / o->weight, share / larger(o->weight, SMALL_COST)));
}

static uint32_t depth_for(const struct out *o)
{
    if (!o->weight) return o->depth;
    bool may_be_more = o->depth >= DEPTH_USUAL && !o->min_interval_ns && is_swift(o->line);
    uint32_t more = may_be_more ? small_depth(o) : 0;
    return more > o->depth ? more : depth_within(o->depth, o->line->zero_copy_most, o->weight);
}

/* Is it worth to tell the bus? Half or double is; less for large messages, and so that it is `depth` again. */
static bool is_other(const struct out *o, uint32_t fits)
{
    if (fits / 2 >= o->depth_now || fits <= o->depth_now / 2) return true;
    return fits <= o->depth && o->depth_now != fits && (fits == o->depth || fits < o->depth_now);
}

static void set_depth(struct out *o, uint32_t depth)
{
    o->depth_now = depth;
    rtmw_subscriber_adjust(o->subscriber, depth, o->min_interval_ns);
}

void out_weigh(struct out *o, uint64_t size) { o->weight = weight_after(o->weight, cost_of(size)); }

void out_fit(struct out *o)
{
    if (!o->reliable || !o->line->zero_copy_most) return;
    uint32_t fits = depth_for(o);
    if (is_other(o, fits)) set_depth(o, fits);
}

void out_adjust(struct out *o, uint32_t depth, uint64_t min_interval_ns)
{
    line_lock(o->line);
    o->depth = depth;
    o->min_interval_ns = min_interval_ns;
    set_depth(o, o->reliable && o->line->zero_copy_most ? depth_for(o) : depth);
    unlock(&o->line->lock, LOCK_ENGINE);
}
