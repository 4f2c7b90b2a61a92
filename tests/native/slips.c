/* slips: what a program in C does by mistake is refused with a code, and nobody else notices. And what waits can say. */
#include <signal.h>
#include <string.h>

#include "native.h"

enum { BLOCK = 300, LARGE = 1 << 16 };
#define MS UINT64_C(1000000)

static struct rtmw_region *mine, *others; /* two participants */
static rtmw_publisher *publisher, *innocent;
static rtmw_subscriber *subscriber;

/* Publishers of both participants, and a subscriber of the other one. */
static void open_all(const char *topic, rtmw_reliability reliability, uint32_t depth)
{
    rtmw_publisher_qos offer = RTMW_PUBLISHER_QOS;
    rtmw_subscriber_qos ask = RTMW_SUBSCRIBER_QOS;
    offer.reliability = ask.reliability = reliability;
    ask.depth = depth;
    CHECK(rtmw_publisher_open(mine, topic, NULL, &offer, &publisher) == RTMW_OK);
    CHECK(rtmw_publisher_open(others, topic, NULL, &offer, &innocent) == RTMW_OK);
    CHECK(rtmw_subscriber_open(others, topic, NULL, &ask, &subscriber) == RTMW_OK);
}

static void close_all(void)
{
    rtmw_publisher_close(publisher);
    rtmw_publisher_close(innocent);
    rtmw_subscriber_close(subscriber);
}

static rtmw_loan lent(uint64_t size, int filled)
{
    rtmw_loan loan;
    CHECK(rtmw_loan_take(publisher, size, &loan) == RTMW_OK);
    memset(loan.data, filled, size);
    return loan;
}

static void must_come(uint64_t size, int filled)
{
    rtmw_message m;
    CHECK(rtmw_take(subscriber, &m) == RTMW_OK);
    CHECK(m.size == size, "%llu bytes", (unsigned long long)m.size);
    for (uint64_t i = 0; i < size; i++) CHECK(((const uint8_t *)m.data)[i] == filled);
    CHECK(rtmw_release(others, m.descriptor) == RTMW_OK);
}

static void others_go_on(void)
{
    rtmw_message m;
    CHECK(rtmw_take(subscriber, &m) == RTMW_EMPTY);
    for (int i = 0; i < 3; i++) CHECK(rtmw_publish(innocent, "\7\7\7\7", 4, NULL) == RTMW_OK);
    for (int i = 0; i < 3; i++) must_come(4, 7);
    CHECK(rtmw_take(subscriber, &m) == RTMW_EMPTY);
    books_must_balance(mine);
}

/* ---- loans ---- */

static void a_loan_is_published_once(void)
{
    open_all("twice", RTMW_ADAPTIVE, 64);
    rtmw_loan loan = lent(BLOCK, 1);
    CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_OK);
    for (int i = 0; i < 3; i++) CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_BAD_LOAN);
    must_come(BLOCK, 1);
    others_go_on();
    CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_BAD_LOAN, "when it is in another life");
    others_go_on();
    close_all();
}

static void a_loan_that_was_published_is_not_dropped(void)
{
    open_all("dropped", RTMW_ADAPTIVE, 64);
    for (int i = 0; i < 3; i++) {
        rtmw_loan loan = lent(BLOCK, i);
        CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_OK);
        CHECK(rtmw_loan_drop(publisher, &loan) == RTMW_BAD_LOAN);
    }
    for (int i = 0; i < 3; i++) must_come(BLOCK, i);
    rtmw_loan loan = lent(BLOCK, 4);
    CHECK(rtmw_loan_drop(publisher, &loan) == RTMW_OK);
    CHECK(rtmw_loan_drop(publisher, &loan) == RTMW_BAD_LOAN);
    CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_BAD_LOAN);
    others_go_on();
    close_all();
}

static void what_is_no_loan_of_this_process_is_refused(void)
{
    open_all("no loan", RTMW_ADAPTIVE, 64);
    rtmw_loan loan = lent(BLOCK, 1), wrong[] = {{0}, {.descriptor = UINT32_MAX}, {.descriptor = NIL}, loan, loan};
    wrong[3].life++;
    wrong[4].descriptor++;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(rtmw_loan_publish(publisher, &wrong[i], NULL) == RTMW_BAD_LOAN);
        CHECK(rtmw_loan_drop(publisher, &wrong[i]) == RTMW_BAD_LOAN);
    }
    CHECK(rtmw_loan_publish(innocent, &loan, NULL) == RTMW_BAD_LOAN, "of another participant");
    CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_OK);
    must_come(BLOCK, 1);
    others_go_on();
    close_all();
}

