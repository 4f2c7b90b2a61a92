/* Told: what a lane has lost while a node was dead, or its line was, subscribers there are told. Both ends write in
 * memory that outlives them how far the lane was carried (../route/carried.h):
 *
 *   out   `sequence`: messages that got a number, on this route and those before; number[]: the last of them, as the bus
 *         counts. A route begins behind both: with what the bus had since then, and no route has taken.
 *   in    `sequence`: messages that came to their end here, by the same count. What is missing up to where the next route of
 *         the peer begins has come to nobody.
 *
 * A message that waits for room on the bus has not come to its end: its node may die with it.
 *
 * A node that is killed may have one message told that was not lost: a message changes `sequence` and number[] of the sender,
 * and the bus and `sequence` of the receiver, and no CAS has both. The order of these writes is such that a node which dies in
 * between has told too much. Of a gap it may so tell all messages twice: if it dies when it has opened a route, or numbers a
 * message behind some that the bus could not keep. Fewer are told than were lost only of messages that a publisher passes over
 * just when the route's subscriber joins, if it looked before that who needs them: the bus counts those as expired.
 */
#include "link.h"

#define JUMP_MOST (UINT64_C(1) << 32) /* messages, as over DDS (../dds/sequence.c): a peer may say what it likes */

/* ---- out ---- */

/* Before number[]: a node that dies in between has told more, not less. */
static void write_sequence(const struct out *o, struct carried *c)
{
    store_relaxed(&c->sequence, o->begins + o->numbered);
}

void told_open_out(struct out *o, uint64_t key, uint64_t lane, bool begins_in_the_past)
{
    if (!key) return;
    o->carried = carried_place_of(o->line->carried, key | 1);
    o->numbers = carried_place_of(o->line->carried, lane);
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    carried_align(c, carried_at(&o->numbers), o->subscriber);
    o->resumes = o->resumes || load_relaxed(&c->at_ns) < o->line->began_ns;
    o->begins = load_relaxed(&c->sequence) + carried_not_sent(c, o->subscriber, begins_in_the_past);
    write_sequence(o, c);
    told_reached(o);
}

bool told_is_new(const struct out *o, const rtmw_message *m)
{
    const struct carried *c = o->resumes ? carried_at(&o->carried) : NULL;
    return c && carried_is_new(c, m);
}

void told_numbered(struct out *o, const rtmw_message *m, uint64_t now)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    write_sequence(o, c);
    store_relaxed(&c->at_ns, now);
    carried_number(c, m);
}

/* Of messages that the bus could not keep for it: they get their numbers with the next one that is sent. */
static bool owes_numbers(const struct out *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    return bus.missed != o->lost;
}

void told_passed(struct out *o, const rtmw_message *m)
{
    struct carried *c = carried_at(&o->carried);
    if (c && !lookahead_count(&o->lookahead, m->priority) && !owes_numbers(o)) carried_number(c, m);
}

void told_reached(struct out *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c || owes_numbers(o)) return;
    for (uint32_t band = 0; band < BANDS; band++)
        if (!lookahead_count(&o->lookahead, band)) carried_come_to(c, o->subscriber, band);
    carried_tell_lane(c, carried_at(&o->numbers));
}

/* ---- in ---- */

void told_open_in(struct in *i, uint64_t key, uint64_t begins)
{
    i->begins = begins;
    i->carried = carried_place_of(i->line->carried, key);
    struct carried *c = carried_at(&i->carried);
    if (!c) return;
    uint64_t last = load_relaxed(&c->sequence), lost = last && begins > last ? begins - last : 0;
    if (lost && lost <= JUMP_MOST && in_tell_since(i, (rtmw_lost){.missed = lost}, load_relaxed(&c->at_ns)))
        count_up(&i->lost, lost);
    store_relaxed(&c->sequence, begins);
}

void told_came(struct in *i)
{
    struct carried *c = carried_at(&i->carried);
    if (!c) return;
    store_relaxed(&c->sequence, i->begins + i->come - i->waiting);
    store_relaxed(&c->at_ns, i->last_ns);
}
