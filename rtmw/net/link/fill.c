/* Fill: which frames go next. Of the urgent channel: acknowledgements, PONG, PING, controls, messages; of the bulk channel:
 * PONG, PING, messages. Nothing but acknowledgements and these two goes before the peer has resumed. */
#include <string.h>

#include "link.h"

enum { CHUNK_LEAST = 2048 }; /* room in an outbox with something, below which that is sent first */

static struct iovec bytes_of(const void *at, size_t size) { return (struct iovec){(void *)(uintptr_t)at, size}; }

static void put(struct channel *c, enum frame_kind kind, uint32_t route, struct iovec head)
{
    channel_put(c, (struct frame_header){.kind = (uint8_t)kind, .route = route}, head, (struct iovec){0}, NULL);
}

static bool has_room(const struct channel *c, size_t body) { return channel_room(c) >= channel_around(c) + body; }

/* ---- acknowledgements ---- */

static bool put_ack(struct channel *c, uint32_t route, struct frame_ack ack)
{
    if (!has_room(c, sizeof ack)) return false;
    put(c, FRAME_ACK, route, bytes_of(&ack, sizeof ack));
    return true;
}

static bool put_ack_of_controls(struct line *l, struct channel *c)
{
    lock(&l->news, LOCK_LEAF);
    uint64_t waiting = l->controls_received - l->controls_taken;
    unlock(&l->news, LOCK_LEAF);
    return put_ack(c, 0, (struct frame_ack){CONTROLS_SENT - waiting, {l->controls_received}});
}

/* false: some have no room, and are said next. */
static bool put_acks(struct line *l, struct channel *c)
{
    bool is_all = true;
    lock(&l->arriving, LOCK_ROUTE);
    store_relaxed(&l->acks_at_ns, 0);
    if (load_relaxed(&l->must_ack_controls)) {
        is_all = put_ack_of_controls(l, c);
        store_relaxed(&l->must_ack_controls, !is_all);
    }
    for (struct in *i = l->ins; i && is_all; i = i->next) {
        if (!i->must_ack) continue;
        is_all = put_ack(c, i->number, in_ack(i));
        i->must_ack = !is_all;
        if (is_all) i->since_ack = 0;
    }
    if (!is_all) store_relaxed(&l->acks_at_ns, 1);
    unlock(&l->arriving, LOCK_ROUTE);
    return is_all;
}

static void acknowledge(struct line *l, struct channel *c, uint64_t now)
{
    uint64_t at = load_relaxed(&l->acks_at_ns);
    if (l->has_resumed && (!at || at > now)) return;
    if (!put_acks(l, c) || l->has_resumed || !has_room(c, 0)) return;
    put(c, FRAME_RESUME, 0, (struct iovec){0});
    l->has_resumed = true;
    line_tell_up(l);
}

/* ---- PING, PONG, controls ---- */

static void put_pings(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    struct frame_pong pong = {l->pong[channel], now_steady_ns()};
    if (l->has_pong[channel] && has_room(c, sizeof pong)) {
        put(c, FRAME_PONG, 0, bytes_of(&pong, sizeof pong));
        l->has_pong[channel] = false;
    }
    if (l->must_ping[channel] && has_room(c, sizeof now)) {
        put(c, FRAME_PING, 0, bytes_of(&now, sizeof now));
        l->must_ping[channel] = false;
    }
}

static bool may_send_control(const struct line *l)
{
    return l->next_control && l->next_control->number <= l->controls_acknowledged + l->controls_room;
}

static void put_controls(struct line *l, struct channel *c)
{
    while (may_send_control(l)) {
        const struct control *next = l->next_control;
        if (!has_room(c, sizeof next->number + next->size)) return;
        channel_put(c, (struct frame_header){.kind = FRAME_CONTROL}, bytes_of(&next->number, sizeof next->number),
                    bytes_of(next->bytes, next->size), NULL);
        l->next_control = next->next;
    }
}

/* ---- messages ---- */

