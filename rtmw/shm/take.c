/* Subscribers: their cursors, how they take, where they begin, how they leave, and how they outlive their process.
 *
 * Taking (requirement P14): follow the cursor's next message, hold it, move the cursor, let go of the old one.
 *
 * The highest band first (P3). On the way each message that this subscriber does not get is counted by its cause:
 * other type · unmatched (it asks for RELIABLE, the publisher offers less) · expired (P2) · thinned (P4, min_interval)
 * · missed (evicted, or beyond the depth of a TIMELY pair). A message handed out stays held until rtmw_release.
 *
 * A call steps over a bounded number of messages, so that a flood of what this subscriber does not get keeps neither the
 * caller nor the other threads of the process for long: RTMW_AGAIN, and the next call goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "histogram.h"
#include "queue.h"
#include "wait.h"

/* How a subscriber moves on in a band: its cursor is at the message that it took last, as the region shows it; and each
 * message that it comes to has one outcome, which is counted by its cause and traced. */

/* ======== outcome: taken, skipped, or missed ======== */

/* The clock is read once a take, unless the message is younger than what was read. */
static inline void outcome_taken(rtmw_subscriber *s, uint32_t band, struct descriptor *d, uint64_t size)
{
    uint64_t published_ns = load_relaxed(&d->published_ns);
    count_up(&s->block->received, 1);
    count_up(&s->block->bytes, size);
    if (s->histogram) {
        if (s->taken_ns < published_ns) s->taken_ns = monotonic_ns();
        histogram_record(s->histogram, s->taken_ns > published_ns ? s->taken_ns - published_ns : 0);
    }
    if (is_traced(s->topic)) trace_reached(s, TRACE_TAKEN, band);
}

/* The cursor is at it, and steps over it. */
static inline void outcome_skipped(rtmw_subscriber *s, uint32_t band, uint64_t *counter, enum trace_kind cause)
{
    count_up(counter, 1);
    if (is_traced(s->topic)) trace_reached(s, cause, band);
}

/* From a RELIABLE subscriber that is counted on only what it would not get any more is taken away, which is what has expired
 * or will be thinned: but for what lay there when it lapsed. */
static inline bool is_counted_on(rtmw_subscriber *s, uint32_t band, uint64_t first)
{
    if (s->qos.reliability != RTMW_RELIABLE || !load_relaxed(&s->topic->reliable)) return false;
    return first > s->rejoined[band] && !is_lapsed(s);
}

/* So many are gone before the cursor came to them, the last of them with this sequence. */
static inline void outcome_gone(rtmw_subscriber *s, uint32_t band, uint64_t last, uint64_t count)
{
    bool expired = is_counted_on(s, band, last - count + 1); /* a message to be thinned is emptied, not passed over */
    count_up(expired ? &s->block->expired : &s->block->missed, count);
    if (is_traced(s->topic)) trace_gone(s, expired ? TRACE_EXPIRED : TRACE_MISSED, band, last, count);
}

/* ======== cursor ======== */

/* Which offers of a band it gets. */
static inline uint32_t wanted_here(rtmw_subscriber *s, uint32_t band)
{
    return offers_wanted(load_relaxed(&s->topic->band[band].offers), s->type, s->qos.reliability, s->exact);
}

/* As taken_at, of a band that has got another offer since the cursor was at an earlier message, or some for others. */
static uint32_t cursor_count(rtmw_subscriber *, uint32_t band, const struct descriptor *);

/* How many messages that it gets there are up to this one, to which the cursor has come. Mostly it gets all of them. */
static inline uint32_t taken_at(rtmw_subscriber *s, uint32_t band, const struct descriptor *d)
{
    bool all = load_relaxed(&s->topic->band[band].offers) == s->every[band];
    return __builtin_expect(all, 1) ? (uint32_t)s->sequence[band] - s->beside[band] : cursor_count(s, band, d);
}

/* Publishes its count of taken messages, then its position: see needs_behind in reclaim.c. Of a RELIABLE one before it
 * looks whether somebody waits for it to move, or has found that nothing may go before it does: see moved_on. */
static inline void set_cursor(rtmw_subscriber *s, uint32_t band)
{
    uint64_t word = link_make(s->sequence[band] & TAG_MASK, s->index[band]);
    store_release(&s->block->taken[band], s->taken[band]);
    if (s->qos.reliability == RTMW_RELIABLE)
        store_seq(&s->block->cursor[band], word);
    else
        store_release(&s->block->cursor[band], word);
}

/* Of the messages between two that it came to, some were for it, and the others were not. */
static void cursor_count_gap(rtmw_subscriber *, uint32_t band, uint64_t gap, uint32_t wanted);

/* Before the oldest message that is kept: nothing is held, and nothing counted. */
static void cursor_to_head(rtmw_subscriber *, uint32_t band);

/* The cursor has come to this message, and so many were gone before it. */
static void cursor_count_missed(rtmw_subscriber *, uint32_t band, const struct descriptor *, uint64_t missed);

/* The message that a cursor which rests held last; NULL: that has begun another life, so all up to it are passed. */
static inline struct descriptor *place_of(rtmw_subscriber *s, uint32_t band)
{
    struct descriptor *d = descriptor_at(s->region, link_index(s->place[band]));
    return d && state_generation(load_acquire(&d->state)) == link_tag(s->place[band]) ? d : NULL;
}

/* Where a cursor is, or would be: the message is held, its own or one ahead of it. */
struct ahead {
    uint32_t index;
    uint64_t sequence, missed; /* so many between the cursor and it were gone */
};

