/* bounded: no call does more work where a domain has more topics, more subscribers or more messages, and no history of
 * sizes keeps a large message out. Work is counted in atomic operations, by the seam of the explorer (atomics.h). */
#include <string.h>

#include "native.h"
#include "reclaim.h"

enum {
    TAKE_STEPS = 3000,      /* of one take, whatever there is that it steps over */
    PUBLISH_STEPS = 80000, /* of one publish that is refused, or makes room for 60 kB */
    WAIT_STEPS = 24000,    /* of one that finds full queues */
    PASS_STEPS = 12,       /* of a descriptor, in one that is refused and large */
    REFUSED_STEPS = 24000, /* of one that is small and finds nothing */
    TALLY_STEPS = 6000, /* of the look at what fills the memory, when it is counted as refused */
    TOPICS = 900,
    SUBSCRIBERS = 1900,
    SMALL = 8,
    FLOOD = 5000,
};

static struct rtmw_region *mine, *others; /* two participants */
static uint64_t steps;

void rtmw_explore_step(const volatile void *address)
{
    (void)address;
    steps++;
}

static void begin(void)
{
    uint32_t domain = domain_make(64 << 20, 100);
    mine = attach(domain);
    others = attach(domain);
}

static int within(uint64_t most, int code, const char *what)
{
    CHECK(steps <= most, "%llu steps: %s", (unsigned long long)steps, what);
    return code;
}

#define TAKEN(...)     (steps = 0, within(TAKE_STEPS, (__VA_ARGS__), #__VA_ARGS__))
#define PUBLISHED(...) (steps = 0, within(PUBLISH_STEPS, (__VA_ARGS__), #__VA_ARGS__))

static const rtmw_subscriber_qos idle = RTMW_SUBSCRIBER_QOS;
static const rtmw_publisher_qos offers = {RTMW_RELIABLE, 0, 64, 0, 0};
static const rtmw_subscriber_qos deep = {RTMW_RELIABLE, 1u << 30, 0, 0, 0, 0};

/* ---- publishing into a domain that is full ---- */

/* Topics with messages that a RELIABLE subscriber has not read, and with some that nobody needs. */
static void crowd_in(const uint8_t *data)
{
    char name[32];
    for (uint32_t i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "t/%u", i);
        rtmw_publisher *publisher = publish_on(mine, name, i % 2 ? RTMW_RELIABLE : RTMW_ADAPTIVE, i % 4);
        if (i % 2) subscribe_to(others, name, deep);
        for (int k = 0; k < 3; k++) rtmw_publish(publisher, data, 200, NULL);
    }
}

static void a_refused_publish_looks_at_a_bounded_number_of_topics(void)
{
    static uint8_t data[60000];
    begin();
    crowd_in(data);
    rtmw_publisher *hog = publish_on(mine, "hog", RTMW_RELIABLE, 0), *urgent = publish_on(mine, "urgent", RTMW_ADAPTIVE, 7);
    subscribe_to(others, "hog", deep);
    subscribe_to(others, "urgent", (rtmw_subscriber_qos)RTMW_SUBSCRIBER_QOS);
    for (uint64_t size = sizeof data; size > 0; size /= 4)
        while (PUBLISHED(rtmw_publish(hog, data, size, NULL)) == RTMW_OK) {}
    for (int i = 0; i < 200; i++) CHECK(PUBLISHED(rtmw_publish(hog, data, 4000, NULL)) == RTMW_NO_MEMORY);
    for (int i = 0; i < 200; i++) CHECK(PUBLISHED(rtmw_publish(urgent, data, 4000, NULL)) == RTMW_OK);
    for (int i = 0; i < 200; i++) CHECK(PUBLISHED(rtmw_publish(urgent, data, SMALL, NULL)) == RTMW_OK);
}

