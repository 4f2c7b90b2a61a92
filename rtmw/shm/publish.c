/* Publishers: open and close one, publish with it, and wait for room (requirement P13).
 *
 * Publishing: see whether it may go on (room); claim a descriptor and block, or say that there is none; write; append at
 * the tail; wake.
 *
 *   all of them                            queue_trim: what nobody needs any more is passed over
 *   small messages, up to 32 at a time     reliable_room → claim and write all → append one by one
 *   a message with a block, a loan         reliable_room → a block → memcpy → loan_append
 *   both                                   → rtmw_publisher_flush
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "futex.h"
#include "identity.h"
#include "reclaim.h"
#include "wait.h"

/* ======== trim ======== */

/* What a queue has too much of is passed over as its topic publishes. */

enum { LEEWAY = 32, READ_LEEWAY = 8 };

/* By how many messages a queue grows at least before somebody asks again. Few where they have blocks: what is passed sooner is
 * written anew sooner, while it lies in the cache. */
static uint64_t leeway_for(uint64_t size) { return size <= IN_PLACE ? READ_LEEWAY : size <= PAGE ? LEEWAY / 8 : 1; }

/* Has each subscriber come to this sequence of the band? Then nobody needs what is up to it. Other than an outlook this
 * reads one line of each subscriber and none of a message. A slot that gets another owner meanwhile does no harm: its last
 * owner needs nothing any more, and the new one is not counted on before it is ACTIVE. */
static bool all_have_read(struct rtmw_publisher *p, uint32_t band, uint64_t sequence)
{
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(p->region, p->topic_index, &slot)); slot++)
        if (sequence_near(link_tag(load_seq(&block->cursor[band])), sequence) < sequence) return false;
    return true;
}

/* Passing over 32 small messages takes several times as long as a publish. So it is done 8 at a time where each message is read
 * before the next one comes. Where a subscriber is behind, messages come in a stream, and 32 at a time cost less. */
static bool is_early(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint64_t keep, uint64_t step)
{
    if (step != READ_LEEWAY || length >= keep + LEEWAY) return false;
    return !all_have_read(p, band, TAG_MASK + 1 + link_tag(load_relaxed(&p->topic->band[band].tail)));
}

/* The lines of the oldest message, which the subscribers wrote last, and of head: asked for together, before they are needed
 * one after the other. */
static void fetch_oldest(struct rtmw_region *r, struct band *band)
{
    struct descriptor *d = descriptor_at(r, link_index(load_relaxed(&band->head)));
    prefetch_to_write(band);
    if (d) prefetch_to_write(d);
}

/* How many of those before the newest `keep`. Mostly all have read them; else it is seen who needs which. */
static uint32_t pass_unneeded(struct rtmw_publisher *p, uint32_t band, uint64_t keep)
{
    uint64_t tail = link_tag(load_seq(&p->topic->band[band].tail));
    uint64_t history = load_relaxed(&p->topic->history); /* after tail: it is promised before it is published */
    uint64_t up_to = TAG_MASK + 1 + tail - (keep > history ? keep : history); /* above all tags: none is below 0 */
    if (all_have_read(p, band, up_to)) return queue_evict(p->region, &p->topic->band[band], up_to, TRIM_MOST);
    enum look look = is_pressed(p, band) ? LOOK_SPARE : LOOK_UNNEEDED;
    struct outlook o = outlook_of(p->region, p->topic_index, band, look);
    struct passing which = {.granules = UINT64_MAX, .most = TRIM_MOST};
    return outlook_pass(p->region, &o, keep, &which);
}

/* Something of another queue goes, as it would where there is no descriptor left. */
static bool others_give_way(struct rtmw_publisher *p, uint32_t band)
{
    p->region->short_of_pages = false;
    struct search search = search_begin(p, band, 0);
    return make_room(&search);
}

/* How far a queue may grow before a publisher asks again; 0: it may not. A queue that keeps descriptors for nothing
 * leaves the last eighth of them to others, unless something else may go. One that holds few may always grow. */
static uint64_t growth_of(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint64_t step)
{
    uint64_t few = p->region->header->descriptors / 32 + 1, grow = length / 4 < step ? step : length / 4;
    if (length < few || !descriptors_are_low(p->region, band)) return grow < few ? grow : few;
    uint32_t room = room_when_low(p, band);
    return room ? room : others_give_way(p, band);
}

static void ask_again_at(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint32_t epoch)
{
    p->trim_at[band] = length;
    p->trim_epoch = epoch;
}

__attribute__((noinline)) static bool trim_long(struct rtmw_publisher *p, uint32_t band, uint64_t length, uint64_t keep,
                                                uint64_t step)
{
    uint32_t epoch = load_relaxed(&p->topic->epoch);
    if (epoch == p->trim_epoch && length < p->trim_at[band]) return true;
    if (is_early(p, band, length, keep, step)) return ask_again_at(p, band, keep + LEEWAY, epoch), true;
    fetch_oldest(p->region, &p->topic->band[band]);
    uint32_t passed = pass_unneeded(p, band, keep);
    uint64_t grow = passed ? 0 : growth_of(p, band, length, step);
    ask_again_at(p, band, grow ? length + grow : 0, epoch);
    return passed || grow;
}

bool queue_trim(struct rtmw_publisher *p, uint32_t band, uint64_t size)
{
    struct band *b = &p->topic->band[band];
    uint64_t tail = link_tag(load_relaxed(&b->tail)), head = link_tag(load_relaxed(&b->head));
    uint64_t length = (tail - head) & TAG_MASK, keep = size > IN_PLACE ? 1 : p->qos.depth, step = leeway_for(size);
    return __builtin_expect(length < keep + step, 1) || trim_long(p, band, length, keep, step);
}

/* ======== publishing ======== */

enum { BATCH_MOST = 32 };

/* Fields that messages published together have in common. */
struct stamp {
    uint64_t now, real, expires, publisher;
};

static uint32_t band_for(rtmw_publisher *p, const rtmw_message_qos *qos)
{
    return qos && qos->priority >= 0 ? (uint32_t)qos->priority % BANDS : p->qos.priority;
}

