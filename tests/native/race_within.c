/* Races of messages that are emptied where they lie, behind one that is needed. See reclaim.c.
 *
 * What must hold: a RELIABLE subscriber gets each message that it would have got without it; for others what is gone is
 * counted; a message that is handed out has its block.
 */
#include <stdio.h>
#include <stdlib.h>

#include "races.h"

enum { BLOCK = 512, OTHER = 1, READER = 2, ALL = 1 << 20 };

static const uint64_t TIME = 1000000, INTERVAL = 100; /* ns; and in these */
static char text[64];

/* ---- what actors do ---- */

static void empty_all(void) { make_room_within(me(), 0, ALL); }

/* The walk goes on in the second call. */
static void empty_twice(void)
{
    make_room_within(me(), 0, 1);
    make_room_within(me(), 0, ALL);
}

static void nothing(void) {}

static bool take_one(uint32_t who)
{
    rtmw_message m;
    int code = rtmw_take(&world.subscriber[who], &m);
    if (code != RTMW_OK && code != RTMW_EMPTY) broken("a take says %d", code);
    if (code != RTMW_OK) return false;
    if (!is_whole(&m)) broken("took a message that is not there any more");
    if (world.noted[who] < 16) world.note[who][world.noted[who]++] = word_of(&m);
    rtmw_release(&world.region[who], m.descriptor);
    return true;
}

static void take(void) { take_one(me()); }

static void take_twice(void)
{
    for (int i = 0; i < 2; i++) take_one(me());
}

static void take_all(uint32_t who)
{
    for (int i = 0; i < 12 && take_one(who);) i++;
}

/* Of this band, published at that time, which is its value too. */
static void publish_at(uint32_t who, uint32_t band, uint64_t at)
{
    uint64_t words[BLOCK / 8] = {0};
    words[0] = words[BLOCK / 8 - 1] = at;
    world.clock_ns = at * TIME; /* a little later, for time passes by being asked for */
    rtmw_message_qos qos = {.priority = (int8_t)band};
    if (rtmw_publish(&world.publisher[who], words, BLOCK, &qos) != RTMW_OK) broken("there was memory, and the publisher was refused");
}

static void publish_2(void)
{
    struct rtmw_region *r = &world.region[me()];
    for (uint64_t i = 0; i < 2; i++) {
        lock_take(&r->lock);
        queue_trim(&world.publisher[me()], 0, 2 * PAGE); /* as a large message: what all have read goes first */
        lock_give(&r->lock);
        if (publish_word(me(), 200 + i, BLOCK)) world.noted[me()]++;
    }
}

/* The reader takes what is urgent first, which thins 1250 and not 1320. */
static void publish_and_take_what_is_urgent(void)
{
    publish_at(OTHER, 1, 1200);
    take_one(READER);
    for (uint64_t at = 1250; at < 1400; at += 70) publish_at(OTHER, 0, at);
}

/* Nobody takes what is urgent yet: it will be taken before all others, so that of these 1320 comes and no other one. */
static void publish_what_is_urgent_and_more(void)
{
    static const uint64_t at[] = {1250, 1320, 1350};
    publish_at(OTHER, 1, 1200);
    for (uint32_t i = 0; i < 3; i++) publish_at(OTHER, 0, at[i]);
}

/* Its own band: from 1010 on 1250 comes next, and from 1000 on, which lies below, 1105. */
static void publish_what_is_urgent_and_empty(void)
{
    static const uint64_t at[] = {1010, 1105, 1250};
    for (uint32_t i = 0; i < 3; i++) publish_at(OTHER, 1, at[i]);
    make_room_within(OTHER, 1, ALL);
}

/* ---- where the races begin ---- */

static void with_interval(uint32_t who)
{
    world.subscriber[who].qos.min_interval_ns = world.subscriber[who].block->min_interval_ns = INTERVAL * TIME;
}

static void open_ends(rtmw_reliability readers)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(READER, readers, 8);
}

/* OTHER hangs at the first. */
static void flood_behind_one_needed(void)
{
    open_ends(RTMW_ADAPTIVE);
    publish_at(OTHER, 0, 1000);
    for (uint64_t i = 1; i <= 2; i++) publish_at(0, 0, 1000 + i);
    publish_at(OTHER, 0, 1003);
}

