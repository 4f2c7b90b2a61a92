/* A DDS endpoint of a route is replaced while messages flow, for most of its policies cannot be changed: nothing of what
 * is RELIABLE or ADAPTIVE is lost, comes twice, or out of order.
 *
 * A writer: the new one has been matched with everybody (routes.py sees to that). Nothing is sent until all that the old
 * one has sent is acknowledged; from then on the new one sends.
 *
 * A reader: both receive for a while, and the old one goes on delivering. A source is joined when the old one has come
 * to the first sample that the new one has of it: what follows, the new one has without a gap. When all sources are
 * joined, the new one delivers what is newer than what the old one delivered. Nodes number their samples; of plain
 * writers the source times are compared.
 */
#include "engine.h"

static bool change_writer(struct outbound *o, dds_entity_t writer)
{
    return dds_get_entity_sertype(writer, &o->type) == DDS_OK && (o->writer = writer);
}

static void hold(struct outbound *o)
{
    lock(&o->engine->lock, LOCK_ENGINE);
    o->held = true;
    if (o->engine->unflushed == o) o->engine->unflushed = NULL;
    dds_write_flush(o->writer);
    unlock(&o->engine->lock, LOCK_ENGINE);
}

bool outbound_hand_over(struct outbound *o, dds_entity_t writer, int64_t patience_ns)
{
    hold(o);
    bool acknowledged = dds_wait_for_acks(o->writer, patience_ns) == DDS_OK;
    lock(&o->engine->lock, LOCK_ENGINE);
    bool changed = acknowledged && change_writer(o, writer);
    o->held = false;
    unlock(&o->engine->lock, LOCK_ENGINE);
    return changed;
}

static void take_early(struct inbound *i)
{
    struct ddsi_serdata *samples[BATCH];
    dds_sample_info_t infos[BATCH];
    dds_return_t count;
    do {
        count = dds_takecdr(i->heir, samples, BATCH, infos, DDS_ANY_STATE);
        for (dds_return_t n = 0; n < count; n++)
            if (!backlog_add(i->engine, &i->early, inbound_sample(i, samples[n], &infos[n]))) {
                count_up(&i->overflowed, 1);
                ddsi_serdata_unref(samples[n]);
            }
    } while (count == BATCH);
}

static void drop_early(struct inbound *i)
{
    struct ddsi_serdata *data = backlog_first(&i->early)->data;
    backlog_drop_first(i->engine, &i->early, ddsi_serdata_size(data));
    ddsi_serdata_unref(data);
}

/* The next one of a node comes without a gap behind the last one delivered, too. */
static void join_sources(struct inbound *i)
{
    for (uint32_t n = 0; n < i->early.count; n++) {
        struct sample *sample = &i->early.ring[(i->early.first + n) & (i->early.space - 1)];
        struct source *s = inbound_source(i, sample->info.publication_handle);
        if (inbound_is_next(i, sample)) s->is_joined = true;
    }
}

/* A source of which nothing has been delivered has nothing to be joined with, and one that has left will not be. */
static bool all_are_joined(struct inbound *i)
{
    for (uint32_t n = 0; n < i->source_count; n++) {
        struct source *s = &i->sources[n];
        if (s->sequence && s->lane == i->lane && !s->is_joined && is_matched(i->reader, s->publication)) return false;
    }
    return true;
}

static void take_over(struct inbound *i)
{
    i->reader = i->heir;
    i->heir = 0;
    for (struct sample *sample; (sample = backlog_first(&i->early));) {
        struct sample first = *sample;
        if (inbound_is_past(i, &first)) {
            drop_early(i);
        } else {
            backlog_drop_first(i->engine, &i->early, ddsi_serdata_size(first.data));
            inbound_accept(i, first);
        }
    }
    backlog_clear(i->engine, &i->early);
    inbound_tell_stuck(i);
}

/* Of another lane, or delivered by the old reader. */
static bool is_needless(struct inbound *i, struct sample *sample)
{
    const struct source *s = inbound_source(i, sample->info.publication_handle);
    return (s->lane != i->lane && s->lane != LANE_UNKNOWN) || (s->is_joined && inbound_is_past(i, sample));
}

static void expect(struct inbound *i, dds_entity_t heir)
{
    i->heir = heir;
    backlog_clear(i->engine, &i->early);
    for (uint32_t n = 0; n < i->source_count; n++) i->sources[n].is_joined = false;
}

