/* The time that a message was on its way is taken off its lifetime: as far as it is known, and never more.
 *
 *   sent, on the sender's clock ── way ──► published here      way = now + how far its clock is ahead − sent − unsure
 *
 * Both clocks are steady ones (now.h). Wall clocks would not do: while one is set, messages are on the way and wait to be
 * sent again, and what was measured before is believed for a second. Each of them would be an hour too old, or too young.
 *
 * Nodes measure with beacons how far the clock of each other node is ahead, and what they may be wrong by: half of the
 * way there and back (own_topics.py). Of a node that is not measured yet, nothing is known, and a lifetime is what was left
 * when it was sent.
 */
#include <string.h>

#include "engine.h"

static struct clock_of *find(struct engine *e, uint64_t node)
{
    struct clock_of *c = &e->clocks[(node * UINT64_C(0x9E3779B97F4A7C15)) >> 53];
    for (uint32_t n = 0; n < CLOCKS; n++, c = c + 1 == e->clocks + CLOCKS ? e->clocks : c + 1)
        if (!c->node || c->node == node) return c;
    return NULL;
}

void dated_forget(struct engine *e)
{
    lock(&e->clocks_lock, LOCK_LEAF);
    memset(e->clocks, 0, sizeof e->clocks);
    unlock(&e->clocks_lock, LOCK_LEAF);
}

void dated_learn(struct engine *e, const uint8_t participant[16], int64_t ahead_ns, uint64_t unsure_ns)
{
    uint64_t node = node_named(participant);
    lock(&e->clocks_lock, LOCK_LEAF);
    struct clock_of *c = find(e, node);
    if (c) *c = (struct clock_of){node, ahead_ns, unsure_ns};
    unlock(&e->clocks_lock, LOCK_LEAF);
}

uint64_t dated_left(struct engine *e, uint64_t node, uint64_t lifetime)
{
    if (!lifetime_is_dated(lifetime)) return lifetime;
    lock(&e->clocks_lock, LOCK_LEAF);
    const struct clock_of *found = find(e, node);
    struct clock_of clock = found ? *found : (struct clock_of){0};
    unlock(&e->clocks_lock, LOCK_LEAF);
    if (!clock.node) return lifetime_left_ns(lifetime);
    return lifetime_after_way(lifetime, now_steady_ns() + (uint64_t)clock.ahead_ns, clock.unsure_ns);
}
