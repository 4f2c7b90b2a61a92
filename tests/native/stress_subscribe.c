/* The subscribers of the stress test. What they check of every message:
 *
 *   content     the payload is what its publisher wrote, also at the end of being held
 *   order       the sequence grows in each band; of each publisher the numbers grow, and to a RELIABLE subscriber a
 *               RELIABLE publisher's come without a gap
 *   the sum     received + missed + expired + thinned + … is what was published
 */
#include <sched.h>

#include "stress.h"

enum { HELD_MOST = 6 };

struct receiver {
    struct role *role;
    rtmw_subscriber *subscriber;
    uint32_t topic;
    bool complete;                              /* RELIABLE, and there from the start */
    uint64_t sequence[BANDS], number[PUBLISHERS][BANDS];
    rtmw_message held[HELD_MOST];
    struct origin origin[HELD_MOST];
};

static uint32_t publisher_of(struct receiver *rx, const rtmw_message *m)
{
    for (uint32_t p = 0; p < PUBLISHERS; p++)
        if (load_seq(&rx->role->board->identity[p][rx->topic]) == m->publisher) return p;
    CHECK(false, "publisher %llx is nobody", (unsigned long long)m->publisher);
}

static struct origin check_order(struct receiver *rx, const rtmw_message *m)
{
    uint32_t publisher = publisher_of(rx, m);
    uint64_t *number = &rx->number[publisher][m->priority];
    struct origin told = {publisher, rx->topic, m->priority, *number + 1};
    bool says = payload_origin(m->data, m->size, &told);
    CHECK(m->sequence > rx->sequence[m->priority], "%s: %llu after %llu", rx->role->name, (unsigned long long)m->sequence,
          (unsigned long long)rx->sequence[m->priority]);
    CHECK(told.publisher == publisher && told.topic == rx->topic && told.band == m->priority, "%s", rx->role->name);
    CHECK(rx->complete ? told.number == *number + 1 : !says || told.number > *number, "%s: publisher %u, band %u: %llu after %llu",
          rx->role->name, publisher, m->priority, (unsigned long long)told.number, (unsigned long long)*number);
    rx->sequence[m->priority] = m->sequence;
    if (says || rx->complete) *number = told.number;
    return told;
}

static void let_one_go(struct receiver *rx, uint32_t at)
{
    rtmw_message *m = &rx->held[at];
    if (!m->data) return;
    CHECK(m->size < 8 || payload_is(m->data, m->size, rx->origin[at]), "%s: %llu changed while it was held", rx->role->name,
          (unsigned long long)m->sequence);
    rtmw_release(rx->role->region, m->descriptor);
    m->data = NULL;
}

static bool take_one(struct receiver *rx)
{
    rtmw_message m;
    int code;
    do code = rtmw_take(rx->subscriber, &m);
    while (code == RTMW_AGAIN);
    if (code == RTMW_EMPTY) return false;
    CHECK(code == RTMW_OK, "%s: %s", rx->role->name, rtmw_describe(code));
    struct origin origin = check_order(rx, &m);
    CHECK((m.size < 8 && !rx->complete) || payload_is(m.data, m.size, origin), "%s: %llu of %llu bytes", rx->role->name,
          (unsigned long long)m.sequence, (unsigned long long)m.size);
    uint32_t at = random_below(&rx->role->random, HELD_MOST);
    let_one_go(rx, at);
    rx->held[at] = m;
    rx->origin[at] = origin;
    if (random_below(&rx->role->random, 2)) let_one_go(rx, at);
    return true;
}

static void open_receiver(struct receiver *rx, uint32_t history)
{
    struct role *role = rx->role;
    rtmw_subscriber_qos qos = {role->reliability, role->depth, history, role->min_interval_ns, 0, 0};
    int code = rtmw_subscriber_open(role->region, topic_names[rx->topic], NULL, &qos, &rx->subscriber);
    CHECK(code == RTMW_OK, "%s: %s", role->name, rtmw_describe(code));
}

static void close_receiver(struct receiver *rx)
{
    for (uint32_t at = 0; at < HELD_MOST; at++) let_one_go(rx, at);
    rtmw_subscriber_close(rx->subscriber);
}

static uint64_t published_on(struct scoreboard *board, uint32_t topic, uint32_t publisher)
{
    uint64_t sum = 0;
    for (uint32_t band = 0; band < BANDS; band++) sum += load_seq(&board->published[publisher][topic][band]);
    return sum;
}

/* Markers stand in the queue without being messages; one that is passed over unseen counts as missed. */
static void check_sum(struct receiver *rx)
{
    const struct subscriber_block *b = rx->subscriber->block;
    uint64_t sum = b->received + b->missed + b->expired + b->thinned + b->unmatched + b->other_types;
    uint64_t published = 0, tails = 0;
    for (uint32_t p = 0; p < PUBLISHERS; p++) published += published_on(rx->role->board, rx->topic, p);
    for (uint32_t band = 0; band < BANDS; band++)
        tails += band_tail_sequence(rx->role->region, &rx->subscriber->topic->band[band]);
    CHECK(sum >= published && sum <= tails, "%s: %llu are accounted for, %llu were published, sequences end at %llu",
          rx->role->name, (unsigned long long)sum, (unsigned long long)published, (unsigned long long)tails);
    CHECK(!rx->complete || b->missed == 0, "%s missed %llu", rx->role->name, (unsigned long long)b->missed);
    for (uint32_t p = 0; rx->complete && p < 2; p++) /* the first two publishers are RELIABLE */
        for (uint32_t band = 0; band < BANDS; band++)
            CHECK(rx->number[p][band] == load_seq(&rx->role->board->published[p][rx->topic][band]));
}

void play_subscriber(struct role *role)
{
    struct receiver rx = {.role = role, .topic = role->number, .complete = role->reliability == RTMW_RELIABLE};
    open_receiver(&rx, 0);
    fetch_add(&role->board->ready, 1u);
    for (bool last = false;;) {
        if (take_one(&rx)) continue;
        if (last) break;
        last = load_seq(&role->board->publishing) == 0; /* and then whatever was published before that is taken */
        if (!last) rtmw_wait(rx.subscriber, 5000000, random_below(&role->random, 2) ? 0 : UINT64_MAX);
    }
    check_sum(&rx);
    close_receiver(&rx);
    fetch_add(&role->board->done, 1u);
}

static void visit(struct role *role, uint32_t topic)
{
    struct receiver rx = {.role = role, .topic = topic};
    role->reliability = (rtmw_reliability)random_below(&role->random, 3);
    role->depth = 1 + random_below(&role->random, 32);
    uint32_t history = random_below(&role->random, 2) * random_below(&role->random, 16);
    open_receiver(&rx, history);
    for (uint8_t band = 0; history && band < BANDS; band++) {
        uint64_t last = rtmw_subscriber_start(rx.subscriber, band) + random_below(&role->random, 16);
        rtmw_subscriber_skip(rx.subscriber, band, last);
    }
    for (uint32_t left = random_below(&role->random, 64), idle = 0; left > 0 && idle < 4;)
        if (take_one(&rx))
            left--;
        else
            idle += rtmw_wait(rx.subscriber, 500000, 0) != RTMW_OK;
    close_receiver(&rx);
}

void play_visitor(struct role *role)
{
    fetch_add(&role->board->ready, 1u);
    while (load_seq(&role->board->publishing) > 0) visit(role, random_below(&role->random, TOPICS));
    fetch_add(&role->board->done, 1u);
}
