/* clock: lifetimes when the wall clock is set, and limits that no clock ever reaches. The core is compiled with
 * -Dclock_gettime=native_clock_gettime, so that the test moves both clocks, and nothing waits.
 */
#undef clock_gettime /* here it is the real one */
#include <time.h>

#include "native.h"

#define SECOND INT64_C(1000000000)
#define DAY    (86400 * SECOND)

static int64_t wall_set_by, passed, each_reading;

static struct timespec moved(struct timespec t, int64_t by)
{
    int64_t ns = t.tv_sec * SECOND + t.tv_nsec + by;
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

int native_clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = clock_gettime(clock, now);
    passed += each_reading; /* its caller waits for the processor */
    *now = moved(*now, passed + (clock == CLOCK_REALTIME ? wall_set_by : 0));
    return code;
}

static uint64_t wall(void)
{
    struct timespec now;
    native_clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)(now.tv_sec * SECOND + now.tv_nsec);
}

/* So much time passes. */
static void pass(int64_t ns) { passed += ns; }

/* The core looks at the wall clock once a millisecond. */
static void set_wall_clock(int64_t by)
{
    wall_set_by += by;
    pass(SECOND / 100);
}

static struct rtmw_region *region;
static rtmw_publisher *publisher;
static rtmw_subscriber *subscriber;

static void open_pair(const char *topic, const rtmw_publisher_qos *offer, const rtmw_subscriber_qos *ask)
{
    CHECK(rtmw_publisher_open(region, topic, NULL, offer, &publisher) == RTMW_OK);
    CHECK(rtmw_subscriber_open(region, topic, NULL, ask, &subscriber) == RTMW_OK);
}

static void close_pair(void)
{
    rtmw_publisher_close(publisher);
    rtmw_subscriber_close(subscriber);
}

static void publish(rtmw_message_qos qos) { CHECK(rtmw_publish(publisher, "x", 1, &qos) == RTMW_OK); }

static rtmw_message must_get(void)
{
    rtmw_message m;
    CHECK(rtmw_take(subscriber, &m) == RTMW_OK);
    rtmw_release(region, m.descriptor);
    return m;
}

/* When it ends on the wall clock. */
static uint64_t must_take(void) { return must_get().expires_ns; }

static void must_be_expired(uint64_t so_far)
{
    rtmw_message m;
    rtmw_subscriber_counters counters;
    CHECK(rtmw_take(subscriber, &m) == RTMW_EMPTY);
    rtmw_subscriber_count(subscriber, &counters);
    CHECK(counters.expired == so_far, "%llu have expired", (unsigned long long)counters.expired);
}

static void about(uint64_t found, uint64_t expected)
{
    int64_t off = (int64_t)(found - expected);
    CHECK(off < SECOND && off > -SECOND, "it is %lld s off", (long long)(off / SECOND));
}

static void a_wall_clock_set_forward_ends_no_life(void)
{
    open_pair("forward", NULL, NULL);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 100 * SECOND});
    publish((rtmw_message_qos){.priority = -1, .expires_ns = wall() + 100 * SECOND});
    set_wall_clock(DAY);
    about(must_take(), wall() + 100 * SECOND);
    about(must_take(), wall() + 100 * SECOND);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 100 * SECOND});
    pass(101 * SECOND);
    must_be_expired(1);
    close_pair();
}

static void a_message_says_when_it_ends_on_the_clock_that_nobody_sets(void)
{
    struct timespec now;
    native_clock_gettime(CLOCK_MONOTONIC, &now);
    open_pair("ends", NULL, NULL);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 100 * SECOND});
    publish((rtmw_message_qos){.priority = -1});
    set_wall_clock(DAY);
    about(must_get().ends_ns, (uint64_t)(now.tv_sec * SECOND + now.tv_nsec + 100 * SECOND));
    CHECK(must_get().ends_ns == 0);
    close_pair();
}

static void a_wall_clock_set_back_prolongs_no_life(void)
{
    open_pair("back", NULL, NULL);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 100 * SECOND});
    publish((rtmw_message_qos){.priority = -1, .expires_ns = wall() + 100 * SECOND});
    set_wall_clock(-DAY);
    pass(101 * SECOND);
    must_be_expired(2);
    close_pair();
}

/* It has no message of the future, which would look as if the clocks of two hosts disagreed. */
static void a_thread_that_waits_between_two_readings_publishes_nothing_of_the_future(void)
{
    open_pair("preempted", NULL, NULL);
    pass(SECOND / 100); /* the wall clock is read anew */
    each_reading = SECOND / 5000;
    publish((rtmw_message_qos){.priority = -1});
    each_reading = 0;
    publish((rtmw_message_qos){.priority = -1});
    uint64_t now = wall();
    CHECK(must_get().source_time_ns <= now);
    CHECK(must_get().source_time_ns <= now);
    close_pair();
}

