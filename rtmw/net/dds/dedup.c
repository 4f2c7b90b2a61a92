/* Kept messages that the bus has already are passed over. DDS brings them again when a route is opened anew, and a node
 * that was killed and started again sends them again, as the one that receives them asks for them again.
 *
 *   known_before   what earlier routes of the lane have brought; of the first one of a node, what lies on the bus
 *   known          that, and what this route brings
 *
 * A message is known if and only if: (1) it is one of the first of its source, no more than may be kept; (2) a message of
 * its publisher with this source time or a later one is in known_before, or was brought by this route from another node,
 * the one that ran before the source's on its host. A publisher's messages come in the order of their source time, so the
 * newest says it of all. Messages that are published together have the same; so what the same node sent is not looked at.
 */
#include "engine.h"

static struct newest *find(struct newest *known, uint64_t publisher)
{
    for (uint32_t n = 0; n < KNOWN; n++)
        if (known[n].publisher == publisher) return &known[n];
    return NULL;
}

static struct newest *find_or_add(struct inbound *i, uint64_t publisher)
{
    struct newest *k = find(i->known, publisher);
    if (!k) k = find(i->known, 0); /* nobody's yet */
    if (!k) k = &i->known[i->known_next++ % KNOWN];
    if (k->publisher != publisher) *k = (struct newest){.publisher = publisher};
    return k;
}

bool dedup_is(struct inbound *i, struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS) || s->brought >= i->history) return false;
    const struct newest *before = find(i->known_before, publisher), *now = find(i->known, publisher);
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