/* When a message ends, CLOCK_MONOTONIC; 0: never. A wall time is converted by what the clocks show now. */
static uint64_t end_of_life(rtmw_publisher *p, const rtmw_message_qos *qos, uint64_t now, uint64_t real)
{
    uint64_t lifetime = limit_of(qos && qos->lifetime_ns ? qos->lifetime_ns : p->qos.lifetime_ns);
    uint64_t ends = lifetime ? now + lifetime : 0;
    if (!qos || !qos->expires_ns || (qos->expires_ns > real && !limit_of(qos->expires_ns - real))) return ends;
    uint64_t until = on_clock(qos->expires_ns, real, now);
    return ends && ends < until ? ends : until;
}

static struct stamp stamp_now(rtmw_publisher *p, const rtmw_message_qos *qos)
{
    uint64_t now = monotonic_ns(), real = realtime_ns(p->region, now);
    struct stamp stamp = {now, real, end_of_life(p, qos, now, real), p->block->identity};
    if (!qos) return stamp;
    if (qos->source_time_ns) stamp.real = qos->source_time_ns;
    if (qos->publisher) stamp.publisher = qos->publisher;
    return stamp;
}

/* Before its first message in a band: the band is in use, and has its offer. Both stay for as long as the topic does. */
__attribute__((noinline)) static void enter_band(rtmw_publisher *p, uint32_t band)
{
    struct topic *t = p->topic;
    if (!(load_relaxed(&t->bands) & (1u << band))) fetch_or(&t->bands, 1u << band);
    p->offer[band] = (uint8_t)offer_claim(&t->band[band], p->block->type, p->qos.reliability);
    p->entered |= 1u << band;
}

static void write_header(rtmw_publisher *p, uint32_t band, struct descriptor *d, const struct stamp *stamp)
{
    if (__builtin_expect(!(p->entered & (1u << band)), 0)) enter_band(p, band);
    store_relaxed(&d->published_ns, stamp->now);
    store_relaxed(&d->source_time_ns, stamp->real);
    store_relaxed(&d->expires_ns, stamp->expires);
    store_relaxed(&d->publisher, stamp->publisher);
    store_relaxed(&d->type, (uint16_t)p->block->type);
    store_relaxed(&d->reliability, (uint8_t)p->qos.reliability);
    store_relaxed(&d->offer, p->offer[band]);
}

static bool has_band(const rtmw_message_qos *qos) { return !qos || qos->priority < BANDS; }

/* Says for rtmw_publisher_wait what was missing. Who only tries again and again goes on as one that waits: the dead and the
 * stalled are seen to. Lock held */
static int refused(rtmw_publisher *p, int code, uint64_t bytes, uint32_t band)
{
    store_relaxed(&p->refused_bytes, bytes);
    store_relaxed(&p->refused_band, band);
    p->lacked_memory = code == RTMW_NO_MEMORY ? load_relaxed(&p->block->published) + 1 : 0;
    if (code != RTMW_NO_MEMORY) return code; /* of full queues it is done by reliable_room */
    store_relaxed(&p->waited_ns, monotonic_ns());
    expel_for_memory(p);
    return code;
}

/* make_room may free a little at a time; a large message may need many turns. Bounded by its looks. */
__attribute__((noinline)) static uint32_t claim_making_room(rtmw_publisher *p, uint64_t size, uint32_t band)
{
    struct search search = search_begin(p, band, size);
    uint32_t index = NIL;
    while (index == NIL && make_room(&search)) index = descriptor_claim(p->region, size, band);
    if (index == NIL) evictable_repair(p->region);
    return index;
}

static inline uint32_t claim_with_room(rtmw_publisher *p, uint64_t size, uint32_t band)
{
    uint32_t index = descriptor_claim(p->region, size, band);
    return __builtin_expect(index != NIL, 1) ? index : claim_making_room(p, size, band);
}

bool could_be_had(rtmw_publisher *p, uint64_t size)
{
    if (!queue_trim(p, p->refused_band, size)) return false;
    uint32_t index = claim_with_room(p, size, p->refused_band);
    if (index != NIL) descriptor_free(p->region, index);
    return index != NIL;
}

static bool append(rtmw_publisher *p, uint32_t band, uint32_t index)
{
    struct rtmw_region *r = p->region;
    if (!is_traced(p->topic)) return queue_append(r, p->topic_index, band, index);
    hold_mine(r, index); /* to be read once it is in the queue */
    bool appended = queue_append(r, p->topic_index, band, index);
    if (appended) trace_published(p, band, &r->descriptors[index]);
    let_go(r, index);
    return appended;
}

static void count_published(rtmw_publisher *p, uint64_t messages, uint64_t bytes)
{
    count_up(&p->block->published, messages);
    count_up(&p->block->bytes, bytes);
    descriptor_fetch_ahead(p->region);
}

/* ---- loans ---- */

/* A claimed descriptor, or NIL: there was no memory. */
static int make_loan(rtmw_publisher *p, uint32_t index, uint64_t size, uint32_t band, rtmw_loan *loan)
{
    struct rtmw_region *r = p->region;
    void *data = index == NIL ? NULL : payload_of(r, &r->descriptors[index], size);
    if (index != NIL && !data) descriptor_free(r, index);
    if (data) prefetch_to_write(data); /* its last reader has the line */
    *loan = (rtmw_loan){data, size, index, data ? state_generation(load_relaxed(&r->descriptors[index].state)) : 0};
    return data ? RTMW_OK : index == NIL ? refused(p, RTMW_NO_MEMORY, size, band) : RTMW_DAMAGED;
}

static bool is_too_large(struct rtmw_region *r, uint64_t size, uint32_t band)
{
    return size > (uint64_t)(r->header->pages - r->open_pages[band]) * PAGE;
}

