/* Publishing (requirement P13): claim a descriptor and block, or say there is none; write; append at the tail; wake.
 *
 *   rtmw_publish = reliable_room? → rtmw_loan_take → memcpy → loan_append → publisher_flush
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

enum { WAIT_SLICE_NS = 5000000, MEMORY_SLICE_NS = 500000 };

/* The first publisher of a process makes its mapping of the blocks writable. Lock held. */
static bool make_writable(struct rtmw_region *r)
{
    if (!r->blocks_writable)
        r->blocks_writable = mprotect(r->blocks, r->header->pool_bytes, PROT_READ | PROT_WRITE) == 0;
    return r->blocks_writable;
}

static int open_slot(rtmw_publisher *p, uint16_t type)
{
    struct rtmw_region *r = p->region;
    p->word =
        slot_claim(r, r->publisher_words, r->header->publishers, &r->hints->publishers_top, p->topic_index, &p->slot);
    if (!p->word) return RTMW_NO_ENDPOINT_SLOT;
    struct publisher_block *block = p->block = &r->publishers[p->slot];
    memset(block, 0, sizeof *block);
    block->identity = endpoint_identity(r->my_word, p->word, p->slot);
    block->type = type;
    block->depth = p->qos.depth;
    block->history = p->qos.history;
    block->reliability = (uint8_t)p->qos.reliability;
    block->priority = p->qos.priority;
    raise_to(&p->topic->history, p->qos.history);
    if (p->qos.reliability == RTMW_TIMELY) store_seq(&p->topic->timely, 1u);
    if (p->qos.reliability == RTMW_RELIABLE) store_seq(&p->topic->reliable, 1u);
    uint64_t active = (p->word & ~UINT64_C(15)) | SLOT_ACTIVE;
    store_seq(&r->publisher_words[p->slot], active);
    p->word = active;
    return RTMW_OK;
}

static int open_locked(rtmw_publisher *p, const char *topic, const rtmw_type *type)
{
    struct rtmw_region *r = p->region;
    uint16_t type_index;
    if (!make_writable(r)) return RTMW_SYSTEM;
    int code = topic_open(r, topic, &p->topic_index);
    if (code == RTMW_OK) code = type_register(r, type, &type_index);
    if (code != RTMW_OK) return code;
    p->topic = &r->topics[p->topic_index];
    return open_slot(p, type_index);
}

int rtmw_publisher_open(rtmw_region *r, const char *topic, const rtmw_type *type, const rtmw_publisher_qos *qos,
                        rtmw_publisher **out)
{
    if (is_forked(r)) return RTMW_FORKED;
    if (qos && (qos->priority >= BANDS || qos->depth == 0 || (unsigned)qos->reliability > RTMW_RELIABLE))
        return RTMW_BAD_QOS;
    rtmw_publisher *p = calloc(1, sizeof *p);
    if (!p) return RTMW_SYSTEM;
    p->region = r;
    p->qos = qos ? *qos : (rtmw_publisher_qos)RTMW_PUBLISHER_QOS;
    lock_take(&r->lock);
    int code = open_locked(p, topic, type);
    lock_give(&r->lock);
    if (code == RTMW_OK)
        *out = p;
    else
        free(p);
    return code;
}

void rtmw_publisher_close(rtmw_publisher *p)
{
    struct rtmw_region *r = p->region;
    if (!is_forked(r)) {
        lock_take(&r->lock);
        topic_keep_bytes(p->topic, p->block);
        slot_free(&r->publisher_words[p->slot], p->word);
        lock_give(&r->lock);
    }
    free(p);
}

uint32_t rtmw_publisher_matched(rtmw_publisher *p)
{
    uint32_t count = 0;
    struct subscriber_block *block;
    for (uint32_t slot = 0; (block = next_subscriber(p->region, p->topic_index, &slot)); slot++)
        count += types_match(p->block->type, load_relaxed(&block->type)) &&
                 (load_relaxed(&block->reliability) != RTMW_RELIABLE || p->qos.reliability == RTMW_RELIABLE);
    return count;
}

/* make_room may free a little at a time; a large message may need many turns. Bounded by what there is to free. */
static uint32_t claim_with_room(rtmw_publisher *p, uint64_t size)
{
    uint32_t index = descriptor_claim(p->region, size);
    for (uint32_t turn = 0; index == NIL && turn < p->region->header->descriptors && make_room(p, turn); turn++)
        index = descriptor_claim(p->region, size);
    return index;
}

int rtmw_loan_take(rtmw_publisher *p, uint64_t size, rtmw_loan *loan)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r)) return RTMW_FORKED;
    if (size > r->header->pool_bytes) return RTMW_TOO_LARGE;
    lock_take(&r->lock);
    queue_trim(p, p->qos.priority, size > IN_PLACE);
    uint32_t index = claim_with_room(p, size);
    void *data = index == NIL ? NULL : payload_of(r, &r->descriptors[index], size);
    if (index != NIL && !data) descriptor_free(r, index);
    lock_give(&r->lock);
    *loan = (rtmw_loan){data, size, index};
    return data ? RTMW_OK : index == NIL ? RTMW_NO_MEMORY : RTMW_DAMAGED;
}

