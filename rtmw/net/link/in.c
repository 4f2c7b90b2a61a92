/* What comes from the peer: each frame of its connections takes effect (`line_hear`), and messages go on their way to the bus
 * (struct in). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../shm/identity.h"
#include "link.h"

/* ---- messages ---- */

/* In: what the peer sends of a topic, on its way to the bus. */

#define SECOND_NS UINT64_C(1000000000)

enum {
    PARTS_MOST = 16,   /* the room left to the peer, in so many parts */
    HELD_TIMES = 4,    /* so many times what the peer is given room for is held at most */
    UNWOKEN_MOST = 16, /* messages: with the usual depth there is room for more while the subscriber wakes */
};

/* ---- what may come ---- */

static bool refuse(struct in *i, enum refusal why)
{
    count_up(&i->refused[why], 1);
    if (!i->told[why]) news_tell(i->line, NEWS_REFUSED, i->number, word_of(why), strlen(word_of(why)));
    i->told[why] = true;
    return false;
}

/* As many bytes as a second of the rate allows may come at once. */
static bool is_too_fast(struct in *i, uint64_t size, uint64_t now)
{
    if (rate_limit_free_ns(&i->rate, now) > now + SECOND_NS) return true;
    rate_limit_charge(&i->rate, size, now);
    return false;
}

bool in_tell_since(struct in *i, rtmw_lost lost, uint64_t since_ns)
{
    if (i->publisher) return rtmw_publisher_lost(i->publisher, lost, since_ns);
    if (!i->untold_ns) i->untold_ns = since_ns;
    i->untold.missed += lost.missed;
    i->untold.expired += lost.expired;
    i->untold.thinned += lost.thinned;
    return true;
}

void in_count_lost(struct in *i, const struct frame_begin *b, uint64_t now)
{
    uint64_t lost = b->trailer.sequence - i->received[b->trailer.priority] - 1;
    in_reach(i, b->trailer.priority, b->trailer.sequence - 1);
    uint64_t since = i->last_ns ? i->last_ns : now;
    if (lost && in_tell_since(i, (rtmw_lost){.missed = lost}, since)) count_up(&i->lost, lost);
    i->last_ns = now;
}

void in_tell(struct in *i, rtmw_lost lost) { in_tell_since(i, lost, now_monotonic_ns()); }

void in_expire(struct in *i)
{
    count_up(&i->expired, 1);
    in_tell(i, (rtmw_lost){.expired = 1});
}

/* A publisher's messages come in the order of their source time, so the newest on the bus says it of all. */
static bool is_on_bus(const struct in *i, const struct frame_begin *b)
{
    uint64_t publisher = identity_of_publisher(i->origin, b->trailer.publisher) | RTMW_REMOTE;
    for (uint32_t n = 0; n < ON_BUS && i->on_bus[n].publisher; n++)
        if (i->on_bus[n].publisher == publisher) return b->source_time_ns <= i->on_bus[n].newest_ns;
    return false;
}

/* A message is begun while those before it have not used up the room. So all but the last one fit into the window, of what
 * waits and what is under way; which one is the last is not known here, for bands overtake each other. */
bool in_has_room(const struct in *i, const struct frame_begin *b)
{
    uint64_t sum = i->waits + cost_of(b->size), largest = larger(i->largest, cost_of(b->size));
    for (uint32_t band = 0; band < BANDS; band++) {
        const struct incoming *m = &i->line->incoming[band];
        if (!m->is_under_way || m->in != i) continue;
        sum += cost_of(m->begin.size);
        largest = larger(largest, cost_of(m->begin.size));
    }
    return sum <= largest || sum - largest < i->window; /* the largest may have left before others that wait */
}

bool in_begin(struct in *i, const struct frame_begin *b)
{
    uint64_t now = now_monotonic_ns();
    in_count_lost(i, b, now);
    if (!keeps_priority(&i->ceilings, b->trailer.priority)) return refuse(i, REFUSED_PRIORITY);
    if (!keeps_size(&i->ceilings, b->size)) return refuse(i, REFUSED_SIZE);
    if (is_too_fast(i, b->size, now)) return refuse(i, REFUSED_RATE);
    if (b->trailer.version != TRAILER_OLD || (load_relaxed(&i->wants_old) && !is_on_bus(i, b))) return true;
    count_up(&i->old, 1);
    return false;
}