static inline struct ahead ahead_of(const rtmw_subscriber *s, uint32_t band)
{
    return (struct ahead){s->index[band], s->sequence[band], 0};
}

/* From where the cursor is to the next message of a band, whatever it is: STEP_OK, STEP_NONE or STEP_DAMAGED. STEP_OK: that
 * one is held, and a message that was held before is let go. Else nothing has changed. */
__attribute__((always_inline)) static inline int go_ahead(rtmw_subscriber *s, uint32_t band, struct ahead *to)
{
    struct band *of = &s->topic->band[band];
    int stepped = STEP_PASSED;
    if (to->index == NIL) stepped = queue_resume(s->region, of, s->place[band], &to->index, &to->sequence);
    if (stepped == STEP_PASSED) stepped = queue_step(s->region, of, &to->index, &to->sequence, &to->missed);
    return stepped;
}

/* The cursor is there now, and says so. */
__attribute__((always_inline)) static inline void arrive(rtmw_subscriber *s, uint32_t band, const struct ahead *at)
{
    const struct descriptor *d = &s->region->descriptors[at->index];
    s->index[band] = at->index;
    s->sequence[band] = at->sequence;
    if (__builtin_expect(at->missed, 0)) cursor_count_missed(s, band, d, at->missed);
    s->taken[band] = taken_at(s, band, d);
    set_cursor(s, band);
}

/* To the next message of a band: as go_ahead, and the cursor is there. */
__attribute__((always_inline)) static inline int step(rtmw_subscriber *s, uint32_t band)
{
    struct ahead to = ahead_of(s, band);
    int stepped = go_ahead(s, band, &to);
    if (stepped == STEP_OK) arrive(s, band, &to);
    return stepped;
}

static uint32_t cursor_count(rtmw_subscriber *s, uint32_t band, const struct descriptor *d)
{
    uint64_t offers = load_relaxed(&s->topic->band[band].offers);
    uint32_t wanted = offers_wanted(offers, s->type, s->qos.reliability, s->exact), count = count_up_to(d, wanted);
    s->every[band] = is_every_offer(offers, wanted) ? offers : NOT_EVERY;
    s->beside[band] = (uint32_t)s->sequence[band] - count;
    return count;
}

static void cursor_count_missed(rtmw_subscriber *s, uint32_t band, const struct descriptor *d, uint64_t missed)
{
    uint32_t wanted = taken_at(s, band, d) - s->taken[band] - (wanted_here(s, band) >> offer_of(d) & 1);
    cursor_count_gap(s, band, missed, wanted);
}

/* Why this subscriber did not get messages of a band that were passed over before it could look at them. Where the band
 * has offers of other types, that is the cause of all of them: which message had which offer is not known any more. */
static uint64_t *cause_of_gap(rtmw_subscriber *s, uint32_t band)
{
    uint64_t offers = load_relaxed(&s->topic->band[band].offers);
    for (uint32_t i = 0; i < OFFERS; i++) {
        uint64_t offer = offer_at(offers, i);
        if (offer && !types_match(offer_type(offer), s->type)) return &s->block->other_types;
    }
    return s->exact ? NULL : &s->block->unmatched; /* exact: another subscriber carries them, that is no drop */
}

static void cursor_count_gap(rtmw_subscriber *s, uint32_t band, uint64_t gap, uint32_t wanted)
{
    uint64_t lost = wanted <= gap ? wanted : gap;
    uint64_t *cause = gap > lost ? cause_of_gap(s, band) : NULL;
    if (lost) outcome_gone(s, band, s->sequence[band] - (s->index[band] != NIL), lost);
    if (cause) count_up(cause, gap - lost);
}

static void cursor_to_head(rtmw_subscriber *s, uint32_t band)
{
    struct standing passed = first_standing(s->region, &s->topic->band[band]);
    if (s->index[band] != NIL) let_go(s->region, s->index[band]);
    s->index[band] = NIL;
    s->place[band] = NIL;
    s->sequence[band] = passed.sequence;
    s->taken[band] = standing_count(&passed, wanted_here(s, band));
    set_cursor(s, band);
}

/* ======== taking ======== */

enum { LARGE_PART = 16, LOOK_AGAIN = 256 };

/* Of one call: how many messages it may still step over, and the lowest band from which it may deliver. */
struct turn {
    uint32_t left, lowest;
};

/* Emptied: all who were counted on had read it, or it was evicted where it lay (reclaim.c). One that comes now came too late
 * for it, or missed it. From a RELIABLE one that is counted on only what its interval leaves out is taken so: it did when
 * memory was short, and is thinned, though the interval may have become shorter since. */
static void count_emptied(rtmw_subscriber *s, uint32_t band)
{
    bool thinned = s->qos.min_interval_ns && is_counted_on(s, band, s->sequence[band]);
    if (s->sequence[band] <= s->began[band]) {
        s->early++;
        return;
    }
    outcome_skipped(s, band, thinned ? &s->block->thinned : &s->block->missed, thinned ? TRACE_THINNED : TRACE_MISSED);
}

/* It comes sooner after the last message that was accepted than the subscriber wants. */
static inline bool is_thinned(const rtmw_subscriber *s, const struct descriptor *d)
{
    if (!s->qos.min_interval_ns) return false;
    uint64_t accepted = load_relaxed(&s->block->accepted_ns);
    return accepted && d->published_ns < accepted + s->qos.min_interval_ns;
}

/* Another subscriber carries it: that is no drop. */
static bool is_anothers(const rtmw_subscriber *s, const struct descriptor *d)
{
    return s->exact && d->reliability != s->qos.reliability;
}

