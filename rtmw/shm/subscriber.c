/* Taking (requirement P14): follow the cursor's next message, hold it, move the cursor, let go of the old one.
 *
 * The highest band first (P3). On the way each message that this subscriber does not get is counted by its cause:
 * other type · unmatched (it asks for RELIABLE, the publisher offers less) · expired (P2) · thinned (P4, min_interval)
 * · missed (evicted, or beyond the depth of a TIMELY pair). What is handed out stays held until rtmw_release.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "histogram.h"

enum { SPIN_FIRST_NS = 20000, SHORT_QUEUE = 64, LARGE_PART = 16 };

static void set_cursor(rtmw_subscriber *s, uint32_t band)
{
    uint64_t word = link_make(s->sequence[band] & TAG_MASK, s->index[band]);
    if (s->qos.reliability == RTMW_RELIABLE)
        store_seq(&s->block->cursor[band],
                  word); /* pairs with reliable_room: cursor, then `room`; `room`, then cursor */
    else
        store_release(&s->block->cursor[band], word);
}

/* To the next message of a band, whatever it is. */
static bool step(rtmw_subscriber *s, uint32_t band)
{
    uint64_t missed = 0;
    int stepped = queue_step(s->region, &s->topic->band[band], &s->index[band], &s->sequence[band], &missed);
    if (stepped != STEP_OK) return false;
    set_cursor(s, band);
    if (missed) count_up(&s->block->missed, missed);
    return true;
}

static void start_at_tail(rtmw_subscriber *s, uint32_t band)
{
    struct band *b = &s->topic->band[band];
    for (;;) {
        uint64_t tail = load_seq(&b->tail), sequence = band_tail_sequence(s->region, b);
        s->index[band] = NIL;
        s->sequence[band] = 0;
        if (link_index(tail) == NIL) break; /* nothing published yet: from the first message on */
        if ((sequence & TAG_MASK) != link_tag(tail) || link_index(tail) >= s->region->header->descriptors) continue;
        if (!hold(s->region, link_index(tail), b, sequence)) continue;
        s->index[band] = link_index(tail);
        s->sequence[band] = sequence;
        break;
    }
    set_cursor(s, band);
}

/* Before the oldest message that is kept. */
static void start_at_head(rtmw_subscriber *s, uint32_t band)
{
    uint64_t tail = band_tail_sequence(s->region, &s->topic->band[band]);
    uint64_t head = band_head_sequence(&s->topic->band[band], tail);
    if (s->index[band] != NIL) let_go(s->region, s->index[band]);
    s->index[band] = NIL;
    s->sequence[band] = head ? head - 1 : 0;
    set_cursor(s, band);
}

struct past {
    uint64_t published_ns, sequence;
    uint32_t band;
};

static int newest_first(const void *a, const void *b)
{
    const struct past *x = a, *y = b;
    if (x->published_ns != y->published_ns) return x->published_ns < y->published_ns ? 1 : -1;
    return x->sequence < y->sequence ? 1 : x->sequence > y->sequence ? -1 : 0;
}

static bool wants(rtmw_subscriber *s, struct descriptor *d)
{
    return descriptor_is_message(d) && types_match(d->type, s->type) &&
           !(s->qos.reliability == RTMW_RELIABLE && d->reliability != RTMW_RELIABLE);
}

/* The last `history` messages over all bands: walk once to see what there is, and once more to where they begin. */
static int start_in_past(rtmw_subscriber *s)
{
    uint64_t end[BANDS], all = 1, count = 0;
    for (uint32_t band = 0; band < BANDS; band++) {
        start_at_head(s, band);
        end[band] = band_tail_sequence(s->region, &s->topic->band[band]);
        all += end[band] - s->sequence[band];
    }
    struct past *past = calloc(all, sizeof *past);
    if (!past) return RTMW_SYSTEM;
    for (uint32_t band = 0; band < BANDS; band++) {
        while (s->sequence[band] < end[band] && step(s, band)) {
            struct descriptor *d = &s->region->descriptors[s->index[band]];
            if (wants(s, d)) past[count++] = (struct past){d->published_ns, s->sequence[band], band};
        }
    }
    qsort(past, count, sizeof *past, newest_first);
    uint64_t first[BANDS];
    for (uint32_t band = 0; band < BANDS; band++) first[band] = s->sequence[band] + 1;
    for (uint64_t i = 0; i < count && i < s->qos.history; i++)
        if (past[i].sequence < first[past[i].band]) first[past[i].band] = past[i].sequence;
    free(past);
    for (uint32_t band = 0; band < BANDS; band++) {
        start_at_head(s, band);
        while (s->sequence[band] + 1 < first[band] && step(s, band)) {}
    }
    store_relaxed(&s->block->missed, 0);
    return RTMW_OK;
}

