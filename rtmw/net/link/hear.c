/* Hear: the effect of each frame of the peer. A frame that no honest peer sends ends the line: `words` says what it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

#define JUMP_MOST (UINT64_C(1) << 32) /* messages that may be lost at once */

static const struct verdict well = {0};

static struct verdict violation(const char *words) { return (struct verdict){DOWN_VIOLATION, words}; }

/* ---- messages: under `arriving` ---- */

static uint8_t *bytes_of(struct waiting *w) { return w->loan.data ? w->loan.data : w->bytes; }

/* As a peer sends the rest of a large message: that of the highest band goes before all others. */
struct landing *line_expect(struct line *l, int channel)
{
    struct landing *x = &l->landing[channel];
    const struct channel *c = l->channel[channel];
    if (landing_has_moved(x)) return x;
    uint32_t band = BANDS - 1;
    while (band && (channel_of(band) != channel || !l->incoming[band].is_under_way)) band--;
    const struct incoming *m = &l->incoming[band];
    if (channel_of(band) != channel || !m->is_under_way || !m->to) return NULL;
    uint8_t flags = (uint8_t)(band | (c->is_checked ? FRAME_CHECKED : 0));
    struct frame_header header = {.kind = FRAME_MORE, .flags = flags, .route = m->route};
    landing_expect(x, header, bytes_of(m->to) + m->got, m->begin.size - m->got);
    return x->frames ? x : NULL;
}

/* The rest is passed over; what came of it is dropped. */
void incoming_forget(struct line *l, struct incoming *m)
{
    struct landing *x = &l->landing[channel_of(m->begin.trailer.priority)];
    if (m->to && x->have && (x->header.flags & FRAME_BAND) == m->begin.trailer.priority) landing_move(x);
    if (m->to) in_drop(m->in, m->to);
    m->to = NULL;
    m->in = NULL;
}

/* From a date on the peer's clock to what is left now. */
static bool resolve_lifetime(struct line *l, struct in *i, struct frame_begin *b)
{
    uint64_t *lifetime = &b->trailer.lifetime_ns;
    if (!*lifetime || !lifetime_is_dated(*lifetime)) return true;
    uint64_t there = now_steady_ns() + (uint64_t)l->clock.ahead_ns;
    *lifetime =
        l->clock.best_ns ? lifetime_after_way(*lifetime, there, l->clock.unsure_ns) : lifetime_left_ns(*lifetime);
    if (!*lifetime) in_expire(i);
    return *lifetime != 0;
}

/* It came to its end, over whichever channel, and is on the bus, waits, or was refused. */
static void reached(struct line *l, struct in *i, const struct frame_begin *b, uint64_t now)
{
    in_reach(i, b->trailer.priority, b->trailer.sequence);
    told_came(i);
    i->since_ack += cost_of(b->size);
    i->must_ack = true;
    if (i->since_ack >= i->window / 4)
        store_relaxed(&l->acks_at_ns, 1);
    else if (!load_relaxed(&l->acks_at_ns))
        store_relaxed(&l->acks_at_ns, now + ACK_DELAY_NS);
}

static void done(struct line *l, struct in *i, const struct frame_begin *b, uint64_t now)
{
    i->own[b->trailer.priority] = b->trailer.sequence;
    reached(l, i, b, now);
}

/* The twin has brought it. Its further parts have no place (struct incoming). */
static struct verdict passed_over(struct in *i, const struct frame_begin *b)
{
    i->own[b->trailer.priority] = b->trailer.sequence;
    return well;
}

static struct verdict begin(struct line *l, const struct frame *f, uint64_t now)
{
    struct frame_begin b;
    if (!frame_begin_read(f, &b)) return violation("a message whose head contradicts itself");
    struct incoming *m = &l->incoming[b.trailer.priority];
    struct in *i = by_number_find(&l->in_numbers, f->header.route);
    if (m->is_under_way) return violation("a message that begins before the last one of its band has ended");
    if (!f->header.route || f->header.route > l->highest_in)
        return violation("a message of a route that was never opened");
    size_t size = f->size - sizeof b;
    *m = (struct incoming){.is_under_way = size < b.size, .route = f->header.route, .begin = b, .got = size};
    if (!i) return well; /* closed meanwhile */
    if (b.trailer.sequence <= i->own[b.trailer.priority]) return violation("a message that came before");
    if (b.trailer.sequence <= i->received[b.trailer.priority]) return passed_over(i, &b);
    if (b.trailer.sequence - i->received[b.trailer.priority] > JUMP_MOST)
        return violation("a message with a number that cannot be");
    if (!in_has_room(i, &b)) return violation("more messages of a route than it has room for");
    m->in = i;
    bool is_wanted = in_begin(i, &b) && resolve_lifetime(l, i, &b);
    if (is_wanted && !m->is_under_way) in_accept(i, &b, f->body + sizeof b);
    if (is_wanted && m->is_under_way && (m->to = in_place(i, &b))) memcpy(bytes_of(m->to), f->body + sizeof b, size);
    if (!m->is_under_way) done(l, i, &b, now);
    return well;
}