static void three_that_were_read(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_RELIABLE, 8);
    publish_at(OTHER, 0, 1000);
    publish_at(0, 0, 1001);
    publish_at(OTHER, 0, 1002);
    for (int i = 0; i < 3; i++) take_one(READER);
}

/* What OTHER's interval leaves out the reader needs, who comes to it. */
static void thinned_for_another(void)
{
    open_ends(RTMW_RELIABLE);
    with_interval(OTHER);
    for (uint64_t i = 0; i < 3; i++) publish_at(OTHER, 0, 1000 + 10 * i);
    take_one(READER);
}

/* 1000, 1100 and 1210 will come, if nothing else does; 1170 only after one that was published up to 1070. */
static void thinned_for_the_reader(void)
{
    static const uint64_t at[] = {1000, 1050, 1100, 1170, 1210};
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_RELIABLE, 8);
    with_interval(READER);
    for (uint32_t i = 0; i < 5; i++) publish_at(OTHER, 0, at[i]);
}

/* Before anything urgent comes. */
static void three_for_the_reader(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_RELIABLE, 8);
    with_interval(READER);
    for (uint64_t at = 1000; at <= 1100; at += 50) publish_at(OTHER, 0, at);
}

/* The next one is thinned whatever comes, so that nothing new is to be guessed when something urgent comes. */
static void three_for_the_reader_at_the_first(void)
{
    three_for_the_reader();
    take_one(READER);
}

/* The reader comes to it, and has found nothing urgent; or something urgent comes first. */
static void one_for_the_reader(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_RELIABLE, 8);
    with_interval(READER);
    publish_at(OTHER, 0, 1000);
}

/* The first was taken, and is the one at the cursor. */
static void thinned_for_the_reader_at_the_first(void)
{
    thinned_for_the_reader();
    take_one(READER);
}

static void thinned_by_what_is_urgent(void)
{
    thinned_for_the_reader();
    publish_at(OTHER, 1, 1060);
}

/* The one that comes first may expire before it is taken, and the reader comes later than that. */
static void thinned_by_what_may_expire(void)
{
    thinned_for_the_reader();
    world.shared.descriptors[link_index(band_of(0)->head)].expires_ns = world.clock_ns + 30 * TIME;
}

static void take_when_that_is_over(void)
{
    world.clock_ns += 60 * TIME;
    take_one(me());
}

/* ---- what must have come of them ---- */

static bool got(uint32_t who, uint32_t count, const uint64_t *values)
{
    bool same = world.noted[who] == count;
    for (uint32_t i = 0; same && i < count; i++) same = world.note[who][i] == values[i];
    return same;
}

static uint32_t emptied(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < MOST_DESCRIPTORS; i++) count += state_kind(world.shared.descriptors[i].state) == EMPTIED;
    return count;
}

static const char *emptied_so_many(void)
{
    uint32_t count = emptied();
    snprintf(text, sizeof text, "%u emptied", count);
    return all_comes_back() ? text : "";
}

static const char *flood_accounted_for(void)
{
    static const uint64_t needed[] = {1000, 1003};
    snprintf(text, sizeof text, "%u emptied", emptied());
    take_all(READER);
    take_all(OTHER);
    struct subscriber_block *reader = world.subscriber[READER].block, *other = world.subscriber[OTHER].block;
    if (reader->received + reader->missed != 4) return "not accounted for";
    if (!got(OTHER, 2, needed) || other->missed || other->unmatched != 2) return "lost";
    return all_comes_back() ? text : "";
}

/* However the flood gave way: what the reader was sent it gets, once and in order. */
static const char *needed_received(void)
{
    take_all(READER);
    struct subscriber_block *block = world.subscriber[READER].block;
    if (block->missed || block->expired || block->thinned || block->unmatched != 1) return "lost";
    if (block->received != 2 + world.noted[OTHER]) return "lost";
    return all_comes_back() ? "received" : "";
}

static const char *each_received(void)
{
    static const uint64_t all[] = {1000, 1010, 1020}, first[] = {1000};
    take_all(READER);
    take_all(OTHER);
    if (!got(READER, 3, all) || !got(OTHER, 1, first) || world.subscriber[OTHER].block->missed) return "lost";
    return emptied_so_many();
}

