/* admission: what is urgent finds what may give way, wherever that is; small messages leave room for large ones; and what is
 * gone, expired or of an earlier life of a topic's slot fills nobody's depth. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

enum { MIB = 1 << 20, POOL = 64 * MIB, SMALL = 8, CROWD = 60 };

static struct rtmw_region *mine, *others; /* two participants */
static uint8_t data[12 * MIB];

static const rtmw_subscriber_qos idle = RTMW_SUBSCRIBER_QOS;
static const rtmw_subscriber_qos deep = {RTMW_RELIABLE, 1u << 30, 0, 0, 0, 0};
static const rtmw_subscriber_qos deep_adaptive = {RTMW_ADAPTIVE, 1u << 30, 0, 0, 0, 0};
static const rtmw_message_qos over_at_once = {-1, 1, 0, 0, 0}, in_an_hour = {-1, UINT64_C(3600) << 30, 0, 0, 0};

static void begin(void)
{
    uint32_t domain = domain_make(POOL, 100);
    mine = attach(domain);
    others = attach(domain);
}

/* Until it is refused, at most so many times; how many were published. */
static int fill(rtmw_publisher *publisher, uint64_t size, int most, const rtmw_message_qos *qos)
{
    int count = 0;
    while (count < most && rtmw_publish(publisher, data, size, qos) == RTMW_OK) count++;
    return count;
}

/* ---- what gives way ---- */

/* Each keeps its last message, whose block nobody is short of: more than one call looks at, in a band below the hog's. */
static void a_crowd_of_a_lower_priority_hides_nothing_that_may_go(void)
{
    char name[32];
    begin();
    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof name, "t/%d", i);
        CHECK(fill(publish_on(mine, name, RTMW_ADAPTIVE, 0), 200, 1, NULL) == 1);
    }
    rtmw_publisher *hog = publish_on(mine, "hog", RTMW_ADAPTIVE, 1), *urgent = publish_on(mine, "urgent", RTMW_RELIABLE, 7);
    subscribe_to(others, "hog", deep_adaptive);
    subscribe_to(others, "urgent", deep);
    fill(hog, SMALL, 40000, NULL);
    int accepted = fill(urgent, SMALL, 20000, NULL);
    CHECK(accepted == 20000, "%d", accepted);
}

/* The same with what is not spare, for that which has expired in a higher band: a publisher of any band may have it. */
static void a_crowd_that_needs_all_it_has_hides_nothing_that_has_expired(void)
{
    char name[32];
    begin();
    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof name, "t/%d", i);
        subscribe_to(others, name, idle);
        CHECK(fill(publish_on(mine, name, RTMW_ADAPTIVE, 0), 200, 5, NULL) == 5);
    }
    subscribe_to(others, "needed", deep);
    fill(publish_on(mine, "needed", RTMW_RELIABLE, 0), 4000, 12000, NULL);
    rtmw_publisher *expired = publish_on(mine, "expired", RTMW_ADAPTIVE, 1), *other = publish_on(mine, "other", RTMW_RELIABLE, 0);
    subscribe_to(others, "expired", deep_adaptive);
    subscribe_to(others, "other", deep);
    fill(expired, MIB, 8, &over_at_once);
    int accepted = fill(other, 4000, 2000, NULL);
    CHECK(accepted == 2000, "%d", accepted);
}

/* Topics of one priority with messages that a RELIABLE subscriber needs and that expire in an hour, so that each search looks
 * at them again; and in the same priority one, which is found last, of which messages may go. */
static rtmw_publisher *urgent_behind_a_crowd_that_may_go_later(int crowd, int may_go, uint64_t size)
{
    enum { EACH = 2 };
    char name[32];
    begin();
    for (int i = 0; i < crowd; i++) {
        snprintf(name, sizeof name, "t/%d", i);
        subscribe_to(others, name, deep);
        CHECK(fill(publish_on(mine, name, RTMW_RELIABLE, 0), size, EACH, &in_an_hour) == EACH);
    }
    subscribe_to(others, "may go", deep_adaptive);
    CHECK(fill(publish_on(mine, "may go", RTMW_ADAPTIVE, 0), size, may_go, NULL) == may_go);
    subscribe_to(others, "urgent", deep);
    rtmw_publisher *urgent = publish_on(mine, "urgent", RTMW_RELIABLE, 7);
    int free = (int)mine->header->descriptors, blocks = (int)(mine->header->pages / ((size + PAGE - 1) / PAGE));
    if (size > IN_PLACE && blocks < free) free = blocks;
    free -= EACH * crowd + may_go;
    CHECK(fill(urgent, size, free, NULL) == free, "what is free");
    return urgent;
}