/* The message of a TIMELY pair at the cursor is beyond its depth: it is dropped, under the cause for which it would not have
 * been had anyway. */
static void drop(rtmw_subscriber *s, uint32_t band, struct descriptor *d)
{
    struct subscriber_block *block = s->block;
    if (!types_match(d->type, s->type)) return outcome_skipped(s, band, &block->other_types, TRACE_OTHER_TYPES);
    if (is_anothers(s, d)) return;
    if (d->expires_ns && is_expired(d, monotonic_ns())) return outcome_skipped(s, band, &block->expired, TRACE_EXPIRED);
    if (!descriptor_is_message(d)) return count_emptied(s, band);
    outcome_skipped(s, band, &block->missed, TRACE_MISSED);
}

/* How many messages of a band that it gets there are behind the first `count` of them, up to a standing. */
static uint32_t unread_behind(rtmw_subscriber *s, uint32_t band, uint32_t count, const struct standing *newest)
{
    uint32_t unread = standing_count(newest, wanted_here(s, band)) - count;
    return unread > INT32_MAX ? 0 : unread;
}

/* The next message of a band, or NULL: behind the cursor, or at head, if that has passed what is behind the cursor. It is not
 * held, so head may pass it too: a hint. */
static struct descriptor *peek(rtmw_subscriber *s, uint32_t band)
{
    struct rtmw_region *r = s->region;
    uint64_t head = load_seq(&s->topic->band[band].head), sequence = s->sequence[band];
    struct descriptor *d = descriptor_at(r, s->index[band]);
    if (!d) d = place_of(s, band);
    bool is_behind = d && sequence_near(link_tag(head), sequence) <= sequence + 1;
    return descriptor_at(r, link_index(is_behind ? load_seq(&d->next) : head));
}

/* Is the next message of a band one of a TIMELY pair? A hint. */
static bool next_is_timely(rtmw_subscriber *s, uint32_t band)
{
    if (s->qos.reliability == RTMW_TIMELY) return true;
    struct descriptor *d = peek(s, band);
    return d && load_relaxed(&d->reliability) == RTMW_TIMELY;
}

/* The message ahead of a cursor that has more than `depth` behind it is of a TIMELY pair, and as many as `depth` are behind
 * it in turn: so it is, unless others between the two are gone. */
static bool may_be_dropped(rtmw_subscriber *s, uint32_t band, const struct ahead *at, const struct standing *newest)
{
    const struct descriptor *d = &s->region->descriptors[at->index];
    if (s->qos.reliability != RTMW_TIMELY && load_relaxed(&d->reliability) != RTMW_TIMELY) return false;
    return !at->missed || unread_behind(s, band, count_up_to(d, wanted_here(s, band)), newest) >= s->qos.depth;
}

/* Moves a cursor to the next message of a band if that may be dropped; false: the cursor stays. It never comes to a message
 * that has to be delivered, which step_highest leaves where it is while a band above has one. So the next message, which is
 * another one when the oldest have given way, is held ahead of the cursor, and looked at, before the cursor lets go. */
static bool step_to_drop(rtmw_subscriber *s, uint32_t band, const struct standing *newest)
{
    struct ahead to = ahead_of(s, band);
    if (to.index != NIL) hold_mine(s->region, to.index);
    bool moves = go_ahead(s, band, &to) == STEP_OK && may_be_dropped(s, band, &to, newest);
    uint32_t left = moves ? s->index[band] : to.index;
    if (left != NIL) let_go(s->region, left);
    if (moves) arrive(s, band, &to);
    return moves;
}

/* The oldest of a band go while more than `depth` of those that it gets are unread. false: the turn ends here. */
static bool drop_in_band(rtmw_subscriber *s, uint32_t band, struct turn *turn)
{
    struct standing newest = newest_standing(s->region, &s->topic->band[band]);
    for (; unread_behind(s, band, s->taken[band], &newest) > s->qos.depth; turn->left--) {
        if (!next_is_timely(s, band)) return true;
        if (!turn->left) return false;
        if (!step_to_drop(s, band, &newest)) return true;
        drop(s, band, &s->region->descriptors[s->index[band]]);
    }
    return true;
}

/* The highest band is first: when the turn ends in a band, what is urgent in those above is delivered all the same. */
static void drop_beyond_depth(rtmw_subscriber *s, struct turn *turn)
{
    uint32_t bands = load_seq(&s->topic->bands);
    for (uint32_t band = BANDS; band-- > 0;) {
        if (!(bands & (1u << band)) || drop_in_band(s, band, turn)) continue;
        turn->lowest = band + 1;
        return;
    }
}

/* The lease ran out: be counted on again, and go on behind what is gone. In this order: a publisher that still saw it
 * lapsed takes away no message that is newer than `rejoined`. */
static int rejoin(rtmw_subscriber *s)
{
    uint64_t before = s->block->missed;
    store_seq(&s->block->stall, 0);
    cas64(&s->region->subscriber_words[s->slot], (s->word & ~UINT64_C(15)) | SLOT_LAPSED, s->word);
    fetch_add(&s->topic->epoch, 1u);
    for (uint32_t band = 0; band < BANDS; band++) {
        s->rejoined[band] = band_tail_sequence(s->region, &s->topic->band[band]);
        uint64_t sequence = s->sequence[band], head = band_head_sequence(&s->topic->band[band], sequence);
        uint32_t taken = s->taken[band];
        if (head <= sequence + 1) continue;
        cursor_to_head(s, band);
        cursor_count_gap(s, band, s->sequence[band] - sequence, s->taken[band] - taken);
    }
    count_up(&s->block->lapses, 1);
    s->missed_at_lapse = s->block->missed - before;
    return RTMW_LAPSED;
}

