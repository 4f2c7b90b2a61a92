/* Races of waiting: no wake-up is lost. Futexes are simulated: a time limit passes only when all others have ended. */
#include "races.h"
#include "wait.h"

static void publish_1(void) { note(publish_word(me(), 100, PUBLISHED_BYTES)); }

static void wait_and_take(void)
{
    rtmw_message m;
    if (rtmw_wait(&world.subscriber[me()], 1000000000, 0) != RTMW_OK || !take_word(me(), &m)) return;
    note(m.sequence);
    rtmw_release(&world.region[me()], m.descriptor);
}

static void wait_and_take_twice(void)
{
    for (int i = 0; i < 2; i++) wait_and_take();
}

static void publish_2(void)
{
    for (uint64_t i = 0; i < 2; i++) publish_word(me(), 100 + i, PUBLISHED_BYTES);
}

static void wait_for_any(void)
{
    rtmw_subscriber *s = &world.subscriber[me()];
    bool ready;
    rtmw_message m;
    if (rtmw_wait_any(&s, &ready, 1, 1000000000) != RTMW_OK || !take_word(me(), &m)) return;
    note(m.sequence);
    rtmw_release(&world.region[me()], m.descriptor);
}

/* As among more subscribers than the kernel takes words. */
static void wait_in_a_crowd(void)
{
    rtmw_subscriber *s = &world.subscriber[me()];
    bool ready;
    rtmw_message m;
    int code;
    do code = wait_crowd(&s, &ready, 1, world.clock_ns + 1000000000);
    while (code == RTMW_EMPTY);
    if (code != RTMW_OK || !take_word(me(), &m)) return;
    note(m.sequence);
    rtmw_release(&world.region[me()], m.descriptor);
}

static void wait_in_a_crowd_twice(void)
{
    for (int i = 0; i < 2; i++) wait_in_a_crowd();
}

/* It takes without having waited, so that a publisher may still be on its way to wake it when it sleeps. */
static void take_and_wait_in_a_crowd(void)
{
    rtmw_message m;
    if (take_word(me(), &m)) {
        note(m.sequence);
        rtmw_release(&world.region[me()], m.descriptor);
    }
    while (world.noted[me()] < 2) wait_in_a_crowd();
}

static void publish_when_there_is_room(void)
{
    rtmw_publisher *p = &world.publisher[me()];
    uint64_t word[8] = {100};
    for (int tries = 0; tries < 8; tries++) {
        if (rtmw_publish(p, word, sizeof word, NULL) == RTMW_OK) return note(1);
        rtmw_publisher_wait(p, 1000000000);
    }
}

static void take_all(void)
{
    rtmw_message m;
    while (take_word(me(), &m)) {
        note(m.sequence);
        rtmw_release(&world.region[me()], m.descriptor);
    }
}

/* What a reader in an event loop does. It sleeps for a datagram only when there is nothing after it has armed. */
static void arm_and_take(void)
{
    rtmw_message m;
    if (!take_word(me(), &m) && (!subscriber_arm(&world.subscriber[me()]) || !take_word(me(), &m))) return;
    note(m.sequence);
    rtmw_release(&world.region[me()], m.descriptor);
}

static void shut(void) { rtmw_subscriber_shut(&world.subscriber[1]); }

static void wake(void) { rtmw_subscriber_wake(&world.subscriber[1]); }

static void wait_to_be_woken(void)
{
    if (rtmw_wait(&world.subscriber[me()], 1000000000, 0) == RTMW_INTERRUPTED) note(1);
}

static void wait_for_any_to_be_woken(void)
{
    rtmw_subscriber *s = &world.subscriber[me()];
    bool ready;
    if (rtmw_wait_any(&s, &ready, 1, 1000000000) == RTMW_INTERRUPTED) note(1);
}

static void wait_for_room_to_be_woken(void)
{
    if (rtmw_publisher_wait(&world.publisher[me()], 1000000000) != RTMW_INTERRUPTED) broken("not woken");
}

static void wake_publisher(void)
{
    rtmw_publisher_wake(&world.publisher[0]);
    note(1);
}

static void one_each(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 64);
    open_subscriber(1, RTMW_ADAPTIVE, 64);
}

static void one_each_after_a_message(void)
{
    one_each();
    rtmw_message m;
    publish_word(0, 100, PUBLISHED_BYTES);
    if (take_word(1, &m)) rtmw_release(&world.region[1], m.descriptor);
}

