/* In: what the peer sends of a topic, on its way to the bus. */
#include <stdlib.h>
#include <string.h>

#include "../../shm/identity.h"
#include "link.h"

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