/* Of a slot that has another word than it got. RTMW_DAMAGED: the lapse is not of this subscriber; but waits, which look at no
 * more than that it has lapsed, say that there is something to take. */
__attribute__((noinline)) static int counted_otherwise(rtmw_subscriber *s, uint64_t word)
{
    if (word == ((s->word & ~UINT64_C(15)) | SLOT_LAPSED)) return rejoin(s);
    if (is_swept(s->region)) return RTMW_SWEPT;
    return slot_state_of(word) == SLOT_LAPSED ? RTMW_DAMAGED : RTMW_OK;
}

/* RTMW_OK: its slot says that publishers count on it. RTMW_LAPSED: they did not, and do so again. RTMW_SWEPT. */
static inline int be_counted(rtmw_subscriber *s)
{
    uint64_t word = load_seq(&s->region->subscriber_words[s->slot]);
    return __builtin_expect(word == s->word, 1) ? RTMW_OK : counted_otherwise(s, word);
}

static int step_highest(rtmw_subscriber *s, uint32_t lowest, uint32_t *band)
{
    uint32_t bands = load_seq(&s->topic->bands) & ((1u << BANDS) - (1u << lowest));
    while (bands) {
        *band = 31u - (uint32_t)__builtin_clz(bands);
        int stepped = step(s, *band);
        if (stepped != STEP_NONE) return stepped;
        bands &= ~(1u << *band);
    }
    return STEP_NONE;
}

/* Does this subscriber get it? Otherwise it is counted. `now`: 0 for a message that does not expire. */
static bool accept(rtmw_subscriber *s, uint32_t band, struct descriptor *d, uint64_t now)
{
    struct subscriber_block *block = s->block;
    if (!types_match(d->type, s->type)) return outcome_skipped(s, band, &block->other_types, TRACE_OTHER_TYPES), false;
    if (is_anothers(s, d)) return false;
    if (!reliabilities_match(d->reliability, s->qos.reliability, false))
        return outcome_skipped(s, band, &block->unmatched, TRACE_UNMATCHED), false;
    if (is_expired(d, now)) return outcome_skipped(s, band, &block->expired, TRACE_EXPIRED), false;
    if (is_thinned(s, d)) return outcome_skipped(s, band, &block->thinned, TRACE_THINNED), false;
    if (!descriptor_is_message(d)) return count_emptied(s, band), false;
    if (s->qos.min_interval_ns) store_release(&block->accepted_ns, d->published_ns); /* behind cursor: see reclaim.c */
    return true;
}

/* A cursor at a message with a block lets go of it, and rests on its sequence alone: so the block goes when the samples and
 * the other cursors of this process have let go too. */
static void rest(rtmw_subscriber *s, uint32_t band)
{
    uint32_t index = s->index[band];
    if (index == NIL || !load_relaxed(&s->region->descriptors[index].block_granules)) return;
    s->place[band] = link_make(state_generation(load_relaxed(&s->region->descriptors[index].state)), index);
    s->index[band] = NIL;
    set_cursor(s, band);
    let_go(s->region, index);
}

/* So large that the next one may need its memory at once. */
static bool is_large(struct rtmw_region *r, struct descriptor *d)
{
    return d->block_granules > r->header->pages * (uint64_t)GRANULES_A_PAGE / LARGE_PART;
}

static int deliver(rtmw_subscriber *s, uint32_t band, struct descriptor *d, uint64_t now, rtmw_message *message)
{
    uint64_t size = load_relaxed(&d->size);
    const void *data = payload_of(s->region, d, size);
    if (!data) return RTMW_DAMAGED;
    prefetch(data); /* a block: where it lies is known only now */
    lend(s->region, s->index[band]);
    if (s->qos.deadline_ns) store_relaxed(&s->deadline_at_ns, now + s->qos.deadline_ns);
    outcome_taken(s, band, d, size);
    uint64_t ends = load_relaxed(&d->expires_ns), expires = ends ? on_clock(ends, now, realtime_ns(s->region, now)) : 0;
    *message = (rtmw_message){.data = data,
                              .size = size,
                              .sequence = s->sequence[band],
                              .source_time_ns = d->source_time_ns,
                              .expires_ns = expires,
                              .ends_ns = ends,
                              .publisher = d->publisher,
                              .descriptor = s->index[band],
                              .type = d->type,
                              .priority = (uint8_t)band,
                              .is_old = s->sequence[band] <= s->began[band],
                              .number = s->taken[band]};
    if (is_large(s->region, d)) rest(s, band);
    return RTMW_OK;
}

static int take_locked(rtmw_subscriber *s, rtmw_message *message, struct turn *turn)
{
    uint32_t band;
    int stepped, code = be_counted(s);
    if (__builtin_expect(code != RTMW_OK, 0)) return code;
    if (s->qos.reliability == RTMW_TIMELY || (s->qos.reliability == RTMW_ADAPTIVE && load_relaxed(&s->topic->timely)))
        drop_beyond_depth(s, turn);
    while ((stepped = step_highest(s, turn->lowest, &band)) == STEP_OK) {
        struct descriptor *d = &s->region->descriptors[s->index[band]];
        uint64_t now = s->qos.deadline_ns || load_relaxed(&d->expires_ns) ? (s->taken_ns = monotonic_ns()) : 0;
        if (accept(s, band, d, now)) return deliver(s, band, d, now, message);
        if (!turn->left) return RTMW_AGAIN;
        turn->left--;
    }
    if (stepped == STEP_DAMAGED) return RTMW_DAMAGED;
    if (turn->lowest) return RTMW_AGAIN;
    for (band = 0; band < BANDS; band++) rest(s, band);
    return RTMW_EMPTY;
}

