/* Out: a topic of the bus on its way to the peer.
 *
 *   bus ─ out_gather ─► queue of its band ─ out_next ─► kept ─ acknowledged ─► gone
 *             │ room of the peer               │ a number, from 1 on
 * Messages that were lost on the bus before a message take numbers, too: the peer counts the step. A message that expires
 * before it is begun takes none.
 */
#include <stdlib.h>
#include <string.h>

#include "../route/sending.h"
#include "link.h"

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

/* A message that is under way is held, and ends with a DROP (fill.c). */
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
