/* A node that ends takes along nothing of RELIABLE topics that it reads: see succession.py.
 *
 *   the node that ends               a node that sends to it
 *   "I leave, keep these topics" ──► outbound_keep: the route takes nothing more from the bus, and sends what it has taken
 *   inbound_has: all of it came  ◄── the sequence of the last sample that the route sent
 *   ends; its successor reads    ──► outbound_keep with 0: the route goes on
 *
 * Messages that the route has taken would be lost if this node ended, too, before the successor comes, so they are sent
 * to the node that ends. That waits for the answer for a bounded time: a line on which DRAIN_NS is too short keeps the
 * rest in the route.
 */
#include "engine.h"

enum { DRAIN_NS = 1000000000 }; /* less than a node that ends waits for answers (END_S in ending.py) */

/* Is what a kept route has taken still to be sent? To nobody, DDS would send it for nothing. */
static bool drains(const struct outbound *o, uint64_t now)
{
    return load_relaxed(&o->lookahead.taken) && now < o->drain_until_ns &&
           dds_get_matched_subscriptions(o->writer, NULL, 0) > 0;
}

uint64_t outbound_kept_ns(const struct outbound *o, uint64_t now)
{
    uint64_t until_ns = load_relaxed(&o->kept_until_ns);
    return until_ns > now && !drains(o, now) ? until_ns : 0;
}

bool outbound_keep(struct outbound *o, uint64_t until_ns, uint64_t *last)
{
    struct engine *e = o->engine;
    sender_lock(e);
    uint64_t now = now_monotonic_ns();
    if (until_ns && !o->kept_until_ns) o->drain_until_ns = now + DRAIN_NS;
    store_relaxed(&o->kept_until_ns, until_ns);
    if (until_ns) dds_write_flush(o->writer);
    if (until_ns && e->unflushed == o) e->unflushed = NULL;
    if (!until_ns) sender_wake(e);
    *last = load_relaxed(&o->last);
    bool is_sent = !until_ns || !drains(o, now);
    unlock(&e->lock, LOCK_ENGINE);
    return is_sent;
}

/* Of one node: has any sample come, and how far does what came reach? A route has a source for each of its writers. */
static bool reach(const struct inbound *i, uint64_t node, uint64_t *sequence)
{
    bool has_come = false;
    *sequence = 0;
    for (uint32_t n = 0; n < i->source_count; n++) {
        const struct source *s = &i->sources[n];
        uint64_t to = s->sequence > s->passed ? s->sequence : s->passed;
        if (!s->is_node || s->node != node || s->lane != i->lane || !to) continue;
        has_come = true;
        if (to > *sequence) *sequence = to;
    }
    return has_come;
}

bool inbound_has(struct inbound *i, uint64_t node, uint64_t sequence, bool is_acknowledged)
{
    uint64_t come;
    lock(&i->lock, LOCK_ROUTE);
    bool has_come = reach(i, node, &come), is_empty = !i->backlog.count && !i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return is_empty && (has_come ? come >= sequence : is_acknowledged);
}

bool inbound_reached(struct inbound *i, uint64_t node, uint64_t *sequence)
{
    lock(&i->lock, LOCK_ROUTE);
    reach(i, node, sequence);
    bool is_empty = !i->backlog.count && !i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return is_empty;
}