/* As many topics as one call looks at: LOOKS_URGENT in reclaim.c. */
static void nobody_urgent_is_refused_behind_a_crowd_that_one_call_looks_at(uint64_t size)
{
    enum { MAY_GO = 100, LOOKED_AT = 100 };
    rtmw_publisher *urgent = urgent_behind_a_crowd_that_may_go_later(LOOKED_AT, MAY_GO, size);
    int accepted = fill(urgent, size, MAY_GO, NULL);
    CHECK(accepted >= MAY_GO - 1, "%d, and the last message of a queue stays", accepted);
}

static void a_crowd_that_one_call_looks_at_refuses_no_small_message_that_is_urgent(void)
{
    nobody_urgent_is_refused_behind_a_crowd_that_one_call_looks_at(SMALL);
}

static void a_crowd_that_one_call_looks_at_refuses_no_message_with_a_block_that_is_urgent(void)
{
    nobody_urgent_is_refused_behind_a_crowd_that_one_call_looks_at(2 * PAGE);
}

/* Of a larger crowd a call looks at so many topics, and the next one at those behind them. */
static void a_larger_crowd_refuses_who_is_urgent_for_a_bounded_number_of_calls(void)
{
    enum { MAY_GO = 100, LOOKED_AT = 100, LARGE_CROWD = 900 };
    rtmw_publisher *urgent = urgent_behind_a_crowd_that_may_go_later(LARGE_CROWD, MAY_GO, SMALL);
    for (int accepted = 0, refused = 0; accepted < MAY_GO - 1;) {
        bool was = rtmw_publish(urgent, data, SMALL, NULL) == RTMW_OK;
        refused = was ? 0 : refused + 1;
        accepted += was;
        CHECK(refused <= LARGE_CROWD / LOOKED_AT, "%d calls in a row after %d messages", refused, accepted);
    }
}

/* What RELIABLE subscribers need takes the rest of what all may have; then there is a topic of which 10 MiB may go. */
static rtmw_publisher *urgent_where_10_mib_may_go(void)
{
    subscribe_to(others, "needed", deep);
    subscribe_to(others, "may go", deep_adaptive);
    CHECK(fill(publish_on(mine, "needed", RTMW_RELIABLE, 0), MIB, 34, NULL) == 34);
    CHECK(fill(publish_on(mine, "may go", RTMW_ADAPTIVE, 0), MIB, 10, NULL) == 10);
    subscribe_to(others, "urgent", deep);
    return publish_on(mine, "urgent", RTMW_RELIABLE, 7);
}

static void a_large_last_message_that_is_held_hides_nothing_that_may_go(void)
{
    rtmw_message held;
    begin();
    rtmw_subscriber *viewer = subscribe_to(others, "view", idle);
    CHECK(fill(publish_on(mine, "view", RTMW_ADAPTIVE, 0), sizeof data, 1, NULL) == 1);
    CHECK(rtmw_take(viewer, &held) == RTMW_OK);
    int accepted = fill(urgent_where_10_mib_may_go(), MIB, 30, NULL);
    CHECK(accepted >= 8 + 9, "%d: the reserve, and what may go", accepted);
}

static void a_large_last_message_that_has_expired_gives_its_block_and_is_counted_as_expired(void)
{
    rtmw_message m;
    rtmw_subscriber_counters counters;
    begin();
    rtmw_subscriber *viewer = subscribe_to(others, "view", deep);
    CHECK(fill(publish_on(mine, "view", RTMW_RELIABLE, 0), sizeof data, 1, &over_at_once) == 1);
    int accepted = fill(urgent_where_10_mib_may_go(), MIB, 28, NULL);
    CHECK(accepted == 28, "%d: the reserve, 12 that have expired, and some of what may go", accepted);
    CHECK(rtmw_take(viewer, &m) == RTMW_EMPTY);
    rtmw_subscriber_count(viewer, &counters);
    CHECK(counters.expired == 1 && counters.missed == 0);
}

/* ---- the reserve ---- */

