/* Pump: from the bus to the sockets, as far as both have something. */
#include "link.h"

static uint32_t bands_of(const struct out *o)
{
    uint32_t bands = 0;
    for (uint32_t band = 0; band < BANDS; band++)
        if (lookahead_count(&o->lookahead, band) || o->band[band].again) bands |= 1u << band;
    return bands;
}

bool line_gather(struct line *l)
{
    bool is_more = false;
    l->filled = 0;
    for (struct out *o = l->outs; o; o = o->next) {
        is_more = out_gather(o) || is_more;
        l->filled |= bands_of(o);
        if (o->reliable && out_is_behind(o))
            rtmw_subscriber_alive(o->subscriber); /* the lease of the line says who is */
    }
    return is_more;
}

/* true: the outbox was written, and there may be more for it. */
static bool pump(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    if (!c || !c->may_write || (channel == TWIN && channel_is_empty(c))) return false;
    c->paced_ns = line_ahead_ns(l, channel, now);
    if (c->paced_ns && !l->has_pong[channel] && !l->must_ping[channel]) return false; /* these say that it lives */
    if (channel_is_empty(c)) line_fill(l, channel, now);
    if (channel_is_empty(c)) return false;
    uint64_t before = c->written;
    c->may_write = channel_write(c) == CHANNEL_DONE;
    shared_rate_charge(l->lines, c->interface, channel != BULK, c->written - before, now);
    return c->may_write;
}

bool line_pump(struct line *l, uint64_t now, bool may_write_bulk)
{
    line_gather(l);
    bool is_more = pump(l, URGENT, now);
    pump(l, TWIN, now); /* the copies of that */
    return (may_write_bulk && pump(l, BULK, now)) || is_more;
}

bool line_has_bulk(const struct line *l)
{
    const struct channel *c = l->channel[BULK];
    bool has = c && (!channel_is_empty(c) || l->has_pong[BULK] || l->must_ping[BULK]);
    for (uint32_t band = 0; band < URGENT_FROM; band++) has = has || l->under_way[band].kept || l->filled >> band & 1;
    return c && has;
}

uint64_t line_paced_ns(const struct line *l)
{
    uint64_t at = UINT64_MAX;
    for (int n = 0; n < CHANNELS; n++)
        if (l->channel[n] && l->channel[n]->paced_ns && (n != BULK || line_has_bulk(l)))
            at = least(at, l->channel[n]->paced_ns);
    return at;
}

uint64_t line_next_try(const struct line *l, uint64_t now)
{
    uint64_t at = line_paced_ns(l);
    for (const struct out *o = l->outs; o; o = o->next) {
        uint64_t next =
            out_is_behind(o) ? now + WAIT_NS : UINT64_MAX; /* publishers are to be told that this program lives */
        uint64_t free_ns = out_free_ns(o, now);
        if (o->lookahead.taken && free_ns && free_ns < next) next = free_ns;
        if (next < at) at = next;
    }
    return at;
}
