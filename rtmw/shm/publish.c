/* Publishing (requirement P13): claim a descriptor and block, or say there is none; write; append at the tail; wake.
 *
 *   small messages, up to 32 at a time     reliable_room → claim and write all → append one by one
 *   a message with a block, a loan         reliable_room → a block → memcpy → loan_append
 *   both                                   → rtmw_publisher_flush
 */
#include <string.h>

#include "retention.h"
#include "trace.h"
#include "waiting.h"

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