static int take_loan(rtmw_publisher *p, uint64_t size, uint32_t band, rtmw_loan *loan)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r)) return RTMW_FORKED;
    if (publisher_is_swept(p)) return RTMW_SWEPT;
    if (is_too_large(r, size, band)) return RTMW_TOO_LARGE;
    lock_take(&r->lock);
    bool grows = queue_trim(p, band, size);
    int code = make_loan(p, grows ? claim_with_room(p, size, band) : NIL, size, band, loan);
    lock_give(&r->lock);
    return code;
}

int loan_take(rtmw_publisher *p, uint64_t size, const rtmw_message_qos *qos, rtmw_loan *loan)
{
    return has_band(qos) ? take_loan(p, size, band_for(p, qos), loan) : RTMW_BAD_QOS;
}

int rtmw_loan_take(rtmw_publisher *p, uint64_t size, rtmw_loan *loan) { return loan_take(p, size, NULL, loan); }

/* Is the descriptor still in the life in which it was lent to this process, and in this state? Lock held. */
static bool loan_is(struct rtmw_region *r, const rtmw_loan *loan, enum descriptor_kind kind)
{
    struct descriptor *d = descriptor_at(r, loan->descriptor);
    return d && load_relaxed(&d->state) == state_make(loan->life, kind, r->me);
}

/* APPENDING: to append it failed, in a damaged region. */
int loan_give_back(struct rtmw_region *r, const rtmw_loan *loan)
{
    if (is_forked(r)) return RTMW_FORKED;
    if (is_swept(r)) return RTMW_SWEPT;
    lock_take(&r->lock);
    bool is_mine = loan_is(r, loan, LOANED) || loan_is(r, loan, APPENDING);
    if (is_mine) descriptor_free(r, loan->descriptor);
    lock_give(&r->lock);
    return is_mine ? RTMW_OK : RTMW_BAD_LOAN;
}

int rtmw_loan_drop(rtmw_publisher *p, rtmw_loan *loan) { return loan_give_back(p->region, loan); }

static int loan_can_be_appended(rtmw_publisher *p, const rtmw_loan *loan, uint32_t band)
{
    if (!loan_is(p->region, loan, LOANED)) return RTMW_BAD_LOAN;
    if (loan->size > load_relaxed(&p->region->descriptors[loan->descriptor].size)) return RTMW_BAD_LOAN;
    return reliable_room(p, band) ? RTMW_OK : refused(p, RTMW_FULL, 0, band);
}

enum { ELSEWHERE = -1 };

/* It was taken for a higher priority than this, and lies in the reserve of those. */
static inline bool is_in_reserve_above(struct rtmw_region *r, uint32_t index, uint32_t band)
{
    uint32_t page = load_relaxed(&r->descriptors[index].block_granule) / GRANULES_A_PAGE;
    bool is_common = index >= r->reserve_end && page >= r->header->reserved_pages;
    return __builtin_expect(!is_common, 0) && !descriptor_is_open(r, index, band);
}

static inline int loan_append_locked(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    uint32_t band = band_for(p, qos);
    int code = loan_can_be_appended(p, loan, band);
    if (code != RTMW_OK) return code;
    if (is_in_reserve_above(p->region, loan->descriptor, band)) return ELSEWHERE;
    struct descriptor *d = &p->region->descriptors[loan->descriptor];
    struct stamp stamp = stamp_now(p, qos);
    write_header(p, band, d, &stamp);
    store_relaxed(&d->size, loan->size);
    if (band != p->qos.priority) queue_trim(p, band, loan->size); /* it has its memory, so it is not refused */
    if (!append(p, band, loan->descriptor)) return RTMW_DAMAGED;
    count_published(p, 1, loan->size);
    return RTMW_OK;
}

/* Copied to where its message may lie, so that the reserve stays what it is; without the lock, for it may be large. */
__attribute__((noinline)) static int append_elsewhere(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    struct rtmw_region *r = p->region;
    uint32_t band = band_for(p, qos);
    rtmw_loan copy;
    if (is_too_large(r, loan->size, band)) return RTMW_TOO_LARGE;
    lock_take(&r->lock);
    const void *data = payload_of(r, &r->descriptors[loan->descriptor], loan->size);
    int code = data ? make_loan(p, claim_with_room(p, loan->size, band), loan->size, band, &copy) : RTMW_DAMAGED;
    lock_give(&r->lock);
    if (code != RTMW_OK) return code;
    memcpy(copy.data, data, loan->size);
    code = loan_append(p, &copy, qos);
    loan_give_back(r, code == RTMW_OK ? loan : &copy);
    return code;
}

int loan_append(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r)) return RTMW_FORKED;
    if (!has_band(qos)) return RTMW_BAD_QOS;
    if (publisher_is_swept(p)) return RTMW_SWEPT;
    lock_take(&r->lock);
    int code = loan_append_locked(p, loan, qos);
    lock_give(&r->lock);
    return __builtin_expect(code == ELSEWHERE, 0) ? append_elsewhere(p, loan, qos) : code;
}

int rtmw_loan_publish(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    int code = loan_append(p, loan, qos);
    if (code == RTMW_OK) rtmw_publisher_flush(p);
    return code;
}

/* The writer keeps a view: the memory is not used again before rtmw_release, whatever becomes of the message. */
void loan_keep(rtmw_publisher *p, rtmw_loan *loan)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r) || load_relaxed(&r->swept)) return;
    lock_take(&r->lock);
    hold_mine(r, loan->descriptor);
    lend(r, loan->descriptor);
    let_go(r, loan->descriptor);
    lock_give(&r->lock);
}

/* ---- copies ---- */

/* Claims descriptors and writes messages into them, while there is memory; how many. */
static uint32_t write_small(rtmw_publisher *p, uint32_t band, const struct part *parts, uint32_t count, uint32_t *index)
{
    for (uint32_t i = 0; i < count; i++) {
        index[i] = claim_with_room(p, parts[i].size, band);
        if (index[i] == NIL) return i;
        memcpy(p->region->descriptors[index[i]].payload, parts[i].data, parts[i].size);
    }
    return count;
}

/* Another publisher appends at the same time: then what was found out about room is void after each message. */
static bool is_next(struct rtmw_region *r, uint32_t before, uint32_t index)
{
    return load_relaxed(&r->descriptors[index].sequence) == load_relaxed(&r->descriptors[before].sequence) + 1;
}

