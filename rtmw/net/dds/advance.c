/* How much a route takes from the bus in advance, and how much of a TIMELY topic waits for it there.
 *
 * Messages that a route has taken are in this process alone. They are lost if they are not sent before the node ends, or
 * before a node that ends and that they are kept for has gone (leaving.c). So a RELIABLE route takes no more than leaves
 * in AHEAD_PARTS / 100 of a second, which is less than both wait; one message at least. Routes that have something share
 * the line, and limits of the line and of hosts. Where neither line nor limit is slow, that is more than LOOKAHEAD_BYTES,
 * and nothing changes.
 *
 * Not covered: a single message that takes longer, more routes with a message each than leave in that time, and a line that
 * becomes slower, or is cut, while they are taken. Those are told by counters.py, and counted as lost by who did not get
 * them.
 *
 * The sender sleeps until a topic has something, and a processor that was idle lets it run 0.1 to 0.5 ms later. By then a
 * TIMELY burst may be over. So of small messages more than `depth` may wait on the bus: as many as the line takes in a
 * hundredth of a second, for TIMELY asks for the newest. Where the line was not seen to be slow, that is TIMELY_BYTES_MOST, or a part of
 * the pool if that is less. Once the first datagrams show that the line is slow, the depth follows, and the next take drops
 * the oldest.
 */
#include "engine.h"

enum {
    AHEAD_PARTS = 40,
    TIMELY_BYTES_LEAST = 64 << 10,
    TIMELY_BYTES_MOST = 1 << 20,
    TIMELY_POOL_SHARE = 8, /* of what may wait of a RELIABLE topic, which is a part of the pool itself */
};

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* Bytes of a route that leave in a hundredth of a second, as far as is known. */
static uint64_t in_a_hundredth(const struct outbound *o, uint64_t most)
{
    const struct engine *e = o->engine;
    uint64_t shared = e->pacing.rate ? e->pacing.rate / 100 : UINT64_MAX;
    shared = peer_rates_burst(&e->peer_rates, load_relaxed(&o->limited), rate_limit_burst(&e->limit, shared));
    return least(rate_limit_burst(&o->limit, most), shared / (e->holding ? e->holding : 1));
}

uint64_t outbound_advance(const struct outbound *o)
{
    return o->reliable ? AHEAD_PARTS * in_a_hundredth(o, LOOKAHEAD_BYTES / AHEAD_PARTS) : LOOKAHEAD_BYTES;
}

uint64_t outbound_timely_bytes(const struct outbound *o)
{
    uint64_t leaves = in_a_hundredth(o, least(TIMELY_BYTES_MOST, o->engine->zero_copy_most / TIMELY_POOL_SHARE));
    return leaves > TIMELY_BYTES_LEAST ? leaves : TIMELY_BYTES_LEAST;
}
