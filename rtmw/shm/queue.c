/* The queue of a band: oldest → newest, linked through descriptors, never without its last one.
 *
 *              head                                tail
 *               ▼                                   ▼
 *   (passed) ─► D(s=7) ─next─► D(s=8) ─next─► … ─► D(s=12) ─next─► D(s=13, linked, tail to follow)
 *
 * Append: read tail T, its standing and its `next`; see tail unchanged, so T was tail all the while. Write the own
 *   standing (the sequence is a part of it) and the predecessor, APPENDING, CAS T.next from T's own NIL. T's NIL carries T's generation: a T that began another life is never linked
 *   to. A process that finds tail behind makes the successor QUEUED first and then moves tail.
 * Evict: walk from head, CAS head forward. When that succeeds head never moved, so nothing walked over had been passed.
 * Hold: set my bit, then see that head has not passed the sequence I expect. Free to claim = passed, then no bits.
 *   Sequentially consistent: either the holder sees that it is passed, or the claimer sees the bit.
 * Step: follow `next` of the cursor (held, so it cannot change its life). Passed over → resume at head, and count.
 *   A cursor that rests holds none: the next message is found behind the one that it held last, or from head.
 * Read tail's sequence without a hold: load tail, load the sequence with acquire, see tail unchanged. A publisher
 *   stores a sequence with release, after its claim: a reader that loads one of a later life finds that tail has moved.
 * Damage: a process that holds a message sees that its sequence is the one it followed the links for. So links that
 *   somebody wrote over end at the first wrong one, also when they lead in a circle; and no try is repeated for ever.
 */
#include "queue.h"

#include "bitmap.h"

/* The last hold of this process ends. A large block that I was the last to hold is found by others at once. */
static inline void clear_my_bit(struct rtmw_region *r, uint32_t index)
{
    struct descriptor *d = &r->descriptors[index];
    bool is_large = load_relaxed(&d->block_granules) >= GRANULES_A_PAGE; /* nobody takes it while it is held */
    /* First the bit, then head is read; a reader that passes it over moves head first, and then reads the bits. */
    fetch_and(&d->holders[r->me >> 6], ~bit_of(r->me));
    if (__builtin_expect(is_large, 0) && descriptor_is_passed(r, d)) hint_passed(r, index);
}

static inline void let_go_inline(struct rtmw_region *r, uint32_t index)
{
    if (--r->refs[index] == 0) clear_my_bit(r, index);
}

void let_go(struct rtmw_region *r, uint32_t index) { let_go_inline(r, index); }

/* Sets my bit, and looks at nothing. */
static inline void set_my_bit(struct rtmw_region *r, uint32_t index)
{
    if (r->refs[index]++ == 0) fetch_or(&r->descriptors[index].holders[r->me >> 6], bit_of(r->me));
}

void hold_mine(struct rtmw_region *r, uint32_t index) { set_my_bit(r, index); }

bool take_back(struct rtmw_region *r, uint32_t index)
{
    if (index >= r->header->descriptors || r->refs[index] < LENT) return false;
    r->refs[index] -= LENT;
    if (r->refs[index] == 0) clear_my_bit(r, index);
    return true;
}

static inline bool hold_inline(struct rtmw_region *r, uint32_t index, struct band *band, uint64_t sequence)
{
    set_my_bit(r, index);
    uint64_t head = load_seq(&band->head); /* pairs with has_holders in descriptors.c */
    if (sequence_near(link_tag(head), sequence) <= sequence) return true;
    let_go_inline(r, index);
    return false;
}

bool hold(struct rtmw_region *r, uint32_t index, struct band *band, uint64_t sequence)
{
    return hold_inline(r, index, band, sequence);
}

/* Tail's successor is in the queue: make it QUEUED, then let tail name it. Stale arguments fail at the CAS. */
static void help_tail(struct rtmw_region *r, struct band *band, uint64_t tail, uint64_t successor)
{
    struct descriptor *d = descriptor_at(r, link_index(successor));
    if (!d) return;
    uint64_t state = load_seq(&d->state);
    if (state_kind(state) == APPENDING && state_generation(state) == link_tag(successor))
        cas64(&d->state, state, state_make(state_generation(state), QUEUED, 0));
    cas64(&band->tail, tail, link_make((link_tag(tail) + 1) & TAG_MASK, link_index(successor)));
}

