/* Out: topics of the bus on their way to the peer, and which frames of these and of all else go next. */
#include <stdlib.h>
#include <string.h>

#include "../route/sending.h"
#include "link.h"

/* ---- routes ---- */

/* Out: a topic of the bus on its way to the peer.
 *
 *   bus ─ out_gather ─► queue of its band ─ out_next ─► kept ─ acknowledged ─► gone
 *             │ room of the peer               │ a number, from 1 on
 * Messages that were lost on the bus before a message take numbers, too: the peer counts the step. A message that expires
 * before it is begun takes none.
 */

static uint64_t ahead_of(const struct out *o) { return o->lookahead.bytes + (uint64_t)o->lookahead.taken * FRAME_COST; }

/* A message is taken if and only if the peer has room for it, behind all that was taken before and is not acknowledged. So
 * what was taken can always be sent, though the peer tells of less room later, and a node that ends owes nothing that the
 * peer has no room for. All routes of the line share one look-ahead, but for one message of each. */
static bool has_room(const struct out *o)
{
    return o->in_flight + ahead_of(o) < o->room && (!o->lookahead.taken || o->line->ahead < o->room);
}

bool out_may_take(const struct out *o)
{
    return !o->closing && !o->is_finishing && has_room(o) && lookahead_has_room(&o->lookahead);
}

bool out_is_behind(const struct out *o) { return o->lookahead.taken || (o->reliable && !(o->is_open && has_room(o))); }

/* Messages that the bus could not keep for this route since the last look are missing before this message. */
static void count_missed(struct out *o, uint32_t band)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    o->band[band].lost += bus.missed - o->missed;
    o->missed = bus.missed;
}

/* The peer may not have it: it leaves no gap in the numbers. */
static bool is_withheld(struct out *o, const rtmw_message *m)
{
    enum refusal why = !keeps_priority(&o->ceilings, m->priority) ? REFUSED_PRIORITY
                       : !keeps_size(&o->ceilings, m->size)       ? REFUSED_SIZE
                                                                  : REFUSALS;
    if (why == REFUSALS) return false;
    count_up(&o->withheld[why], 1);
    if (!o->told[why]) news_tell(o->line, NEWS_WITHHELD, o->number, word_of(why), strlen(word_of(why)));
    o->told[why] = true;
    return true;
}

static void take(struct out *o, rtmw_message *m)
{
    /* a message from another host is not sent on: its host has links of its own */
    if (m->publisher & RTMW_REMOTE || is_withheld(o, m)) {
        told_passed(o, m);
        rtmw_release(o->line->region, m->descriptor);
        return;
    }
    if (told_is_new(o, m)) m->is_old = false; /* it is not old to those who read the lane before */
    lookahead_add(&o->lookahead, m);
    o->line->ahead += cost_of(m->size);
    count_missed(o, m->priority);
    out_weigh(o, m->size);
}

/* Of a route that may take: how many messages, and bytes, in one call, so that each is taken by the rule above. The call wakes a
 * publisher that waits for room once, and not at the first message of many. */
static uint32_t most_of(const struct out *o, uint64_t *bytes)
{
    uint64_t ahead = larger(o->in_flight + ahead_of(o), o->line->ahead);
    uint64_t left = o->room > ahead ? o->room - ahead : 1;
    uint64_t most = least(lookahead_room(&o->lookahead), (left - 1) / FRAME_COST + 1);
    *bytes = least(LOOKAHEAD_BYTES - o->lookahead.bytes, left - (most - 1) * FRAME_COST);
    return (uint32_t)most;
}

bool out_gather(struct out *o)
{
    rtmw_message m[LOOKAHEAD];
    bool is_more = false;
    int code = RTMW_OK;
    while (out_may_take(o) && (code == RTMW_OK || code == RTMW_LAPSED || code == RTMW_AGAIN)) {
        uint64_t bytes;
        uint32_t count, most = most_of(o, &bytes);
        code = rtmw_take_many(o->subscriber, m, most, bytes, &count);
        for (uint32_t n = 0; n < count; n++) take(o, &m[n]);
        is_more = is_more || count;
    }
    if (code == RTMW_EMPTY) told_reached(o);
    if (is_more) out_fit(o);
    if (o->is_open && !has_room(o)) count_up(&o->blocked, 1);
    return is_more;
}

static rtmw_message *first_of(struct out *o, uint32_t band) { return lookahead_at(&o->lookahead, band, 0); }