/* ---- to the bus ---- */

struct place {
    const void *bytes;
    rtmw_loan *loan; /* not NULL: it lies there */
};

/* ---- subscribers that sleep ---- */

void in_wake(struct line *l)
{
    if (l->unwoken) rtmw_publisher_flush(l->unwoken->publisher);
    l->unwoken = NULL;
    l->unwoken_count = 0;
}

/* Once for several small messages. Woken at the first of them, a program on the same processor runs at once, takes
 * that one, and sleeps again. */
static int publish_quietly(struct in *i, const void *bytes, uint64_t size, const rtmw_message_qos *qos)
{
    struct line *l = i->line;
    if (l->unwoken != i || l->unwoken_count >= UNWOKEN_MOST) in_wake(l);
    int code = rtmw_publish_quietly(i->publisher, bytes, size, qos);
    if (code == RTMW_OK) {
        l->unwoken = i;
        l->unwoken_count++;
    } else {
        in_wake(l);
    }
    return code;
}

static void give_up(struct in *i)
{
    count_up(&i->no_memory, 1);
    in_tell(i, (rtmw_lost){.missed = 1});
}

/* Python opens the publisher, or closes the route. */
static bool ask_for_publisher(struct in *i)
{
    if (!i->has_asked) news_tell(i->line, NEWS_FIRST, i->number, NULL, 0);
    i->has_asked = true;
    return false;
}

/* false: it has to wait, for room or for the publisher. */
static bool publish(struct in *i, const struct frame_begin *b, struct place at, uint64_t waited_ns)
{
    const struct trailer *t = &b->trailer;
    if (t->lifetime_ns && waited_ns >= t->lifetime_ns) return in_expire(i), true;
    if (!i->publisher) return ask_for_publisher(i);
    rtmw_message_qos qos = {.priority = t->priority,
                            .lifetime_ns = t->lifetime_ns ? t->lifetime_ns - waited_ns : 0,
                            .source_time_ns = b->source_time_ns,
                            .publisher = identity_of_publisher(i->origin, t->publisher) | RTMW_REMOTE};
    int code = at.loan ? rtmw_loan_publish(i->publisher, at.loan, &qos) : publish_quietly(i, at.bytes, b->size, &qos);
    if ((code == RTMW_FULL || code == RTMW_NO_MEMORY) && i->reliable) return false;
    if (code == RTMW_OK && at.loan) {
        at.loan->data = NULL;
        count_up(&i->uncopied, 1);
    }
    if (code != RTMW_OK) return give_up(i), true;
    count_up(&i->bytes, b->size);
    count_up(&i->arrived, 1);
    return true;
}

static void let_wait(struct in *i, struct waiting *w)
{
    w->next = NULL;
    if (i->last)
        i->last->next = w;
    else
        i->first = w;
    if (i->first == w) fetch_add(&i->line->waiting, 1u);
    i->last = w;
    i->waiting++;
    i->waits += cost_of(w->begin.size);
    if (i->largest < cost_of(w->begin.size)) i->largest = cost_of(w->begin.size);
    count_up(&i->delayed, 1);
}

static void keep_sequence(struct in *i, const struct frame_begin *b)
{
    in_reach(i, b->trailer.priority, b->trailer.sequence);
}

/* A peer that keeps to the room that it is told comes so far only with very many topics that are all full, for the room shrinks
 * as what is held grows. The first message always has room. */
static bool may_hold(const struct in *i, const struct frame_begin *b)
{
    const struct line *l = i->line;
    return !l->held_most || !l->held || l->held + cost_of(b->size) <= HELD_TIMES * l->held_most;
}

static struct place place_of(struct waiting *w) { return (struct place){w->bytes, w->loan.data ? &w->loan : NULL}; }

