/* Taking (requirement P14): follow the cursor's next message, hold it, move the cursor, let go of the old one.
 *
 * The highest band first (P3). On the way each message that this subscriber does not get is counted by its cause:
 * other type · unmatched (it asks for RELIABLE, the publisher offers less) · expired (P2) · thinned (P4, min_interval)
 * · missed (evicted, or beyond the depth of a TIMELY pair). A message handed out stays held until rtmw_release.
 *
 * A call steps over a bounded number of messages, so that a flood of what this subscriber does not get keeps neither the
 * caller nor the other threads of the process for long: RTMW_AGAIN, and the next call goes on.
 */
#include "cursor.h"
#include "queue.h"
#include "topics.h"
#include "wait.h"

enum { LARGE_PART = 16, LOOK_AGAIN = 256 };

/* Of one call: how many messages it may still step over, and the lowest band from which it may deliver. */
struct turn {
    uint32_t left, lowest;
};

/* Emptied: all who were counted on had read it, or it was evicted where it lay (within.c). One that comes now came too late
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
    if (s->qos.min_interval_ns) store_release(&block->accepted_ns, d->published_ns); /* behind cursor: see within.c */
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