static void pass_first(struct out *o, uint32_t band)
{
    o->line->ahead -= cost_of(first_of(o, band)->size);
    lookahead_pass(&o->lookahead, band);
}

static void drop_first(struct out *o, uint32_t band)
{
    rtmw_release(o->line->region, first_of(o, band)->descriptor);
    pass_first(o, band);
}

static void drop_expired(struct out *o, uint32_t band)
{
    rtmw_message m = *first_of(o, band);
    count_up(&o->expired, 1);
    count_up(&o->unsent, 1);
    drop_first(o, band);
    told_passed(o, &m);
}

static void keep_last(struct out *o, uint32_t band, struct kept *k)
{
    if (o->band[band].last)
        o->band[band].last->next = k;
    else
        o->band[band].first = k;
    o->band[band].last = k;
}

/* The first of the queue gets its number, and is kept from here on. */
static struct kept *number_first(struct out *o, uint32_t band, uint64_t now)
{
    const rtmw_message *m = first_of(o, band);
    bool is_zero_copy = m->size >= ZERO_COPY_LEAST && o->line->zero_copied + m->size <= o->line->zero_copy_most;
    struct kept *k = kept_new(o->line, m, is_zero_copy);
    if (!k) return NULL;
    o->numbered += o->band[band].lost + 1;
    o->lost += o->band[band].lost;
    k->number = o->band[band].number += o->band[band].lost + 1;
    o->band[band].lost = 0;
    told_numbered(o, &k->message, now);
    o->in_flight += cost_of(m->size);
    pass_first(o, band);
    keep_last(o, band, k);
    return k;
}

uint64_t out_free_ns(const struct out *o, uint64_t now)
{
    return larger(rate_limit_free_ns(&o->limit, now), shared_rate_free_ns(o->line->lines, o->topic_rate, false, now));
}

struct kept *out_next(struct out *o, uint32_t band, uint64_t now)
{
    if (o->closing || !o->is_open || out_free_ns(o, now)) return NULL;
    if (o->band[band].again) return o->band[band].again;
    while (lookahead_count(&o->lookahead, band) && is_expired(first_of(o, band), now)) drop_expired(o, band);
    return lookahead_count(&o->lookahead, band) ? number_first(o, band, now) : NULL;
}

void out_begun(struct out *o, uint32_t band, struct kept *k, uint64_t now)
{
    if (o->band[band].again == k) o->band[band].again = k->next;
    count_up(k->has_gone ? &o->resent : &o->sent, 1);
    count_up(&o->bytes, k->message.size);
    k->has_gone = true;
    rate_limit_charge(&o->limit, k->message.size, now);
    shared_rate_charge(o->line->lines, o->topic_rate, false, k->message.size, now);
}

/* ---- acknowledgement ---- */

static void drop_kept(struct out *o, uint32_t band)
{
    struct kept *k = o->band[band].first;
    o->band[band].first = k->next;
    if (!k->next) o->band[band].last = NULL;
    if (o->band[band].again == k) o->band[band].again = k->next;
    o->in_flight -= cost_of(k->message.size);
    kept_let_go(k);
}

/* A message that is under way cannot have come. */
static bool may_be(const struct out *o, uint32_t band, uint64_t number)
{
    const struct under_way *u = &o->line->under_way[band];
    const struct kept *k = u->out == o ? u->kept : NULL;
    return number >= o->band[band].acknowledged && number <= o->band[band].number && (!k || number < k->number);
}

/* On new connections: all that was not acknowledged is sent again, or is lost, and then counted by its number. */
static void resume(struct out *o, uint32_t band)
{
    while (!o->resends && o->band[band].first) drop_kept(o, band);
    o->band[band].again = o->band[band].first;
}

bool out_acknowledge(struct out *o, const struct frame_ack *ack)
{
    for (uint32_t band = 0; band < BANDS; band++) {
        uint64_t number = ack->number[band];
        if (!may_be(o, band, number)) return false;
        o->band[band].acknowledged = number;
        while (o->band[band].first && o->band[band].first->number <= number) drop_kept(o, band);
        if (!o->is_open) resume(o, band);
    }
    o->room = ack->room;
    o->is_open = true;
    return true;
}

void out_cut(struct out *o)
{
    o->is_open = false;
    out_fit(o);
}

/* ---- from opening to closing ---- */

