/* Death at every step: an operation stops for good before its k-th atomic operation, for every k. Then
 *   - others publish and take as if nothing had happened, and nobody waits for the dead;
 *   - a sweep brings back all that it held. The sweeper may itself die at any step: another one ends its work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "races.h"
#include "wait.h"

enum { DEAD = 0, HELPER = 1, READER = 2 };

struct fate {
    const char *name;
    void (*act)(void);
};

static rtmw_message taken;
static rtmw_loan loan;

static void publish_small(void) { publish_word(DEAD, 7, PUBLISHED_BYTES); }
static void publish_block(void) { publish_word(DEAD, 7, 1024); }
static void publish_page(void) { publish_word(DEAD, 7, 2 * PAGE); }

static void publish_many(void)
{
    static const uint64_t words[1024 / 8];
    const struct part parts[] = {{words, PUBLISHED_BYTES}, {words, PUBLISHED_BYTES}, {words, 1024}};
    uint32_t published;
    publish_quietly(&world.publisher[DEAD], parts, 3, NULL, &published);
}

static void publish_evicting(void)
{
    for (int i = 0; i < 6; i++) publish_word(DEAD, 7, i % 2 ? PUBLISHED_BYTES : 512);
}

static void loan_and_drop(void)
{
    if (rtmw_loan_take(&world.publisher[DEAD], 700, &loan) == RTMW_OK) rtmw_loan_drop(&world.publisher[DEAD], &loan);
}

static void take(void)
{
    if (take_word(DEAD, &taken) && take_word(DEAD, &taken)) taken.size = 0;
}

static void take_and_release(void)
{
    while (take_word(DEAD, &taken)) rtmw_release(&world.region[DEAD], taken.descriptor);
}

static void subscribe(void) { open_subscriber(DEAD, RTMW_RELIABLE, 1); }

static void unsubscribe(void)
{
    rtmw_subscriber *s = malloc(sizeof *s);
    *s = world.subscriber[DEAD];
    rtmw_subscriber_close(s);
}

static void close_publisher(void)
{
    rtmw_publisher *p = malloc(sizeof *p);
    *p = world.publisher[DEAD];
    rtmw_publisher_close(p);
}

static void open_another_topic(void)
{
    rtmw_publisher *p = NULL;
    if (rtmw_publisher_open(&world.region[DEAD], "another", NULL, NULL, &p) == RTMW_OK) free(p);
}

static void leave(void) { participant_leave(&world.region[DEAD]); }

static void leave_and_attach(void)
{
    participant_leave(&world.region[DEAD]);
    if (participant_claim(&world.region[DEAD]) != RTMW_OK) broken("no slot");
}

static void reclaim(void) { reclaim_passed(&world.region[DEAD]); }

static void make_room_once(void) { make_room_for_page(DEAD); }

static void empty_within_queue(void) { make_room_within(DEAD, 0, UINT64_MAX); }

static void inherit(void) { publish_inheriting(DEAD, 7, 2 * PAGE); }

static void find_nothing(void)
{
    if (take_word(DEAD, &taken)) broken("there is nothing to take");
}

static void rest_and_step(void)
{
    find_nothing();
    publish_word(DEAD, 7, PUBLISHED_BYTES);
    if (!take_word(DEAD, &taken)) broken("a cursor that rests finds nothing");
}

/* The one who dies has a loan, a block, a cursor and a message that it took; others have published before and after. */
static void crowd(void)
{
    open_publisher(DEAD, RTMW_TIMELY, 1);
    open_publisher(HELPER, RTMW_TIMELY, 1);
    open_subscriber(DEAD, RTMW_TIMELY, 8);
    open_subscriber(READER, RTMW_TIMELY, 8);
    for (int i = 0; i < 3; i++) publish_word(HELPER, 100, 300);
    if (take_word(DEAD, &taken)) taken.size = 0;
}

static void empty_band(void)
{
    open_publisher(DEAD, RTMW_TIMELY, 1);
    open_publisher(HELPER, RTMW_TIMELY, 1);
    open_subscriber(READER, RTMW_TIMELY, 8);
}

/* Two descriptors are free. The third message of another takes what lies before the dead one's, which stays oldest. */
static void little_memory(void)
{
    open_publisher(DEAD, RTMW_TIMELY, 1);
    open_publisher(HELPER, RTMW_TIMELY, 1);
    open_subscriber(READER, RTMW_TIMELY, 3);
    publish_word(HELPER, 100, PUBLISHED_BYTES);
}

/* Both have read a large message, and one of them rests. */
static void one_read_by_all(void)
{
    const uint32_t readers[] = {READER, DEAD};
    open_publisher(DEAD, RTMW_TIMELY, 1);
    open_publisher(HELPER, RTMW_TIMELY, 1);
    for (int i = 0; i < 2; i++) open_subscriber(readers[i], RTMW_TIMELY, 8);
    publish_word(HELPER, 100, 1024);
    for (int i = 0; i < 2; i++)
        if (take_word(readers[i], &taken)) rtmw_release(&world.region[readers[i]], taken.descriptor);
    if (take_word(READER, &taken)) broken("taken twice");
}