/* Field by field, for a publisher may still be looking at the last owner of the slot: it errs on the side of keeping. */
static void fill_block(rtmw_subscriber *s)
{
    struct subscriber_block *block = s->block;
    uint64_t *counters[] = {&block->received,    &block->bytes,     &block->missed,           &block->expired,
                            &block->thinned,     &block->unmatched, &block->deadlines_missed, &block->lapses,
                            &block->other_types, &block->stall};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) store_relaxed(counters[i], 0);
    store_relaxed(&block->armed, 0u);
    store_relaxed(&block->own_socket, 0u);
    store_relaxed(&block->type, s->type);
    store_relaxed(&block->reliability, (uint8_t)s->qos.reliability);
    store_relaxed(&block->depth, s->qos.depth);
    store_relaxed(&block->history, s->qos.history);
    store_relaxed(&block->min_interval_ns, s->qos.min_interval_ns);
    store_relaxed(&block->deadline_ns, s->qos.deadline_ns);
    store_relaxed(&block->lease_ns, s->qos.lease_ns);
    if (s->histogram) histogram_clear(s->histogram);
}

static void give_back(rtmw_subscriber *s)
{
    struct rtmw_region *r = s->region;
    slot_free(&r->subscriber_words[s->slot], load_seq(&r->subscriber_words[s->slot]));
    for (uint32_t band = 0; band < BANDS; band++)
        if (s->index[band] != NIL) let_go(r, s->index[band]);
}

/* What was evicted before the subscriber counted is not missed by it. */
static void catch_up(rtmw_subscriber *s, uint32_t band)
{
    uint64_t head = band_head_sequence(&s->topic->band[band], s->sequence[band]);
    if (s->sequence[band] && head > s->sequence[band] + 1) start_at_head(s, band);
}

static int open_locked(rtmw_subscriber *s, const char *topic, const rtmw_type *type)
{
    struct rtmw_region *r = s->region;
    int code = topic_open(r, topic, &s->topic_index);
    if (code == RTMW_OK) code = type_register(r, type, &s->type);
    if (code != RTMW_OK) return code;
    s->topic = &r->topics[s->topic_index];
    s->word = slot_claim(r, r->subscriber_words, r->header->subscribers, &r->hints->subscribers_top, s->topic_index,
                         &s->slot);
    if (!s->word) return RTMW_NO_ENDPOINT_SLOT;
    s->block = &r->subscribers[s->slot];
    s->histogram = s->slot < r->header->histograms ? &r->histograms[s->slot] : NULL;
    fill_block(s);
    for (uint32_t band = 0; band < BANDS; band++) start_at_tail(s, band);
    if (s->qos.history) code = start_in_past(s);
    if (code != RTMW_OK) return give_back(s), code;
    s->word = (s->word & ~UINT64_C(15)) | SLOT_ACTIVE;
    store_seq(&r->subscriber_words[s->slot], s->word);
    fetch_add(&s->topic->epoch, 1u); /* pairs with reliable_room and queue_trim: what they remember is void */
    for (uint32_t band = 0; band < BANDS; band++) {
        s->began[band] = band_tail_sequence(r, &s->topic->band[band]);
        catch_up(s, band);
    }
    wake_publishers(s->topic);
    return RTMW_OK;
}

int rtmw_subscriber_open(rtmw_region *r, const char *topic, const rtmw_type *type, const rtmw_subscriber_qos *qos,
                         rtmw_subscriber **out)
{
    if (is_forked(r)) return RTMW_FORKED;
    if (qos && (qos->depth == 0 || (unsigned)qos->reliability > RTMW_RELIABLE)) return RTMW_BAD_QOS;
    rtmw_subscriber *s = calloc(1, sizeof *s);
    if (!s) return RTMW_SYSTEM;
    s->region = r;
    s->qos = qos ? *qos : (rtmw_subscriber_qos)RTMW_SUBSCRIBER_QOS;
    s->socket = -1;
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
    if (s->socket >= 0) close(s->socket);
    if (!is_forked(r)) {
        lock_take(&r->lock);
        give_back(s);
        lock_give(&r->lock);
        wake_publishers(s->topic);
    }
    free(s);
}