/* Equals, none of which holds more than the publisher's own: that is seen of each of them, and of a part in one call. */
static void a_refused_publish_looks_at_a_bounded_number_of_topics_of_its_own_priority(void)
{
    char name[32];
    begin();
    for (uint32_t i = 0; i < 2 * TOPICS; i++) {
        snprintf(name, sizeof name, "t/%u", i % TOPICS);
        CHECK(rtmw_publish(publish_on(mine, name, RTMW_ADAPTIVE, 0), "x", 1, NULL) == RTMW_OK);
        if (i < TOPICS) subscribe_to(others, name, idle);
    }
    rtmw_publisher *hog = publish_on(mine, "hog", RTMW_RELIABLE, 0);
    subscribe_to(others, "hog", deep);
    while (rtmw_publish(hog, "x", 1, NULL) == RTMW_OK) {}
    for (int i = 0; i < 50; i++) {
        steps = 0;
        CHECK(within(REFUSED_STEPS, rtmw_publish(hog, "x", 1, NULL), "a refused publish") == RTMW_NO_MEMORY);
    }
}

/* Behind messages that are needed: in many queues, and in a long one, through which each process walks by itself. */
static void a_publish_walks_through_a_bounded_part_of_queues(void)
{
    static uint8_t data[4000];
    begin();
    crowd_in(data);
    rtmw_subscriber_qos seldom = {RTMW_RELIABLE, 1u << 30, 0, UINT64_C(1) << 60, 0, 0};
    subscribe_to(others, "thinned", seldom);
    rtmw_publisher *mine_there = publish_on(mine, "thinned", RTMW_RELIABLE, 0);
    for (int i = 0; i < FLOOD * 4; i++)
        CHECK(PUBLISHED(rtmw_publish(mine_there, data, sizeof data, NULL)) == RTMW_OK, "message %d", i);
    rtmw_publisher *anew = publish_on(others, "thinned", RTMW_RELIABLE, 0);
    int refused = 0;
    while (PUBLISHED(rtmw_publish(anew, data, sizeof data, NULL)) != RTMW_OK) refused++;
    CHECK(refused < 500, "%d calls", refused);
}

/* The same where descriptors are low: whether the queue may grow is found out part by part, and its publisher is refused. */
static void a_publish_to_a_queue_that_is_for_nobody_walks_through_a_bounded_part_of_it(void)
{
    begin();
    subscribe_to(others, "flooded", deep);
    CHECK(rtmw_publish(publish_on(mine, "flooded", RTMW_RELIABLE, 0), "needed", 6, NULL) == RTMW_OK);
    rtmw_publisher *flooding = publish_on(mine, "flooded", RTMW_TIMELY, 0);
    uint32_t count = 0, all = mine->header->descriptors, open = all - mine->header->reserved_descriptors;
    while (PUBLISHED(rtmw_publish(flooding, "x", 1, NULL)) == RTMW_OK) count++;
    CHECK(count <= open - open / 8 + all / 32 + open / 100, "%u messages of %u", count, open);
    for (int i = 0; i < 200; i++) CHECK(PUBLISHED(rtmw_publish(flooding, "x", 1, NULL)) == RTMW_NO_MEMORY, "call %d", i);
}

/* Each of a topic's subscribers is asked what it needs, once in a call and not once for each message that goes. */
static void an_eviction_asks_a_bounded_number_of_subscribers(void)
{
    static uint8_t data[60000];
    begin();
    rtmw_publisher *crowded = publish_on(mine, "crowded", RTMW_ADAPTIVE, 0), *urgent = publish_on(mine, "urgent", RTMW_ADAPTIVE, 7);
    for (int i = 0; i < SUBSCRIBERS; i++) subscribe_to(others, "crowded", i % 2 ? deep : idle);
    subscribe_to(others, "urgent", idle);
    for (uint64_t size = sizeof data; size > 0; size /= 4)
        for (int i = 0; i < 300; i++) {
            PUBLISHED(rtmw_publish(crowded, data, 600, NULL));
            CHECK(PUBLISHED(rtmw_publish(urgent, data, size, NULL)) == RTMW_OK);
        }
}

static void a_publisher_that_is_refused_looks_at_a_bounded_number_of_full_subscribers(void)
{
    begin();
    rtmw_publisher *publisher = publish_on(mine, "crowded", RTMW_RELIABLE, 0);
    for (int i = 0; i < SUBSCRIBERS; i++) subscribe_to(others, "crowded", (rtmw_subscriber_qos){RTMW_RELIABLE, 5, 0, 0, 0, 0});
    while (rtmw_publish(publisher, "x", 1, NULL) == RTMW_OK) {}
    for (int i = 0; i < 50; i++) {
        steps = 0;
        CHECK(within(WAIT_STEPS, rtmw_publish(publisher, "x", 1, NULL), "a publish to full queues") == RTMW_FULL);
    }
}

