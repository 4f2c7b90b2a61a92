/* Told: what a RELIABLE lane has lost while a node was dead, or its line was, subscribers there are told. Both ends write in
 * memory that outlives them how far the lane was carried (../dds/carried.h):
 *
 *   out   `sequence`: messages that got a number, on this route and those before; number[]: the last of them, as the bus
 *         counts. A route begins behind both: with what the bus had since then, and no route has taken.
 *   in    `sequence`: messages that came to their end here, by the same count. What is missing up to where the next route of
 *         the peer begins has come to nobody.
 *
 * A message that waits for room on the bus has not come to its end: its node may die with it. Under load a few more or fewer are
 * told than were lost: a node may be killed between two of these words, and a message may be published just when the subscriber
 * of the next route joins.
 */
#include "link.h"

#define JUMP_MOST (UINT64_C(1) << 32) /* messages, as over DDS (../dds/sequence.c): a peer may say what it likes */

/* ---- out ---- */

void told_open_out(struct out *o, uint64_t key, bool begins_in_the_past)
{
    if (!o->reliable || !key) return;
    o->carried = carried_place_of(o->line->carried, key | 1);
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    o->resumes = load_relaxed(&c->at_ns) < o->line->began_ns;
    o->begins = load_relaxed(&c->sequence) + carried_not_sent(c, o->subscriber, begins_in_the_past);
}

bool told_is_new(const struct out *o, const rtmw_message *m)
{
    const struct carried *c = o->resumes ? carried_at(&o->carried) : NULL;
    return c && carried_is_new(c, m);
}

static void write_sequence(const struct out *o, struct carried *c)
{
    store_relaxed(&c->sequence, o->begins + o->numbered);
}

/* The sequence is written first: a node that dies in between has told more, not less. */
void told_numbered(struct out *o, const rtmw_message *m, uint64_t now)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    write_sequence(o, c);
    store_relaxed(&c->at_ns, now);
    carried_number(c, m);
}

/* Those that the bus could not keep get their numbers with the next message of the band. */
static bool owes_nothing(const struct out *o, uint32_t band)
{
    return !lookahead_count(&o->lookahead, band) && !o->band[band].lost;
}

void told_passed(struct out *o, const rtmw_message *m)
{
    struct carried *c = carried_at(&o->carried);
    if (c && owes_nothing(o, m->priority)) carried_number(c, m);
}

void told_reached(struct out *o)
{
    struct carried *c = carried_at(&o->carried);
    rtmw_subscriber_counters bus;
    if (!c) return;
    rtmw_subscriber_count(o->subscriber, &bus);
    if (bus.missed != o->missed) return;
    write_sequence(o, c);
    for (uint32_t band = 0, bands = load_relaxed(&c->bands); bands >> band; band++)
        if ((bands >> band & 1) && owes_nothing(o, band)) carried_come_to(c, o->subscriber, band);
}

/* ---- in ---- */

void told_open_in(struct in *i, uint64_t key, uint64_t begins)
{
    if (!i->reliable || !key) return;
    i->begins = begins;
    i->carried = carried_place_of(i->line->carried, key | 1);
    struct carried *c = carried_at(&i->carried);
    if (!c) return;
    uint64_t last = load_relaxed(&c->sequence), lost = last && begins > last ? begins - last : 0;
    if (lost && lost <= JUMP_MOST && rtmw_publisher_lost(i->publisher, lost, load_relaxed(&c->at_ns)))
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