static uint64_t position(rtmw_subscriber *s)
{
    uint64_t sum = 0;
    for (uint32_t band = 0; band < BANDS; band++) sum += s->sequence[band];
    return sum;
}

/* Nothing to take. Now and then it is seen whether waiters are told the same; or they would look for ever. That this process
 * was swept they are told before its slot says it: while a sweeper is at work, or was stopped (sweep_after). */
__attribute__((noinline)) static int take_again(rtmw_subscriber *s, rtmw_message *message)
{
    if (is_swept(s->region)) return RTMW_SWEPT;
    if (!has_next(s)) return RTMW_EMPTY;
    uint64_t stood = position(s);
    int code = take_locked(s, message, &(struct turn){STEPS_OVER, 0});
    return code == RTMW_EMPTY && position(s) == stood ? RTMW_DAMAGED : code;
}

/* Until there is nothing more, or something else is to be said: for the lapse of a lease the next call is early enough. */
static int take_some_locked(rtmw_subscriber *s, rtmw_message *messages, uint32_t most, uint64_t bytes, uint32_t *count)
{
    struct turn turn = {STEPS_OVER, 0};
    uint64_t sum = 0;
    s->taken_ns = 0;
    int code = take_locked(s, &messages[ *count = 0], &turn);
    while (code == RTMW_OK) {
        sum += messages[(*count)++].size;
        if (*count == most || sum >= bytes || is_lapsed(s)) return RTMW_OK;
        code = take_locked(s, &messages[*count], &turn);
    }
    return code;
}

/* Publishers may wait for it to move, or have found that nothing may go before it does. */
static void moved_on(rtmw_subscriber *s)
{
    wake_publishers(s->topic);
    if (__builtin_expect(load_seq(&s->topic->pinned) != 0, 0)) topic_unpin(s->region, s->topic_index);
}

int rtmw_take_many(rtmw_subscriber *s, rtmw_message *messages, uint32_t most, uint64_t bytes, uint32_t *count)
{
    struct rtmw_region *r = s->region;
    *count = 0;
    if (is_forked(r)) return RTMW_FORKED;
    if (__builtin_expect(load_relaxed(&s->ends) & SHUT, 0)) return RTMW_CLOSED;
    lock_take(&r->lock);
    int code = take_some_locked(s, messages, most, bytes, count);
    if (code == RTMW_EMPTY && *count == 0 && ++s->empty_takes % LOOK_AGAIN == 0) {
        code = take_again(s, messages);
        *count = code == RTMW_OK;
    }
    lock_give(&r->lock);
    if (s->qos.reliability == RTMW_RELIABLE) moved_on(s);
    return code;
}

int rtmw_take(rtmw_subscriber *s, rtmw_message *message)
{
    uint32_t count;
    return rtmw_take_many(s, message, 1, UINT64_MAX, &count);
}

int rtmw_release(rtmw_region *r, uint32_t descriptor)
{
    if (is_forked(r)) return RTMW_FORKED;
    if (load_relaxed(&r->swept)) return RTMW_SWEPT;
    lock_take(&r->lock);
    bool was_lent = take_back(r, descriptor);
    lock_give(&r->lock);
    return was_lent ? RTMW_OK : RTMW_BAD_RELEASE;
}

/* ======== subscriber ======== */

enum { SPIN_FIRST_NS = 20000 };

static bool start_at_tail(rtmw_subscriber *s, uint32_t band)
{
    struct band *b = &s->topic->band[band];
    s->index[band] = NIL;
    s->place[band] = NIL;
    s->sequence[band] = s->taken[band] = 0;
    s->every[band] = NOT_EVERY;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t tail = load_seq(&b->tail), sequence = band_tail_sequence(s->region, b);
        if (link_index(tail) == NIL) return set_cursor(s, band), true; /* from the first message on */
        if ((sequence & TAG_MASK) != link_tag(tail) || link_index(tail) >= s->region->header->descriptors) continue;
        if (!hold(s->region, link_index(tail), b, sequence)) continue;
        s->index[band] = link_index(tail);
        s->sequence[band] = sequence;
        s->taken[band] = taken_at(s, band, &s->region->descriptors[s->index[band]]);
        return set_cursor(s, band), true;
    }
    return false;
}

struct past {
    uint64_t published_ns, sequence;
    uint32_t band;
};

static void clear_counters(struct subscriber_block *block)
{
    uint64_t *counters[] = {&block->received,    &block->bytes,     &block->missed,           &block->expired,
                            &block->thinned,     &block->unmatched, &block->deadlines_missed, &block->lapses,
                            &block->other_types, &block->stall,     &block->missed_afar,      &block->expired_afar,
                            &block->thinned_afar};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) store_relaxed(counters[i], 0);
}

static int newest_first(const void *a, const void *b)
{
    const struct past *x = a, *y = b;
    if (x->published_ns != y->published_ns) return x->published_ns < y->published_ns ? 1 : -1;
    return x->sequence < y->sequence ? 1 : x->sequence > y->sequence ? -1 : 0;
}