static struct verdict more(struct line *l, const struct frame *f, uint64_t now)
{
    struct incoming *m = &l->incoming[f->header.flags & FRAME_BAND];
    if (!m->is_under_way || m->route != f->header.route || f->size > m->begin.size - m->got)
        return violation("a part of a message that is not under way, or longer than that");
    uint8_t *to = m->to ? bytes_of(m->to) + m->got : NULL;
    if (to && to != f->body) memcpy(to, f->body, f->size); /* else it has landed there */
    m->got += f->size;
    if (m->got < m->begin.size) return well;
    m->is_under_way = false;
    struct waiting *whole = m->to;
    m->to = NULL;
    if (whole) in_accept_whole(m->in, whole);
    if (m->in) done(l, m->in, &m->begin, now);
    return well;
}

/* Of a message under way, or of one that will not come at all, for it has expired since it was sent before. */
static struct verdict drop(struct line *l, const struct frame *f, uint64_t now)
{
    uint32_t band = f->header.flags & FRAME_BAND;
    struct incoming *m = &l->incoming[band];
    struct frame_drop d;
    memcpy(&d, f->body, sizeof d);
    struct in *i = by_number_find(&l->in_numbers, f->header.route);
    bool is_passed_over = m->is_under_way && !m->in;
    bool is_counted = m->is_under_way && m->in && !m->to; /* at its beginning: it had expired, or was refused */
    if (f->header.route > l->highest_in) return violation("a message of a route that was never opened");
    if (m->is_under_way && (m->route != f->header.route || m->begin.trailer.sequence != d.number))
        return violation("the end of another message than the one that is under way");
    incoming_forget(l, m);
    m->is_under_way = false;
    if (!i || is_passed_over) return well;
    struct frame_begin b = {.trailer = {.priority = (uint8_t)band, .sequence = d.number}};
    if (d.number <= i->own[band]) return violation("the end of a message that came before");
    if (d.number <= i->received[band]) return passed_over(i, &b);
    if (d.number - i->received[band] > JUMP_MOST) return violation("the end of a message that cannot be");
    in_count_lost(i, &b, now);
    if (d.why == FRAME_EXPIRED && !is_counted)
        in_expire(i);
    else if (!is_counted)
        in_tell(i, (rtmw_lost){.missed = 1});
    done(l, i, &b, now);
    return well;
}

/* twin.c says when it is taken. */
static bool is_due(const struct line *l, const struct in *i, const struct frame_begin *b)
{
    uint32_t band = b->trailer.priority;
    bool is_next = b->trailer.sequence == i->received[band] + 1;
    bool is_here_in_part = l->incoming[band].is_under_way && l->incoming[band].in == i;
    return is_next && !is_here_in_part && in_has_room(i, b);
}

static struct verdict copy(struct line *l, const struct frame *f, uint64_t now)
{
    struct frame_begin b;
    if (f->header.kind != FRAME_BEGIN || !frame_begin_read(f, &b) || channel_of(b.trailer.priority) != URGENT ||
        f->size - sizeof b != b.size)
        return violation("a frame that no twin carries");
    lock(&l->arriving, LOCK_ROUTE);
    struct in *i = by_number_find(&l->in_numbers, f->header.route);
    if (i && is_due(l, i, &b)) {
        if (in_begin(i, &b) && resolve_lifetime(l, i, &b)) in_accept(i, &b, f->body + sizeof b);
        reached(l, i, &b, now);
        count_up(&l->twin.first, 1);
    } else {
        count_up(&l->twin.passed_over, 1);
    }
    unlock(&l->arriving, LOCK_ROUTE);
    return well;
}

static struct verdict message(struct line *l, int channel, const struct frame *f, uint64_t now)
{
    if (channel_of(f->header.flags & FRAME_BAND) != channel)
        return violation("a message on the connection of other bands");
    lock(&l->arriving, LOCK_ROUTE);
    struct verdict verdict = f->header.kind == FRAME_BEGIN  ? begin(l, f, now)
                             : f->header.kind == FRAME_MORE ? more(l, f, now)
                                                            : drop(l, f, now);
    unlock(&l->arriving, LOCK_ROUTE);
    return verdict;
}

/* On new connections each message begins anew. */
void line_forget_incoming(struct line *l)
{
    lock(&l->arriving, LOCK_ROUTE);
    for (uint32_t band = 0; band < BANDS; band++) {
        incoming_forget(l, &l->incoming[band]);
        l->incoming[band].is_under_way = false;
    }
    for (int channel = 0; channel < CHANNELS; channel++) l->landing[channel].have = 0;
    for (struct in *i = l->ins; i; i = i->next) i->must_ack = true;
    store_relaxed(&l->must_ack_controls, 1u);
    unlock(&l->arriving, LOCK_ROUTE);
}

/* ---- all others ---- */