/* Emptied: all who were counted on had read it. This one was not when it came too late for it, or when its lease had run
 * out: then it missed it. */
static void count_emptied(rtmw_subscriber *s, uint32_t band)
{
    if (s->sequence[band] > s->began[band]) count_up(&s->block->missed, 1);
}

/* A message beyond the depth of a TIMELY pair is dropped, under the cause for which it would not have been had anyway.
 * false: it is a publisher's that keeps more; it has to be delivered. */
static bool drop(rtmw_subscriber *s, uint32_t band, struct descriptor *d)
{
    struct subscriber_block *block = s->block;
    bool timely = s->qos.reliability == RTMW_TIMELY || d->reliability == RTMW_TIMELY;
    if (!descriptor_is_message(d)) return count_emptied(s, band), true;
    if (!types_match(d->type, s->type)) return count_up(&block->other_types, 1), true;
    if (!timely) return false;
    bool expired = d->expires_ns && d->expires_ns <= realtime_ns(s->region, monotonic_ns());
    count_up(expired ? &block->expired : &block->missed, 1);
    return true;
}

/* The next message of a band, or NULL. It is not held yet, so this is a hint. */
static struct descriptor *peek(rtmw_subscriber *s, uint32_t band)
{
    struct descriptor *d = descriptor_at(s->region, s->index[band]);
    if (d) return descriptor_at(s->region, link_index(load_seq(&d->next)));
    uint64_t head = load_seq(&s->topic->band[band].head), at = sequence_near(link_tag(head), s->sequence[band]);
    for (d = descriptor_at(s->region, link_index(head)); d && at <= s->sequence[band]; at++)
        d = descriptor_at(s->region, link_index(load_seq(&d->next)));
    return d;
}

/* Is the next message of a band one that may be dropped? */
static bool next_is_timely(rtmw_subscriber *s, uint32_t band)
{
    if (s->qos.reliability == RTMW_TIMELY) return true;
    struct descriptor *d = peek(s, band);
    return d && load_relaxed(&d->reliability) == RTMW_TIMELY;
}

/* The oldest of the lowest band go while more than `depth` are unread. A band to deliver from at once, or BANDS: when
 * the hint was wrong, the cursor is already at a message that has to be delivered. */
static uint32_t drop_beyond_depth(rtmw_subscriber *s)
{
    uint64_t unread = unread_by(s->region, s->topic, s->block);
    for (uint32_t band = 0; band < BANDS; band++)
        while (unread > s->qos.depth && next_is_timely(s, band)) {
            uint64_t before = s->sequence[band];
            if (!step(s, band)) break;
            if (!drop(s, band, &s->region->descriptors[s->index[band]])) return band;
            uint64_t moved = s->sequence[band] - before;
            unread = unread > moved ? unread - moved : 0;
        }
    return BANDS;
}

/* The lease ran out: go on behind what is gone, and be counted on again. */
static int rejoin(rtmw_subscriber *s)
{
    uint64_t before = s->block->missed;
    for (uint32_t band = 0; band < BANDS; band++) {
        uint64_t head = band_head_sequence(&s->topic->band[band], s->sequence[band]);
        if (head <= s->sequence[band] + 1) continue;
        uint64_t gone = head - s->sequence[band] - 1;
        if (s->index[band] != NIL) let_go(s->region, s->index[band]);
        s->index[band] = NIL;
        s->sequence[band] = head - 1;
        set_cursor(s, band);
        count_up(&s->block->missed, gone);
    }
    count_up(&s->block->lapses, 1);
    store_seq(&s->block->stall, 0);
    s->missed_at_lapse = s->block->missed - before;
    cas64(&s->region->subscriber_words[s->slot], (s->word & ~UINT64_C(15)) | SLOT_LAPSED, s->word);
    fetch_add(&s->topic->epoch, 1u);
    return RTMW_LAPSED;
}

static bool step_highest(rtmw_subscriber *s, uint32_t *band)
{
    uint32_t bands = load_seq(&s->topic->bands);
    while (bands) {
        uint32_t highest = 31u - (uint32_t)__builtin_clz(bands);
        if (step(s, highest)) {
            *band = highest;
            return true;
        }
        bands &= ~(1u << highest);
    }
    return false;
}

