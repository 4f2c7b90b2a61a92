/* Publishers: open and close, and wait for room. publish.c has the publishing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "futex.h"
#include "identity.h"
#include "topics.h"
#include "wait.h"

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