/* And the other rests too: nobody holds it. */
static void one_rested_on(void)
{
    one_read_by_all();
    find_nothing();
}

/* Two pages, which the next message takes over. */
static void pages_rested_on(void)
{
    open_publisher(DEAD, RTMW_TIMELY, 1);
    open_publisher(HELPER, RTMW_TIMELY, 1);
    open_subscriber(READER, RTMW_TIMELY, 8);
    publish_word(HELPER, 100, 2 * PAGE);
    if (take_word(READER, &taken)) rtmw_release(&world.region[READER], taken.descriptor);
    if (take_word(READER, &taken)) broken("taken twice");
}

/* A RELIABLE subscriber of HELPER's hangs at the first message; READER is at the same, and reads on. */
static void flood_behind_one_needed(void)
{
    open_publisher(DEAD, RTMW_TIMELY, 1);
    open_publisher(HELPER, RTMW_RELIABLE, 1);
    open_subscriber(HELPER, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_TIMELY, 8);
    publish_word(HELPER, 100, 300);
    publish_word(DEAD, 101, 300);
    publish_word(DEAD, 102, 2 * PAGE);
    publish_word(HELPER, 103, 300);
    if (take_word(READER, &taken)) rtmw_release(&world.region[READER], taken.descriptor);
}

/* And what it needs comes to it, whole. */
static void the_hung_one_goes_on(void)
{
    rtmw_message m;
    for (uint64_t i = 0, needed[] = {100, 103, 200}; i < 3; i++) {
        if (!take_word(HELPER, &m) || word_of(&m) != needed[i] || !is_whole(&m)) return broken("a RELIABLE subscriber lost what it needs");
        rtmw_release(&world.region[HELPER], m.descriptor);
    }
}

static void others_go_on(void)
{
    rtmw_message m;
    uint32_t got = 0;
    for (uint64_t i = 0; i < 3; i++)
        if (!publish_word(HELPER, 200 + i, PUBLISHED_BYTES)) broken("the dead stopped a publisher");
    for (int i = 0; i < 12 && take_word(READER, &m); i++) {
        if (!is_whole(&m)) broken("the dead spoilt a message");
        got += word_of(&m) >= 200;
        rtmw_release(&world.region[READER], m.descriptor);
    }
    if (!got) broken("the dead stopped a subscriber");
}

static void publish_and_take_traced(void)
{
    publish_word(DEAD, 7, PUBLISHED_BYTES);
    take();
}

static void trace_for_a_while(void)
{
    if (trace_begin(&world.region[DEAD], topic_life(&world.region[DEAD], 0)) != RTMW_OK) broken("not traced");
    publish_word(DEAD, 7, PUBLISHED_BYTES);
    trace_end(&world.region[DEAD], 0);
}

/* Two trace it, and one of them dies. */
static void traced_crowd(void)
{
    crowd();
    if (trace_begin(&world.region[DEAD], topic_life(&world.region[DEAD], 0)) != RTMW_OK || trace_begin(&world.region[READER], topic_life(&world.region[READER], 0)) != RTMW_OK) broken("not traced");
}

static const struct fate fates[] = {
    {"publish", publish_small},
    {"publish a block", publish_block},
    {"publish two pages", publish_page},
    {"publish, evicting", publish_evicting},
    {"publish many", publish_many},
    {"loan and drop", loan_and_drop},
    {"take", take},
    {"take and release", take_and_release},
    {"subscribe", subscribe},
    {"unsubscribe", unsubscribe},
    {"close publisher", close_publisher},
    {"open another topic", open_another_topic},
    {"leave", leave},
    {"leave and attach", leave_and_attach},
    {"reclaim what is passed", reclaim},
    {"trace", trace_for_a_while},
};

static struct world start;

static bool told(const char *name, const char *start_name, uint32_t step)
{
    if (!world.broken[0]) return true;
    fprintf(stderr, "death in %s (%s), before step %u: %s\n", name, start_name, step, world.broken);
    return false;
}

static bool die_in(const struct fate *fate, struct size size, void (*prepare)(void), const char *start_name)
{
    bool more = true;
    uint32_t step = 1;
    world_make(size);
    prepare();
    start = world;
    for (; more; step++) {
        world = start;
        more = run_until_step(fate->act, step);
        others_go_on();
        world_kill(DEAD);
        all_comes_back();
        if (!told(fate->name, start_name, step)) return false;
    }
    printf("death in %-28s %6u steps, %s\n", fate->name, step - 2, start_name);
    return true;
}

/* A latecomer holds the message that the dead was emptying. After a sweep another one asks for it: it is there with its
 * block, or it is not there. */
static rtmw_message late_message;