static bool wants(rtmw_subscriber *s, struct descriptor *d)
{
    return descriptor_is_message(d) && types_match(d->type, s->type) &&
           reliabilities_match(d->reliability, s->qos.reliability, s->exact);
}

/* The last `history` messages over all bands: walk once to see what there is, and once more to where they begin. */
static int start_in_past(rtmw_subscriber *s)
{
    uint64_t end[BANDS], all = 0, count = 0;
    for (uint32_t band = 0; band < BANDS; band++) {
        cursor_to_head(s, band);
        end[band] = band_tail_sequence(s->region, &s->topic->band[band]);
        if (end[band] > s->sequence[band]) all += end[band] - s->sequence[band];
    }
    if (all > s->region->header->descriptors) all = s->region->header->descriptors; /* as many there are at a time */
    struct past *past = calloc(all + 1, sizeof *past);
    if (!past) return RTMW_SYSTEM;
    for (uint32_t band = 0; band < BANDS; band++) {
        while (s->sequence[band] < end[band] && step(s, band) == STEP_OK) {
            struct descriptor *d = &s->region->descriptors[s->index[band]];
            if (wants(s, d)) past[count++ % (all + 1)] = (struct past){d->published_ns, s->sequence[band], band};
        }
    }
    if (count > all) count = all;
    qsort(past, count, sizeof *past, newest_first);
    uint64_t first[BANDS];
    for (uint32_t band = 0; band < BANDS; band++) first[band] = s->sequence[band] + 1;
    for (uint64_t i = 0; i < count && i < s->qos.history; i++)
        if (past[i].sequence < first[past[i].band]) first[past[i].band] = past[i].sequence;
    free(past);
    for (uint32_t band = 0; band < BANDS; band++) {
        cursor_to_head(s, band);
        while (s->sequence[band] + 1 < first[band] && step(s, band) == STEP_OK) {}
    }
    clear_counters(s->block);
    return RTMW_OK;
}

/* Field by field, for a publisher may still be looking at the last owner of the slot: it sees that the word has changed. */
static void subscriber_fill(rtmw_subscriber *s)
{
    struct subscriber_block *block = s->block;
    clear_counters(block);
    store_relaxed(&block->accepted_ns, 0);
    store_relaxed(&block->opened_ns, monotonic_ns());
    store_relaxed(&block->parked_key, (uint16_t)0);
    store_relaxed(&block->parked_until_ns, 0);
    store_relaxed(&block->armed, 0u);
    store_relaxed(&block->own_socket, 0u);
    store_relaxed(&block->type, s->type); /* which it is already */
    store_relaxed(&block->reliability, (uint8_t)s->qos.reliability);
    store_relaxed(&block->exact, (uint8_t)s->exact);
    store_relaxed(&block->depth, s->qos.depth);
    store_relaxed(&block->history, s->qos.history);
    store_relaxed(&block->min_interval_ns, s->qos.min_interval_ns);
    store_relaxed(&block->deadline_ns, s->qos.deadline_ns);
    store_relaxed(&block->lease_ns, s->qos.lease_ns);
    if (s->histogram) histogram_clear(s->histogram);
}

static void subscriber_give_back(rtmw_subscriber *s)
{
    struct rtmw_region *r = s->region;
    slot_free(&r->subscriber_words[s->slot], load_seq(&r->subscriber_words[s->slot]));
    if (load_seq(&s->topic->pinned)) topic_unpin(r, s->topic_index);
    for (uint32_t band = 0; band < BANDS; band++)
        if (s->index[band] != NIL) let_go(r, s->index[band]);
}

/* Messages evicted before the subscriber counted are not missed by it. */
static void catch_up(rtmw_subscriber *s, uint32_t band)
{
    uint64_t head = band_head_sequence(&s->topic->band[band], s->sequence[band]);
    if (s->sequence[band] && head > s->sequence[band] + 1) cursor_to_head(s, band);
}

static int open_locked(rtmw_subscriber *s, const char *topic, const rtmw_type *type)
{
    struct rtmw_region *r = s->region;
    struct claimed claimed;
    int code = endpoint_claim(r, &(struct wanted){topic, type, .publishes = false}, &claimed);
    if (code != RTMW_OK) return code;
    s->type = (uint16_t)claimed.type;
    s->topic_index = claimed.topic;
    s->topic = &r->topics[claimed.topic];
    s->slot = claimed.slot;
    s->word = claimed.word;
    s->block = &r->subscribers[s->slot];
    s->histogram = s->slot < r->header->histograms ? &r->histograms[s->slot] : NULL;
    subscriber_fill(s);
    for (uint32_t band = 0; band < BANDS; band++)
        if (!start_at_tail(s, band)) code = RTMW_DAMAGED;
    if (s->qos.history && code == RTMW_OK) code = start_in_past(s);
    if (code != RTMW_OK) return subscriber_give_back(s), code;
    s->word = (s->word & ~UINT64_C(15)) | SLOT_ACTIVE;
    topic_subscribed(r, s->topic_index, s->slot);
    store_seq(&r->subscriber_words[s->slot], s->word);
    fetch_add(&s->topic->epoch, 1u); /* pairs with reliable_room and queue_trim: what they remember is void */
    for (uint32_t band = 0; band < BANDS; band++) {
        s->began[band] = band_tail_sequence(r, &s->topic->band[band]);
        catch_up(s, band);
        s->start[band] = s->sequence[band];
        s->early += s->sequence[band] - load_relaxed(&s->topic->band[band].began);
    }
    wake_publishers(s->topic);
    return RTMW_OK;
}