/* The first message: head names it, then tail does. */
static void help_first(struct rtmw_region *r, struct band *band, uint64_t tail)
{
    uint64_t head = load_seq(&band->head);
    struct descriptor *d = descriptor_at(r, link_index(head));
    if (!d) return;
    uint64_t state = load_seq(&d->state);
    if (load_seq(&band->tail) != tail) return; /* then head may have moved on, and d begun another life */
    if (state_kind(state) == APPENDING) cas64(&d->state, state, state_make(state_generation(state), QUEUED, 0));
    cas64(&band->tail, tail, head);
}

static void stand_first(struct descriptor *d, uint32_t topic, uint32_t band)
{
    store_relaxed(&d->sequence, 1);
    store_relaxed(&d->place, place_make(load_relaxed(&d->block_granules), topic, band));
    for (uint32_t i = 0; i < OFFERS; i++) store_relaxed(&d->count[i], i == d->offer);
}

/* Behind `last`, if that is still the last one when tail is looked at again: hence acquire. */
static inline void stand_behind(struct descriptor *d, const struct descriptor *last)
{
    store_release(&d->sequence, load_acquire(&last->sequence) + 1); /* pairs with band_tail_sequence */
    store_relaxed(&d->place, place_add(load_acquire(&last->place), load_relaxed(&d->block_granules)));
    uint32_t offer = load_relaxed(&d->offer);
    store_relaxed(&d->count[0], load_acquire(&last->count[0]) + (offer == 0)); /* by hand: each append does it */
    store_relaxed(&d->count[1], load_acquire(&last->count[1]) + (offer == 1));
    store_relaxed(&d->count[2], load_acquire(&last->count[2]) + (offer == 2));
}

static inline void say_appending(struct descriptor *d, uint64_t state, uint64_t predecessor)
{
    store_release(&d->predecessor, predecessor); /* before the state: the sweep after a death reads both */
    if (state_kind(load_relaxed(&d->state)) == LOANED) store_release(&d->state, state);
}

static bool append_first(struct rtmw_region *r, struct band *band, uint64_t tail, uint32_t index)
{
    struct descriptor *d = &r->descriptors[index];
    say_appending(d, state_make(state_generation(load_relaxed(&d->state)), APPENDING, r->me), link_make(0, NIL));
    bool linked = cas64(&band->head, link_make(0, NIL), link_make(1, index));
    help_first(r, band, tail);
    return linked;
}

static bool link_descriptor(struct rtmw_region *r, uint32_t topic, uint32_t band_number, uint32_t index)
{
    struct band *band = &r->topics[topic].band[band_number];
    struct descriptor *d = &r->descriptors[index];
    uint64_t generation = state_generation(load_relaxed(&d->state));
    uint64_t appending = state_make(generation, APPENDING, r->me), self = link_make(generation, index);
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t tail = load_seq(&band->tail);
        if (link_index(tail) == NIL) {
            stand_first(d, topic, band_number);
            if (append_first(r, band, tail, index)) return true;
            continue;
        }
        struct descriptor *last = descriptor_at(r, link_index(tail));
        if (!last) return false;
        uint64_t next = load_seq(&last->next);
        stand_behind(d, last);
        if (load_seq(&band->tail) != tail) continue;
        if (link_index(next) != NIL) {
            if (!descriptor_at(r, link_index(next))) return false;
            help_tail(r, band, tail, next);
            continue;
        }
        say_appending(d, appending, link_make(link_tag(next), link_index(tail)));
        if (!cas64(&last->next, next, self)) continue;
        help_tail(r, band, tail, self);
        return true;
    }
    return false;
}

bool queue_append(struct rtmw_region *r, uint32_t topic, uint32_t band, uint32_t index)
{
    if (!link_descriptor(r, topic, band, index)) return false;
    evictable_appended(r, topic, band);
    return true;
}

uint64_t band_tail_sequence(struct rtmw_region *r, struct band *band)
{
    uint64_t tail = 0;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        tail = load_seq(&band->tail);
        struct descriptor *d = descriptor_at(r, link_index(tail));
        if (!d) break; /* nothing published yet */
        /* Acquire: the second load of tail must not come first. Pairs with stand_behind. */
        uint64_t sequence = load_acquire(&d->sequence);
        if (load_seq(&band->tail) == tail) return sequence;
    }
    return link_tag(tail);
}