static void a_loan_may_be_shrunk_and_not_grown(void)
{
    static const uint64_t sizes[] = {10000, 9999, 129, 128, 100, 0};
    open_all("shrunk", RTMW_ADAPTIVE, 64);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rtmw_loan loan = lent(10000, (int)i);
        loan.size = 10001;
        CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_BAD_LOAN);
        loan.size = UINT64_MAX;
        CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_BAD_LOAN);
        loan.size = sizes[i];
        CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_OK);
        must_come(sizes[i], (int)i);
    }
    others_go_on();
    close_all();
}

/* The loan goes on in its full size. */
static void a_refused_loan_stays_lent(void)
{
    open_all("refused", RTMW_RELIABLE, 1);
    CHECK(rtmw_publish(innocent, "\7\7\7\7", 4, NULL) == RTMW_OK);
    rtmw_loan loan = lent(BLOCK, 1);
    loan.size = BLOCK / 2;
    CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_FULL);
    must_come(4, 7);
    loan.size = BLOCK;
    CHECK(rtmw_loan_publish(publisher, &loan, NULL) == RTMW_OK);
    must_come(BLOCK, 1);
    close_all();
}

static void a_priority_that_does_not_exist_is_refused(void)
{
    rtmw_message_qos qos = RTMW_MESSAGE_QOS;
    open_all("priority", RTMW_ADAPTIVE, 64);
    qos.priority = BANDS;
    rtmw_loan loan = lent(BLOCK, 1);
    CHECK(rtmw_publish(publisher, "x", 1, &qos) == RTMW_BAD_QOS);
    CHECK(rtmw_loan_publish(publisher, &loan, &qos) == RTMW_BAD_QOS);
    CHECK(rtmw_loan_drop(publisher, &loan) == RTMW_OK);
    others_go_on();
    close_all();
}

/* ---- messages ---- */

static void a_message_is_released_once(void)
{
    rtmw_message m;
    open_all("released", RTMW_ADAPTIVE, 64);
    CHECK(rtmw_publish(innocent, "x", 1, NULL) == RTMW_OK);
    CHECK(rtmw_take(subscriber, &m) == RTMW_OK);
    CHECK(rtmw_release(mine, m.descriptor) == RTMW_BAD_RELEASE, "another participant has it");
    CHECK(rtmw_release(others, m.descriptor) == RTMW_OK);
    for (int i = 0; i < 3; i++) CHECK(rtmw_release(others, m.descriptor) == RTMW_BAD_RELEASE);
    CHECK(others->refs[m.descriptor] == 1, "the cursor's hold is its own");
    CHECK(rtmw_release(others, UINT32_MAX) == RTMW_BAD_RELEASE);
    CHECK(rtmw_release(others, others->header->descriptors) == RTMW_BAD_RELEASE);
    others_go_on();
    CHECK(rtmw_release(others, m.descriptor) == RTMW_BAD_RELEASE);
    close_all();
}

/* ---- waits ---- */

static void *take_later(void *delay)
{
    struct timespec pause = {.tv_nsec = *(long *)delay};
    nanosleep(&pause, NULL);
    must_come(1, 'x');
    return NULL;
}

static void a_publisher_that_waits_in_vain_is_told(void)
{
    long delay = 20 * (long)MS;
    pthread_t taker;
    open_all("vain", RTMW_RELIABLE, 1);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_OK);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_FULL);
    CHECK(rtmw_publisher_wait(publisher, 30 * MS) == RTMW_TIMEOUT);
    CHECK(rtmw_publisher_wait(publisher, 0) == RTMW_TIMEOUT);
    pthread_create(&taker, NULL, take_later, &delay);
    CHECK(rtmw_publisher_wait(publisher, UINT64_MAX) == RTMW_OK);
    CHECK(rtmw_publish(publisher, "y", 1, NULL) == RTMW_OK);
    pthread_join(taker, NULL);
    must_come(1, 'y');
    CHECK(rtmw_publisher_wait(publisher, 0) == RTMW_OK, "there is room by now");
    close_all();
}

/* Nobody tells when memory is let go. */
static void a_publisher_that_waits_for_memory_in_vain_is_told(void)
{
    rtmw_loan loan, all[64];
    int count = 0;
    open_all("memory", RTMW_RELIABLE, 64);
    while (count < 64 && rtmw_loan_take(publisher, LARGE, &all[count]) == RTMW_OK) count++;
    CHECK(count > 0 && count < 64);
    CHECK(rtmw_publisher_wait(publisher, 30 * MS) == RTMW_TIMEOUT);
    CHECK(rtmw_loan_drop(publisher, &all[--count]) == RTMW_OK);
    CHECK(rtmw_publisher_wait(publisher, UINT64_MAX) == RTMW_OK);
    CHECK(rtmw_loan_take(publisher, LARGE, &loan) == RTMW_OK, "it was worth trying again");
    CHECK(rtmw_loan_drop(publisher, &loan) == RTMW_OK);
    while (count > 0) CHECK(rtmw_loan_drop(publisher, &all[--count]) == RTMW_OK);
    books_must_balance(mine);
    close_all();
}