/* Appends while there is room; how many. Others may have appended between the look at it and the first of these. */
static uint32_t append_small(rtmw_publisher *p, uint32_t band, uint32_t room, const uint32_t *index, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!room && !(room = reliable_room(p, band))) return i;
        if (!append(p, band, index[i])) return i;
        room = i && is_next(p->region, index[i - 1], index[i]) ? room - 1 : 0;
    }
    return count;
}

/* All of them up to IN_PLACE bytes, at most BATCH_MOST. The clock is read while lines come that were written to. */
static int publish_small(rtmw_publisher *p, const struct part *parts, uint32_t count, const rtmw_message_qos *qos,
                         uint32_t *published)
{
    struct rtmw_region *r = p->region;
    uint32_t index[BATCH_MOST], band = band_for(p, qos), room = reliable_room(p, band);
    if (!room) return refused(p, RTMW_FULL, 0, band);
    if (!queue_trim(p, band, 0)) return refused(p, RTMW_NO_MEMORY, parts->size, band);
    uint32_t written = write_small(p, band, parts, count < room ? count : room, index);
    if (!written) return refused(p, RTMW_NO_MEMORY, parts->size, band);
    struct stamp stamp = stamp_now(p, qos);
    for (uint32_t i = 0; i < written; i++) write_header(p, band, &r->descriptors[index[i]], &stamp);
    *published = append_small(p, band, room, index, written);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < *published; i++) bytes += parts[i].size;
    for (uint32_t i = *published; i < written; i++) descriptor_free(r, index[i]);
    count_published(p, *published, bytes);
    return *published ? RTMW_OK : RTMW_DAMAGED; /* for the first there was room */
}

/* A large one takes over the block of the message before it, if all have read that: it lies in the cache. Not so a loan:
 * how much of it will be written, and when, its writer alone knows, and until then a late subscriber may want the other. */
static int loan_for_copy(rtmw_publisher *p, uint32_t band, uint64_t size, rtmw_loan *loan)
{
    if (!reliable_room(p, band)) return refused(p, RTMW_FULL, 0, band); /* nothing is copied for a queue that is full */
    if (is_too_large(p->region, size, band)) return RTMW_TOO_LARGE;
    bool grows = queue_trim(p, band, size);
    uint32_t index = size >= LARGE_COPY && grows ? inherit_last(p, band, size) : NIL;
    if (index == NIL && grows) index = claim_with_room(p, size, band);
    return make_loan(p, index, size, band, loan);
}

static int publish_block(rtmw_publisher *p, const struct part *part, const rtmw_message_qos *qos)
{
    struct rtmw_region *r = p->region;
    rtmw_loan loan;
    uint32_t band = band_for(p, qos);
    lock_take(&r->lock);
    int code = loan_for_copy(p, band, part->size, &loan);
    lock_give(&r->lock);
    if (code != RTMW_OK) return code;
    copy_into_block(loan.data, part->data, part->size);
    code = loan_append(p, &loan, qos);
    if (code != RTMW_OK) rtmw_loan_drop(p, &loan);
    return code;
}

static uint32_t small_ones(const struct part *parts, uint32_t count)
{
    uint32_t run = 0;
    while (run < count && run < BATCH_MOST && parts[run].size <= IN_PLACE) run++;
    return run;
}

int publish_quietly(rtmw_publisher *p, const struct part *parts, uint32_t count, const rtmw_message_qos *qos,
                    uint32_t *published)
{
    struct rtmw_region *r = p->region;
    int code = is_forked(r) ? RTMW_FORKED : publisher_is_swept(p) ? RTMW_SWEPT : has_band(qos) ? RTMW_OK : RTMW_BAD_QOS;
    for (*published = 0; code == RTMW_OK && *published < count;) {
        uint32_t run = small_ones(parts + *published, count - *published), done = 0;
        if (run) {
            lock_take(&r->lock);
            code = publish_small(p, parts + *published, run, qos, &done);
            lock_give(&r->lock);
        } else {
            code = publish_block(p, parts + *published, qos);
            done = code == RTMW_OK;
        }
        *published += done;
    }
    return code;
}

int rtmw_publish_quietly(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    struct part part = {data, size};
    uint32_t published;
    return publish_quietly(p, &part, 1, qos, &published);
}

int rtmw_publish(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    int code = rtmw_publish_quietly(p, data, size, qos);
    if (code == RTMW_OK) rtmw_publisher_flush(p);
    return code;
}

void rtmw_publisher_flush(rtmw_publisher *p)
{
    if (!is_forked(p->region)) wake_subscribers(p->region, p->topic, p->topic_index);
}

/* The message was given up: said in the counters, by cause. */
void publisher_refused(rtmw_publisher *p, int code)
{
    count_up(code == RTMW_FULL ? &p->block->timed_out : &p->block->exhausted, 1);
    if (code == RTMW_NO_MEMORY && history_is_in_the_way(p->region)) count_up(&p->block->held_by_history, 1);
    if (is_traced(p->topic)) trace_refused(p, code == RTMW_FULL ? TRACE_TIMED_OUT : TRACE_EXHAUSTED);
}

/* ======== room ======== */

/* When a RELIABLE publisher must wait (requirement P5): a RELIABLE subscriber of its band has `depth` unread messages.
 *
 * Counted are the messages that this subscriber will get: offered to it (by counts, see queue.h), not expired, and not
 * thinned. Each band counts for itself, so that what is urgent never waits for what is not.
 *
 * A publisher asks only when what it found the last time is used up: `gate` is the sequence up to which nobody can be
 * full, since each message counts at most once. It is void when `epoch` changes: a subscriber has joined.
 *
 * A publisher that finds a full subscriber sees whether its program lives and its lease goes on, each time, whether it
 * waits afterwards or only tries. One such look asks the kernel about a bounded number of programs, and sweeps after one;
 * the next look goes on behind them. So n dead programs among m that are in the way are gone after n + m / 8 looks.
 */