void in_drop(struct in *i, struct waiting *w)
{
    i->line->held -= cost_of(w->begin.size);
    if (w->loan.data) rtmw_loan_drop(i->publisher, &w->loan);
    free(w);
}

void in_accept_whole(struct in *i, struct waiting *w)
{
    uint64_t now = now_monotonic_ns();
    keep_sequence(i, &w->begin);
    if (!i->first && publish(i, &w->begin, place_of(w), now - w->came_ns))
        in_drop(i, w);
    else
        let_wait(i, w);
}

void in_accept(struct in *i, const struct frame_begin *b, const uint8_t *bytes)
{
    keep_sequence(i, b);
    if (!i->first && publish(i, b, (struct place){bytes, NULL}, 0)) return;
    struct waiting *w = may_hold(i, b) ? malloc(sizeof *w + b->size) : NULL;
    if (!w) return give_up(i);
    *w = (struct waiting){.begin = *b, .came_ns = now_monotonic_ns()};
    i->line->held += cost_of(b->size);
    if (b->size) memcpy(w->bytes, bytes, b->size);
    let_wait(i, w);
}

void in_retry(struct in *i)
{
    uint64_t now = now_monotonic_ns();
    for (struct waiting *w; (w = i->first);) {
        if (!publish(i, &w->begin, place_of(w), now - w->came_ns)) return;
        i->first = w->next;
        i->waiting--;
        told_came(i);
        if (!i->first) i->last = NULL;
        if (!i->first) i->largest = 0;
        if (!i->first) fetch_add(&i->line->waiting, UINT32_MAX);
        i->waits -= cost_of(w->begin.size);
        in_drop(i, w);
        i->must_ack = true;
    }
}

/* RTMW_NO_MEMORY: it lies outside of the pool, which is not smaller than HELD_TIMES * held_most. */
static int take_loan(struct in *i, const struct frame_begin *b, rtmw_loan *loan)
{
    uint64_t most = i->line->held_most;
    if (!may_hold(i, b)) return RTMW_TOO_LARGE;
    if (i->publisher) return rtmw_loan_take(i->publisher, b->size, loan);
    return most && b->size > HELD_TIMES * most ? RTMW_TOO_LARGE : RTMW_NO_MEMORY;
}

/* A loan where there is room in the pool; what is larger than the pool has no place at all. */
struct waiting *in_place(struct in *i, const struct frame_begin *b)
{
    rtmw_loan loan = {0};
    int code = take_loan(i, b, &loan);
    if (code != RTMW_OK) loan.data = NULL;
    struct waiting *w = code == RTMW_TOO_LARGE ? NULL : malloc(sizeof *w + (loan.data ? 0 : b->size));
    if (!w && loan.data) rtmw_loan_drop(i->publisher, &loan);
    if (!w) return give_up(i), NULL;
    *w = (struct waiting){.begin = *b, .came_ns = now_monotonic_ns(), .loan = loan};
    i->line->held += cost_of(b->size);
    return w;
}

/* All routes share what is left to the peer, for all may come to wait at once. One of which nothing waits can always send: it
 * holds nothing. */
static uint64_t room_of(const struct in *i)
{
    const struct line *l = i->line;
    uint64_t room = i->window > i->waits ? i->window - i->waits : 0;
    uint64_t left = l->held_most > l->held ? l->held_most - l->held : 0;
    uint64_t part = left / (l->in_count < PARTS_MOST ? l->in_count : PARTS_MOST);
    if (!i->first && !part) part = 1;
    return !l->held_most || room < part ? room : part;
}

struct frame_ack in_ack(struct in *i)
{
    struct frame_ack ack = {.room = room_of(i)};
    memcpy(ack.number, i->received, sizeof ack.number);
    return ack;
}

/* ---- from opening to closing ---- */

/* The peer has not sent these since it said so last. */
void in_unsent(struct in *i, rtmw_lost unsent)
{
    lock(&i->line->arriving, LOCK_ROUTE);
    in_tell_since(i, unsent, i->unsent_ns);
    i->unsent_ns = now_monotonic_ns();
    unlock(&i->line->arriving, LOCK_ROUTE);
}