/* The interval is no limit that could be left out: the longest keeps all but one message away. */
static uint64_t interval_of(uint64_t ns) { return ns < LONGEST_NS ? ns : LONGEST_NS; }

static void limit_all(rtmw_subscriber_qos *qos)
{
    qos->min_interval_ns = interval_of(qos->min_interval_ns);
    qos->deadline_ns = limit_of(qos->deadline_ns);
    qos->lease_ns = limit_of(qos->lease_ns);
}

/* Nothing comes within the interval, so that each deadline would be missed; and only for RELIABLE does a publisher wait. */
static bool times_contradict(rtmw_subscriber_qos qos)
{
    limit_all(&qos);
    bool is_reliable = (qos.reliability & ~RTMW_EXACT) == RTMW_RELIABLE;
    return (qos.deadline_ns && qos.min_interval_ns > qos.deadline_ns) || (qos.lease_ns && !is_reliable);
}

int rtmw_subscriber_open(rtmw_region *r, const char *topic, const rtmw_type *type, const rtmw_subscriber_qos *qos,
                         rtmw_subscriber **out)
{
    int state = region_state(r);
    if (state != RTMW_OK) return state;
    unsigned reliability = qos ? (unsigned)qos->reliability & ~(unsigned)RTMW_EXACT : RTMW_ADAPTIVE;
    if (reliability > RTMW_RELIABLE || (qos && qos->depth == 0)) return RTMW_BAD_QOS;
    if (qos && times_contradict(*qos)) return RTMW_BAD_TIMES;
    rtmw_subscriber *s = calloc(1, sizeof *s);
    if (!s) return RTMW_SYSTEM;
    s->region = r;
    s->qos = qos ? *qos : (rtmw_subscriber_qos)RTMW_SUBSCRIBER_QOS;
    limit_all(&s->qos);
    s->exact = s->qos.reliability & RTMW_EXACT;
    s->qos.reliability = (rtmw_reliability)reliability;
    s->pollable = s->socket = s->timer = -1;
    s->spin_ns = SPIN_FIRST_NS;
    if (s->qos.deadline_ns) s->deadline_at_ns = monotonic_ns() + s->qos.deadline_ns;
    lock_take(&r->lock);
    int code = open_locked(s, topic, type);
    lock_give(&r->lock);
    if (code == RTMW_OK)
        *out = s;
    else
        free(s);
    return code;
}

/* The slot goes first: from then on nobody waits for this subscriber. */
void rtmw_subscriber_close(rtmw_subscriber *s)
{
    struct rtmw_region *r = s->region;
    pollable_close(s);
    if (!is_forked(r) && !is_swept(r)) {
        lock_take(&r->lock);
        subscriber_give_back(s);
        lock_give(&r->lock);
        wake_publishers(s->topic);
    }
    free(s);
}

void rtmw_subscriber_adjust(rtmw_subscriber *s, uint32_t depth, uint64_t min_interval_ns)
{
    if (depth == 0 || is_forked(s->region) || is_swept(s->region)) return;
    lock_take(&s->region->lock);
    s->qos.depth = depth;
    s->qos.min_interval_ns = interval_of(min_interval_ns);
    store_relaxed(&s->block->depth, depth);
    store_relaxed(&s->block->min_interval_ns, s->qos.min_interval_ns);
    fetch_add(&s->topic->epoch, 1u); /* pairs with reliable_room: the room it remembers is void */
    lock_give(&s->region->lock);
    wake_publishers(s->topic);
}

void rtmw_subscriber_alive(rtmw_subscriber *s)
{
    if (load_relaxed(&s->block->stall)) store_seq(&s->block->stall, 0);
}

uint64_t rtmw_subscriber_start(rtmw_subscriber *s, uint8_t priority)
{
    return priority < BANDS ? s->start[priority] : 0;
}

uint64_t rtmw_subscriber_skip(rtmw_subscriber *s, uint8_t priority, uint64_t sequence)
{
    if (priority >= BANDS) return 0;
    lock_take(&s->region->lock);
    while (s->sequence[priority] < sequence && step(s, priority) == STEP_OK) {}
    clear_counters(s->block); /* what was gone on the way is told by the sequence */
    uint64_t begins = s->sequence[priority];
    lock_give(&s->region->lock);
    return begins;
}

uint64_t rtmw_subscriber_early(rtmw_subscriber *s) { return s->early; }

uint32_t rtmw_subscriber_number(rtmw_subscriber *s, uint8_t priority)
{
    return priority < BANDS ? load_relaxed(&s->block->taken[priority]) : 0;
}

void rtmw_subscriber_count(rtmw_subscriber *s, rtmw_subscriber_counters *counters)
{
    const struct subscriber_block *block = s->block;
    *counters = (rtmw_subscriber_counters){load_relaxed(&block->received),
                                           load_relaxed(&block->missed) + load_relaxed(&block->missed_afar),
                                           load_relaxed(&block->expired) + load_relaxed(&block->expired_afar),
                                           load_relaxed(&block->thinned) + load_relaxed(&block->thinned_afar),
                                           load_relaxed(&block->lapses)};
}

/* ======== parked subscriptions ======== */

