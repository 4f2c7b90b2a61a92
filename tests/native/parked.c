/* parked: a subscription outlives its process for a bounded time, and another one goes on where it ended. */
#include <string.h>
#include <unistd.h>

#include "native.h"

enum { KEY = 7, DEPTH = 8 };
#define LONG_NS  (UINT64_C(3600) * 1000000000u)
#define SHORT_NS UINT64_C(50000000)

static uint32_t domain;
static struct rtmw_region *mine;
static rtmw_publisher *publisher;
static uint8_t sent;

static rtmw_subscriber_qos asking(rtmw_reliability reliability, uint32_t history)
{
    return (rtmw_subscriber_qos){reliability, DEPTH, history, 0, 0, 0};
}

static rtmw_subscriber *reliable_on(struct rtmw_region *r, const char *topic)
{
    return subscribe_to(r, topic, asking(RTMW_RELIABLE, 0));
}

/* Numbers in bytes, from 1 on. */
static void send(uint32_t count)
{
    while (count--) CHECK(rtmw_publish(publisher, &(uint8_t){++sent}, 1, NULL) == RTMW_OK);
}

static void begin(const char *topic)
{
    sent = 0;
    publisher = publish_on(mine, topic, RTMW_RELIABLE, 0);
}

static void must_come(struct rtmw_region *r, rtmw_subscriber *s, uint8_t from, uint8_t to, bool is_old)
{
    rtmw_message m;
    for (uint8_t number = from; number <= to; number++) {
        CHECK(rtmw_take(s, &m) == RTMW_OK, "number %u", number);
        CHECK(*(const uint8_t *)m.data == number && m.is_old == is_old, "%u for %u", *(const uint8_t *)m.data, number);
        CHECK(rtmw_release(r, m.descriptor) == RTMW_OK);
    }
}

static void nothing_is_left(rtmw_subscriber *s)
{
    rtmw_message m;
    rtmw_subscriber_counters count;
    CHECK(rtmw_take(s, &m) == RTMW_EMPTY);
    rtmw_subscriber_count(s, &count);
    CHECK(count.missed + count.expired + count.lapses == 0);
    rtmw_subscriber_close(s);
    rtmw_publisher_close(publisher);
    books_must_balance(mine);
}

static void what_comes_while_nobody_is_there_is_there_for_the_next_process(void)
{
    struct rtmw_region *first = attach(domain);
    begin("carried on");
    rtmw_subscriber *s = reliable_on(first, "carried on");
    send(2);
    must_come(first, s, 1, 2, false);
    send(1);
    CHECK(rtmw_subscriber_park(s, KEY, LONG_NS));
    rtmw_detach(first); /* and whoever sweeps leaves it alone */
    send(3);
    books_must_balance(mine);
    struct rtmw_region *next = attach(domain);
    s = reliable_on(next, "carried on");
    send(1);
    CHECK(rtmw_subscriber_resume(s, KEY));
    CHECK(rtmw_subscriber_number(s, 0) == 2);
    send(1);
    must_come(next, s, 3, 8, false);
    CHECK(rtmw_subscriber_number(s, 0) == 8);
    nothing_is_left(s);
    rtmw_detach(next);
}

/* Messages with blocks, of all bands, some of which the process that parks still lends out. */
static void each_priority_goes_on_by_itself(void)
{
    uint8_t body[600] = {0};
    rtmw_message m, kept;
    begin("bands");
    rtmw_subscriber *s = reliable_on(mine, "bands");
    for (int round = 0; round < 2; round++) {
        for (int8_t band = 0; band < 8; band++) {
            body[0] = (uint8_t)(10 * round + band);
            CHECK(rtmw_publish(publisher, body, sizeof body, &(rtmw_message_qos){.priority = band}) == RTMW_OK);
        }
        if (round) break;
        CHECK(rtmw_take(s, &kept) == RTMW_OK);
        CHECK(rtmw_subscriber_park(s, KEY, LONG_NS));
    }
    s = reliable_on(mine, "bands");
    CHECK(rtmw_subscriber_resume(s, KEY));
    for (uint8_t band = 7; band < 8; band--)
        for (uint8_t round = band == 7; round < 2; round++) {
            CHECK(rtmw_take(s, &m) == RTMW_OK && *(const uint8_t *)m.data == 10 * round + band, "band %u", band);
            CHECK(m.number == round + 1u && rtmw_release(mine, m.descriptor) == RTMW_OK);
        }
    CHECK(*(const uint8_t *)kept.data == 7 && rtmw_release(mine, kept.descriptor) == RTMW_OK);
    nothing_is_left(s);
}