/* Its cursor names no message, only how far it has read. */
static void one_that_rests(void)
{
    rtmw_message m;
    one_each();
    publish_word(0, 100, 512);
    if (take_word(1, &m)) rtmw_release(&world.region[1], m.descriptor);
    if (take_word(1, &m) || world.subscriber[1].index[0] != NIL) broken("the subscriber does not rest");
}

/* And the message it read is not there any more. */
static void one_that_rests_on_nothing(void)
{
    one_that_rests();
    make_room_for_page(0);
    if (descriptor_is_message(&world.shared.descriptors[link_index(band_of(0)->tail)])) broken("the last message is not emptied");
}

static void two_sleepers(void)
{
    one_each();
    open_subscriber(2, RTMW_ADAPTIVE, 64);
}

static void two_wakers(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 64);
    open_subscriber(1, RTMW_ADAPTIVE, 64);
    open_publisher(2, RTMW_ADAPTIVE, 64);
}

static void full_queue(void)
{
    open_publisher(0, RTMW_RELIABLE, 64);
    open_subscriber(1, RTMW_RELIABLE, 1);
    publish_word(0, 100, PUBLISHED_BYTES);
}

/* ---- a sandbox refuses FUTEX_WAKE_OP ---- */

static void one_each_in_steps(void)
{
    one_each();
    world.no_wake_op = true;
}

static void full_queue_in_steps(void)
{
    full_queue();
    world.no_wake_op = true;
}

static void two_sleepers_in_steps(void)
{
    two_sleepers();
    world.no_wake_op = true;
}

static void two_wakers_in_steps(void)
{
    two_wakers();
    world.no_wake_op = true;
}

/* ---- the kernel does not take a datagram ---- */

static void one_each_a_datagram_refused(void)
{
    one_each();
    world.unsent = 1;
}

static void one_each_armed(void)
{
    one_each();
    subscriber_arm(&world.subscriber[1]);
}

static const char *both_taken(void)
{
    if (slept_out_ns) return "lost";
    return world.noted[1] < 2 ? "nothing taken" : all_comes_back() ? "woken" : "";
}

/* ---- how long a sleep lasts that nobody ends ---- */

enum { DEADLINE_NS = 100000000 };

static void one_with_a_deadline(void)
{
    one_each();
    struct rtmw_subscriber *s = &world.subscriber[1];
    s->qos.deadline_ns = DEADLINE_NS;
    s->deadline_at_ns = world.clock_ns + DEADLINE_NS;
}

static void publish_and_wake_nobody(void)
{
    uint64_t words[PUBLISHED_BYTES / 8] = {100};
    struct part part = {words, sizeof words};
    uint32_t published;
    publish_quietly(&world.publisher[me()], &part, 1, NULL, &published);
}

static const char *slept_for_a_quarter_at_most(void)
{
    if (slept_out_ns > DEADLINE_NS / 4) return "longer";
    return all_comes_back() ? "a quarter" : "";
}

static const struct outcome a_quarter_only[] = {
    {"a quarter", ACCEPTABLE, "it looks by itself after a quarter of its deadline"},
    {"longer", FORBIDDEN, "what a stopped publisher did not tell is seen too late for control"},
    {0},
};

static const char *nobody_sleeps_on(void)
{
    if (slept_out_ns) return "lost";
    for (uint32_t who = 0; who < ACTORS; who++)
        if (world.subscriber[who].block && !world.noted[who] && !(world.subscriber[who].ends & SHUT)) return "nothing taken";
    return all_comes_back() ? "woken" : "";
}

/* Who took nothing sleeps: then a datagram says that there is something, and there is. */
static const char *taken_or_told(void)
{
    bool told = false;
    for (uint32_t who = 0; who < ACTORS; who++) {
        rtmw_message m;
        if (!world.subscriber[who].block || world.noted[who]) continue;
        if (!world.datagrams[world.region[who].me]) return "lost";
        if (!take_word(who, &m)) return "told for nothing";
        rtmw_release(&world.region[who], m.descriptor);
        told = true;
    }
    return all_comes_back() ? told ? "told" : "taken" : "";
}