static void come_late(uint32_t who, uint32_t history, bool must_be_whole)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 8, history, 0, 0, 0};
    if (rtmw_subscriber_open(&world.region[who], "race", NULL, &qos, &s) != RTMW_OK) return broken("subscriber_open");
    world.subscriber[who] = *s;
    free(s);
    if (!must_be_whole) return;
    int code = rtmw_take(&world.subscriber[who], &late_message);
    if (code != RTMW_OK && code != RTMW_EMPTY) broken("after a sweep, a take says %d", code);
    if (code == RTMW_OK && !is_whole(&late_message)) broken("after a sweep, a message lacks its block");
    if (code == RTMW_OK) rtmw_release(&world.region[who], late_message.descriptor);
}

static bool die_emptying(const struct fate *fate, void (*prepare)(void))
{
    uint32_t step = 1;
    world_make((struct size){8, 4});
    prepare();
    start = world;
    for (bool more = true; more; step++) {
        world = start;
        more = run_until_step(fate->act, step);
        come_late(HELPER, 0, false);
        world_kill(DEAD);
        sweep_the_dead(&world.region[HELPER]);
        come_late(READER, 2, true);
        others_go_on();
        all_comes_back();
        if (!told(fate->name, "a latecomer holds what is emptied", step)) return false;
    }
    printf("death in %-28s %6u steps, a latecomer holds what is emptied\n", fate->name, step - 2);
    return true;
}

static bool die_within(void)
{
    uint32_t step = 1;
    world_make((struct size){8, 4});
    flood_behind_one_needed();
    start = world;
    for (bool more = true; more; step++) {
        world = start;
        more = run_until_step(empty_within_queue, step);
        others_go_on();
        the_hung_one_goes_on();
        world_kill(DEAD);
        sweep_the_dead(&world.region[HELPER]);
        all_comes_back();
        if (!told("empty within", "behind one that is needed", step)) return false;
    }
    printf("death in %-28s %6u steps, behind one that is needed\n", "empty within", step - 2);
    return true;
}

/* READER is dead, with a loan, a block, a cursor and a held message; who sweeps after it is the one to die. */
static void sweep(void) { sweep_the_dead(&world.region[DEAD]); }

static void one_to_sweep_after(void)
{
    crowd();
    open_publisher(READER, RTMW_TIMELY, 1);
    if (!take_word(READER, &taken) || rtmw_loan_take(&world.publisher[READER], 700, &loan) != RTMW_OK) broken("not set up");
    world_kill(READER);
}

static bool die_sweeping(void)
{
    uint32_t step = 1;
    world_make((struct size){8, 2});
    one_to_sweep_after();
    start = world;
    for (bool more = true; more; step++) {
        world = start;
        more = run_until_step(sweep, step);
        if (!publish_word(HELPER, 200, PUBLISHED_BYTES)) broken("the dead stopped a publisher");
        world_kill(DEAD);
        all_comes_back();
        if (!told("sweep", "after one that died", step)) return false;
    }
    printf("death in %-28s %6u steps, after one that died\n", "sweep", step - 2);
    return true;
}

/* Somebody sleeps on the word. Until a call wakes, it is odd, so that the next publisher wakes. */
static void one_who_sleeps(void)
{
    crowd();
    world.no_wake_op = true;
    arm_word(&world.shared.topics[0].wait);
}

static bool die_waking(void)
{
    uint32_t step = 1;
    world_make((struct size){8, 2});
    one_who_sleeps();
    start = world;
    for (bool more = true; more; step++) {
        world = start;
        more = run_until_step(publish_small, step);
        if (!world.wakes && !(world.shared.topics[0].wait & 1)) broken("a sleeper is left on an even word");
        others_go_on();
        if (!world.wakes) broken("nobody wakes the sleeper");
        world_kill(DEAD);
        all_comes_back();
        if (!told("publish", "waking in steps", step)) return false;
    }
    printf("death in %-28s %6u steps, waking in steps\n", "publish", step - 2);
    return true;
}

bool die_at_every_step(void)
{
    bool well = true;
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) well &= die_in(&fates[i], (struct size){8, 4}, crowd, "among others");
    well &= die_in(&fates[0], (struct size){8, 1}, empty_band, "the first of the band");
    well &= die_in(&fates[0], (struct size){4, 1}, little_memory, "what it was linked behind begins another life");
    well &= die_in(&(struct fate){"make room", make_room_once}, (struct size){8, 1}, one_rested_on, "which empties the last message");
    well &= die_in(&(struct fate){"inherit two pages", inherit}, (struct size){8, 4}, pages_rested_on, "which all have read");
    well &= die_in(&(struct fate){"find nothing and rest", find_nothing}, (struct size){8, 1}, one_read_by_all, "at a large message");
    well &= die_in(&(struct fate){"rest, publish and take", rest_and_step}, (struct size){8, 1}, one_read_by_all, "at a large message");
    well &= die_in(&(struct fate){"publish and take", publish_and_take_traced}, (struct size){8, 4}, traced_crowd, "traced");
    well &= die_emptying(&(struct fate){"make room", make_room_once}, one_rested_on);
    well &= die_emptying(&(struct fate){"inherit two pages", inherit}, pages_rested_on);
    well &= die_within();
    return well & die_sweeping() & die_retiring() & die_retiring_types() & die_choosing() & die_waking() & stop_at_every_step();
}