static uint64_t left_of(const rtmw_message *m, uint64_t now)
{
    return m->ends_ns ? lifetime_dated(m->ends_ns > now ? m->ends_ns - now : 1, now_steady_ns()) : 0;
}

static struct frame_begin begin_of(const struct line *l, const struct kept *k, uint64_t now)
{
    const rtmw_message *m = &k->message;
    return (struct frame_begin){.size = m->size,
                                .source_time_ns = m->source_time_ns,
                                .site = l->site,
                                .hops = l->hops,
                                .trailer = {.magic = TRAILER_MAGIC,
                                            .version = m->is_old ? TRAILER_OLD : TRAILER_VERSION,
                                            .priority = m->priority,
                                            .publisher = m->publisher,
                                            .sequence = k->number,
                                            .lifetime_ns = left_of(m, now)}};
}

static void finish(struct line *l, uint32_t band)
{
    kept_let_go(l->under_way[band].kept);
    l->under_way[band] = (struct under_way){0};
}

static void put_drop(struct line *l, struct channel *c, uint32_t band, enum frame_why why)
{
    const struct under_way *u = &l->under_way[band];
    struct frame_drop drop = {u->kept->number, why};
    struct frame_header header = {.kind = FRAME_DROP, .flags = (uint8_t)band, .route = u->route};
    channel_put(c, header, bytes_of(&drop, sizeof drop), (struct iovec){0}, NULL);
    if (u->out && why == FRAME_EXPIRED) count_up(&u->out->expired, 1);
    finish(l, band);
}

/* The next bytes of the message that is under way, as many as the outbox has room for. */
static void put_chunk(struct line *l, struct channel *c, uint32_t band, uint64_t now)
{
    struct under_way *u = &l->under_way[band];
    bool is_first = u->sent == 0;
    struct frame_begin begin;
    size_t head = is_first ? sizeof begin : 0, room = channel_room(c) - channel_around(c) - head;
    if (channel_is_slow(c) && room > channel_ahead(c)) room = channel_ahead(c);
    size_t size = u->kept->message.size - u->sent < room ? u->kept->message.size - u->sent : room;
    struct frame_header header = {.kind = is_first ? FRAME_BEGIN : FRAME_MORE,
                                  .flags = (uint8_t)band,
                                  .route = u->route};
    if (is_first) begin = begin_of(l, u->kept, now);
    channel_put(c, header, bytes_of(&begin, head), bytes_of(u->kept->data + u->sent, size), u->kept);
    u->sent += size;
    if (u->sent < u->kept->message.size) return;
    if (is_first && channel_of(band) == URGENT) twin_copy(l, header, &begin, u->kept, now);
    finish(l, band);
}

static bool begin_from(struct line *l, struct out *o, uint32_t band, uint64_t now)
{
    struct kept *k = out_next(o, band, now);
    if (!k) return false;
    out_begun(o, band, k, now);
    kept_hold(k);
    l->under_way[band] = (struct under_way){o, o->number, k, 0};
    l->turn[band] = o->next;
    return true;
}

/* Routes of a band take turns, message by message. */
static bool begin(struct line *l, uint32_t band, uint64_t now)
{
    struct out *first = l->turn[band];
    for (struct out *o = first; o; o = o->next)
        if (begin_from(l, o, band, now)) return true;
    for (struct out *o = l->outs; o && o != first; o = o->next)
        if (begin_from(l, o, band, now)) return true;
    l->filled &= ~(1u << band);
    return false;
}

/* One frame of the highest band of this channel that has something. */
static bool put_message(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    for (uint32_t band = BANDS; band-- > 0;) {
        const struct under_way *u = &l->under_way[band];
        if (channel_of(band) != channel) continue;
        if (!u->kept && !((l->filled >> band & 1) && begin(l, band, now))) continue;
        if (!u->out || is_expired(&u->kept->message, now))
            put_drop(l, c, band, u->out ? FRAME_EXPIRED : FRAME_CLOSED);
        else
            put_chunk(l, c, band, now);
        return true;
    }
    return false;
}