static void only_one_like_it_with_its_key_takes_its_place(void)
{
    begin("like");
    rtmw_subscriber *s = reliable_on(mine, "like"), *other;
    CHECK(rtmw_subscriber_park(s, KEY, LONG_NS));
    send(2);
    other = reliable_on(mine, "like");
    CHECK(!rtmw_subscriber_resume(other, KEY + 1));
    rtmw_subscriber_close(other);
    other = subscribe_to(mine, "like", asking(RTMW_ADAPTIVE, 0));
    CHECK(!rtmw_subscriber_resume(other, KEY));
    rtmw_subscriber_close(other);
    other = subscribe_to(mine, "like", asking((rtmw_reliability)(RTMW_RELIABLE | RTMW_EXACT), 0));
    CHECK(!rtmw_subscriber_resume(other, KEY));
    rtmw_subscriber_close(other);
    other = reliable_on(mine, "another topic");
    CHECK(!rtmw_subscriber_resume(other, KEY));
    rtmw_subscriber_close(other);
    s = reliable_on(mine, "like");
    CHECK(rtmw_subscriber_resume(s, KEY));
    other = reliable_on(mine, "like");
    CHECK(!rtmw_subscriber_resume(other, KEY), "its place is taken already");
    rtmw_subscriber_close(other);
    must_come(mine, s, 1, 2, false);
    nothing_is_left(s);
}

static void what_it_asks_of_the_past_comes_too_and_only_that_is_old(void)
{
    rtmw_publisher_qos offer = RTMW_PUBLISHER_QOS;
    offer.reliability = RTMW_RELIABLE;
    offer.history = 3;
    sent = 0;
    CHECK(rtmw_publisher_open(mine, "kept", NULL, &offer, &publisher) == RTMW_OK);
    rtmw_subscriber *s = reliable_on(mine, "kept");
    send(3);
    must_come(mine, s, 1, 3, false);
    CHECK(rtmw_subscriber_park(s, KEY, LONG_NS));
    send(1);
    s = subscribe_to(mine, "kept", asking(RTMW_RELIABLE, 3));
    CHECK(rtmw_subscriber_resume(s, KEY));
    must_come(mine, s, 2, 3, true);
    must_come(mine, s, 4, 4, false);
    nothing_is_left(s);
}

/* The wait of the publisher ends because the time of the parked one does: nothing else happens. */
static void a_publisher_waits_for_it_until_its_time_is_over(void)
{
    begin("bounded");
    uint64_t parked_at = monotonic_ns();
    CHECK(rtmw_subscriber_park(reliable_on(mine, "bounded"), KEY, SHORT_NS));
    send(DEPTH);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_FULL || monotonic_ns() >= parked_at + SHORT_NS);
    while (rtmw_publish(publisher, "x", 1, NULL) != RTMW_OK) CHECK(rtmw_publisher_wait(publisher, UINT64_MAX) == RTMW_OK);
    CHECK(monotonic_ns() >= parked_at + SHORT_NS, "it did not wait");
    CHECK(rtmw_publisher_matched(publisher) == 0);
    rtmw_subscriber *s = reliable_on(mine, "bounded");
    CHECK(!rtmw_subscriber_resume(s, KEY), "its time is over");
    nothing_is_left(s);
}

static void what_may_not_be_parked_is_closed(void)
{
    begin("closed");
    CHECK(!rtmw_subscriber_park(subscribe_to(mine, "closed", asking(RTMW_ADAPTIVE, 0)), KEY, LONG_NS));
    CHECK(!rtmw_subscriber_park(reliable_on(mine, "closed"), KEY, 0));
    rtmw_subscriber_qos lapses = asking(RTMW_RELIABLE, 0);
    lapses.lease_ns = 1;
    rtmw_subscriber *s = subscribe_to(mine, "closed", lapses);
    send(DEPTH);
    while (rtmw_publish(publisher, "x", 1, NULL) != RTMW_OK) CHECK(rtmw_publisher_wait(publisher, UINT64_MAX) == RTMW_OK);
    CHECK(!rtmw_subscriber_park(s, KEY, LONG_NS), "it has lapsed");
    CHECK(rtmw_publisher_matched(publisher) == 0);
    rtmw_publisher_close(publisher);
    books_must_balance(mine);
}

static void resume_and_die(void)
{
    struct rtmw_region *r = attach(domain);
    CHECK(rtmw_subscriber_resume(reliable_on(r, "dies"), KEY));
    _exit(0);
}

static void who_dies_with_its_place_leaves_nothing(void)
{
    begin("dies");
    CHECK(rtmw_subscriber_park(reliable_on(mine, "dies"), KEY, LONG_NS));
    send(2);
    alone(resume_and_die);
    books_must_balance(mine);
    CHECK(rtmw_publisher_matched(publisher) == 0);
    rtmw_publisher_close(publisher);
}

int main(void)
{
    domain = domain_make(UINT64_C(1) << 20, 60);
    mine = attach(domain);
    what_comes_while_nobody_is_there_is_there_for_the_next_process();
    each_priority_goes_on_by_itself();
    only_one_like_it_with_its_key_takes_its_place();
    what_it_asks_of_the_past_comes_too_and_only_that_is_old();
    a_publisher_waits_for_it_until_its_time_is_over();
    what_may_not_be_parked_is_closed();
    who_dies_with_its_place_leaves_nothing();
    rtmw_detach(mine);
    printf("each parked subscription went on or ended, and the books balance\n");
    return 0;
}
