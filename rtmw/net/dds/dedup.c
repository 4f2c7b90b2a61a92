/* Dedup: a kept message that the bus already has is not published again. DDS delivers it again when a route is opened anew,
 * and a node that was killed and started again sends it again, when the receiving node asks for what is kept.
 *
 *   newest_before   the newest of each publisher from earlier routes of the lane; for the first route of a node, those
 *                      that lie on the bus
 *   newest          these, and what this route has published
 *
 * A message is a duplicate if and only if: (1) it is among the first `history` of its source, as only those may be kept;
 * (2) newest_before has a message of its publisher with this source time or a later one, or this route has published
 * one from another node, the predecessor of the source's on its host. A publisher's messages come in the order of their
 * source times, so the newest stands for all. Messages that are published together have the same source time; so messages
 * of the same node are not compared.
 */
#include "engine.h"

static struct newest *find(struct newest *list, uint64_t publisher)
{
    for (uint32_t n = 0; n < NEWEST_MOST; n++)
        if (list[n].publisher == publisher) return &list[n];
    return NULL;
}

static struct newest *find_or_add(struct inbound *i, uint64_t publisher)
{
    struct newest *k = find(i->newest, publisher);
    if (!k) k = find(i->newest, 0); /* nobody's yet */
    if (!k) k = &i->newest[i->newest_next++ % NEWEST_MOST];
    if (k->publisher != publisher) *k = (struct newest){.publisher = publisher};
    return k;
}

bool dedup_is_duplicate(struct inbound *i, struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS) || s->brought >= i->history) return false;
    const struct newest *before = find(i->newest_before, publisher), *now = find(i->newest, publisher);
    bool is = (before && source_time_ns <= before->newest_ns) ||
              (now && now->node != s->node && source_time_ns <= now->newest_ns);
    s->brought += is;
    return is;
}

void dedup_begin(struct inbound *i, uint64_t publisher, uint64_t newest_ns)
{
    struct newest *k = find_or_add(i, publisher);
    if (newest_ns > k->newest_ns) k->newest_ns = newest_ns;
}

void dedup_add(struct inbound *i, struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS)) return;
    struct newest *k = find_or_add(i, publisher);
    if (source_time_ns > k->newest_ns) k->newest_ns = source_time_ns;
    k->node = s->node;
    s->brought++;
}