/* As an urgent publisher takes them all: those in the reserve come last. */
static void a_loan_from_the_reserve_leaves_it_when_it_is_published_below(void)
{
    enum { COMMON = 56, ALL = 64 };
    static const rtmw_message_qos low = {0, 0, 0, 0, 0};
    rtmw_loan loan[ALL];
    rtmw_message m;
    begin();
    rtmw_subscriber *reader = subscribe_to(others, "t", deep);
    rtmw_publisher *urgent = publish_on(mine, "t", RTMW_RELIABLE, 7);
    for (int i = 0; i < ALL; i++) CHECK(rtmw_loan_take(urgent, MIB, &loan[i]) == RTMW_OK, "loan %d", i);
    ((uint8_t *)loan[COMMON].data)[MIB - 1] = 7;
    CHECK(rtmw_loan_publish(urgent, &loan[COMMON], &low) == RTMW_NO_MEMORY, "there is no room outside of the reserve");
    CHECK(rtmw_loan_drop(urgent, &loan[0]) == RTMW_OK);
    CHECK(rtmw_loan_publish(urgent, &loan[COMMON], &low) == RTMW_OK, "there is");
    CHECK(rtmw_loan_publish(urgent, &loan[COMMON], &low) == RTMW_BAD_LOAN && rtmw_loan_drop(urgent, &loan[COMMON]) == RTMW_BAD_LOAN);
    CHECK(fill(urgent, MIB, 2, NULL) == 1, "what the reserve had lent is the reserve's");
    CHECK(rtmw_take(reader, &m) == RTMW_OK && m.priority == 7 && rtmw_release(others, m.descriptor) == RTMW_OK);
    CHECK(rtmw_take(reader, &m) == RTMW_OK && m.priority == 0 && m.size == MIB && ((const uint8_t *)m.data)[MIB - 1] == 7);
    CHECK(rtmw_loan_publish(urgent, &loan[COMMON + 1], NULL) == RTMW_OK, "with its own priority it stays where it is");
    CHECK(rtmw_loan_publish(urgent, &loan[1], &low) == RTMW_OK, "and so does one that never lay in the reserve");
    CHECK(m.data != loan[COMMON].data);
}

/* Also what lies in its descriptor. */
static void a_small_loan_from_the_reserve_leaves_it_when_it_is_published_below(void)
{
    static const rtmw_message_qos low = {0, 0, 0, 0, 0};
    rtmw_loan loan;
    begin();
    subscribe_to(others, "t", deep);
    rtmw_publisher *urgent = publish_on(mine, "t", RTMW_RELIABLE, 7);
    int common = fill(urgent, SMALL, 40000, &low);
    CHECK(rtmw_loan_take(urgent, SMALL, &loan) == RTMW_OK && rtmw_loan_publish(urgent, &loan, &low) == RTMW_NO_MEMORY);
    CHECK(rtmw_loan_drop(urgent, &loan) == RTMW_OK);
    int reserve = fill(urgent, SMALL, 40000, NULL), all = (int)mine->header->descriptors;
    CHECK(common + reserve == all && reserve == (int)mine->header->reserved_descriptors, "%d, %d of %d", common, reserve, all);
}

/* ---- small messages and large ones ---- */

/* Of most of these sizes a page has a rest that fits none. */
static void small_messages_that_stay_leave_room_for_an_eighth_whatever_their_size(void)
{
    static const uint32_t sizes[] = {600, 900, 1100, 1400};
    uint64_t state = 12;
    begin();
    subscribe_to(others, "small", deep);
    rtmw_publisher *small = publish_on(mine, "small", RTMW_RELIABLE, 0);
    for (int i = 0; i < 14000; i++)
        CHECK(rtmw_publish(small, data, sizes[random_below(&state, 4)], NULL) == RTMW_OK, "message %d", i);
    CHECK(rtmw_publish(publish_on(mine, "large", RTMW_ADAPTIVE, 0), data, POOL / 8, NULL) == RTMW_OK);
}

/* ---- depth ---- */

static void a_queue_of_expired_messages_is_empty_however_many_there_are(void)
{
    begin();
    subscribe_to(others, "t", (rtmw_subscriber_qos){RTMW_RELIABLE, 5, 0, 0, 0, 0});
    int accepted = fill(publish_on(mine, "t", RTMW_RELIABLE, 0), SMALL, 2000, &over_at_once);
    CHECK(accepted == 2000, "%d", accepted);
}