enum { MOST_LOOKED_AT = 256, MOST_EXPELLED = 64 };
enum { MOST_ASKED = 128, ASKED_PART = 16 }; /* of a topic's subscribers in one look; all within SAME_WAIT */
enum { FOR_MEMORY = BANDS };                /* in place of a band */
enum { MOST_LIVES = 8 };                    /* programs that the kernel is asked about in one look */
enum { SAME_WAIT = 128 }; /* units of `stall`: between two looks of a publisher that waits, also on a loaded machine */

static bool waits_for(struct rtmw_publisher *p, struct subscriber_block *block)
{
    return load_relaxed(&block->reliability) == RTMW_RELIABLE &&
           types_match(p->block->type, load_relaxed(&block->type));
}

/* At most so many of a subscriber's unread messages come through its min_interval, for those lie so far apart. */
static uint64_t most_let_through(struct subscriber_block *block, struct rtmw_region *r, struct band *band, uint64_t now)
{
    uint64_t interval = load_relaxed(&block->min_interval_ns), accepted = load_relaxed(&block->accepted_ns);
    struct glimpse oldest;
    if (!interval) return UINT64_MAX;
    if (accepted) return now > accepted ? (now - accepted) / interval : 0;
    if (!glimpse_first(r, band, now, &oldest)) return UINT64_MAX;
    return now > oldest.published_ns ? (now - oldest.published_ns) / interval + 1 : 1;
}

/* The oldest of a band go while they have expired, as many as one look may: others need not be looked at again. */
static bool pass_expired(struct rtmw_publisher *p, uint32_t band)
{
    struct outlook o = outlook_begin(p->region, p->topic_index, band, LOOK_UNREAD); /* and what has not is all needed */
    struct passing which = {.now = monotonic_ns(), .granules = UINT64_MAX, .most = TRIM_MOST};
    return outlook_pass(p->region, &o, 1, &which) > 0;
}

/* Of the oldest messages in a band that this subscriber has not taken: how many have expired before it got them. */
static uint64_t expired_among(struct rtmw_region *r, struct band *band, struct subscriber_block *block,
                              uint32_t band_number)
{
    uint64_t now = monotonic_ns(), expired = 0, word = load_seq(&block->cursor[band_number]);
    uint64_t cursor = sequence_near(link_tag(word), band_tail_sequence(r, band));
    uint32_t wanted = wanted_by(band, block);
    struct glimpse g;
    bool found = glimpse_cursor(r, band, word, now, &g);
    for (uint32_t looked = 0; found && looked < MOST_LOOKED_AT; looked++) {
        expired += g.expired && g.sequence > cursor && (wanted >> g.offer & 1);
        found = glimpse_next(r, band, now, &g);
    }
    return expired;
}

/* Below 1: this subscriber is full. */
static int64_t room_of(struct rtmw_publisher *p, uint32_t band_number, struct subscriber_block *block)
{
    struct rtmw_region *r = p->region;
    struct band *band = &p->topic->band[band_number];
    int64_t depth = load_relaxed(&block->depth);
    uint64_t waiting = unread_in(r, band, block, load_seq(&block->taken[band_number])).waiting;
    if ((int64_t)waiting < depth) return depth - (int64_t)waiting;
    uint64_t most = most_let_through(block, r, band, monotonic_ns());
    if (most < waiting) waiting = most;
    if ((int64_t)waiting < depth) return depth - (int64_t)waiting;
    uint64_t expired = expired_among(r, band, block, band_number);
    return depth - (int64_t)(expired < waiting ? waiting - expired : 0);
}

/* Of the fullest subscriber, or 0: one was found full, and the others were not asked. */
static int64_t least_room(struct rtmw_publisher *p, uint32_t band)
{
    int64_t room = INT32_MAX;
    struct subscriber_block *block;
    for (uint32_t slot = 0; room > 0 && (block = next_subscriber(p->region, p->topic_index, &slot)); slot++) {
        if (!waits_for(p, block)) continue;
        int64_t left = room_of(p, band, block);
        if (left < room) room = left;
    }
    return room < 0 ? 0 : room;
}

/* Time between two looks that counts for a lease of so many units: none of a pause that is longer than the lease, for
 * nobody waited then, nor tried. */
static uint32_t counted(uint32_t passed, uint32_t lease)
{
    uint32_t longest = STALL_SEEN_MASK / 2, same = lease > longest ? longest : lease > SAME_WAIT ? lease : SAME_WAIT;
    return passed <= same ? passed : 0;
}

/* The value of `stall` after a look at a subscriber by a publisher that waits for it or was refused. It begins at 0 when the
 * subscriber has moved on. */
static uint64_t stall_after(uint64_t stall, uint32_t position, uint32_t now, uint32_t lease)
{
    uint32_t passed = (now - stall_seen(stall)) & STALL_SEEN_MASK, waited = stall_waited(stall);
    if (stall == 0 || stall_position(stall) != position) return stall_make(position, 0, now);
    if (passed > STALL_SEEN_MASK - SAME_WAIT) return stall; /* another publisher looked after I read the clock */
    waited += counted(passed, lease);
    return stall_make(position, waited < STALL_WAITED_MASK ? waited : STALL_WAITED_MASK, now);
}

static bool lapse(struct rtmw_region *r, uint32_t topic, uint32_t slot, uint64_t word)
{
    if (!cas64(&r->subscriber_words[slot], word, (word & ~UINT64_C(15)) | SLOT_LAPSED)) return false;
    fetch_add(&r->topics[topic].epoch, 1u);
    topic_unpin(r, topic);
    wake_subscribers(r, &r->topics[topic], topic);
    return true;
}

/* A subscriber that stands still while a publisher waits for it: where, and for how long. One word, so that what two
 * publishers write about it never mixes. true: its lease has run out, and nobody waits for it any more. */