static void *wait_for_ever(void *result)
{
    *(int *)result = rtmw_wait(subscriber, UINT64_MAX, 0);
    return NULL;
}

static void *wait_for_any(void *result)
{
    bool ready;
    *(int *)result = rtmw_wait_any(&subscriber, &ready, 1, UINT64_MAX);
    return NULL;
}

static void *wait_for_room(void *result)
{
    *(int *)result = rtmw_publisher_wait(publisher, UINT64_MAX);
    return NULL;
}

static int wake_subscriber(void) { return rtmw_subscriber_wake(subscriber); }
static int wake_publisher(void) { return rtmw_publisher_wake(publisher); }
static int shut_subscriber(void) { return rtmw_subscriber_shut(subscriber); }

/* Whether the thread sleeps by then, or has not begun. */
static int ended(void *(*wait)(void *), int (*end)(void))
{
    int result = -1;
    pthread_t waiter;
    pthread_create(&waiter, NULL, wait, &result);
    CHECK(end() == RTMW_OK);
    pthread_join(waiter, NULL);
    return result;
}

static void a_wait_is_ended_by_another_thread(void)
{
    rtmw_message m;
    open_all("woken", RTMW_RELIABLE, 1);
    CHECK(ended(wait_for_ever, wake_subscriber) == RTMW_INTERRUPTED);
    CHECK(rtmw_wait(subscriber, 0, 0) == RTMW_TIMEOUT, "one wait was ended, and no more");
    CHECK(ended(wait_for_any, wake_subscriber) == RTMW_INTERRUPTED);
    CHECK(wake_subscriber() == RTMW_OK && wake_subscriber() == RTMW_OK);
    CHECK(rtmw_wait(subscriber, UINT64_MAX, UINT64_MAX) == RTMW_INTERRUPTED, "the next one, if there was none");
    CHECK(rtmw_wait(subscriber, 0, 0) == RTMW_TIMEOUT);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_OK);
    CHECK(ended(wait_for_room, wake_publisher) == RTMW_INTERRUPTED);
    CHECK(rtmw_publisher_wait(publisher, MS) == RTMW_TIMEOUT);
    CHECK(wake_subscriber() == RTMW_OK);
    must_come(1, 'x'); /* takes do not care */
    CHECK(rtmw_wait(subscriber, UINT64_MAX, 0) == RTMW_INTERRUPTED);
    CHECK(ended(wait_for_ever, shut_subscriber) == RTMW_CLOSED);
    CHECK(rtmw_wait(subscriber, UINT64_MAX, UINT64_MAX) == RTMW_CLOSED && rtmw_take(subscriber, &m) == RTMW_CLOSED);
    close_all();
}

static void woken_by_signal(int number)
{
    (void)number;
    CHECK(rtmw_subscriber_wake(subscriber) == RTMW_OK);
}

/* The signal may come before the wait begins. */
static void a_signal_handler_ends_the_wait_of_its_own_thread(void)
{
    open_all("signal", RTMW_ADAPTIVE, 64);
    signal(SIGUSR1, woken_by_signal);
    raise(SIGUSR1);
    CHECK(rtmw_wait(subscriber, UINT64_MAX, UINT64_MAX) == RTMW_INTERRUPTED);
    close_all();
}

/* Longer than it takes the core to look up from its sleep. */
static void a_wait_without_a_signal_lasts_until_its_time_is_up(void)
{
    bool ready;
    open_all("long", RTMW_ADAPTIVE, 64);
    CHECK(rtmw_wait(subscriber, 700 * MS, 0) == RTMW_TIMEOUT);
    CHECK(rtmw_wait_any(&subscriber, &ready, 1, 700 * MS) == RTMW_TIMEOUT);
    close_all();
}

/* ---- domains and types ---- */

static void a_domain_is_made_once_and_of_a_possible_size(uint32_t domain)
{
    CHECK(rtmw_create(domain, 1 << 20, RTMW_RESERVE) == RTMW_EXISTS);
    CHECK(rtmw_create(domain, SMALLEST_POOL - 1, RTMW_RESERVE) == RTMW_BAD_SIZE);
    CHECK(rtmw_create(domain, 1 << 20, RESERVE_MOST + 1) == RTMW_BAD_SIZE);
    CHECK(rtmw_create(domain, UINT64_MAX, RTMW_RESERVE) == RTMW_BAD_SIZE);
}