/* Sets the ceilings; refusals are told anew from now on. */
void in_limit(struct in *i, struct ceilings ceilings)
{
    lock(&i->line->arriving, LOCK_ROUTE);
    i->ceilings = ceilings;
    rate_limit_set(&i->rate, ceilings.max_rate);
    memset(i->told, 0, sizeof i->told);
    unlock(&i->line->arriving, LOCK_ROUTE);
}

/* What waits is published by the receiver. */
void in_begin_publishing(struct in *i, rtmw_publisher *publisher)
{
    lock(&i->line->arriving, LOCK_ROUTE);
    i->publisher = publisher;
    if (i->untold_ns) rtmw_publisher_lost(publisher, i->untold, i->untold_ns);
    unlock(&i->line->arriving, LOCK_ROUTE);
    line_wake_receiver(i->line);
}

bool in_open(struct in *i)
{
    struct line *l = i->line;
    lock(&l->arriving, LOCK_ROUTE);
    bool is_new = i->number > l->highest_in && by_number_add(&l->in_numbers, i->number, i);
    if (is_new) {
        i->next = l->ins;
        l->ins = i;
        l->highest_in = i->number;
        i->unsent_ns = now_monotonic_ns();
        l->in_count++;
        i->must_ack = true;
        store_relaxed(&l->acks_at_ns, 1);
    }
    unlock(&l->arriving, LOCK_ROUTE);
    if (is_new) line_wake_receiver(l);
    return is_new;
}

uint32_t in_held(struct in *i)
{
    uint32_t count = 0;
    lock(&i->line->arriving, LOCK_ROUTE);
    for (const struct waiting *w = i->first; w; w = w->next) count++;
    unlock(&i->line->arriving, LOCK_ROUTE);
    return count;
}

/* The lock of what arrives is held. The peer has been told that all of it came. */
static void abandon(struct in *i)
{
    uint32_t count = 0;
    if (i->first) fetch_add(&i->line->waiting, UINT32_MAX);
    for (struct waiting *w; (w = i->first); count++) {
        i->first = w->next;
        in_drop(i, w);
    }
    i->last = NULL;
    i->waits = i->largest = i->waiting = 0;
    if (!count) return;
    count_up(&i->no_memory, count);
    in_tell(i, (rtmw_lost){.missed = count});
    told_came(i); /* behind that: a node that dies in between has told more, not less */
}

void in_abandon(struct in *i)
{
    lock(&i->line->arriving, LOCK_ROUTE);
    abandon(i);
    unlock(&i->line->arriving, LOCK_ROUTE);
}

void in_close(struct in *i)
{
    struct line *l = i->line;
    lock(&l->arriving, LOCK_ROUTE);
    struct in **link = &l->ins;
    while (*link && *link != i) link = &(*link)->next;
    if (*link) {
        *link = i->next;
        by_number_remove(&l->in_numbers, i->number);
        l->in_count--;
    }
    if (l->unwoken == i) in_wake(l);
    for (uint32_t band = 0; band < BANDS; band++)
        if (l->incoming[band].in == i) incoming_forget(l, &l->incoming[band]);
    abandon(i);
    unlock(&l->arriving, LOCK_ROUTE);
    if (i->publisher) rtmw_publisher_close(i->publisher);
}

bool in_is_delivered(struct in *i)
{
    lock(&i->line->arriving, LOCK_ROUTE);
    bool is = !i->first;
    unlock(&i->line->arriving, LOCK_ROUTE);
    return is;
}

/* ---- frames ---- */

/* Hear: the effect of each frame of the peer. A frame that no honest peer sends ends the line: `words` says what it was. */

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

/* out.c says when it is taken. */
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

/* ---- loss report ---- */

#define JUMP_MOST (UINT64_C(1) << 32) /* messages, as over DDS (../dds/sequence.c): a peer may say what it likes */

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
