/* See kill_stress.h. */
#include <unistd.h>

#include "kill_stress.h"

enum { HOLD = 4, TURNS = 200 };

static const char topic[] = "kill/topic";

static void made_progress(struct life *me)
{
    if (me->instance < SURVIVORS) fetch_add(&me->board->progress[me->instance], UINT64_C(1));
}

static uint64_t some_size(struct life *me)
{
    return random_below(&me->random, 8) ? 8 + random_below(&me->random, 300) : 8 + random_below(&me->random, 20000);
}

static struct origin origin_of(struct life *me, uint32_t number)
{
    return (struct origin){1, 0, 0, (uint64_t)me->instance << 24 | number};
}

/* Publishes one as RELIABLE, by loan, dropping some. false: there is no room yet. */
static bool publish_one(struct life *me, rtmw_publisher *p, uint32_t number)
{
    rtmw_loan loan;
    uint64_t size = some_size(me);
    int code = rtmw_loan_take(p, size, &loan);
    if (code == RTMW_OK && random_below(&me->random, 8) == 0) {
        rtmw_loan_drop(p, &loan);
        return false;
    }
    if (code == RTMW_OK) {
        payload_write(loan.data, size, origin_of(me, number));
        code = rtmw_loan_publish(p, &loan, NULL);
        if (code != RTMW_OK) rtmw_loan_drop(p, &loan);
    }
    CHECK(code == RTMW_OK || code == RTMW_FULL || code == RTMW_NO_MEMORY, "%s", rtmw_describe(code));
    if (code != RTMW_OK) rtmw_publisher_wait(p, 5000000);
    return code == RTMW_OK;
}

static void publish_all_along(struct life *me, struct rtmw_region *r, uint32_t turns)
{
    rtmw_publisher *p;
    rtmw_publisher_qos qos = {RTMW_RELIABLE, 0, 4, 0, 0};
    CHECK(rtmw_publisher_open(r, topic, NULL, &qos, &p) == RTMW_OK);
    uint32_t number = load_seq(&me->board->told[me->instance]);
    while (turns-- > 0 && !load_seq(&me->board->stop)) {
        if (!publish_one(me, p, number + 1)) continue;
        store_seq(&me->board->told[me->instance], ++number);
        made_progress(me);
        if (me->instance < SURVIVORS) usleep(100); /* leave some of the room to those who are killed */
    }
    rtmw_publisher_close(p);
}

static void take_all_along(struct life *me, struct rtmw_region *r, rtmw_reliability reliability, uint32_t turns)
{
    rtmw_subscriber *s;
    rtmw_subscriber_qos qos = {reliability, 8, random_below(&me->random, 4), 0, 0, 0};
    rtmw_message held[HOLD] = {0};
    CHECK(rtmw_subscriber_open(r, topic, NULL, &qos, &s) == RTMW_OK);
    while (turns-- > 0 && !load_seq(&me->board->stop)) {
        rtmw_message m;
        struct origin o;
        if (rtmw_take(s, &m) != RTMW_OK) {
            rtmw_wait(s, 5000000, 0);
            continue;
        }
        CHECK(payload_origin(m.data, m.size, &o) && payload_is(m.data, m.size, o), "sequence %llu", (unsigned long long)m.sequence);
        made_progress(me);
        uint32_t at = random_below(&me->random, HOLD);
        if (held[at].data) rtmw_release(r, held[at].descriptor);
        held[at] = m;
    }
    for (uint32_t at = 0; at < HOLD; at++)
        if (held[at].data) rtmw_release(r, held[at].descriptor);
    rtmw_subscriber_close(s);
}

/* Names that were never there: each takes the slot of one that nobody uses any more. */
static void name_all_along(struct life *me, struct rtmw_region *r, uint32_t turns)
{
    for (uint32_t i = 0; i < turns && !load_seq(&me->board->stop); i++) {
        char name[32];
        rtmw_publisher *p;
        snprintf(name, sizeof name, "passing/%u/%u", me->instance, i);
        CHECK(rtmw_publisher_open(r, name, NULL, NULL, &p) == RTMW_OK);
        int code = rtmw_publish(p, name, sizeof name, NULL);
        CHECK(code == RTMW_OK || code == RTMW_NO_MEMORY, "%s", rtmw_describe(code));
        rtmw_publisher_close(p);
    }
}

void survive_publishing(struct life *me)
{
    struct rtmw_region *r = attach(me->domain);
    publish_all_along(me, r, UINT32_MAX);
    rtmw_detach(r);
    fetch_sub(&me->board->publishing, 1u);
}

void survive_sipping(struct life *me)
{
    while (!load_seq(&me->board->stop)) {
        struct rtmw_region *r = attach(me->domain);
        take_all_along(me, r, RTMW_ADAPTIVE, TURNS);
        rtmw_detach(r);
    }
}

static void check_next(uint32_t *got, const rtmw_message *m)
{
    struct origin o;
    CHECK(payload_origin(m->data, m->size, &o) && payload_is(m->data, m->size, o), "sequence %llu", (unsigned long long)m->sequence);
    uint32_t instance = (uint32_t)(o.number >> 24), number = (uint32_t)o.number & 0xFFFFFF;
    CHECK(instance < INSTANCES && number == got[instance] + 1, "publisher %u: message %u after %u", instance, number, got[instance]);
    got[instance] = number;
}

void survive_subscribing(struct life *me)
{
    static uint32_t got[INSTANCES];
    struct rtmw_region *r = attach(me->domain);
    rtmw_subscriber *s;
    rtmw_subscriber_qos qos = {RTMW_RELIABLE, 16, 0, 0, 0, 0};
    rtmw_message m;
    CHECK(rtmw_subscriber_open(r, topic, NULL, &qos, &s) == RTMW_OK);
    made_progress(me);
    for (bool last = false;;) {
        int code = rtmw_take(s, &m);
        if (code == RTMW_OK) {
            check_next(got, &m);
            rtmw_release(r, m.descriptor);
            made_progress(me);
            continue;
        }
        CHECK(code == RTMW_EMPTY, "%s", rtmw_describe(code));
        if (last) break;
        last = load_seq(&me->board->publishing) == 0;
        if (!last) rtmw_wait(s, 5000000, 0);
    }
    for (uint32_t i = 0; i < INSTANCES; i++) { /* one more: linked, and killed before it was told */
        uint32_t told = load_seq(&me->board->told[i]);
        CHECK(got[i] == told || got[i] == told + 1, "publisher %u was told %u, %u came", i, told, got[i]);
    }
    CHECK(s->block->missed == 0);
    rtmw_subscriber_close(s);
    rtmw_detach(r);
}

void live_dangerously(struct life *me)
{
    for (;;) {
        struct rtmw_region *r = attach(me->domain);
        switch (random_below(&me->random, 5)) {
        case 0: take_all_along(me, r, RTMW_RELIABLE, TURNS); break;
        case 1: take_all_along(me, r, (rtmw_reliability)random_below(&me->random, 2), TURNS); break;
        case 2: name_all_along(me, r, TURNS); break;
        default: publish_all_along(me, r, TURNS); break;
        }
        rtmw_detach(r);
    }
}