static void expired_messages_fill_no_depth_behind_many_that_only_others_need(void)
{
    rtmw_message m;
    begin();
    subscribe_to(others, "t", deep);
    rtmw_subscriber *reader = subscribe_to(others, "t", (rtmw_subscriber_qos){RTMW_RELIABLE, 5, 0, 0, 0, 0});
    rtmw_publisher *publisher = publish_on(mine, "t", RTMW_RELIABLE, 0);
    for (int i = 0; i < 300; i++) {
        CHECK(fill(publisher, SMALL, 1, NULL) == 1 && rtmw_take(reader, &m) == RTMW_OK);
        CHECK(rtmw_release(others, m.descriptor) == RTMW_OK);
    }
    int accepted = fill(publisher, SMALL, 20, &over_at_once);
    CHECK(accepted == 20, "%d", accepted);
}

static void a_topic_in_a_slot_that_is_used_anew_counts_only_its_own_messages(void)
{
    char name[32];
    rtmw_message m;
    rtmw_subscriber_counters counters;
    begin();
    for (uint32_t i = 0; i < mine->header->topics; i++) {
        snprintf(name, sizeof name, "old/%u", i);
        rtmw_publisher *old = publish_on(mine, name, RTMW_RELIABLE, 0);
        CHECK(fill(old, SMALL, 20, NULL) == 20);
        rtmw_publisher_close(old);
    }
    rtmw_subscriber *subscriber = subscribe_to(others, "new", (rtmw_subscriber_qos){RTMW_TIMELY, 4, 0, 0, 0, 0});
    CHECK(fill(publish_on(mine, "new", RTMW_TIMELY, 0), SMALL, 2, NULL) == 2);
    CHECK(rtmw_take(subscriber, &m) == RTMW_OK && rtmw_take(subscriber, &m) == RTMW_OK);
    rtmw_subscriber_count(subscriber, &counters);
    CHECK(counters.received == 2 && counters.missed == 0);
}

/* ---- how long a refused call takes ---- */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void times_beside(int crowd)
{
    enum { CALLS = 2000 };
    static uint64_t took[CALLS];
    rtmw_publisher *urgent = urgent_behind_a_crowd_that_may_go_later(crowd, 1, SMALL);
    fill(urgent, SMALL, 10, NULL);
    for (int i = 0; i < CALLS; i++) {
        uint64_t began = monotonic_ns();
        CHECK(rtmw_publish(urgent, data, SMALL, NULL) == RTMW_NO_MEMORY);
        took[i] = monotonic_ns() - began;
    }
    qsort(took, CALLS, sizeof took[0], by_size);
    printf("%d topics of which nothing may go yet: p50 %.1f us, p90 %.1f us\n", crowd, (double)took[CALLS / 2] / 1e3,
           (double)took[CALLS / 10 * 9] / 1e3);
}

static void times_beside_10(void) { times_beside(10); }
static void times_beside_900(void) { times_beside(900); }

int main(int arguments, char **argument)
{
    if (arguments > 1 && !strcmp(argument[1], "times")) return alone(times_beside_10), alone(times_beside_900), 0;
    alone(a_crowd_of_a_lower_priority_hides_nothing_that_may_go);
    alone(a_crowd_that_needs_all_it_has_hides_nothing_that_has_expired);
    alone(a_crowd_that_one_call_looks_at_refuses_no_small_message_that_is_urgent);
    alone(a_crowd_that_one_call_looks_at_refuses_no_message_with_a_block_that_is_urgent);
    alone(a_larger_crowd_refuses_who_is_urgent_for_a_bounded_number_of_calls);
    alone(a_large_last_message_that_is_held_hides_nothing_that_may_go);
    alone(a_large_last_message_that_has_expired_gives_its_block_and_is_counted_as_expired);
    alone(a_loan_from_the_reserve_leaves_it_when_it_is_published_below);
    alone(a_small_loan_from_the_reserve_leaves_it_when_it_is_published_below);
    alone(small_messages_that_stay_leave_room_for_an_eighth_whatever_their_size);
    alone(a_queue_of_expired_messages_is_empty_however_many_there_are);
    alone(expired_messages_fill_no_depth_behind_many_that_only_others_need);
    alone(a_topic_in_a_slot_that_is_used_anew_counts_only_its_own_messages);
    printf("nothing that may go was hidden, and nobody was full of what he will not get\n");
    return 0;
}