/* The fewest of several calls: one of them comes at once after the one before it, however long this process is kept waiting. */
static uint64_t steps_when_it_comes_again(rtmw_publisher *publisher, const void *data, uint64_t size)
{
    uint64_t fewest = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        steps = 0;
        CHECK(within(PASS_STEPS * mine->header->descriptors, rtmw_publish(publisher, data, size, NULL), "a pass") == RTMW_NO_MEMORY);
        if (i && steps < fewest) fewest = steps;
    }
    return fewest;
}

static void a_refused_publish_of_any_size_looks_through_the_tables_at_most_once(void)
{
    static uint8_t data[16 << 20];
    begin();
    crowd_in(data);
    rtmw_publisher *hog = publish_on(mine, "hog", RTMW_RELIABLE, 0), *large = publish_on(mine, "large", RTMW_ADAPTIVE, 0);
    subscribe_to(others, "hog", deep);
    for (uint64_t size = 60000; size > 0; size /= 4)
        while (rtmw_publish(hog, data, size, NULL) == RTMW_OK) {}
    uint64_t small = steps_when_it_comes_again(large, data, 4000);
    for (uint64_t size = 16000; size <= sizeof data; size *= 4) {
        uint64_t took = steps_when_it_comes_again(large, data, size);
        CHECK(took <= 2 * small, "%llu steps for %llu bytes", (unsigned long long)took, (unsigned long long)size);
    }
}

/* A part of the topics in one call. Topics that history keeps come behind those that RELIABLE subscribers have unread. */
static void to_count_a_refusal_looks_at_a_bounded_number_of_topics(void)
{
    static const rtmw_publisher_qos keeps = {RTMW_ADAPTIVE, 0, 4, 3, 0};
    static uint8_t data[300];
    char name[32];
    begin();
    for (uint32_t i = 0; i < TOPICS; i++) {
        rtmw_publisher *publisher;
        snprintf(name, sizeof name, "t/%u", i);
        if (i < TOPICS / 3) subscribe_to(others, name, deep);
        CHECK(rtmw_publisher_open(mine, name, NULL, i < TOPICS / 3 ? &offers : &keeps, &publisher) == RTMW_OK);
        for (int k = 0; k < 3; k++) CHECK(rtmw_publish(publisher, data, sizeof data, NULL) == RTMW_OK);
    }
    for (int i = 0; i < 8; i++) {
        steps = 0;
        bool history = history_is_in_the_way(mine);
        within(TALLY_STEPS, RTMW_OK, "what a refusal costs to be counted");
        CHECK(i < 4 || history, "history keeps two thirds");
    }
}

/* ---- taking what a subscriber does not get ---- */

static void flood(const char *topic)
{
    rtmw_publisher *publisher = publish_on(mine, topic, RTMW_ADAPTIVE, 0);
    for (int i = 0; i < FLOOD; i++) CHECK(PUBLISHED(rtmw_publish(publisher, "flooding", SMALL, NULL)) == RTMW_OK);
}

/* How many takes say that there may be more, before the last one says something else: that. */
static int take_again_and_again(rtmw_subscriber *subscriber, rtmw_message *m, uint32_t *calls)
{
    int code;
    for (*calls = 0; (code = TAKEN(rtmw_take(subscriber, m))) == RTMW_AGAIN;) ++*calls;
    return code;
}

static void a_take_steps_over_a_bounded_number_of_thinned_messages_and_the_next_one_goes_on(void)
{
    rtmw_subscriber_qos seldom = {RTMW_ADAPTIVE, 1u << 30, 0, UINT64_C(1) << 60, 0, 0};
    rtmw_subscriber *subscriber = subscribe_to(others, "thinned", seldom);
    rtmw_subscriber_counters counters;
    rtmw_message m;
    uint32_t calls;
    flood("thinned");
    CHECK(TAKEN(rtmw_take(subscriber, &m)) == RTMW_OK && m.sequence == 1);
    CHECK(take_again_and_again(subscriber, &m, &calls) == RTMW_EMPTY);
    CHECK(calls == (FLOOD - 1) / (STEPS_OVER + 1), "%u calls", calls);
    rtmw_subscriber_count(subscriber, &counters);
    CHECK(counters.received == 1 && counters.thinned == FLOOD - 1);
}

