/* What an earlier route of a lane has brought is kept by the bus, and DDS brings it again when a route is opened anew: of
 * the first messages of a source, as many as may be kept, those are passed over that are known.
 *
 * A publisher's messages come in the order of their source time, so the newest says it of all. Messages that are
 * published together have the same, so what this route brings itself is not looked at.
 */
#include "engine.h"

static struct known *find(struct known *known, uint64_t publisher)
{
    for (uint32_t n = 0; n < KNOWN; n++)
        if (known[n].publisher == publisher) return &known[n];
    return NULL;
}

bool known_is(struct inbound *i, const struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS) || s->brought >= i->history) return false;
    const struct known *k = find(i->known_before, publisher);
    return k && source_time_ns <= k->newest_ns;
}

void known_add(struct inbound *i, struct source *s, uint64_t publisher, uint64_t source_time_ns)
{
    if (!(i->lane & LANE_KEEPS)) return;
    struct known *k = find(i->known, publisher);
    if (!k) k = &i->known[i->known_next++ % KNOWN];
    if (k->publisher != publisher) *k = (struct known){.publisher = publisher};
    if (source_time_ns > k->newest_ns) k->newest_ns = source_time_ns;
    s->brought++;
}