static const char *as_if_nothing_gave_way(uint32_t count, const uint64_t *values)
{
    take_all(READER);
    if (!got(READER, count, values) || world.subscriber[READER].block->missed) return "lost";
    return emptied_so_many();
}

static const char *three_received(void)
{
    return as_if_nothing_gave_way(3, (const uint64_t[]){1000, 1100, 1210});
}

static const char *urgent_and_next_received(void)
{
    return as_if_nothing_gave_way(2, (const uint64_t[]){1060, 1170});
}

static const char *urgent_and_behind_received(void)
{
    return as_if_nothing_gave_way(2, (const uint64_t[]){1200, 1320});
}

static const char *urgent_and_last_received(void)
{
    return as_if_nothing_gave_way(3, (const uint64_t[]){1000, 1200, 1320});
}

/* One of the two orders in which the reader may have come to them. */
static const char *received_in_either_order(void)
{
    static const uint64_t urgent_first[] = {1010, 1250}, urgent_then[] = {1000, 1105, 1250};
    take_all(READER);
    if (world.subscriber[READER].block->missed) return "lost";
    return got(READER, 2, urgent_first) || got(READER, 3, urgent_then) ? emptied_so_many() : "lost";
}

static const char *behind_the_expired_received(void)
{
    return as_if_nothing_gave_way(2, (const uint64_t[]){1050, 1170});
}

static const struct outcome none_lost[] = {
    {"0 emptied", ACCEPTABLE, "what the reader was about to accept was not known"},
    {"1 emptied", ACCEPTABLE, "one was held, or passed, or not known to be thinned"},
    {"2 emptied", ACCEPTABLE, "all that nobody needs"},
    {"3 emptied", ACCEPTABLE, "and one that the reader had taken"},
    {"4 emptied", ACCEPTABLE, "and one that the urgent message thins"},
    {"lost", FORBIDDEN, "a RELIABLE subscriber did not get what it would have got"},
    {"not accounted for", FORBIDDEN, "another one got it neither, nor is it counted"},
    {0},
};

static const struct outcome received_only[] = {
    {"received", ACCEPTABLE, "each message once"},
    {"lost", FORBIDDEN, "a message was emptied in its next life"},
    {0},
};

const struct race within_races[] = {
    {"within: empty ‖ take of a flood", {6, 4}, 3, 3, flood_behind_one_needed, {empty_all, nothing, take_twice}, flood_accounted_for, none_lost},
    {"within: empty ‖ empty ‖ take of a flood", {6, 4}, 3, 2, flood_behind_one_needed, {empty_all, empty_all, take_twice}, flood_accounted_for, none_lost},
    {"within: empty ‖ evict, append", {4, 4}, 2, 2, three_that_were_read, {empty_all, publish_2}, needed_received, received_only},
    {"within: empty ‖ take of what another thins", {5, 4}, 3, 3, thinned_for_another, {empty_all, nothing, take_twice}, each_received, none_lost},
    {"within: empty ‖ take of what is thinned", {7, 4}, 3, 3, thinned_for_the_reader, {empty_all, nothing, take_twice}, three_received, none_lost},
    {"within: empty, empty ‖ take of what is thinned", {7, 4}, 3, 2, thinned_for_the_reader_at_the_first, {empty_twice, nothing, take}, three_received, none_lost},
    {"within: empty, empty ‖ take of what is urgent", {8, 4}, 3, 2, thinned_by_what_is_urgent, {empty_twice, nothing, take_twice}, urgent_and_next_received, none_lost},
    {"within: empty, empty ‖ append, take above, append", {8, 4}, 2, 2, three_for_the_reader, {empty_twice, publish_and_take_what_is_urgent}, urgent_and_behind_received, none_lost},
    {"within: empty, empty ‖ append above, append", {8, 4}, 2, 2, three_for_the_reader_at_the_first, {empty_twice, publish_what_is_urgent_and_more}, urgent_and_last_received, none_lost},
    {"within: append above, empty ‖ take below", {8, 4}, 3, 2, one_for_the_reader, {nothing, publish_what_is_urgent_and_empty, take_twice}, received_in_either_order, none_lost},
    {"within: empty ‖ take when the first has expired", {7, 4}, 3, 2, thinned_by_what_may_expire, {empty_all, nothing, take_when_that_is_over}, behind_the_expired_received, none_lost},
    {0},
};