static void a_take_drops_a_bounded_number_beyond_the_depth_and_what_is_urgent_comes_first(void)
{
    rtmw_subscriber_qos newest = {RTMW_TIMELY, 4, 0, 0, 0, 0}, all = {RTMW_ADAPTIVE, 1u << 30, 0, 0, 0, 0};
    rtmw_subscriber *subscriber = subscribe_to(others, "timely", newest), *keeps = subscribe_to(others, "timely", all);
    rtmw_subscriber_counters counters;
    rtmw_message m;
    uint32_t calls;
    flood("timely");
    CHECK(rtmw_publish(publish_on(mine, "timely", RTMW_ADAPTIVE, 7), "urgent", 6, NULL) == RTMW_OK);
    CHECK(TAKEN(rtmw_take(subscriber, &m)) == RTMW_OK && m.priority == 7);
    CHECK(take_again_and_again(subscriber, &m, &calls) == RTMW_OK && m.sequence == FLOOD - 3);
    CHECK(calls == (FLOOD - 4) / STEPS_OVER - 1, "%u calls", calls);
    rtmw_subscriber_count(subscriber, &counters);
    CHECK(counters.received == 2 && counters.missed == FLOOD - 4);
    rtmw_subscriber_count(keeps, &counters);
    CHECK(counters.missed == 0);
}

static void takes(void)
{
    begin();
    a_take_steps_over_a_bounded_number_of_thinned_messages_and_the_next_one_goes_on();
    a_take_drops_a_bounded_number_beyond_the_depth_and_what_is_urgent_comes_first();
}

static void a_take_of_many_ends_at_as_many_messages_or_bytes_as_are_asked_for(void)
{
    uint8_t data[100] = {0};
    rtmw_message m[10];
    uint32_t count;
    begin();
    rtmw_publisher *publisher = publish_on(mine, "some", RTMW_RELIABLE, 0);
    rtmw_subscriber *subscriber = subscribe_to(others, "some", deep);
    for (int k = 0; k < 10; k++) rtmw_publish(publisher, data, sizeof data, NULL);
    CHECK(TAKEN(rtmw_take_many(subscriber, m, 4, UINT64_MAX, &count)) == RTMW_OK && count == 4, "%u", count);
    CHECK(TAKEN(rtmw_take_many(subscriber, m, 4, 100, &count)) == RTMW_OK && count == 1, "%u", count);
    CHECK(TAKEN(rtmw_take_many(subscriber, m, 4, 101, &count)) == RTMW_OK && count == 2, "%u", count);
    CHECK(TAKEN(rtmw_take_many(subscriber, m, 4, UINT64_MAX, &count)) == RTMW_EMPTY && count == 3, "%u", count);
    CHECK(TAKEN(rtmw_take_many(subscriber, m, 4, UINT64_MAX, &count)) == RTMW_EMPTY && count == 0, "%u", count);
}

int main(void)
{
    alone(a_take_of_many_ends_at_as_many_messages_or_bytes_as_are_asked_for);
    alone(takes);
    alone(a_refused_publish_looks_at_a_bounded_number_of_topics);
    alone(a_refused_publish_looks_at_a_bounded_number_of_topics_of_its_own_priority);
    alone(a_publisher_that_is_refused_looks_at_a_bounded_number_of_full_subscribers);
    alone(a_refused_publish_of_any_size_looks_through_the_tables_at_most_once);
    alone(to_count_a_refusal_looks_at_a_bounded_number_of_topics);
    alone(a_publish_walks_through_a_bounded_part_of_queues);
    alone(a_publish_to_a_queue_that_is_for_nobody_walks_through_a_bounded_part_of_it);
    alone(an_eviction_asks_a_bounded_number_of_subscribers);
    printf("no call did more than it may\n");
    return 0;
}