/* Lock held. Samples that wait for room on the bus go first, or the order would be lost. */
static bool is_time(struct inbound *i, bool at_once)
{
    inbound_move(i);
    take_early(i);
    join_sources(i);
    while (i->early.count && is_needless(i, backlog_first(&i->early))) drop_early(i);
    return at_once || (!i->backlog.count && all_are_joined(i));
}

bool inbound_hand_over(struct inbound *i, dds_entity_t reader, bool at_once)
{
    dds_entity_t before = i->reader;
    lock(&i->lock, LOCK_ROUTE);
    if (i->heir != reader) expect(i, reader);
    bool now = is_time(i, at_once);
    if (now) take_over(i);
    unlock(&i->lock, LOCK_ROUTE);
    if (!now) return false;
    listen_to(before, NULL, NULL);
    listen_to(reader, inbound_on_data, i);
    inbound_on_data(reader, i); /* samples from before it had a listener */
    return true;
}

/* ---- a node that ends ---- */

/* A node that ends takes along nothing of RELIABLE topics that it reads: see succession.py.
 *
 *   the node that ends               a node that sends to it
 *   "I leave, keep these topics" ──► outbound_keep: the route takes nothing more from the bus, and sends what it has taken
 *   inbound_has: all of it came  ◄── the sequence of the last sample that the route sent
 *   ends; its successor reads    ──► outbound_keep with 0: the route goes on
 *
 * Messages that the route has taken would be lost if this node ended, too, before the successor comes, so they are sent
 * to the node that ends. That waits for the answer for a bounded time: a line on which DRAIN_NS is too short keeps the
 * rest in the route.
 */

enum { DRAIN_NS = 1000000000 }; /* less than a node that ends waits for answers (END_S in ending.py) */

/* Is what a kept route has taken still to be sent? To nobody, DDS would send it for nothing. */
static bool drains(const struct outbound *o, uint64_t now)
{
    return load_relaxed(&o->lookahead.taken) && now < o->drain_until_ns &&
           dds_get_matched_subscriptions(o->writer, NULL, 0) > 0;
}

uint64_t outbound_kept_ns(const struct outbound *o, uint64_t now)
{
    uint64_t until_ns = load_relaxed(&o->kept_until_ns);
    return until_ns > now && !drains(o, now) ? until_ns : 0;
}

bool outbound_keep(struct outbound *o, uint64_t until_ns, uint64_t *last)
{
    struct engine *e = o->engine;
    sender_lock(e);
    uint64_t now = now_monotonic_ns();
    if (until_ns && !o->kept_until_ns) o->drain_until_ns = now + DRAIN_NS;
    store_relaxed(&o->kept_until_ns, until_ns);
    if (until_ns) dds_write_flush(o->writer);
    if (until_ns && e->unflushed == o) e->unflushed = NULL;
    if (!until_ns) sender_wake(e);
    *last = load_relaxed(&o->last);
    bool is_sent = !until_ns || !drains(o, now);
    unlock(&e->lock, LOCK_ENGINE);
    return is_sent;
}

/* Of one node: has any sample come, and how far does what came reach? A route has a source for each of its writers. */
static bool reach(const struct inbound *i, uint64_t node, uint64_t *sequence)
{
    bool has_come = false;
    *sequence = 0;
    for (uint32_t n = 0; n < i->source_count; n++) {
        const struct source *s = &i->sources[n];
        uint64_t to = s->sequence > s->passed ? s->sequence : s->passed;
        if (!s->is_node || s->node != node || s->lane != i->lane || !to) continue;
        has_come = true;
        if (to > *sequence) *sequence = to;
    }
    return has_come;
}

bool inbound_has(struct inbound *i, uint64_t node, uint64_t sequence, bool is_acknowledged)
{
    uint64_t come;
    lock(&i->lock, LOCK_ROUTE);
    bool has_come = reach(i, node, &come), is_empty = !i->backlog.count && !i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return is_empty && (has_come ? come >= sequence : is_acknowledged);
}

bool inbound_reached(struct inbound *i, uint64_t node, uint64_t *sequence)
{
    lock(&i->lock, LOCK_ROUTE);
    reach(i, node, sequence);
    bool is_empty = !i->backlog.count && !i->early.count;
    unlock(&i->lock, LOCK_ROUTE);
    return is_empty;
}