static bool acknowledge_controls(struct line *l, const struct frame_ack *ack)
{
    if (ack->number[0] < l->controls_acknowledged || ack->number[0] > l->control_number) return false;
    l->controls_acknowledged = ack->number[0];
    l->controls_room = ack->room < CONTROLS_SENT ? ack->room : CONTROLS_SENT;
    for (struct control *c; (c = l->controls) && c->number <= ack->number[0];) {
        if (l->next_control == c) l->next_control = c->next;
        l->controls = c->next;
        if (!c->next) l->last_control = NULL;
        l->control_count--;
        free(c);
    }
    return true;
}

static struct verdict acknowledge(struct line *l, const struct frame *f)
{
    struct frame_ack ack;
    memcpy(&ack, f->body, sizeof ack);
    struct out *o = by_number_find(&l->out_numbers, f->header.route); /* NULL: closed meanwhile */
    if (f->header.route > l->highest_out) return violation("an acknowledgement of a route that was never opened");
    bool is_well = f->header.route ? !o || out_acknowledge(o, &ack) : acknowledge_controls(l, &ack);
    return is_well ? well : violation("an acknowledgement of what was not sent");
}

static struct verdict control(struct line *l, const struct frame *f)
{
    uint64_t number;
    memcpy(&number, f->body, sizeof number);
    lock(&l->news, LOCK_LEAF);
    uint64_t waiting = l->controls_received - l->controls_taken;
    unlock(&l->news, LOCK_LEAF);
    if (number != l->controls_received + 1) return violation("a control out of its order");
    if (waiting >= CONTROLS_SENT) return violation("more controls than there is room for");
    lock(&l->arriving, LOCK_ROUTE);
    l->controls_received = number;
    store_relaxed(&l->must_ack_controls, 1u);
    if (!load_relaxed(&l->acks_at_ns)) store_relaxed(&l->acks_at_ns, now_monotonic_ns() + ACK_DELAY_NS);
    unlock(&l->arriving, LOCK_ROUTE);
    news_tell(l, NEWS_CONTROL, 0, f->body + sizeof number, f->size - sizeof number);
    return well;
}

enum { PONGS_OLD = 3 }; /* after so many a better measurement is no longer believed: clocks drift */

static uint64_t distance(int64_t one, int64_t other) { return (uint64_t)(one < other ? other - one : one - other); }

/* The PONG with the shortest way says best how far the other clock is ahead. One that contradicts it shows that it was set:
 * nodes have a clock that nobody sets (now.h), but for older ones. */
static void measure(struct line *l, const struct frame *f, uint64_t now)
{
    struct frame_pong pong;
    memcpy(&pong, f->body, sizeof pong);
    if (pong.value > now || now - pong.value > INT64_MAX) return;
    l->measured_ns = now;
    uint64_t rtt = now - pong.value + 1;
    int64_t ahead = (int64_t)(pong.steady_ns - (now_steady_ns() - rtt / 2));
    struct peer_clock *c = &l->clock;
    store_relaxed(&c->rtt_ns, rtt);
    bool is_set = distance(ahead, c->ahead_ns) > c->unsure_ns + rtt / 2;
    if (c->best_ns && rtt > c->best_ns && !is_set && ++c->age < PONGS_OLD) return;
    store_relaxed(&c->best_ns, rtt);
    store_relaxed(&c->unsure_ns, rtt / 2);
    store_relaxed(&c->ahead_ns, ahead);
    c->age = 0;
}

static struct verdict resume(struct line *l)
{
    if (l->peer_has_resumed) return violation("a second RESUME on one connection");
    l->peer_has_resumed = true;
    line_tell_up(l);
    return well;
}

/* Under the lock of the line. */
static struct verdict hear_locked(struct line *l, int channel, const struct frame *f)
{
    if (f->header.kind == FRAME_PING) {
        memcpy(&l->pong[channel], f->body, sizeof l->pong[channel]);
        l->has_pong[channel] = true;
        return well;
    }
    if (channel != URGENT) return violation("a frame of the urgent connection on the other one");
    return f->header.kind == FRAME_ACK ? acknowledge(l, f) : resume(l);
}

struct verdict line_hear(struct line *l, int channel, const struct frame *f, uint64_t now)
{
    struct verdict verdict = well;
    if (channel == TWIN) return copy(l, f, now);
    switch (f->header.kind) {
    case FRAME_BEGIN:
    case FRAME_MORE:
    case FRAME_DROP:
        return message(l, channel, f, now);
    case FRAME_CONTROL:
        return channel == URGENT ? control(l, f) : violation("a control on the bulk connection");
    case FRAME_PONG:
        if (channel == URGENT) measure(l, f, now);
        return well;
    case FRAME_PING:
    case FRAME_ACK:
    case FRAME_RESUME:
        line_lock(l);
        verdict = hear_locked(l, channel, f);
        unlock(&l->lock, LOCK_ENGINE);
        return verdict;
    case FRAME_BYE:
        snprintf(l->farewell, sizeof l->farewell, "the peer says: %.*s", (int)(f->size - 2), (const char *)f->body + 2);
        return (struct verdict){DOWN_TOLD, l->farewell};
    default:
        return violation("a frame that belongs before the hello's end");
    }
}
