/* How much a route takes from the bus in advance.
 *
 * What a route has taken is in this process alone. It is lost if it is not sent before the node ends, or before a node that
 * ends and that it is kept for has gone (leaving.c). So a RELIABLE route takes no more than leaves in AHEAD_PARTS / 100 of a
 * second, which is less than both wait; one message at least. Routes that have something share the line, and limits of the
 * line and of hosts. Where neither line nor limit is slow, that is more than LOOKAHEAD_BYTES, and nothing changes.
 *
 * What is left: a single message that takes longer, more routes with a message each than leave in that time, and a line that
 * becomes slower, or is cut, while they are taken. Those are told by undelivered.py, and counted as lost by who did not get
 * them.
 */
#include "engine.h"

enum { AHEAD_PARTS = 40 };

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

uint64_t outbound_advance(const struct outbound *o)
{
    const struct engine *e = o->engine;
    uint64_t most = LOOKAHEAD_BYTES / AHEAD_PARTS, shared = UINT64_MAX; /* in a hundredth of a second */
    if (!o->reliable) return LOOKAHEAD_BYTES;
    most = rate_limit_burst(&o->limit, most);
    if (e->pacing.rate) shared = e->pacing.rate / 100;
    shared = peer_rates_burst(&e->peer_rates, load_relaxed(&o->limited), rate_limit_burst(&e->limit, shared));
    return AHEAD_PARTS * least(most, shared / (e->holding ? e->holding : 1));
}
