/* Races of subscriptions that are parked: with publishers that evict, with each other, and with the end of their time. */
#include <stdlib.h>

#include "races.h"

enum { KEY = 7, READER = 1, OTHER = 2 };
#define LONG_NS  (UINT64_C(1) << 40)
#define SHORT_NS (UINT64_C(1) << 30)

/* The handle of an actor is closed; its place stays. */
static void park(uint32_t who, uint64_t for_ns)
{
    rtmw_subscriber *closed = malloc(sizeof *closed);
    *closed = world.subscriber[who];
    if (!rtmw_subscriber_park(closed, KEY, for_ns)) broken("it is not parked");
}

static void close_subscriber(uint32_t who)
{
    rtmw_subscriber *closed = malloc(sizeof *closed);
    *closed = world.subscriber[who];
    rtmw_subscriber_close(closed);
}

/* A RELIABLE subscriber that has two messages unread, in the second slot of the table: the next one opens in the first. */
static void unread_and_behind_a_free_slot(void)
{
    open_publisher(0, RTMW_RELIABLE, 1);
    open_subscriber(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_RELIABLE, 8);
    publish_word(0, 100, PUBLISHED_BYTES);
    publish_word(0, 101, PUBLISHED_BYTES);
    close_subscriber(OTHER);
}

static void parked(void)
{
    unread_and_behind_a_free_slot();
    park(READER, LONG_NS);
}

/* More than there are descriptors: what gives way is what nobody needs. */
static void publish_4(void)
{
    for (uint64_t i = 0; i < 4; i++) publish_word(0, 102 + i, PUBLISHED_BYTES);
}

static void come_back(void)
{
    open_subscriber(me(), RTMW_RELIABLE, 8);
    note(rtmw_subscriber_resume(&world.subscriber[me()], KEY));
}

static void park_now(void) { park(READER, LONG_NS); }

/* From the first message on, and without a gap. */
static bool gets_all(uint32_t who)
{
    rtmw_message m;
    uint64_t sequence = 0;
    while (take_word(who, &m)) {
        if (m.sequence != ++sequence || !is_whole(&m) || m.is_old) return false;
        rtmw_release(&world.region[who], m.descriptor);
    }
    return sequence >= 2;
}

static bool nothing_stays(void)
{
    world.clock_ns += 2 * LONG_NS;
    return all_comes_back();
}

static const char *nothing_lost(void)
{
    if (world.noted[READER] && !world.note[READER][0]) return "does not come back";
    if (!world.noted[READER]) { /* it was parked only */
        open_subscriber(READER, RTMW_RELIABLE, 8);
        if (!rtmw_subscriber_resume(&world.subscriber[READER], KEY)) return "does not come back";
    }
    if (!gets_all(READER)) return "lost";
    return nothing_stays() ? "nothing lost" : "";
}

static const struct outcome nothing_lost_only[] = {
    {"nothing lost", ACCEPTABLE, "each message is needed by the parked one or by the one that resumes"},
    {"lost", FORBIDDEN, "a publisher found the messages unneeded in both slots"},
    {"does not come back", FORBIDDEN, "its time is not over"},
    {0},
};

static const char *one_of_two(void)
{
    uint64_t first = world.note[READER][0], second = world.note[OTHER][0];
    if (first && second) return "both";
    if (!first && !second) return "neither";
    if (!gets_all(first ? READER : OTHER)) return "lost";
    return nothing_stays() ? "one" : "";
}

static const struct outcome one_only[] = {
    {"one", ACCEPTABLE, "the CAS on the slot decides"},
    {"both", FORBIDDEN, "two subscribers have one slot"},
    {"neither", FORBIDDEN, "the parked one was there for both"},
    {"lost", FORBIDDEN, "what it had not come to was evicted"},
    {0},
};

/* ---- its time is over ---- */

static void nearly_over(void)
{
    unread_and_behind_a_free_slot();
    park(READER, SHORT_NS);
    world.clock_ns += SHORT_NS;
}

static void sweep(void) { sweep_the_dead(&world.region[me()]); }

/* Also for long, once it is back: a sweeper that has seen the end of the first time must not end the second. */
static void come_back_and_park(void)
{
    world.clock_ns -= SHORT_NS / 2;
    come_back();
    park(READER, LONG_NS);
}

static const char *kept_or_ended(void)
{
    struct subscriber_block *block;
    uint32_t slot = 0;
    bool kept = (block = next_subscriber(&world.region[AUDITOR], 0, &slot)) != NULL;
    if (!kept) return "ended while it was parked for long";
    return nothing_stays() ? "kept" : "";
}

static const struct outcome kept_only[] = {
    {"kept", ACCEPTABLE, "the second parking has a word of its own"},
    {"ended while it was parked for long", FORBIDDEN, "a sweeper had read the end of the first time"},
    {0},
};

const struct race parked_races[] = {
    {"publish and evict ‖ resume", {4, 1}, 2, 2, parked, {publish_4, come_back}, nothing_lost, nothing_lost_only},
    {"publish and evict ‖ park", {4, 1}, 2, 3, unread_and_behind_a_free_slot, {publish_4, park_now}, nothing_lost,
     nothing_lost_only},
    {"resume ‖ resume", {4, 1}, 3, 1, parked, {publish_4, come_back, come_back}, one_of_two, one_only},
    {"sweep ‖ resume, park", {4, 1}, 2, 3, nearly_over, {sweep, come_back_and_park}, kept_or_ended, kept_only},
    {0},
};