/* Parked subscriptions: a place in the queues that outlives its process, for a bounded time.
 *
 * A RELIABLE subscriber whose program is started again would lose what is published while the program is away. So it is
 * parked: its slot stays ACTIVE, without an owner, until another subscriber takes the slot over.
 *
 *            park                         resume: owner and generation, by CAS
 *   ACTIVE, owner me ──► ACTIVE, owner NOBODY ──────────────────────────────► ACTIVE, owner the next process
 *                             │
 *                             └── its time is over ──► FREE
 *
 * Invariants of a parked subscriber:
 *   - It counts as any other one: publishers wait when it has `depth` unread messages, and nothing behind its cursors is
 *     evicted.
 *   - Its cursors hold no descriptor, so a sweep has nothing to do for it, and does not find it: no participant owns it.
 *   - Once its time is over nobody counts on it (next_subscriber). A sweep, or a publisher that waits, frees its slot.
 *
 * The subscriber that resumes leaves the slot that it was opened in, and has the parked one from then on. The cursors of
 * that slot never move forward meanwhile: a publisher that looks at all slots one after the other must not find the
 * messages unneeded in both. The CAS gives the slot another generation, so who has read `parked_until_ns` before frees
 * nothing. A process that dies before the CAS leaves the slot parked; one that dies after it is swept, and so is the slot.
 */

/* The cursors stay where they are, and hold nothing from here on. */
static void rest_all(rtmw_subscriber *s)
{
    for (uint32_t band = 0; band < BANDS; band++) {
        uint32_t held = s->index[band];
        s->index[band] = NIL;
        set_cursor(s, band);
        if (held != NIL) let_go(s->region, held);
    }
}

static bool park(rtmw_subscriber *s, uint16_t key, uint64_t for_ns)
{
    struct rtmw_region *r = s->region;
    uint64_t word = slot_make(slot_generation(s->word), s->topic_index, NOBODY, SLOT_ACTIVE);
    rest_all(s);
    store_relaxed(&s->block->armed, 0u);
    store_relaxed(&s->block->own_socket, 0u);
    store_relaxed(&s->block->lease_ns, 0);
    store_relaxed(&s->block->parked_key, key);
    store_release(&s->block->parked_until_ns, monotonic_ns() + for_ns);
    return cas64(&r->subscriber_words[s->slot], s->word, word); /* fails if it has lapsed */
}

bool rtmw_subscriber_park(rtmw_subscriber *s, uint16_t key, uint64_t for_ns)
{
    struct rtmw_region *r = s->region;
    bool may_park = s->qos.reliability == RTMW_RELIABLE && for_ns && limit_of(for_ns), parked = false;
    pollable_close(s);
    if (!is_forked(r) && !is_swept(r)) {
        lock_take(&r->lock);
        parked = may_park && park(s, key, for_ns);
        if (!parked) subscriber_give_back(s);
        lock_give(&r->lock);
        wake_publishers(s->topic);
    }
    free(s);
    return parked;
}

static bool is_like(const rtmw_subscriber *s, const struct subscriber_block *block, uint16_t key)
{
    return load_relaxed(&block->parked_key) == key && load_relaxed(&block->type) == s->type &&
           load_relaxed(&block->reliability) == (uint8_t)s->qos.reliability &&
           load_relaxed(&block->exact) == (uint8_t)s->exact;
}

/* Its place in a band is the earlier one: its own, which it asked for with `history`, or the parked one. Messages behind
 * the parked one are not old: they would have come to that, had it been there. */
static void move_back(rtmw_subscriber *s, uint32_t band, const struct subscriber_block *parked)
{
    uint64_t newest = band_tail_sequence(s->region, &s->topic->band[band]);
    uint64_t sequence = sequence_near(link_tag(load_seq(&parked->cursor[band])), newest);
    s->began[band] = sequence;
    if (sequence >= s->sequence[band]) return;
    if (s->index[band] != NIL) let_go(s->region, s->index[band]);
    s->index[band] = NIL;
    s->place[band] = NIL;
    s->sequence[band] = sequence;
    s->taken[band] = load_seq(&parked->taken[band]);
    s->every[band] = NOT_EVERY;
}

/* The slot is its own already, and has the word `mine`. The block is filled behind the cursors: see above. */
static void move_to(rtmw_subscriber *s, uint32_t slot, uint64_t mine)
{
    struct rtmw_region *r = s->region;
    uint64_t left = s->word;
    uint32_t from = s->slot;
    for (uint32_t band = 0; band < BANDS; band++) move_back(s, band, &r->subscribers[slot]);
    s->slot = slot;
    s->word = mine;
    s->block = &r->subscribers[slot];
    s->histogram = slot < r->header->histograms ? &r->histograms[slot] : NULL;
    for (uint32_t band = 0; band < BANDS; band++) set_cursor(s, band);
    subscriber_fill(s);
    slot_free(&r->subscriber_words[from], left);
    fetch_add(&s->topic->epoch, 1u); /* pairs with reliable_room: its depth may be another one */
}

static bool resume(rtmw_subscriber *s, uint16_t key)
{
    struct rtmw_region *r = s->region;
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(r, s->topic_index, &slot)); slot++) {
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        uint64_t mine = slot_make(slot_generation(word) + 1, s->topic_index, r->me, SLOT_ACTIVE);
        if (!slot_is_parked(word) || slot_topic(word) != s->topic_index || !is_like(s, block, key)) continue;
        if (!cas64(&r->subscriber_words[slot], word, mine)) continue;
        return move_to(s, slot, mine), true;
    }
    return false;
}

bool rtmw_subscriber_resume(rtmw_subscriber *s, uint16_t key)
{
    struct rtmw_region *r = s->region;
    if (region_state(r) != RTMW_OK) return false;
    lock_take(&r->lock);
    bool resumed = resume(s, key);
    lock_give(&r->lock);
    if (resumed) wake_publishers(s->topic);
    return resumed;
}
