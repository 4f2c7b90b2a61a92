/* A node that ends takes along nothing of RELIABLE topics that it reads: see leaving.py.
 *
 *   the node that ends               a node that sends to it
 *   "I leave, keep these topics" ──► outbound_keep: the route sends nothing more, and takes nothing more from the bus
 *   inbound_has: all of it came  ◄── the sequence of the last sample that the route sent
 *   ends; its successor reads    ──► outbound_keep with 0: the route goes on
 */
#include "engine.h"

uint64_t outbound_keep(struct outbound *o, uint64_t until_ns)
{
    struct engine *e = o->engine;
    sender_lock(e);
    o->kept_until_ns = until_ns;
    if (until_ns) dds_write_flush(o->writer);
    if (until_ns && e->unflushed == o) e->unflushed = NULL;
    if (!until_ns) sender_wake(e);
    uint64_t last = o->last;
    unlock(&e->lock, LOCK_ENGINE);
    return last;
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