/* Does this subscriber get it? Otherwise it is counted. */
static bool accept(rtmw_subscriber *s, uint32_t band, struct descriptor *d, uint64_t now)
{
    struct subscriber_block *block = s->block;
    if (!descriptor_is_message(d)) return count_emptied(s, band), false;
    if (!types_match(d->type, s->type)) return count_up(&block->other_types, 1), false;
    if (s->qos.reliability == RTMW_RELIABLE && d->reliability != RTMW_RELIABLE)
        return count_up(&block->unmatched, 1), false;
    if (d->expires_ns && d->expires_ns <= realtime_ns(s->region, now ? now : monotonic_ns()))
        return count_up(&block->expired, 1), false;
    if (s->qos.min_interval_ns) {
        if (s->accepted_ns && d->published_ns < s->accepted_ns + s->qos.min_interval_ns)
            return count_up(&block->thinned, 1), false;
        s->accepted_ns = d->published_ns;
    }
    return true;
}

/* A cursor at a message with a block lets go of it, and rests on its sequence alone: so the block goes when the samples and
 * the other cursors of this process have let go too. Only in a short queue: the next step looks for its place from head. */
static void rest(rtmw_subscriber *s, uint32_t band)
{
    uint32_t index = s->index[band];
    if (index == NIL || !load_relaxed(&s->region->descriptors[index].block_granules)) return;
    if (s->sequence[band] - band_head_sequence(&s->topic->band[band], s->sequence[band]) > SHORT_QUEUE) return;
    s->index[band] = NIL;
    set_cursor(s, band);
    let_go(s->region, index);
}

/* So large that the next one may need its memory at once. */
static bool is_large(struct rtmw_region *r, struct descriptor *d)
{
    return d->block_granules > r->header->pages * (uint64_t)GRANULES_A_PAGE / LARGE_PART;
}

/* The clock is read once, unless the message is younger than what was read. */
static void record_latency(rtmw_subscriber *s, struct descriptor *d)
{
    uint64_t published_ns = load_relaxed(&d->published_ns);
    if (s->taken_ns < published_ns) s->taken_ns = monotonic_ns();
    histogram_record(s->histogram, s->taken_ns > published_ns ? s->taken_ns - published_ns : 0);
}

static int deliver(rtmw_subscriber *s, uint32_t band, struct descriptor *d, uint64_t now, rtmw_message *message)
{
    const void *data = payload_of(s->region, d);
    if (!data || d->size > (d->block_granules ? (uint64_t)d->block_granules * GRANULE : IN_PLACE)) return RTMW_DAMAGED;
    hold_again(s->region, s->index[band]);
    if (now) store_relaxed(&s->deadline_at_ns, now + s->qos.deadline_ns);
    count_up(&s->block->received, 1);
    count_up(&s->block->bytes, d->size);
    if (s->histogram) record_latency(s, d);
    *message = (rtmw_message){data,         d->size,        s->sequence[band], d->source_time_ns, d->expires_ns,
                              d->publisher, s->index[band], d->type,           (uint8_t)band};
    if (is_large(s->region, d)) rest(s, band);
    return RTMW_OK;
}

static int take_locked(rtmw_subscriber *s, rtmw_message *message)
{
    uint32_t band = BANDS;
    if (__builtin_expect(is_lapsed(s), 0)) return rejoin(s);
    if (s->qos.reliability == RTMW_TIMELY || (s->qos.reliability == RTMW_ADAPTIVE && load_relaxed(&s->topic->timely)))
        band = drop_beyond_depth(s);
    while (band < BANDS || step_highest(s, &band)) {
        struct descriptor *d = &s->region->descriptors[s->index[band]];
        uint64_t now = s->taken_ns = s->qos.deadline_ns ? monotonic_ns() : 0;
        if (accept(s, band, d, now)) return deliver(s, band, d, now, message);
        band = BANDS;
    }
    for (band = 0; band < BANDS; band++) rest(s, band);
    return RTMW_EMPTY;
}

int rtmw_take(rtmw_subscriber *s, rtmw_message *message)
{
    struct rtmw_region *r = s->region;
    if (is_forked(r)) return RTMW_FORKED;
    if (__builtin_expect(load_relaxed(&s->closed), 0)) return RTMW_CLOSED;
    lock_take(&r->lock);
    int code = take_locked(s, message);
    lock_give(&r->lock);
    if (s->qos.reliability == RTMW_RELIABLE) wake_publishers(s->topic);
    return code;
}

void rtmw_release(rtmw_region *r, uint32_t descriptor)
{
    if (is_forked(r)) return;
    lock_take(&r->lock);
    let_go(r, descriptor);
    lock_give(&r->lock);
}
