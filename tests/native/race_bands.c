/* Races of bands: which message a take hands out, and which it drops, while the oldest of the lower band is evicted.
 *
 * What must hold: the urgent one comes first; what is within the depth comes; each sequence is counted once; and what is
 * held besides the messages at which the cursors are is let go.
 */
#include <stdio.h>

#include "races.h"

static void publish_1(void) { publish_word(me(), 100, PUBLISHED_BYTES); }

enum { TIMELY_ONE = 0, CHOOSER = 1, OTHER = 2, URGENT = 200 };

/* For a depth of 1: of the two that are unread in band 0 the TIMELY one may be dropped, the other has to be delivered. */
static void two_below_an_urgent_one(void)
{
    publish_word(TIMELY_ONE, 100, PUBLISHED_BYTES);
    publish_word(OTHER, 100, PUBLISHED_BYTES);
    uint64_t words[PUBLISHED_BYTES / 8] = {URGENT};
    words[PUBLISHED_BYTES / 8 - 1] = URGENT;
    rtmw_publish(&world.publisher[OTHER], words, PUBLISHED_BYTES, &(rtmw_message_qos){.priority = 1});
}

static void a_reader_of_one(uint64_t size)
{
    rtmw_message m;
    open_publisher(TIMELY_ONE, RTMW_TIMELY, 1);
    open_publisher(OTHER, RTMW_ADAPTIVE, 64);
    open_subscriber(CHOOSER, RTMW_ADAPTIVE, 1);
    publish_word(OTHER, 100, size);
    if (!take_word(CHOOSER, &m)) return broken("nothing to take");
    rtmw_release(&world.region[CHOOSER], m.descriptor);
}

static void urgent_and_below(void)
{
    a_reader_of_one(PUBLISHED_BYTES);
    two_below_an_urgent_one();
}

/* It is TIMELY, so both may be dropped; but the second is within its depth. */
static void urgent_and_below_for_who_is_timely(void)
{
    urgent_and_below();
    world.subscriber[CHOOSER].block->reliability = world.subscriber[CHOOSER].qos.reliability = RTMW_TIMELY;
}

/* The cursor of band 0 holds nothing meanwhile. */
static void urgent_and_below_at_rest(void)
{
    rtmw_message m;
    a_reader_of_one(512);
    if (take_word(CHOOSER, &m) || world.subscriber[CHOOSER].index[0] != NIL) broken("the reader does not rest");
    two_below_an_urgent_one();
}

static void evict_the_timely(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    queue_evict(r, band_of(0), 2, 8);
    lock_give(&r->lock);
}

static void evict_the_timely_and_sweep(void)
{
    struct rtmw_region *r = &world.region[me()];
    evict_the_timely();
    lock_take(&r->lock);
    sweep_the_dead(r);
    lock_give(&r->lock);
}

static void urgent_and_below_by_who_is_dead(void)
{
    urgent_and_below();
    world_kill(OTHER);
}

/* Where it lay the next message lies, unless the reader holds it: then there may be no memory. */
static void evict_the_timely_and_publish(void)
{
    evict_the_timely();
    publish_1();
}

static bool choose_one(uint32_t who)
{
    rtmw_message m;
    if (!take_word(who, &m)) return false;
    if (!is_whole(&m)) broken("took a message of another life");
    if (world.noted[who] == 0 && m.priority == 0) broken("a message of band 0 comes before one of band 1");
    if ((m.priority == 1) != (word_of(&m) == URGENT)) broken("a message of another band");
    if (world.noted[who] < 16) world.note[who][world.noted[who]++] = m.priority ? URGENT : m.sequence;
    rtmw_release(&world.region[who], m.descriptor);
    return true;
}

static void choose_two(void)
{
    if (!choose_one(me())) broken("an urgent message was there, and the take found none");
    choose_one(me());
}

/* Each cursor holds its message, and nothing else is held. */
static void holds_what_it_is_at(void)
{
    const rtmw_subscriber *s = &world.subscriber[CHOOSER];
    for (uint32_t i = 0; i < world.region[CHOOSER].header->descriptors; i++) {
        uint64_t cursors = (s->index[0] == i) + (s->index[1] == i);
        if (world.refs[CHOOSER][i] != cursors) broken("descriptor %u is held %u times", i, (uint32_t)world.refs[CHOOSER][i]);
    }
}