static bool watch(struct rtmw_region *r, uint32_t topic, uint32_t slot, uint64_t word)
{
    struct subscriber_block *block = &r->subscribers[slot];
    uint64_t lease_ns = load_relaxed(&block->lease_ns), units = (lease_ns >> 20) + 1, stall = load_seq(&block->stall);
    uint32_t position = 0, now = (uint32_t)(monotonic_ns() >> 20);
    uint32_t lease = units < STALL_WAITED_MASK ? (uint32_t)units : STALL_WAITED_MASK;
    if (!lease_ns) return false;
    for (uint32_t b = 0; b < BANDS; b++) position += (uint32_t)link_tag(load_seq(&block->cursor[b]));
    uint64_t seen = stall_after(stall, position & STALL_POSITION_MASK, now, lease);
    if (seen != stall && !cas64(&block->stall, stall, seen)) return false; /* another publisher sees to it */
    return stall_waited(seen) >= lease && lapse(r, topic, slot, word);
}

/* Memory is waited for from everybody who has something unread, on any topic; room only from the full ones of mine. */
static bool is_in_the_way(struct rtmw_publisher *p, uint32_t topic, struct subscriber_block *block, uint32_t band)
{
    struct topic *t = &p->region->topics[topic];
    if (load_relaxed(&block->reliability) != RTMW_RELIABLE || !load_relaxed(&t->reliable)) return false;
    if (band == FOR_MEMORY) return unread_by(p->region, t, block).waiting > 0;
    return topic == p->topic_index && waits_for(p, block) && room_of(p, band, block) <= 0;
}

static struct blocker blocker_at(struct rtmw_publisher *p, uint32_t slot, uint32_t topic, uint32_t band)
{
    struct rtmw_region *r = p->region;
    struct topic *t = &r->topics[topic];
    struct subscriber_block *block = &r->subscribers[slot];
    struct blocker found = {.topic = topic, .depth = load_relaxed(&block->depth), .is_full = band != FOR_MEMORY};
    found.owner = slot_owner(load_seq(&r->subscriber_words[slot]));
    found.unread = found.is_full ? unread_in(r, &t->band[band], block, load_seq(&block->taken[band])).waiting
                                 : unread_by(r, t, block).waiting;
    return found;
}

static uint32_t full_ones(struct rtmw_publisher *p, struct blocker *found, uint32_t most)
{
    uint32_t topic = p->topic_index, band = p->refused_band, count = 0;
    struct subscriber_block *block;
    for (uint32_t slot = 0; count < most && (block = next_subscriber(p->region, topic, &slot)); slot++)
        if (is_in_the_way(p, topic, block, band)) found[count++] = blocker_at(p, slot, topic, band);
    return count;
}

static uint32_t memory_keepers(struct rtmw_publisher *p, struct blocker *found, uint32_t most, uint32_t looks)
{
    struct rtmw_region *r = p->region;
    uint32_t top = load_seq(&r->hints->subscribers_top), count = 0;
    if (top > r->header->subscribers) top = r->header->subscribers;
    for (uint32_t looked = 0; looked < looks && looked < top && count < most; looked++) {
        uint32_t slot = (r->expel_scan + looked) % top;
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        if (slot_state_of(word) != SLOT_ACTIVE || slot_topic(word) >= r->header->topics) continue;
        if (!is_in_the_way(p, slot_topic(word), &r->subscribers[slot], FOR_MEMORY)) continue;
        found[count++] = blocker_at(p, slot, slot_topic(word), FOR_MEMORY);
    }
    return count;
}

uint32_t blockers_of(struct rtmw_publisher *p, struct blocker *found, uint32_t most, uint32_t looks)
{
    struct rtmw_region *r = p->region;
    uint32_t count = 0;
    if (is_forked(r)) return 0;
    lock_take(&r->lock);
    if (p->lacked_memory == load_relaxed(&p->block->published) + 1)
        count = memory_keepers(p, found, most, looks);
    else if (p->qos.reliability == RTMW_RELIABLE)
        count = full_ones(p, found, most);
    lock_give(&r->lock);
    return count;
}

/* One look of a publisher at who is in its way. */
struct survey {
    struct rtmw_publisher *publisher;
    uint32_t band;        /* in which there is no room, or FOR_MEMORY */
    struct owners owners; /* of whom it was found out whether they live */
    uint32_t dead;        /* one that is dead, or NOBODY */
    bool cleared;         /* one that was in the way is so no more */
};

static bool look_is_over(const struct survey *look)
{
    int asked = __builtin_popcountll(look->owners.asked[0]) + __builtin_popcountll(look->owners.asked[1]);
    return look->dead != NOBODY || asked >= MOST_LIVES;
}

/* Looks at one subscriber slot. */
static void look_at(struct survey *look, uint32_t slot)
{
    struct rtmw_region *r = look->publisher->region;
    uint64_t word = load_seq(&r->subscriber_words[slot]);
    uint32_t topic = slot_topic(word);
    if (slot_state_of(word) != SLOT_ACTIVE || topic >= r->header->topics) return;
    if (slot_is_parked(word) && parked_end(r, slot, word)) {
        look->cleared = true;
        return;
    }
    if (!is_in_the_way(look->publisher, topic, &r->subscribers[slot], look->band)) return;
    if (watch(r, topic, slot, word)) look->cleared = true;
    if (owner_is_dead(r, slot_owner(word), &look->owners)) look->dead = slot_owner(word);
}

/* Some of the subscribers of its topic; the next look goes on behind them. */
static void look_at_mine(struct survey *look, uint32_t top)
{
    struct rtmw_publisher *p = look->publisher;
    uint32_t most = top / ASKED_PART > MOST_ASKED ? top / ASKED_PART : MOST_ASKED, first = p->expel_scan, slot = first;
    bool anew = false;
    for (uint32_t looked = 0; looked < most && !look_is_over(look); slot++, looked++) {
        bool found = next_subscriber(p->region, p->topic_index, &slot);
        if (!found && !anew) anew = true, slot = 0, found = next_subscriber(p->region, p->topic_index, &slot);
        if (!found || (anew && slot >= first)) break;
        look_at(look, slot);
    }
    p->expel_scan = slot;
}