static const char *published_at_last(void)
{
    if (slept_out_ns > 500000) return "lost";
    if (!world.noted[0]) return "never published";
    if (slept_out_ns) return all_comes_back() ? "half a millisecond" : "";
    return all_comes_back() ? "woken" : "";
}

static const struct outcome woken_only[] = {
    {"woken", ACCEPTABLE, "it saw the change, or was woken after it"},
    {"lost", FORBIDDEN, "it sleeps though there is something for it"},
    {"nothing taken", FORBIDDEN, "it was woken for nothing and gave up"},
    {0},
};

static const struct outcome taken_or_told_only[] = {
    {"taken", ACCEPTABLE, "it saw the message"},
    {"told", ACCEPTABLE, "it was armed before the message, and gets a datagram"},
    {"lost", FORBIDDEN, "it sleeps though there is something for it"},
    {"told for nothing", FORBIDDEN, "there is nothing to take after the datagram"},
    {0},
};

static const struct outcome woken_in_time[] = {
    {"woken", ACCEPTABLE, "it saw the room, or was woken after it came"},
    {"half a millisecond", ACCEPTABLE, "there is room, but it may be memory that is waited for: a short sleep"},
    {"lost", FORBIDDEN, "it sleeps longer though there is room"},
    {0},
};

enum { LONG_NS = 1000000000, SHORT_NS = 40000, MANY = 300 };

/* What its spin is worth after many long waits, and the most that many short ones make of it. */
static void sleep_often(void)
{
    rtmw_subscriber *s = &world.subscriber[me()];
    uint32_t most = 0;
    for (int i = 0; i < MANY; i++) subscriber_slept(s, LONG_NS);
    note(s->spin_ns);
    for (int i = 0; i < MANY; i++) {
        subscriber_slept(s, SHORT_NS);
        if (s->spin_ns > most) most = s->spin_ns;
    }
    note(most);
}

static void a_sleeper(void) { open_subscriber(0, RTMW_ADAPTIVE, 64); }

static void a_sleeper_with_one_processor(void)
{
    a_sleeper();
    world.subscriber[0].alone = 1;
}

static const char *spin_was_learned(void)
{
    uint64_t after_long = world.note[0][0], after_short = world.note[0][1];
    if (after_short < SHORT_NS) return "never again";
    return after_long == 0 ? "nothing, then all" : after_long < SHORT_NS / 10 ? "little, then all" : "much";
}

static const struct outcome little_then_all[] = {
    {"little, then all", ACCEPTABLE, "a short spin costs little; a long one is tried when waits are short"},
    {"never again", FORBIDDEN, "two that sleep would never spin again, though each waits for the other only"},
    {0},
};

static const struct outcome nothing_then_all[] = {
    {"nothing, then all", ACCEPTABLE, "the peer may need the processor; now and then it is found out"},
    {"never again", FORBIDDEN, "processes that are pinned to a processor each would never spin again"},
    {0},
};