uint64_t band_head_sequence(struct band *band, uint64_t near)
{
    return sequence_near(link_tag(load_seq(&band->head)), near);
}

uint64_t band_start(struct band *band, uint64_t near)
{
    uint64_t head = band_head_sequence(band, near), origin = load_relaxed(&band->origin);
    return head > origin ? head - 1 : origin;
}

uint64_t queue_catch_up(struct rtmw_region *r, struct band *band)
{
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t tail = load_seq(&band->tail);
        struct descriptor *last = descriptor_at(r, link_index(tail));
        uint64_t next = last ? load_seq(&last->next) : load_seq(&band->head);
        if (link_index(next) == NIL) break;
        if (last)
            help_tail(r, band, tail, next);
        else
            help_first(r, band, tail);
    }
    return band_tail_sequence(r, band);
}

static bool may_pass(const struct descriptor *d, uint64_t sequence, const struct passing *which)
{
    if (sequence > which->up_to) return false;
    if (!which->floor || sequence <= which->floor[offer_of(d)]) return true;
    return which->now && is_expired(d, which->now);
}

/* Pass over the oldest, while they are among these; never the last one. */
uint32_t queue_pass(struct rtmw_region *r, struct band *band, const struct passing *which)
{
    struct {
        uint32_t index;
        uint64_t generation;
    } passed[STASH];
    uint64_t head = load_seq(&band->head), tail = load_seq(&band->tail), granules = 0;
    if (link_index(head) == NIL || link_index(tail) == NIL) return 0;
    uint64_t sequence = sequence_near(link_tag(head), which->up_to), last = sequence_near(link_tag(tail), which->up_to);
    uint32_t count = 0, index = link_index(head);
    while (count < which->most && count < STASH && sequence < last && granules < which->granules) {
        struct descriptor *d = descriptor_at(r, index);
        if (!d) return 0;
        uint64_t next = load_seq(&d->next);
        if (link_index(next) == NIL) return 0; /* head moved, and d begun another life */
        if (!may_pass(d, sequence, which)) break;
        passed[count].index = index;
        passed[count++].generation = state_generation(load_seq(&d->state));
        granules += load_relaxed(&d->block_granules);
        index = link_index(next);
        sequence++;
    }
    if (!count || !cas64(&band->head, head, link_make(sequence & TAG_MASK, index))) return 0;
    for (uint32_t i = 0; i < count; i++) stash_put(r, passed[i].index, passed[i].generation);
    return count;
}

/* The oldest, up to and including sequence `up_to`, at most `most`. */
uint32_t queue_evict(struct rtmw_region *r, struct band *band, uint64_t up_to, uint32_t most)
{
    return queue_pass(r, band, &(struct passing){.up_to = up_to, .granules = UINT64_MAX, .most = most});
}

/* Head has not passed it after its fields were read: then they were its own. */
static bool glimpse_at(struct rtmw_region *r, struct band *band, uint64_t now, struct glimpse *g)
{
    struct descriptor *d = descriptor_at(r, g->index);
    if (!d) return false;
    g->state = load_acquire(&d->state);
    g->next = link_index(load_acquire(&d->next));
    g->type = load_acquire(&d->type);
    g->reliability = load_acquire(&d->reliability);
    g->published_ns = load_acquire(&d->published_ns);
    g->offer = offer_of(d);
    g->expires = load_acquire(&d->expires_ns) != 0;
    g->expired = is_expired(d, now);
    return band_head_sequence(band, g->sequence) <= g->sequence;
}

bool glimpse_first(struct rtmw_region *r, struct band *band, uint64_t now, struct glimpse *g)
{
    uint64_t head = load_seq(&band->head);
    g->index = link_index(head);
    g->sequence = sequence_near(link_tag(head), band_tail_sequence(r, band));
    return glimpse_at(r, band, now, g);
}

/* Where a cursor that holds its message is, if that is still in the queue; else the oldest. */
bool glimpse_cursor(struct rtmw_region *r, struct band *band, uint64_t cursor, uint64_t now, struct glimpse *g)
{
    g->index = link_index(cursor);
    g->sequence = sequence_near(link_tag(cursor), band_tail_sequence(r, band));
    return (g->index != NIL && glimpse_at(r, band, now, g)) || glimpse_first(r, band, now, g);
}

