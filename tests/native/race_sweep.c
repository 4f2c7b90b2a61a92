/* Races of the sweep: somebody cleans up after a dead process while others publish, evict, allocate and take.
 *
 * The dead one had the handles of SWEEPER, whose actor is another process since then, and sweeps.
 */
#include <string.h>

#include "races.h"

enum { PUBLISHER = 0, READER = 1, SWEEPER = 2 };

static rtmw_loan loan;
static rtmw_message held;

/* ---- how it died ---- */

/* Its handles are gone with it; the slot that it had stays its own. */
static void die_and_begin_anew(void)
{
    struct rtmw_region *r = &world.region[SWEEPER];
    world_kill(SWEEPER);
    world_new_process(SWEEPER);
    r->lock = (rtmw_lock){0};
    memset(&r->plain, 0, sizeof r->plain);
    memset(&r->with_block, 0, sizeof r->with_block);
    memset(&world.subscriber[SWEEPER], 0, sizeof world.subscriber[SWEEPER]);
    world.claiming = SWEEPER;
    if (participant_claim(r) != RTMW_OK) broken("no slot for who sweeps");
    world.claiming = AUDITOR;
}

static void others(void)
{
    open_publisher(PUBLISHER, RTMW_TIMELY, 1);
    open_subscriber(READER, RTMW_TIMELY, 2);
}

static void one_that_held_and_loaned(void)
{
    others();
    open_subscriber(SWEEPER, RTMW_TIMELY, 2);
    open_publisher(SWEEPER, RTMW_TIMELY, 1);
    publish_word(PUBLISHER, 100, PUBLISHED_BYTES);
    if (!take_word(SWEEPER, &held) || rtmw_loan_take(&world.publisher[SWEEPER], 600, &loan) != RTMW_OK) broken("not set up");
    die_and_begin_anew();
}

static void append_as_the_dead(void) { publish_word(SWEEPER, 999, PUBLISHED_BYTES); }

static bool is_appending(void)
{
    for (uint32_t i = 0; i < MOST_DESCRIPTORS; i++)
        if (state_kind(world.shared.descriptors[i].state) == APPENDING) return true;
    return false;
}

/* Died APPENDING: at the first such step, or at the first at which its message was linked, and tail had not moved. */
static void one_that_appended(bool linked)
{
    others();
    open_publisher(SWEEPER, RTMW_TIMELY, 1);
    publish_word(PUBLISHER, 100, PUBLISHED_BYTES);
    struct world before = world;
    struct descriptor *last = &world.shared.descriptors[link_index(band_of(0)->tail)];
    for (uint32_t step = 1; run_until_step(append_as_the_dead, step); step++, world = before)
        if (is_appending() && (!linked || link_index(last->next) != NIL)) return die_and_begin_anew();
    broken("no such step");
}

static void one_that_had_linked(void) { one_that_appended(true); }
static void one_that_had_not_linked(void) { one_that_appended(false); }

/* ---- what the others do meanwhile ---- */

static void sweep(void)
{
    struct rtmw_region *r = &world.region[SWEEPER];
    lock_take(&r->lock);
    note(sweep_the_dead(r));
    lock_give(&r->lock);
}

static void publish_1(void) { publish_word(PUBLISHER, 200, PUBLISHED_BYTES); }

static void publish_2(void)
{
    for (uint64_t i = 0; i < 2; i++) publish_word(PUBLISHER, 200 + i, PUBLISHED_BYTES);
}

static void allocate(void)
{
    struct rtmw_region *r = &world.region[PUBLISHER];
    lock_take(&r->lock);
    uint32_t index = descriptor_claim(r, 14 * GRANULE, 0);
    lock_give(&r->lock);
    note(index != NIL);
}

static void take_two(void)
{
    rtmw_message m;
    for (int i = 0; i < 2; i++) {
        if (!take_word(READER, &m)) continue;
        if (!is_whole(&m)) broken("took a message of another life");
        rtmw_release(&world.region[READER], m.descriptor);
    }
}

/* ---- what must have come of it ---- */

static const char *accounted_for(void)
{
    rtmw_subscriber *s = &world.subscriber[READER];
    for (int i = 0; i < 8; i++) take_two();
    uint64_t tail = link_tag(band_of(0)->tail);
    if (s->sequence[0] != tail) broken("the reader stands at %u, tail is %u", (uint32_t)s->sequence[0], (uint32_t)tail);
    if (s->block->received + s->block->missed != tail) broken("a sequence is not accounted for");
    return all_comes_back() ? "right" : "";
}

static const char *got_or_not(void)
{
    bool got = world.note[PUBLISHER][0];
    if (!books_are_right()) return "";
    return all_comes_back() ? got ? "got" : "refused" : "";
}

static const struct outcome right_only[] = {
    {"right", ACCEPTABLE, "whole messages, every sequence accounted for, and nothing leaks"},
    {0},
};

static const struct outcome got_or_refused[] = {
    {"got", ACCEPTABLE, "the sweep had given the block of the dead back"},
    {"refused", ACCEPTABLE, "the block was still the dead one's"},
    {0},
};

const struct race sweep_races[] = {
    {"sweep ‖ append, evict ‖ take", {5, 2}, 3, 2, one_that_held_and_loaned, {publish_2, take_two, sweep}, accounted_for, right_only},
    {"sweep ‖ append ‖ take, after one that had linked", {5, 1}, 3, 3, one_that_had_linked, {publish_1, take_two, sweep},
     accounted_for, right_only},
    {"sweep ‖ append ‖ take, after one that had not", {5, 1}, 3, 2, one_that_had_not_linked, {publish_1, take_two, sweep},
     accounted_for, right_only},
    {"sweep ‖ allocate", {5, 1}, 2, 3, one_that_held_and_loaned, {allocate, sweep}, got_or_not, got_or_refused},
    {0},
};
