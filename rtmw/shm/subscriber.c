/* Subscriptions: where one begins, how it leaves, and how it outlives its process. How it takes: take.c. */
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "histogram.h"
#include "queue.h"
#include "topics.h"
#include "wait.h"

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

uint32_t cursor_count(rtmw_subscriber *s, uint32_t band, const struct descriptor *d)
{
    uint64_t offers = load_relaxed(&s->topic->band[band].offers);
    uint32_t wanted = offers_wanted(offers, s->type, s->qos.reliability, s->exact), count = count_up_to(d, wanted);
    s->every[band] = is_every_offer(offers, wanted) ? offers : NOT_EVERY;
    s->beside[band] = (uint32_t)s->sequence[band] - count;
    return count;
}

void cursor_count_missed(rtmw_subscriber *s, uint32_t band, const struct descriptor *d, uint64_t missed)
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

void cursor_count_gap(rtmw_subscriber *s, uint32_t band, uint64_t gap, uint32_t wanted)
{
    uint64_t lost = wanted <= gap ? wanted : gap;
    uint64_t *cause = gap > lost ? cause_of_gap(s, band) : NULL;
    if (lost) outcome_gone(s, band, s->sequence[band] - (s->index[band] != NIL), lost);
    if (cause) count_up(cause, gap - lost);
}

void cursor_to_head(rtmw_subscriber *s, uint32_t band)
{
    struct standing passed = first_standing(s->region, &s->topic->band[band]);
    if (s->index[band] != NIL) let_go(s->region, s->index[band]);
    s->index[band] = NIL;
    s->place[band] = NIL;
    s->sequence[band] = passed.sequence;
    s->taken[band] = standing_count(&passed, wanted_here(s, band));
    set_cursor(s, band);
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
    while (s->sequence[priority] < sequence && step(s, priority) == STEP_OK) {}
    clear_counters(s->block); /* what was gone on the way is told by the sequence */
    return s->sequence[priority];
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