/* Who is in the way and dead is swept after, and who stands still for its lease lapses. true: of one of them. */
static bool expel(struct rtmw_publisher *p, uint32_t band)
{
    struct rtmw_region *r = p->region;
    struct survey look = {.publisher = p, .band = band, .dead = NOBODY};
    uint32_t top = load_seq(&r->hints->subscribers_top);
    if (top > r->header->subscribers) top = r->header->subscribers;
    if (band != FOR_MEMORY) look_at_mine(&look, top);
    for (uint32_t i = 0; band == FOR_MEMORY && i < top && i < MOST_EXPELLED && !look_is_over(&look); i++)
        look_at(&look, r->expel_scan++ % top); /* the next look goes on behind them */
    if (look.dead != NOBODY && sweep_if_dead(r, look.dead)) look.cleared = true;
    return look.cleared;
}

void expel_for_memory(struct rtmw_publisher *p) { expel(p, FOR_MEMORY); }

uint32_t room_for_reliable(struct rtmw_publisher *p, uint32_t band)
{
    uint32_t epoch = load_seq(&p->topic->epoch);
    uint64_t tail = link_tag(load_seq(&p->topic->band[band].tail)), left = (p->gate[band] - tail) & TAG_MASK;
    if (epoch == p->gate_epoch && left && left <= INT32_MAX) return (uint32_t)left;
    if (epoch != p->gate_epoch) memset(p->gate, 0, sizeof p->gate);
    int64_t room = least_room(p, band);
    if (!room && pass_expired(p, band)) room = least_room(p, band);
    if (!room && expel(p, band)) room = least_room(p, band);
    p->gate_epoch = epoch;
    p->gate[band] = (tail + (uint64_t)room) & TAG_MASK;
    return (uint32_t)room;
}

/* ======== history in the way ======== */

enum { TALLY_TOPICS = 256 };

static void tally_band(struct rtmw_region *r, uint32_t topic, uint32_t band, struct tally *tally)
{
    struct outlook o = outlook_begin(r, topic, band, LOOK_UNREAD);
    uint64_t granules = (o.newest.granules - o.passed.granules) & PLACE_GRANULES_MASK;
    uint64_t held = r->short_of_pages ? granules : o.kept;
    if (o.history && o.kept <= o.history)
        tally->history += held;
    else if (o.offered)
        tally->unread += held;
}

/* A part of a round. Until the first one has ended, what it has seen is what is known. */
static void tally_some(struct rtmw_region *r, struct known_tally *known)
{
    uint32_t topics = load_seq(&r->hints->topics_top), looked = 0;
    if (topics > r->header->topics) topics = r->header->topics;
    if (!known->scan) known->sum = (struct tally){0};
    for (; known->scan < topics && looked < TALLY_TOPICS; looked++, known->scan++)
        for (uint32_t bands = load_seq(&r->topics[known->scan].bands) & ((1u << BANDS) - 1); bands; bands &= bands - 1)
            tally_band(r, known->scan, (uint32_t)__builtin_ctz(bands), &known->sum);
    bool is_over = known->scan >= topics;
    if (is_over || !known->at_ns) known->history_holds = known->sum.history > known->sum.unread;
    if (!is_over) return;
    known->scan = 0;
    known->at_ns = monotonic_ns();
}

bool history_is_in_the_way(struct rtmw_region *r)
{
    uint64_t now = monotonic_ns();
    lock_take(&r->lock);
    if (r->tally.scan || now - r->tally.at_ns >= AGAIN_NS) tally_some(r, &r->tally);
    bool holds = r->tally.history_holds;
    lock_give(&r->lock);
    return holds;
}

/* ======== publisher ======== */

enum { WAIT_SLICE_NS = 5000000, MEMORY_SLICE_NS = 500000 };

/* The type stays as it is: it is named already, and may not be anything else for a moment. */
static void fill_block(rtmw_publisher *p)
{
    struct rtmw_region *r = p->region;
    struct publisher_block *block = p->block = &r->publishers[p->slot];
    block->identity = p->identity = endpoint_identity(r->my_word, p->word, p->slot);
    block->depth = p->qos.depth;
    block->history = p->qos.history;
    block->reliability = (uint8_t)p->qos.reliability;
    block->priority = p->qos.priority;
    block->lifetime_ns = p->qos.lifetime_ns;
    block->max_blocking = 0;
    block->published = block->bytes = block->timed_out = block->exhausted = block->held_by_history = 0;
    raise_to(&p->topic->history, p->qos.history);
    if (p->qos.reliability == RTMW_TIMELY) store_seq(&p->topic->timely, 1u);
    if (p->qos.reliability == RTMW_RELIABLE) store_seq(&p->topic->reliable, 1u);
}

static int open_locked(rtmw_publisher *p, const char *topic, const rtmw_type *type)
{
    struct rtmw_region *r = p->region;
    struct claimed claimed;
    if (!memory_make_writable(r)) return RTMW_SYSTEM;
    int code = endpoint_claim(r, &(struct wanted){topic, type, .publishes = true}, &claimed);
    if (code != RTMW_OK) return code;
    p->topic_index = claimed.topic;
    p->topic = &r->topics[claimed.topic];
    p->slot = claimed.slot;
    p->word = claimed.word;
    fill_block(p);
    p->word = (p->word & ~UINT64_C(15)) | SLOT_ACTIVE;
    store_seq(&r->publisher_words[p->slot], p->word);
    return RTMW_OK;
}

int rtmw_publisher_open(rtmw_region *r, const char *topic, const rtmw_type *type, const rtmw_publisher_qos *qos,
                        rtmw_publisher **out)
{
    int state = region_state(r);
    if (state != RTMW_OK) return state;
    if (qos && (qos->priority >= BANDS || qos->depth == 0 || (unsigned)qos->reliability > RTMW_RELIABLE))
        return RTMW_BAD_QOS;
    rtmw_publisher *p = calloc(1, sizeof *p);
    if (!p) return RTMW_SYSTEM;
    p->region = r;
    p->qos = qos ? *qos : (rtmw_publisher_qos)RTMW_PUBLISHER_QOS;
    p->qos.lifetime_ns = limit_of(p->qos.lifetime_ns);
    p->refused_band = p->qos.priority;
    lock_take(&r->lock);
    int code = open_locked(p, topic, type);
    lock_give(&r->lock);
    if (code == RTMW_OK)
        *out = p;
    else
        free(p);
    return code;
}