static void times_of_a_subscriber_that_contradict_each_other_are_refused_with_a_code_of_their_own(void)
{
    rtmw_subscriber_qos never_in_time = {RTMW_ADAPTIVE, 64, 0, 2 * MS, 1 * MS, 0};
    rtmw_subscriber_qos not_waited_for = {RTMW_ADAPTIVE | RTMW_EXACT, 64, 0, 0, 0, 1 * MS};
    CHECK(rtmw_subscriber_open(mine, "times", NULL, &never_in_time, &subscriber) == RTMW_BAD_TIMES);
    CHECK(rtmw_subscriber_open(mine, "times", NULL, &not_waited_for, &subscriber) == RTMW_BAD_TIMES);
    rtmw_subscriber_qos possible[] = {
        {RTMW_ADAPTIVE, 64, 0, 2 * MS, 2 * MS, UINT64_MAX}, {RTMW_RELIABLE | RTMW_EXACT, 64, 0, 0, 0, 1 * MS}};
    for (int i = 0; i < 2; i++) {
        CHECK(rtmw_subscriber_open(mine, "times", NULL, &possible[i], &subscriber) == RTMW_OK);
        rtmw_subscriber_close(subscriber);
    }
}

static void who_takes_any_type_finds_out_which_it_is(void)
{
    static const rtmw_type speed = {"plant.Speed", 77, "what it is", 10};
    static rtmw_type_copy copy;
    rtmw_message m;
    CHECK(rtmw_publisher_open(mine, "typed", &speed, NULL, &publisher) == RTMW_OK);
    CHECK(rtmw_publisher_open(mine, "typed", NULL, NULL, &innocent) == RTMW_OK);
    CHECK(rtmw_subscriber_open(others, "typed", RTMW_ANY, NULL, &subscriber) == RTMW_OK);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_OK && rtmw_publish(innocent, "x", 1, NULL) == RTMW_OK);
    CHECK(rtmw_take(subscriber, &m) == RTMW_OK && rtmw_type_find(others, m.type, &copy) == RTMW_OK);
    CHECK(strcmp(copy.name, "plant.Speed") == 0 && copy.identity == 77);
    CHECK(copy.description_bytes == 10 && memcmp(copy.description, "what it is", 10) == 0);
    CHECK(rtmw_take(subscriber, &m) == RTMW_OK && m.type == RTMW_RAW);
    CHECK(rtmw_type_find(others, m.type, &copy) == RTMW_NO_TYPE);
    CHECK(rtmw_type_find(others, 1, &copy) == RTMW_NO_TYPE, "nobody has named it yet");
    CHECK(rtmw_type_find(others, TYPE_ANY, &copy) == RTMW_NO_TYPE);
    close_all();
}

/* ---- cancelled threads ---- */

/* It looks at whether the subscriber that it waits for lives, which the kernel tells. */
static void *cancelled(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    rtmw_publisher_wait(publisher, 0);
    pthread_testcancel();
    return NULL;
}

static void a_cancelled_thread_leaves_nothing_locked(void)
{
    pthread_t thread;
    void *end;
    open_all("cancelled", RTMW_RELIABLE, 1);
    CHECK(rtmw_publish(publisher, "x", 1, NULL) == RTMW_OK);
    pthread_create(&thread, NULL, cancelled, NULL);
    pthread_join(thread, &end);
    CHECK(end == PTHREAD_CANCELED);
    CHECK(mine->lock.taken == 0);
    must_come(1, 'x');
    close_all();
}

int main(void)
{
    mine = NULL;
    uint32_t domain = domain_make(UINT64_C(1) << 20, 60);
    mine = attach(domain);
    others = attach(domain);
    a_loan_is_published_once();
    a_loan_that_was_published_is_not_dropped();
    what_is_no_loan_of_this_process_is_refused();
    a_loan_may_be_shrunk_and_not_grown();
    a_refused_loan_stays_lent();
    a_priority_that_does_not_exist_is_refused();
    a_message_is_released_once();
    a_publisher_that_waits_in_vain_is_told();
    a_publisher_that_waits_for_memory_in_vain_is_told();
    a_wait_is_ended_by_another_thread();
    a_signal_handler_ends_the_wait_of_its_own_thread();
    a_wait_without_a_signal_lasts_until_its_time_is_up();
    a_domain_is_made_once_and_of_a_possible_size(domain);
    times_of_a_subscriber_that_contradict_each_other_are_refused_with_a_code_of_their_own();
    who_takes_any_type_finds_out_which_it_is();
    a_cancelled_thread_leaves_nothing_locked();
    books_must_balance(mine);
    for (int code = 0; code <= RTMW_BAD_TIMES; code++) CHECK(rtmw_describe(code) != rtmw_describe(-1), "%d", code);
    rtmw_detach(mine);
    rtmw_detach(others);
    printf("every slip was refused, and the books balance\n");
    return 0;
}