bool glimpse_again(struct rtmw_region *r, struct band *band, uint64_t now, struct glimpse *g)
{
    return glimpse_at(r, band, now, g);
}

bool glimpse_next(struct rtmw_region *r, struct band *band, uint64_t now, struct glimpse *g)
{
    g->index = g->next;
    g->sequence++;
    return glimpse_at(r, band, now, g);
}

/* The newest sequence, counting a message that is linked and that tail does not name yet. */
uint64_t band_last_sequence(struct rtmw_region *r, struct band *band)
{
    uint64_t sequence = 0;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t tail = load_seq(&band->tail);
        sequence = band_tail_sequence(r, band);
        struct descriptor *d = descriptor_at(r, link_index(tail));
        uint64_t next = d ? load_seq(&d->next) : load_seq(&band->head);
        if (load_seq(&band->tail) == tail) return sequence + (link_index(next) != NIL);
    }
    return sequence;
}

/* Is this held descriptor the message of that sequence? If not, somebody wrote over the region. */
static bool is_message(struct rtmw_region *r, uint32_t index, uint64_t sequence)
{
    return ((load_relaxed(&r->descriptors[index].sequence) ^ sequence) & TAG_MASK) == 0;
}

/* Lines that the publisher wrote, at once: what follows would fetch them one after the other. */
static inline void fetch_message(struct descriptor *d)
{
    prefetch(&d->size);
    prefetch(d->payload);
}

/* Of the message that is held next; and of its band's head, at which `hold` looks. */
static inline void fetch_next(struct band *band, struct descriptor *d)
{
    fetch_message(d);
    prefetch(&band->head);
}

/* Of a message that is taken now: the one that is taken next. */
static inline void fetch_successor(struct rtmw_region *r, uint32_t index)
{
    struct descriptor *d = descriptor_at(r, link_index(load_relaxed(&r->descriptors[index].next)));
    if (!d) return;
    prefetch_to_write(d);
    fetch_message(d);
}

/* From a held message to its successor: that is held then, and the other let go. Else nothing has changed. */
__attribute__((always_inline)) static inline int follow(struct rtmw_region *r, struct band *band, uint32_t *index,
                                                        uint64_t *sequence)
{
    uint32_t from = *index, to = link_index(load_acquire(&r->descriptors[from].next));
    if (to >= r->header->descriptors) return to == NIL ? STEP_NONE : STEP_DAMAGED;
    fetch_next(band, &r->descriptors[to]);
    if (!hold_inline(r, to, band, *sequence + 1)) return STEP_PASSED;
    if (!is_message(r, to, *sequence + 1)) return let_go_inline(r, to), STEP_DAMAGED;
    *index = to;
    *sequence += 1;
    let_go_inline(r, from);
    fetch_successor(r, to);
    return STEP_OK;
}

/* The oldest message behind `sequence`, held: what came before was passed over, or there was none yet. */
__attribute__((noinline)) static int find_behind(struct rtmw_region *r, struct band *band, uint64_t sequence,
                                                 uint32_t *index, uint64_t *at)
{
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t head = load_seq(&band->head);
        *index = link_index(head);
        *at = sequence_near(link_tag(head), sequence);
        if (*index >= r->header->descriptors) return *index == NIL ? STEP_NONE : STEP_DAMAGED;
        if (!hold(r, *index, band, *at)) continue;
        int stepped = is_message(r, *index, *at) ? STEP_OK : STEP_DAMAGED;
        while (stepped == STEP_OK && *at <= sequence) stepped = follow(r, band, index, at);
        if (stepped == STEP_OK) return STEP_OK;
        let_go(r, *index);
        if (stepped != STEP_PASSED) return stepped; /* else from head again */
    }
    return STEP_DAMAGED;
}

/* The message behind a cursor that holds none. While the one that it held last is in the same life, which its state says
 * after its `next` was read, that names the successor. So a poll reads one line, which nobody writes until there is more; and
 * it writes to none: a holder bit that comes and goes would hide from a publisher that all have read the message. */
