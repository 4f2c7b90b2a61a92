/* Nodes that this one meets over a link (rtmw/net/link): what their regions send over DDS, too, is passed over here, so that
 * no message comes twice. */
#include "engine.h"

void linked_set(struct engine *e, const uint64_t *regions, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) store_relaxed(&e->linked[n], regions[n]);
    store_relaxed(&e->linked_count, count);
    lock(&e->lock, LOCK_ENGINE);
    for (struct inbound *i = e->inbounds; i; i = i->next) {
        lock(&i->lock, LOCK_ROUTE); /* whoever delivers now has come to its end, and the next one sees it */
        unlock(&i->lock, LOCK_ROUTE);
    }
    unlock(&e->lock, LOCK_ENGINE);
}

static bool is_linked(struct engine *e, const struct source *s)
{
    uint32_t count = s->is_node ? load_relaxed(&e->linked_count) : 0;
    for (uint32_t n = 0; n < count; n++)
        if (load_relaxed(&e->linked[n]) == s->identity) return true;
    return false;
}

bool linked_may_come(const struct inbound *i, const struct source *s)
{
    return (s->lane == i->lane || s->lane == LANE_UNKNOWN) && !is_linked(i->engine, s);
}