static void close_publisher(rtmw_publisher *p, bool forget)
{
    struct rtmw_region *r = p->region;
    if (!is_forked(r) && !is_swept(r)) {
        lock_take(&r->lock);
        uint64_t life = topic_life(r, p->topic_index); /* goes on for as long as the slot is its own */
        topic_keep_bytes(p->topic, p->block);
        publisher_gone(r, p->topic_index);
        slot_free(&r->publisher_words[p->slot], p->word);
        if (forget && life) topic_forget(r, life, true);
        lock_give(&r->lock);
    }
    free(p);
}

void rtmw_publisher_close(rtmw_publisher *p) { close_publisher(p, false); }

void rtmw_publisher_forget(rtmw_publisher *p) { close_publisher(p, true); }

int rtmw_topic_clear(rtmw_region *r, const char *topic, uint64_t *messages)
{
    int state = region_state(r);
    if (state != RTMW_OK) return state;
    lock_take(&r->lock);
    uint64_t life = topic_find(r, topic);
    *messages = life ? topic_forget(r, life, false) : 0;
    lock_give(&r->lock);
    return RTMW_OK;
}

static bool matches(const rtmw_publisher *p, struct subscriber_block *block)
{
    return types_match(p->block->type, load_relaxed(&block->type)) &&
           reliabilities_match(p->qos.reliability, load_relaxed(&block->reliability), load_relaxed(&block->exact));
}

/* The owner is read last: whoever took the slot meanwhile counts as long as it lives. */
uint32_t rtmw_publisher_matched(rtmw_publisher *p)
{
    struct rtmw_region *r = p->region;
    struct owners owners = {{0}, {0}};
    struct subscriber_block *block;
    uint32_t count = 0;
    for (uint32_t slot = 0; (block = next_subscriber(r, p->topic_index, &slot)); slot++)
        count += matches(p, block) && !owner_is_dead(r, slot_owner(load_seq(&r->subscriber_words[slot])), &owners);
    return count;
}

/* Was it there when they were lost, and would it have got them? One that carries messages on (exact) is nobody to tell. */
static bool would_have_got(const rtmw_publisher *p, const struct subscriber_block *block, uint64_t since_ns)
{
    return types_match(p->block->type, load_relaxed(&block->type)) && !load_relaxed(&block->exact) &&
           reliabilities_match(p->qos.reliability, load_relaxed(&block->reliability), false) &&
           load_relaxed(&block->opened_ns) <= since_ns;
}

uint32_t rtmw_publisher_lost(rtmw_publisher *p, rtmw_lost lost, uint64_t since_ns)
{
    struct subscriber_block *block;
    uint32_t count = 0;
    if (is_forked(p->region)) return 0;
    for (uint32_t slot = 0; (block = next_subscriber(p->region, p->topic_index, &slot)); slot++) {
        if (!would_have_got(p, block, since_ns)) continue;
        if (lost.missed) fetch_add(&block->missed_afar, lost.missed);
        if (lost.expired) fetch_add(&block->expired_afar, lost.expired);
        if (lost.thinned) fetch_add(&block->thinned_afar, lost.thinned);
        count++;
    }
    return count;
}

/* Full queues of RELIABLE subscribers are waited for, or memory; those that died or stand still are seen to meanwhile. */
static bool is_full(rtmw_publisher *p)
{
    struct rtmw_region *r = p->region;
    lock_take(&r->lock);
    bool full = !reliable_room(p, p->refused_band);
    if (!full) expel_for_memory(p);
    lock_give(&r->lock);
    return full;
}

/* A subscriber that moves on in a queue wakes; a process that lets memory go tells nobody, so that is looked for. */
int publisher_wait(rtmw_publisher *p, uint64_t end)
{
    int state = region_state(p->region);
    if (state != RTMW_OK) return state;
    uint32_t word = arm_word(&p->topic->room);
    bool full = is_full(p);
    if (load_seq(&p->woken) && exchange(&p->woken, 0u)) return RTMW_INTERRUPTED;
    uint64_t now = monotonic_ns(), slice = full ? WAIT_SLICE_NS : MEMORY_SLICE_NS;
    if (now >= end) return RTMW_TIMEOUT;
    if (!full && p->qos.reliability == RTMW_RELIABLE && load_seq(&p->topic->room) != word) return RTMW_EMPTY;
    int woken = futex_sleep(&p->topic->room, word, end - now < slice ? end - now : slice);
    if (!full) store_relaxed(&p->waited_ns, monotonic_ns());
    return woken == EINTR ? RTMW_INTERRUPTED : RTMW_EMPTY;
}

bool publisher_has_room(rtmw_publisher *p, uint32_t band)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r) || publisher_is_swept(p)) return true; /* which a try says */
    lock_take(&r->lock);
    bool room = reliable_room(p, band) != 0;
    lock_give(&r->lock);
    return room;
}

static bool is_worth_trying(rtmw_publisher *p)
{
    struct rtmw_region *r = p->region;
    lock_take(&r->lock);
    bool worth = reliable_room(p, p->refused_band) && could_be_had(p, p->refused_bytes);
    lock_give(&r->lock);
    return worth;
}

int rtmw_publisher_wait(rtmw_publisher *p, uint64_t timeout_ns)
{
    uint64_t end = end_of(monotonic_ns(), timeout_ns);
    int code;
    do code = publisher_wait(p, end);
    while (code == RTMW_EMPTY && !is_worth_trying(p));
    return code == RTMW_EMPTY || (code == RTMW_TIMEOUT && is_worth_trying(p)) ? RTMW_OK : code;
}

uint64_t rtmw_identity(const rtmw_region *r, uint64_t publisher)
{
    uint64_t number = publisher & RTMW_REMOTE ? publisher : identity_of_publisher(r->origin, publisher);
    number &= ~RTMW_REMOTE;
    return publisher ? number + !number : 0;
}