int queue_resume(struct rtmw_region *r, struct band *band, uint64_t place, uint32_t *index, uint64_t *sequence)
{
    struct descriptor *d = descriptor_at(r, link_index(place));
    uint64_t next = d ? load_acquire(&d->next) : 0;
    if (!d || state_generation(load_acquire(&d->state)) != link_tag(place)) return STEP_PASSED;
    uint32_t to = link_index(next);
    if (to >= r->header->descriptors) return to == NIL ? STEP_NONE : STEP_DAMAGED;
    fetch_next(band, &r->descriptors[to]);
    if (!hold(r, to, band, *sequence + 1)) return STEP_PASSED;
    if (!is_message(r, to, *sequence + 1)) return let_go(r, to), STEP_DAMAGED;
    *index = to;
    *sequence += 1;
    fetch_successor(r, to);
    return STEP_OK;
}

/* Move a cursor to the next message. The new one is held, the old one let go. */
int queue_step(struct rtmw_region *r, struct band *band, uint32_t *index, uint64_t *sequence, uint64_t *missed)
{
    uint32_t from = *index, found;
    uint64_t at;
    int stepped = from == NIL ? STEP_PASSED : follow(r, band, index, sequence);
    if (__builtin_expect(stepped != STEP_PASSED, 1)) return stepped;
    stepped = find_behind(r, band, *sequence, &found, &at);
    if (stepped != STEP_OK) return stepped;
    *missed += at - *sequence - 1;
    *index = found;
    *sequence = at;
    if (from != NIL) let_go(r, from);
    return STEP_OK;
}

/* ======== unread ======== */

/* How much of a queue a subscriber has yet to take, as anybody can tell from the region.
 *
 * Counted are the messages that it gets by type and reliability. Which of them have expired, or will be thinned, is found
 * by publish.c where it matters.
 */

uint32_t offer_claim(struct band *band, uint32_t type, uint32_t reliability)
{
    uint64_t offer = offer_make(type, reliability);
    for (uint32_t i = 0; i < OFFERS;) {
        uint64_t offers = load_relaxed(&band->offers), there = offer_at(offers, i);
        if (there == offer) return i;
        if (there)
            i++;
        else if (cas64(&band->offers, offers, offers | (offer << (i * OFFER_BITS))))
            return i;
    }
    return OFFERS;
}

/* The newest message's standing; zeros when nothing was published yet. */
struct standing newest_standing(struct rtmw_region *r, struct band *band)
{
    struct standing at = {0};
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t tail = load_seq(&band->tail);
        struct descriptor *d = descriptor_at(r, link_index(tail));
        if (!d) return (struct standing){0};
        at = standing_of(d);
        if (load_seq(&band->tail) == tail) break;
    }
    return at;
}

/* The standing of all that is passed: just before the oldest message kept. */
struct standing passed_standing(struct rtmw_region *r, struct band *band)
{
    struct standing at = {0};
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t head = load_seq(&band->head);
        struct descriptor *d = descriptor_at(r, link_index(head));
        if (!d) return (struct standing){0};
        at = standing_before(d);
        if (load_seq(&band->head) == head) break;
    }
    return at;
}

/* The standing of the message of this sequence, which is in the queue; else of all that is passed by now. Walks from head,
 * so that nothing is evicted that a subscriber has unread. */
static struct standing standing_at(struct rtmw_region *r, struct band *band, uint64_t sequence)
{
    struct glimpse g;
    bool found = glimpse_first(r, band, 0, &g);
    for (uint32_t looked = 0; found && g.sequence < sequence && looked < r->header->descriptors; looked++)
        found = glimpse_next(r, band, 0, &g);
    struct descriptor *d = found && g.sequence == sequence ? descriptor_at(r, g.index) : NULL;
    struct standing at = d ? standing_of(d) : passed_standing(r, band);
    return d && band_head_sequence(band, sequence) > sequence ? passed_standing(r, band) : at;
}

/* The standing behind which a band begins for who wants what is kept: all that is passed, or is of an earlier life of the
 * topic's slot, or was forgotten. */
struct standing first_standing(struct rtmw_region *r, struct band *band)
{
    struct standing at = passed_standing(r, band);
    uint64_t origin = load_seq(&band->origin);
    for (uint32_t in_vain = 0; at.sequence < origin && in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t head = load_seq(&band->head);
        at = standing_at(r, band, origin);
        if (load_seq(&band->head) == head) break; /* an origin that is not there is damage */
    }
    return at;
}