const struct race wait_races[] = {
    {"wait ‖ publish the first", {4, 1}, 2, 4, one_each, {publish_1, wait_and_take}, nobody_sleeps_on, woken_only},
    {"wait ‖ publish", {4, 1}, 2, 4, one_each_after_a_message, {publish_1, wait_and_take}, nobody_sleeps_on, woken_only},
    {"wait, resting ‖ publish", {4, 1}, 2, 4, one_that_rests, {publish_1, wait_and_take}, nobody_sleeps_on, woken_only},
    {"wait, resting on nothing ‖ publish", {4, 1}, 2, 4, one_that_rests_on_nothing, {publish_1, wait_and_take}, nobody_sleeps_on,
     woken_only},
    {"wait for any, resting ‖ publish", {4, 1}, 2, 3, one_that_rests, {publish_1, wait_for_any}, nobody_sleeps_on, woken_only},
    {"wait for any ‖ publish", {4, 1}, 2, 3, one_each, {publish_1, wait_for_any}, nobody_sleeps_on, woken_only},
    {"wait in a crowd ‖ publish", {4, 1}, 2, 4, one_each, {publish_1, wait_in_a_crowd}, nobody_sleeps_on, woken_only},
    {"wait in a crowd, twice ‖ publish, publish", {5, 1}, 2, 3, one_each, {publish_2, wait_in_a_crowd_twice}, both_taken,
     woken_only},
    {"take, wait in a crowd ‖ publish, publish", {5, 1}, 2, 3, one_each_armed, {publish_2, take_and_wait_in_a_crowd},
     both_taken, woken_only},
    {"in steps: wait in a crowd, twice ‖ publish, publish", {5, 1}, 2, 3, one_each_in_steps,
     {publish_2, wait_in_a_crowd_twice}, both_taken, woken_only},
    {"wait in a crowd ‖ publish: a datagram is refused", {4, 1}, 2, 4, one_each_a_datagram_refused,
     {publish_1, wait_in_a_crowd}, nobody_sleeps_on, woken_only},
    {"wait ‖ wait ‖ publish", {4, 1}, 3, 2, two_sleepers, {publish_1, wait_and_take, wait_and_take}, nobody_sleeps_on, woken_only},
    {"wait ‖ publish ‖ publish", {5, 1}, 3, 2, two_wakers, {publish_1, wait_and_take, publish_1}, nobody_sleeps_on, woken_only},
    {"arm ‖ publish", {4, 1}, 2, 4, one_each, {publish_1, arm_and_take}, taken_or_told, taken_or_told_only},
    {"arm, resting ‖ publish", {4, 1}, 2, 4, one_that_rests, {publish_1, arm_and_take}, taken_or_told, taken_or_told_only},
    {"arm ‖ arm ‖ publish", {4, 1}, 3, 2, two_sleepers, {publish_1, arm_and_take, arm_and_take}, taken_or_told, taken_or_told_only},
    {"arm ‖ publish ‖ publish", {5, 1}, 3, 2, two_wakers, {publish_1, arm_and_take, publish_1}, taken_or_told,
     taken_or_told_only},
    {"wait ‖ shut", {4, 1}, 2, 3, one_each, {shut, wait_and_take}, nobody_sleeps_on, woken_only},
    {"wait ‖ wake", {4, 1}, 2, 3, one_each, {wake, wait_to_be_woken}, nobody_sleeps_on, woken_only},
    {"wait for any ‖ wake", {4, 1}, 2, 3, one_each, {wake, wait_for_any_to_be_woken}, nobody_sleeps_on, woken_only},
    {"wait for room ‖ wake", {5, 1}, 2, 3, full_queue, {wait_for_room_to_be_woken, wake_publisher}, nobody_sleeps_on, woken_only},
    {"wait for room ‖ take", {5, 1}, 2, 3, full_queue, {publish_when_there_is_room, take_all}, published_at_last, woken_in_time},
    {"in steps: wait ‖ publish", {4, 1}, 2, 4, one_each_in_steps, {publish_1, wait_and_take}, nobody_sleeps_on, woken_only},
    {"in steps: wait, wait ‖ publish, publish", {5, 1}, 2, 3, one_each_in_steps, {publish_2, wait_and_take_twice}, both_taken,
     woken_only},
    {"in steps: wait ‖ wait ‖ publish", {4, 1}, 3, 2, two_sleepers_in_steps, {publish_1, wait_and_take, wait_and_take},
     nobody_sleeps_on, woken_only},
    {"in steps: wait ‖ publish ‖ publish", {5, 1}, 3, 2, two_wakers_in_steps, {publish_1, wait_and_take, publish_1},
     nobody_sleeps_on, woken_only},
    {"in steps: wait for room ‖ take", {5, 1}, 2, 3, full_queue_in_steps, {publish_when_there_is_room, take_all},
     published_at_last, woken_in_time},
    {"arm ‖ publish, publish: a datagram is refused", {5, 1}, 2, 4, one_each_a_datagram_refused, {publish_2, arm_and_take},
     taken_or_told, taken_or_told_only},
    {"wait ‖ publish, and wake nobody", {4, 1}, 2, 2, one_with_a_deadline, {publish_and_wake_nobody, wait_and_take},
     slept_for_a_quarter_at_most, a_quarter_only},
    {"wait for any ‖ publish, and wake nobody", {4, 1}, 2, 2, one_with_a_deadline, {publish_and_wake_nobody, wait_for_any},
     slept_for_a_quarter_at_most, a_quarter_only},
    {"sleep, sleep, …", {4, 1}, 1, 0, a_sleeper, {sleep_often}, spin_was_learned, little_then_all},
    {"sleep, sleep, … with one processor", {4, 1}, 1, 0, a_sleeper_with_one_processor, {sleep_often}, spin_was_learned,
     nothing_then_all},
    {0},
};
