/* How far lanes were carried, known to the next node when this one is killed: so that what is lost is told.
 *
 *   bus ─ number of the message in its lane ─► outbound ─ sequence ─► inbound ─ rtmw_publisher_lost ─► subscribers
 *              compared with number[]                      compared with sequence
 *
 * A route writes its entry of the table (carried.c) as it sends or publishes. A node that follows finds it:
 *
 *   outbound  A route's subscriber begins behind a message with a number, in each band. No node has sent the messages
 *             between number[] and that one. The sequence of the first sample leaves as much out, and goes on where that
 *             of the last node ended. Messages that the bus could not keep since then, the subscriber has counted as
 *             missed.
 *   inbound   The first sample of a DDS writer has a sequence. Nobody has brought the messages between it and `sequence`.
 *
 * The gap is counted as lost if anybody here would have got it, and each subscriber that was open when the last sample
 * came counts it as missed. Messages that expired on the bus while no node lived are in the gap, too. A node that
 * is killed between writing a sample and its entry leaves a gap of at most BURST messages more than there was.
 *
 * A node that ends in order leaves no gap: its subscribers are parked (rtmw_subscriber_park), and those of the next node
 * begin where they ended.
 */
#include "engine.h"

bool carried_open(struct engine *e, const char *path)
{
    e->carried = carried_map(path);
    return e->carried != NULL;
}

void carried_close(struct engine *e)
{
    carried_unmap(e->carried);
    e->carried = NULL;
}

struct carried_place carried_find(struct engine *e, uint64_t topic, uint8_t lane, uint64_t origin)
{
    return carried_place_of(e->carried, carried_key(topic, e->wire_domain, lane & LANE_RELIABILITY, origin));
}

/* ---- outbound ---- */

void carried_begin(struct outbound *o)
{
    if (o->is_plain) return;
    o->resumes = o->sent == 0;
    o->carried = carried_find(o->engine, o->topic, o->lane, CARRIED_OUT);
    o->numbers = carried_find(o->engine, o->topic, o->lane, CARRIED_LANE);
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    if (!o->sent) carried_align(c, carried_at(&o->numbers), o->subscriber);
    if (load_relaxed(&c->sequence) > o->sent) o->ahead = load_relaxed(&c->sequence) - o->sent;
    o->ahead += carried_not_sent(c, o->subscriber, o->history > 0);
}

static void count_missed(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    o->ahead += bus.missed - o->missed;
    o->missed = bus.missed;
}

void carried_take(struct outbound *o, rtmw_message *m)
{
    const struct carried *c = carried_at(&o->carried);
    if (c && o->resumes && carried_is_new(c, m))
        m->is_old = false; /* it is not old to those who read the lane before */
    count_missed(o);
}

/* Messages that expired on the bus, or were thinned there, are to be missed by nobody. The sequence is written first: a
 * node that dies in between has told more, not less. */
void carried_reached(struct outbound *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    count_missed(o);
    if (load_relaxed(&c->sequence) != o->sent + o->ahead) carried_sent(o);
    for (uint32_t band = 0; band < BANDS; band++)
        if (!lookahead_count(&o->lookahead, band)) carried_come_to(c, o->subscriber, band);
    carried_tell_lane(c, carried_at(&o->numbers));
}

void carried_pass(struct outbound *o, const rtmw_message *m)
{
    struct carried *c = carried_at(&o->carried);
    if (c) carried_number(c, m);
}

void carried_sent(struct outbound *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    store_relaxed(&c->sequence, o->sent + o->ahead);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}

/* ---- inbound ---- */

/* A counter that others may bring up by as much as they like. */
static void count_lost(uint64_t *counter, uint64_t by)
{
    uint64_t most = (uint64_t)INT64_MAX - load_relaxed(counter);
    count_up(counter, by < most ? by : most);
}

/* Messages that a node sent between its last sample and this one never came: DDS had less room for them, the link lost
 * them, or a node died with them. Subscribers know it before they get this one. Messages meant for nobody here are not
 * lost. They are counted once, whatever becomes of this sample: also when that waits for room, and is dropped then. */
void carried_gap(struct inbound *i, struct source *s, const struct trailer *trailer)
{
    uint64_t lost = s->is_node ? sequence_gap(s, trailer) : 0;
    if (!lost) return;
    const struct carried *carried = carried_at(&s->carried);
    uint64_t since = carried ? load_relaxed(&carried->at_ns) : now_monotonic_ns();
    if (rtmw_publisher_lost(i->publisher, (rtmw_lost){.missed = lost}, since)) count_lost(&i->lost, lost);
    s->passed = trailer->sequence - trailer_messages(trailer);
}

/* A sample that came before, by another writer of the lane, takes nothing back. */
void carried_received(struct source *s, uint64_t sequence)
{
    struct carried *c = carried_at(&s->carried);
    if (!c || sequence_is_repeated(load_relaxed(&c->sequence), sequence)) return;
    store_relaxed(&c->sequence, sequence);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}
