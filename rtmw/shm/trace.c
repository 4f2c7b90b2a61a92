/* The trace (requirement P10): a ring of what was published, taken and dropped, by whom and when, of the topics that
 * somebody traces. Off, it costs a look at two words that publishing and taking read anyway.
 *
 *   next ─► ticket t      entry t modulo its length:   older turn ─CAS─► {t, me, WRITING} ─► fields ─► {t, DONE}
 *
 * The writer whose CAS succeeded owns the entry until it is DONE, and nobody waits for it: a writer that comes by a whole
 * round later and finds it still being written gives up its own event. A dead writer's entry is made VOID by the sweep. So
 * a reader gets each event whole or not at all, and counts what it does not get: tickets are dense.
 *
 * Fields are stored with release and loaded with acquire: none is seen before the CAS that claims the entry, and none is
 * loaded after the look at the turn that confirms them.
 */
#include <stdlib.h>

#include "core.h"

#define TICKET_MASK ((UINT64_C(1) << 48) - 1)

static struct trace_entry *entry_of(struct rtmw_region *r, uint64_t ticket)
{
    return &r->trace->entry[ticket % r->header->trace_entries];
}

void trace_write(struct rtmw_region *r, const struct trace_event *event)
{
    uint64_t ticket = fetch_add(&r->trace->next, 1) & TICKET_MASK;
    struct trace_entry *entry = entry_of(r, ticket);
    uint64_t turn = load_seq(&entry->turn);
    if (turn_state(turn) == TRACE_WRITING || turn_ticket(turn) >= ticket) return;
    if (!cas64(&entry->turn, turn, turn_make(ticket, r->me, TRACE_WRITING))) return;
    store_release(&entry->what, what_make(event->topic, event->band, event->kind, event->count));
    store_release(&entry->at_ns, event->at_ns);
    store_release(&entry->who, event->who);
    store_release(&entry->publisher, event->publisher);
    store_release(&entry->sequence, event->sequence);
    store_release(&entry->size, event->size);
    store_release(&entry->published_ns, event->published_ns);
    store_release(&entry->turn, turn_make(ticket, NOBODY, TRACE_DONE));
}

uint64_t trace_next(struct rtmw_region *r) { return load_acquire(&r->trace->next) & TICKET_MASK; }

enum trace_found trace_read(struct rtmw_region *r, uint64_t ticket, struct trace_event *event)
{
    struct trace_entry *entry = entry_of(r, ticket);
    uint64_t turn = load_acquire(&entry->turn);
    if (turn_ticket(turn) < ticket || turn_state(turn) == TRACE_WRITING) return TRACE_LATER;
    if (turn != turn_make(ticket, NOBODY, TRACE_DONE)) return TRACE_LOST;
    uint64_t what = load_acquire(&entry->what);
    *event = (struct trace_event){.kind = what_kind(what),
                                  .topic = what_topic(what),
                                  .band = what_band(what),
                                  .count = what_count(what),
                                  .at_ns = load_acquire(&entry->at_ns),
                                  .who = load_acquire(&entry->who),
                                  .publisher = load_acquire(&entry->publisher),
                                  .sequence = load_acquire(&entry->sequence),
                                  .size = load_acquire(&entry->size),
                                  .published_ns = load_acquire(&entry->published_ns)};
    return load_relaxed(&entry->turn) == turn ? TRACE_READ : TRACE_LOST;
}

/* On for as long as somebody wants it. How many of this process do is its own affair. */
static void end_locked(struct rtmw_region *r, uint32_t topic)
{
    if (r->tracing && r->tracing[topic] && --r->tracing[topic] == 0)
        fetch_and(&r->topics[topic].tracers[r->me >> 6], ~bit_of(r->me));
}

static int begin_locked(struct rtmw_region *r, uint64_t life)
{
    uint32_t topic = link_index(life);
    if (!r->tracing) r->tracing = calloc(r->header->topics, sizeof *r->tracing);
    if (!r->tracing) return RTMW_SYSTEM;
    if (r->tracing[topic]++ == 0)
        fetch_or(&r->topics[topic].tracers[r->me >> 6], bit_of(r->me)); /* pairs with is_idle */
    if (topic_stands(r, life)) return RTMW_OK;
    end_locked(r, topic);
    return RTMW_EMPTY;
}