bool out_open(struct out *o)
{
    struct line *l = o->line;
    line_lock(l);
    bool is_new = o->number > l->highest_out && by_number_add(&l->out_numbers, o->number, o);
    if (is_new) {
        o->next = l->outs;
        l->outs = o;
        l->out_count++;
        l->highest_out = o->number;
        line_wake_sender(l);
    }
    unlock(&l->lock, LOCK_ENGINE);
    return is_new;
}

void out_limit(struct out *o, struct ceilings ceilings, uint64_t topic_rate)
{
    line_lock(o->line);
    o->ceilings = ceilings;
    memset(o->told, 0, sizeof o->told);
    rate_limit_set(&o->limit, ceilings.max_rate);
    shared_rate_set(o->line->lines, o->topic_rate, topic_rate);
    line_wake_sender(o->line);
    unlock(&o->line->lock, LOCK_ENGINE);
}

void out_finish(struct out *o)
{
    line_lock(o->line);
    o->is_finishing = true;
    line_wake_sender(o->line);
    unlock(&o->line->lock, LOCK_ENGINE);
}

static void forget(struct out *o)
{
    for (uint32_t band = 0; band < BANDS; band++) {
        while (lookahead_count(&o->lookahead, band)) drop_first(o, band);
        while (o->band[band].first) drop_kept(o, band);
    }
}

/* A message that is under way is held, and ends with a DROP (put_frames). */
void out_stop(struct out *o)
{
    struct line *l = o->line;
    line_lock(l);
    if (!o->closing) {
        struct out **link = &l->outs;
        while (*link != o) link = &(*link)->next;
        *link = o->next;
        by_number_remove(&l->out_numbers, o->number);
        l->out_count--;
        o->closing = 1;
        for (uint32_t band = 0; band < BANDS; band++) {
            if (l->under_way[band].out == o) l->under_way[band].out = NULL;
            if (l->turn[band] == o) l->turn[band] = NULL;
        }
        forget(o);
        line_await_sender(l);
    }
    unlock(&l->lock, LOCK_ENGINE);
}

void out_close(struct out *o)
{
    out_stop(o);
    if (o->park_ns)
        rtmw_subscriber_park(o->subscriber, o->line->key, o->park_ns);
    else
        rtmw_subscriber_close(o->subscriber);
}

uint32_t out_held(struct out *o) { return load_relaxed(&o->lookahead.taken); }

bool out_is_delivered(struct out *o)
{
    line_lock(o->line);
    bool is = true, is_finishing = o->is_finishing;
    for (uint32_t band = 0; band < BANDS; band++)
        is = is && !lookahead_count(&o->lookahead, band) && !o->band[band].first;
    unlock(&o->line->lock, LOCK_ENGINE);
    return is && (is_finishing || rtmw_wait(o->subscriber, 0, 0) != RTMW_OK);
}

/* ---- depth ---- */

/* Depth: how many messages of a RELIABLE route may wait on the bus. A publisher waits when there are so many.
 *
 * Of large messages no more wait than have a share of the pool together, as those of a route over DDS: the other publishers of
 * this host need the rest of it.
 *
 * Of small ones more than `depth` may wait, if that is as usual. Else, the publisher stands still after 64 of them, and publisher
 * and sender wake each other for each few. They are bounded by number and bytes, and all routes of a line share a part of the pool.
 * Not so where somebody waits longer behind them than the publisher means: while the line is cut, where its way is slow, and
 * where a subscriber is to get few of them (min_interval).
 */

enum {
    SMALL_MOST = 512,
    SMALL_BYTES = 512 << 10,
    SMALL_COST = 1024, /* of a smaller one: a descriptor, of which there are few */
};

static bool is_swift(const struct line *l)
{
    for (int c = 0; c < PAIR; c++)
        if (!l->channel[c] || channel_is_slow(l->channel[c])) return false;
    return true;
}

static uint32_t small_depth(const struct out *o)
{
    uint64_t share = o->line->zero_copy_most / larger(o->line->out_count, 1);
    return (uint32_t)least(SMALL_MOST, least(SMALL_BYTES / o->weight, share / larger(o->weight, SMALL_COST)));
}

static uint32_t depth_for(const struct out *o)
{
    if (!o->weight) return o->depth;
    bool may_be_more = o->depth >= DEPTH_USUAL && !o->min_interval_ns && is_swift(o->line);
    uint32_t more = may_be_more ? small_depth(o) : 0;
    return more > o->depth ? more : depth_within(o->depth, o->line->zero_copy_most, o->weight);
}

