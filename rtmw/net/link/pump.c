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
    if (is_ahead(c, now)) return store_relaxed(&l->is_paced, 1u), false;
    if (channel_is_empty(c)) line_fill(l, channel, now);
    if (channel_is_empty(c)) return false;
    uint64_t before = c->written;
    c->may_write = channel_write(c) == CHANNEL_DONE;
    rate_limit_charge(&c->limit, c->written - before, now);
    return c->may_write;
}

bool line_pump(struct line *l, uint64_t now)
{
    store_relaxed(&l->is_paced, 0u);
    line_gather(l);
    bool is_more = pump(l, URGENT, now);
    pump(l, TWIN, now); /* the copies of that */
    return pump(l, BULK, now) || is_more;
}

uint64_t line_next_try(const struct line *l, uint64_t now)
{
    uint64_t at = load_relaxed(&l->is_paced) ? now + RETRY_NS : UINT64_MAX;
    for (const struct out *o = l->outs; o; o = o->next) {
        uint64_t next =
            out_is_behind(o) ? now + WAIT_NS : UINT64_MAX; /* publishers are to be told that this program lives */
        uint64_t free_ns = rate_limit_free_ns(&o->limit, now);
        if (o->lookahead.taken && free_ns && free_ns < next) next = free_ns;
        if (next < at) at = next;
    }
    return at;
}