uint32_t wanted_by(struct band *band, struct subscriber_block *block)
{
    return offers_wanted(load_relaxed(&band->offers), load_relaxed(&block->type), load_relaxed(&block->reliability),
                         load_relaxed(&block->exact));
}

/* A difference of counts that move while they are read; below 0: the cursor has come past what was read first. */
static uint32_t at_least_0(uint32_t difference) { return difference > INT32_MAX ? 0 : difference; }

struct unread unread_in(struct rtmw_region *r, struct band *band, struct subscriber_block *block, uint32_t taken)
{
    struct standing passed = passed_standing(r, band), newest = newest_standing(r, band);
    uint32_t wanted = wanted_by(band, block), all = standing_count(&newest, wanted);
    uint32_t behind = at_least_0(all - taken), kept = at_least_0(all - standing_count(&passed, wanted));
    return kept < behind ? (struct unread){kept, behind - kept} : (struct unread){behind, 0};
}

struct unread unread_by(struct rtmw_region *r, struct topic *t, struct subscriber_block *block)
{
    struct unread sum = {0, 0};
    uint32_t bands = load_seq(&t->bands);
    for (uint32_t b = 0; b < BANDS; b++) {
        if (!(bands & (1u << b))) continue;
        struct unread one = unread_in(r, &t->band[b], block, load_seq(&block->taken[b]));
        sum.waiting += one.waiting;
        sum.gone += one.gone;
    }
    return sum;
}

/* ======== hints ======== */

/* Which topics have messages that may give way: where the eviction looks.
 *
 * Topics are found through a bitmap a band: `evictable`, a bit a topic, beside a bit a band in the topic itself.
 *
 *   appender     links, then looks at the topic's bit; if it is clear: sets it, then the bitmap's
 *   evictor      found nothing that may go: sets `pinned` if RELIABLE subscribers need what is there; clears the
 *                bitmap's bit, then the topic's; looks again, and sets both when something may go
 *   subscriber   moves its cursor or leaves, then looks at `pinned`; if it is set: clears it, and sets both bits
 *
 * A process that changes something sets bits after the change, and the evictor looks after it has cleared them: one of the
 * two sees the other (all are sequentially consistent). A death in between is mended by the sweep, which sets them all.
 *
 * An evictor that is stopped while it clears leaves the bitmap's bit clear and the topic's set; a subscriber that is stopped
 * between its two steps leaves `pinned`. So a publisher that is refused repairs some of both, in turn.
 */

enum { REPAIRS = 64 }; /* topics */

void evictable_mark(struct rtmw_region *r, uint32_t topic, uint32_t band)
{
    fetch_or(&r->topics[topic].evictable, 1u << band);
    bitmap_set(evictable_map(r, band), topic);
}

void topic_unpin(struct rtmw_region *r, uint32_t topic)
{
    uint32_t bands = exchange(&r->topics[topic].pinned, 0u);
    for (uint32_t band = 0; band < BANDS; band++)
        if (bands & (1u << band)) evictable_mark(r, topic, band);
}

/* After a death: marks all that the dead may have been about to mark. */
void evictable_recount(struct rtmw_region *r)
{
    for (uint32_t topic = 0; topic < load_seq(&r->hints->topics_top) && topic < r->header->topics; topic++)
        for (uint32_t band = 0; band < BANDS; band++)
            if (load_seq(&r->topics[topic].bands) & (1u << band)) evictable_mark(r, topic, band);
}

/* Bits over which somebody was stopped: between clearing the one and the other, or after it moved on in a topic that is
 * pinned. The latter looks like any that is pinned, so it is one at a time that is looked at again. */
void evictable_repair(struct rtmw_region *r)
{
    uint32_t topics = load_seq(&r->hints->topics_top);
    if (topics > r->header->topics) topics = r->header->topics;
    if (topics) topic_unpin(r, r->unpin_scan++ % topics);
    for (uint32_t looked = 0; looked < REPAIRS && looked < topics; looked++) {
        uint32_t topic = r->repair_scan < topics ? r->repair_scan : 0;
        uint32_t named = load_seq(&r->topics[topic].evictable) & ((1u << BANDS) - 1);
        for (; named; named &= named - 1) bitmap_set(evictable_map(r, (uint32_t)__builtin_ctz(named)), topic);
        r->repair_scan = topic + 1;
    }
}