/* Beyond depth, under the cause for which it would not have been had anyway. */
static void what_is_dropped_beyond_depth_has_expired_by_the_same_clock(void)
{
    rtmw_subscriber_qos ask = RTMW_SUBSCRIBER_QOS;
    rtmw_subscriber_counters counters;
    ask.reliability = RTMW_TIMELY;
    ask.depth = 1;
    open_pair("beyond", NULL, &ask);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 100 * SECOND});
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 1000 * SECOND});
    set_wall_clock(DAY);
    must_take();
    rtmw_subscriber_count(subscriber, &counters);
    CHECK(counters.missed == 1 && counters.expired == 0);
    close_pair();
}

static void a_wall_time_is_converted_when_it_is_published(void)
{
    open_pair("until", NULL, NULL);
    set_wall_clock(DAY);
    publish((rtmw_message_qos){.priority = -1, .expires_ns = wall() - SECOND});
    publish((rtmw_message_qos){.priority = -1, .expires_ns = 1});
    must_be_expired(2);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 100 * SECOND, .expires_ns = wall() + 50 * SECOND});
    about(must_take(), wall() + 50 * SECOND);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = 50 * SECOND, .expires_ns = wall() + 100 * SECOND});
    about(must_take(), wall() + 50 * SECOND);
    close_pair();
}

static void a_lifetime_that_no_clock_reaches_is_none(void)
{
    rtmw_publisher_qos offer = RTMW_PUBLISHER_QOS;
    offer.lifetime_ns = UINT64_MAX;
    open_pair("for ever", &offer, NULL);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_OK);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = UINT64_MAX - 1});
    publish((rtmw_message_qos){.priority = -1, .expires_ns = UINT64_MAX});
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = UINT64_MAX, .expires_ns = UINT64_MAX - 5});
    pass(1000 * DAY);
    for (int i = 0; i < 4; i++) CHECK(must_take() == 0);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = LONGEST_NS});
    about(must_take(), wall() + LONGEST_NS);
    close_pair();
    offer.lifetime_ns = SECOND;
    open_pair("for ever", &offer, NULL);
    publish((rtmw_message_qos){.priority = -1, .lifetime_ns = UINT64_MAX});
    pass(1000 * DAY);
    CHECK(must_take() == 0);
    close_pair();
}

static void a_deadline_that_no_clock_reaches_is_none(void)
{
    rtmw_subscriber_qos ask = RTMW_SUBSCRIBER_QOS;
    for (uint64_t deadline = UINT64_MAX; deadline >= UINT64_MAX - 1; deadline--) {
        ask.deadline_ns = ask.lease_ns = deadline;
        open_pair("silent", NULL, &ask);
        CHECK(rtmw_wait(subscriber, 0, 0) == RTMW_TIMEOUT);
        publish((rtmw_message_qos){.priority = -1});
        CHECK(must_take() == 0);
        CHECK(rtmw_wait(subscriber, 0, 0) == RTMW_TIMEOUT);
        close_pair();
    }
}

static void the_longest_interval_lets_one_message_through(void)
{
    rtmw_subscriber_qos ask = RTMW_SUBSCRIBER_QOS;
    rtmw_subscriber_counters counters;
    rtmw_message m;
    ask.min_interval_ns = UINT64_MAX;
    open_pair("rare", NULL, &ask);
    for (int i = 0; i < 3; i++) publish((rtmw_message_qos){.priority = -1});
    must_take();
    rtmw_subscriber_adjust(subscriber, 64, UINT64_MAX - 1);
    CHECK(rtmw_take(subscriber, &m) == RTMW_EMPTY);
    rtmw_subscriber_count(subscriber, &counters);
    CHECK(counters.thinned == 2);
    close_pair();
}

int main(void)
{
    region = attach(domain_make(UINT64_C(1) << 20, 30));
    a_wall_clock_set_forward_ends_no_life();
    a_message_says_when_it_ends_on_the_clock_that_nobody_sets();
    a_wall_clock_set_back_prolongs_no_life();
    a_thread_that_waits_between_two_readings_publishes_nothing_of_the_future();
    what_is_dropped_beyond_depth_has_expired_by_the_same_clock();
    a_wall_time_is_converted_when_it_is_published();
    a_lifetime_that_no_clock_reaches_is_none();
    a_deadline_that_no_clock_reaches_is_none();
    the_longest_interval_lets_one_message_through();
    rtmw_detach(region);
    printf("no life is ended or prolonged by the wall clock\n");
    return 0;
}