int trace_begin(struct rtmw_region *r, uint64_t life)
{
    int state = region_state(r);
    if (state != RTMW_OK) return state;
    lock_take(&r->lock);
    int code = begin_locked(r, life);
    lock_give(&r->lock);
    return code;
}

void trace_end(struct rtmw_region *r, uint32_t topic)
{
    if (is_forked(r) || is_swept(r)) return;
    lock_take(&r->lock);
    end_locked(r, topic);
    lock_give(&r->lock);
}

/* After a death: what it traced is traced no more, and what it was writing is void. */
void trace_sweep(struct rtmw_region *r, uint32_t dead)
{
    for (uint32_t i = 0; i < load_seq(&r->hints->topics_top) && i < r->header->topics; i++)
        if (load_seq(&r->topics[i].tracers[dead >> 6]) & bit_of(dead))
            fetch_and(&r->topics[i].tracers[dead >> 6], ~bit_of(dead));
    uint64_t written = trace_next(r), used = written < r->header->trace_entries ? written : r->header->trace_entries;
    for (uint64_t i = 0; i < used; i++) {
        struct trace_entry *entry = entry_of(r, i);
        uint64_t turn = load_seq(&entry->turn);
        if (turn_state(turn) == TRACE_WRITING && turn_owner(turn) == dead)
            cas64(&entry->turn, turn, turn_make(turn_ticket(turn), NOBODY, TRACE_VOID));
    }
}

static void trace_at_publisher(struct rtmw_publisher *p, struct trace_event event)
{
    event.topic = p->topic_index;
    event.who = p->block->identity;
    trace_write(p->region, &event);
}

/* It is in the queue, and held. */
void trace_published(struct rtmw_publisher *p, uint32_t band, struct descriptor *d)
{
    uint64_t published_ns = load_relaxed(&d->published_ns);
    trace_at_publisher(p, (struct trace_event){.kind = TRACE_PUBLISHED,
                                               .band = band,
                                               .count = 1,
                                               .at_ns = published_ns,
                                               .publisher = load_relaxed(&d->publisher),
                                               .sequence = load_relaxed(&d->sequence),
                                               .size = load_relaxed(&d->size),
                                               .published_ns = published_ns});
}

void trace_refused(struct rtmw_publisher *p, enum trace_kind kind)
{
    trace_at_publisher(p, (struct trace_event){.kind = kind,
                                               .band = p->qos.priority,
                                               .count = 1,
                                               .at_ns = monotonic_ns(),
                                               .publisher = p->block->identity});
}

static void trace_at_subscriber(struct rtmw_subscriber *s, struct trace_event event)
{
    if (slot_state_of(s->word) != SLOT_ACTIVE) return; /* it is still on its way to where it begins */
    event.topic = s->topic_index;
    event.who = endpoint_identity(s->region->my_word, s->word, s->slot);
    event.at_ns = monotonic_ns();
    trace_write(s->region, &event);
}

/* The message that the cursor of a band is at, and holds, was taken or dropped. */
void trace_reached(struct rtmw_subscriber *s, enum trace_kind kind, uint32_t band)
{
    struct descriptor *d = &s->region->descriptors[s->index[band]];
    trace_at_subscriber(s, (struct trace_event){.kind = kind,
                                                .band = band,
                                                .count = 1,
                                                .publisher = load_relaxed(&d->publisher),
                                                .sequence = s->sequence[band],
                                                .size = load_relaxed(&d->size),
                                                .published_ns = load_relaxed(&d->published_ns)});
}

/* So many are gone, the last of them with this sequence: nothing else is known of them. */
void trace_gone(struct rtmw_subscriber *s, enum trace_kind kind, uint32_t band, uint64_t last, uint64_t count)
{
    trace_at_subscriber(s, (struct trace_event){.kind = kind,
                                                .band = band,
                                                .count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX,
                                                .sequence = last});
}