/* Sequence 3 of band 0 has to be delivered, unless it gave way to another message. */
static const char *urgent_first_and_none_lost(void)
{
    bool got = false;
    while (choose_one(CHOOSER)) {}
    holds_what_it_is_at();
    const rtmw_subscriber *s = &world.subscriber[CHOOSER];
    if (s->sequence[0] != link_tag(band_of(0)->tail)) broken("it stands at %u of band 0", (uint32_t)s->sequence[0]);
    if (s->block->received + s->block->missed != s->sequence[0] + s->sequence[1])
        broken("%u received, %u missed", (uint32_t)s->block->received, (uint32_t)s->block->missed);
    for (uint32_t i = 0; i < world.noted[CHOOSER]; i++) {
        got |= world.note[CHOOSER][i] == 3;
        if (i > 1 && world.note[CHOOSER][i] <= world.note[CHOOSER][i - 1]) broken("taken twice, or out of order");
    }
    return all_comes_back() ? got ? "delivered" : "not delivered" : "";
}

static const struct outcome urgent_first[] = {
    {"delivered", ACCEPTABLE, "the urgent one first, then what has to be delivered, and every sequence accounted for"},
    {"not delivered", FORBIDDEN, "a message that has to be delivered was dropped"},
    {0},
};

static const struct outcome urgent_first_in_little_memory[] = {
    {"delivered", ACCEPTABLE, "the urgent one first, then what has to be delivered, and every sequence accounted for"},
    {"not delivered", ACCEPTABLE, "the same, and the memory of what has to be delivered was needed for another message"},
    {0},
};

/* Who takes dies before each step. Others publish as if nothing had happened, and a sweep brings back all that it held. */
static void choose_two_and_die(void)
{
    choose_one(CHOOSER);
    choose_one(CHOOSER);
}

bool die_choosing(void)
{
    uint32_t step = 1;
    for (bool more = true; more; step++) {
        world_make((struct size){6, 1});
        urgent_and_below();
        more = run_until_step(choose_two_and_die, step);
        if (!publish_word(TIMELY_ONE, 100, PUBLISHED_BYTES)) broken("the dead stopped a publisher");
        world_kill(CHOOSER);
        if (all_comes_back()) continue;
        fprintf(stderr, "death in a take of two bands, before step %u: %s\n", step, world.broken);
        return false;
    }
    printf("death in %-28s %6u steps, which drops what is beyond its depth\n", "take of two bands", step - 2);
    return true;
}

const struct race band_races[] = {
    {"bands: take ‖ evict", {6, 1}, 2, 3, urgent_and_below, {evict_the_timely, choose_two}, urgent_first_and_none_lost,
     urgent_first},
    {"bands: take at rest ‖ evict", {6, 1}, 2, 3, urgent_and_below_at_rest, {evict_the_timely, choose_two},
     urgent_first_and_none_lost, urgent_first},
    {"bands: take within depth ‖ evict", {6, 1}, 2, 3, urgent_and_below_for_who_is_timely, {evict_the_timely, choose_two},
     urgent_first_and_none_lost, urgent_first},
    {"bands: take ‖ evict, sweep", {6, 1}, 2, 2, urgent_and_below_by_who_is_dead, {evict_the_timely_and_sweep, choose_two},
     urgent_first_and_none_lost, urgent_first},
    {"bands: take ‖ evict, append ‖ append", {4, 1}, 3, 2, urgent_and_below,
     {evict_the_timely_and_publish, choose_two, publish_1}, urgent_first_and_none_lost, urgent_first_in_little_memory},
    {"bands: take at rest ‖ evict, append ‖ append", {4, 1}, 3, 1, urgent_and_below_at_rest,
     {evict_the_timely_and_publish, choose_two, publish_1}, urgent_first_and_none_lost, urgent_first_in_little_memory},
    {0},
};