static bool may_have_more(const struct channel *c)
{
    bool is_paced = channel_is_slow(c) && c->out.total >= channel_ahead(c);
    return channel_is_empty(c) || (!is_paced && channel_room(c) >= CHUNK_LEAST);
}

static bool is_under_way(const struct line *l, int channel)
{
    for (uint32_t band = 0; band < BANDS; band++)
        if (channel_of(band) == channel && l->under_way[band].kept) return true;
    return false;
}

static void put_frames(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    if (channel == URGENT) acknowledge(l, c, now);
    put_pings(l, channel, now);
    if (!l->peer_has_resumed || !l->has_resumed) return;
    if (channel == URGENT) put_controls(l, c);
    while (may_have_more(c) && (put_message(l, channel, now) || line_gather(l))) {}
}

void line_fill(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    if (channel == URGENT) twin_prepare(l, now);
    put_frames(l, channel, now);
    c->is_followed = !channel_is_slow(c) && is_under_way(l, channel);
}

/* ---- pump ---- */

/* Pump: from the bus to the sockets, as far as both have something. */

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

/* ---- twin ---- */

/* Twin: a connection beside the urgent one, over which small urgent messages go a second time.
 *
 * TCP sends what was lost again after a round trip and more, and keeps back all that has come behind it until then. Two
 * connections seldom lose the same message, so the copy comes in time. Nothing depends on the copy: numbers, room and
 * acknowledgements are those of the message, and a line without a twin, or with a bad one, carries the same messages.
 *
 *   out   A frame is copied if and only if: (1) it is of an urgent band and has a whole message; (2) the twin has sent all
 *         that it has, and its outbox has room; (3) the kernel took the last outbox of the urgent connection at once, so the
 *         urgent bands are no flood; (4) copies have not used up their share of the rate, where pacing has found or been
 *         given one. Else the copy is left out.
 *   in    A copy is taken if and only if: (1) its number is the next one of its route and band; (2) this message has not
 *         come in part over the urgent connection; (3) its route has room for it. Else it is passed over (in.c). Of a
 *         message that was taken so, the one that comes over the urgent connection is passed over.
 */

enum { SHARE = 8 }; /* of the rate: such a part at most is for copies */

/* A debt is of bytes: made at a low rate, it is soon paid at a higher one. */
static void change_rate(struct rate_limit *limit, uint64_t rate, uint64_t now)
{
    uint64_t debt_us = (limit->free_ns > now ? limit->free_ns - now : 0) / 1000;
    limit->free_ns = rate ? now + debt_us * limit->bytes_per_second / rate * 1000 : 0;
    limit->bytes_per_second = rate;
}

void twin_prepare(struct line *l, uint64_t now)
{
    const struct channel *c = l->channel[TWIN], *urgent = l->channel[URGENT];
    if (!c) return;
    uint64_t rate = larger(urgent->rate, l->channel[BULK]->rate) / SHARE;
    if (rate != l->twin.limit.bytes_per_second) change_rate(&l->twin.limit, rate, now);
    l->twin.takes = c->may_write && channel_is_empty(c) && !line_ahead_ns(l, TWIN, now) && urgent->is_swift &&
                    !rate_limit_free_ns(&l->twin.limit, now);
}

void twin_copy(struct line *l, struct frame_header header, const struct frame_begin *begin, struct kept *k,
               uint64_t now)
{
    struct channel *c = l->channel[TWIN];
    if (!c) return;
    size_t size = channel_around(c) + sizeof *begin + k->message.size;
    if (!l->twin.takes || channel_room(c) < size) {
        count_up(&l->twin.left_out, 1);
        return;
    }
    channel_put(c, header, (struct iovec){(void *)(uintptr_t)begin, sizeof *begin},
                (struct iovec){(void *)(uintptr_t)k->data, k->message.size}, k);
    rate_limit_charge(&l->twin.limit, size, now);
    count_up(&l->twin.copies, 1);
}