void loan_give_back(struct rtmw_region *r, uint32_t descriptor)
{
    if (is_forked(r)) return;
    lock_take(&r->lock);
    descriptor_free(r, descriptor);
    lock_give(&r->lock);
}

void rtmw_loan_drop(rtmw_publisher *p, rtmw_loan *loan) { loan_give_back(p->region, loan->descriptor); }

static uint32_t write_header(rtmw_publisher *p, struct descriptor *d, const rtmw_message_qos *qos)
{
    uint64_t now = monotonic_ns(), real = realtime_ns(p->region, now);
    uint64_t expires = qos && qos->expires_ns ? qos->expires_ns : 0;
    if (qos && qos->lifetime_ns && (!expires || real + qos->lifetime_ns < expires)) expires = real + qos->lifetime_ns;
    store_relaxed(&d->published_ns, now);
    store_relaxed(&d->source_time_ns, qos && qos->source_time_ns ? qos->source_time_ns : real);
    store_relaxed(&d->expires_ns, expires);
    store_relaxed(&d->publisher, qos && qos->publisher ? qos->publisher : p->block->identity);
    store_relaxed(&d->type, (uint16_t)p->block->type);
    store_relaxed(&d->reliability, (uint8_t)p->qos.reliability);
    return qos && qos->priority >= 0 ? (uint32_t)qos->priority % BANDS : p->qos.priority;
}

/* Append without waking: publish_many wakes once, at the end. */
int loan_append(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r)) return RTMW_FORKED;
    lock_take(&r->lock);
    if (!reliable_room(p)) {
        lock_give(&r->lock);
        return RTMW_FULL;
    }
    uint32_t band = write_header(p, &r->descriptors[loan->descriptor], qos);
    if (band != p->qos.priority) queue_trim(p, band, loan->size > IN_PLACE);
    bool traced = is_traced(p->topic); /* then it is held, to be read once it is in the queue */
    if (traced) hold_mine(r, loan->descriptor);
    bool appended = queue_append(r, p->topic_index, band, loan->descriptor);
    if (traced) {
        if (appended) trace_published(p, band, &r->descriptors[loan->descriptor]);
        let_go(r, loan->descriptor);
    }
    if (appended) {
        count_up(&p->block->published, 1);
        count_up(&p->block->bytes, loan->size);
        descriptor_fetch_ahead(r);
    }
    lock_give(&r->lock);
    return appended ? RTMW_OK : RTMW_DAMAGED;
}

void publisher_flush(rtmw_publisher *p)
{
    if (!is_forked(p->region)) wake_subscribers(p->region, p->topic, p->topic_index);
}

int rtmw_loan_publish(rtmw_publisher *p, rtmw_loan *loan, const rtmw_message_qos *qos)
{
    int code = loan_append(p, loan, qos);
    if (code == RTMW_OK) publisher_flush(p);
    return code;
}

/* The message was given up: said in the counters, by cause. */
void publisher_refused(rtmw_publisher *p, int code)
{
    count_up(code == RTMW_FULL ? &p->block->timed_out : &p->block->exhausted, 1);
    if (is_traced(p->topic)) trace_refused(p, code == RTMW_FULL ? TRACE_TIMED_OUT : TRACE_EXHAUSTED);
}

/* The writer keeps a view: the memory is not used again before rtmw_release, whatever becomes of the message. */
void loan_keep(rtmw_publisher *p, rtmw_loan *loan)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r)) return;
    lock_take(&r->lock);
    hold_mine(r, loan->descriptor);
    lock_give(&r->lock);
}

int publish_quietly(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    struct rtmw_region *r = p->region;
    rtmw_loan loan;
    if (p->qos.reliability == RTMW_RELIABLE && !is_forked(r)) { /* nothing is copied for a queue that is full */
        lock_take(&r->lock);
        bool room = reliable_room(p);
        lock_give(&r->lock);
        if (!room) return RTMW_FULL;
    }
    int code = rtmw_loan_take(p, size, &loan);
    if (code != RTMW_OK) return code;
    memcpy(loan.data, data, size);
    code = loan_append(p, &loan, qos);
    if (code != RTMW_OK) rtmw_loan_drop(p, &loan);
    return code;
}

int rtmw_publish(rtmw_publisher *p, const void *data, uint64_t size, const rtmw_message_qos *qos)
{
    int code = publish_quietly(p, data, size, qos);
    if (code == RTMW_OK) publisher_flush(p);
    return code;
}

int rtmw_publisher_wait(rtmw_publisher *p, uint64_t timeout_ns)
{
    struct rtmw_region *r = p->region;
    if (is_forked(r)) return RTMW_FORKED;
    uint32_t word = arm_word(&p->topic->room);
    lock_take(&r->lock);
    bool full = !reliable_room(p);
    expel_stalled(p, !full);
    full = full && !reliable_room(p);
    lock_give(&r->lock);
    if (timeout_ns == 0) return RTMW_TIMEOUT;
    if (!full && p->qos.reliability == RTMW_RELIABLE && load_seq(&p->topic->room) != word) return RTMW_OK;
    uint64_t slice = full ? WAIT_SLICE_NS : MEMORY_SLICE_NS;
    int woken = futex_sleep(&p->topic->room, word, timeout_ns < slice ? timeout_ns : slice);
    return woken == EINTR ? RTMW_INTERRUPTED : RTMW_OK;
}