/* Is it worth to tell the bus? Half or double is; less for large messages, and so that it is `depth` again. */
static bool is_other(const struct out *o, uint32_t fits)
{
    if (fits / 2 >= o->depth_now || fits <= o->depth_now / 2) return true;
    return fits <= o->depth && o->depth_now != fits && (fits == o->depth || fits < o->depth_now);
}

static void set_depth(struct out *o, uint32_t depth)
{
    o->depth_now = depth;
    rtmw_subscriber_adjust(o->subscriber, depth, o->min_interval_ns);
}

void out_weigh(struct out *o, uint64_t size) { o->weight = weight_after(o->weight, cost_of(size)); }

void out_fit(struct out *o)
{
    if (!o->reliable || !o->line->zero_copy_most) return;
    uint32_t fits = depth_for(o);
    if (is_other(o, fits)) set_depth(o, fits);
}

void out_adjust(struct out *o, uint32_t depth, uint64_t min_interval_ns)
{
    line_lock(o->line);
    o->depth = depth;
    o->min_interval_ns = min_interval_ns;
    set_depth(o, o->reliable && o->line->zero_copy_most ? depth_for(o) : depth);
    unlock(&o->line->lock, LOCK_ENGINE);
}

/* ---- messages that are kept ---- */

/* Messages that were sent and are not acknowledged: what TCP had in its buffers is sent again out of these. */

struct kept *kept_new(struct line *line, const rtmw_message *m, bool is_zero_copy)
{
    struct kept *k = malloc(sizeof *k + (is_zero_copy ? 0 : m->size));
    if (!k) return NULL;
    *k = (struct kept){.line = line, .references = 1, .is_zero_copy = is_zero_copy, .message = *m, .data = m->data};
    if (is_zero_copy) {
        line->zero_copied += m->size;
        return k;
    }
    if (m->size) memcpy(k->copy, m->data, m->size);
    k->data = k->copy;
    rtmw_release(line->region, m->descriptor);
    return k;
}

void kept_hold(struct kept *k) { k->references++; }

void kept_let_go(struct kept *k)
{
    if (--k->references) return;
    if (k->is_zero_copy) {
        rtmw_release(k->line->region, k->message.descriptor);
        k->line->zero_copied -= k->message.size;
    }
    free(k);
}

/* ---- loss report ---- */

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

/* ---- fill ---- */

/* Fill: which frames go next. Of the urgent channel: acknowledgements, PONG, PING, controls, messages; of the bulk channel:
 * PONG, PING, messages. Nothing but acknowledgements and these two goes before the peer has resumed. */

enum { CHUNK_LEAST = 2048 }; /* room in an outbox with something, below which that is sent first */

static struct iovec bytes_of(const void *at, size_t size) { return (struct iovec){(void *)(uintptr_t)at, size}; }

static void put(struct channel *c, enum frame_kind kind, uint32_t route, struct iovec head)
{
    channel_put(c, (struct frame_header){.kind = (uint8_t)kind, .route = route}, head, (struct iovec){0}, NULL);
}

static bool outbox_has_room(const struct channel *c, size_t body)
{
    return channel_room(c) >= channel_around(c) + body;
}

/* ---- acknowledgements ---- */

static bool put_ack(struct channel *c, uint32_t route, struct frame_ack ack)
{
    if (!outbox_has_room(c, sizeof ack)) return false;
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
    if (!put_acks(l, c) || l->has_resumed || !outbox_has_room(c, 0)) return;
    put(c, FRAME_RESUME, 0, (struct iovec){0});
    l->has_resumed = true;
    line_tell_up(l);
}

/* ---- PING, PONG, controls ---- */

static void put_pings(struct line *l, int channel, uint64_t now)
{
    struct channel *c = l->channel[channel];
    struct frame_pong pong = {l->pong[channel], now_steady_ns()};
    if (l->has_pong[channel] && outbox_has_room(c, sizeof pong)) {
        put(c, FRAME_PONG, 0, bytes_of(&pong, sizeof pong));
        l->has_pong[channel] = false;
    }
    if (l->must_ping[channel] && outbox_has_room(c, sizeof now)) {
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
        if (!outbox_has_room(c, sizeof next->number + next->size)) return;
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
