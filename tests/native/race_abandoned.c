/* Races about what history keeps on a topic without a publisher: it gives way while somebody publishes there again, or
 * comes late for it.
 */
#include <stdlib.h>
#include <string.h>

#include "races.h"
#include "reclaim.h"

enum { OLD = 100, NEW = 200, OTHER = 2 };

static void open_with_history(uint32_t who, const char *topic, uint32_t history)
{
    rtmw_publisher *p = NULL;
    rtmw_publisher_qos qos = {RTMW_ADAPTIVE, 0, 4, history, 0};
    if (rtmw_publisher_open(&world.region[who], topic, NULL, &qos, &p) != RTMW_OK) return broken("publisher_open");
    world.publisher[who] = *p;
    free(p);
}

static void close_publisher_of(uint32_t who)
{
    rtmw_publisher *p = malloc(sizeof *p);
    *p = world.publisher[who];
    memset(&world.publisher[who], 0, sizeof world.publisher[who]);
    rtmw_publisher_close(p);
}

/* The second of two messages on "race" is kept; its publisher is gone. */
static void one_kept_message(void)
{
    open_with_history(0, "race", 1);
    for (int i = 0; i < 2; i++) publish_word(0, OLD, PUBLISHED_BYTES);
    close_publisher_of(0);
    open_with_history(OTHER, "other", 0);
}

/* The same, and another that has a block, so that it can give way. */
static void one_kept_block(void)
{
    open_with_history(0, "race", 1);
    publish_word(0, OLD, PAGE);
    close_publisher_of(0);
    open_with_history(OTHER, "other", 0);
}

static void keep_two(void)
{
    open_with_history(me(), "race", 2);
    for (uint64_t i = 0; i < 2; i++) publish_word(me(), NEW + i, PUBLISHED_BYTES);
}

/* "race" is empty; who promised to keep something there is gone. */
static void a_promise_of_nothing(void)
{
    open_with_history(0, "race", 1);
    close_publisher_of(0);
    open_with_history(OTHER, "other", 0);
}

static void keep_one(void)
{
    open_with_history(me(), "race", 1);
    publish_word(me(), NEW, PAGE);
}

static void evict_the_oldest(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    world.publisher[OTHER].region = r;
    r->short_of_pages = true;
    struct search search = search_begin(&world.publisher[OTHER], 0, PAGE);
    note(abandoned_gives(&search, LOOK_SPARE));
    lock_give(&r->lock);
}

static void forget_all(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    topic_forget(r, topic_life(r, 0), true);
    lock_give(&r->lock);
}

/* What a late subscriber gets: the messages in order, each whole. Returns how many are new. */
static uint32_t take_all_as(uint32_t who, uint64_t *last)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 8, 8, 0, 0, 0};
    rtmw_message m;
    uint32_t fresh = 0;
    *last = 0;
    if (rtmw_subscriber_open(&world.region[who], "race", NULL, &qos, &s) != RTMW_OK) return broken("no subscriber"), 0;
    while (rtmw_take(s, &m) == RTMW_OK) {
        if (m.sequence <= *last || !is_whole(&m)) broken("a message that is not there");
        *last = m.sequence;
        fresh += word_of(&m) >= NEW;
        rtmw_release(&world.region[who], m.descriptor);
    }
    rtmw_subscriber_close(s);
    return fresh;
}

static void come_late(void)
{
    uint64_t last;
    take_all_as(me(), &last);
    note(last);
}

static const char *are_kept(uint32_t least)
{
    uint64_t last;
    return take_all_as(AUDITOR, &last) < least ? "lost" : all_comes_back() ? "kept" : "";
}

static const char *one_is_kept(void) { return are_kept(1); }
static const char *two_are_kept(void) { return are_kept(2); }

static const struct outcome kept_only[] = {
    {"kept", ACCEPTABLE, "what a publisher that is there promised to keep"},
    {"lost", FORBIDDEN, "it was forgotten, as if nobody published"},
    {0},
};

static const char *had_it_or_not(void)
{
    uint64_t last = world.note[0][0];
    return !all_comes_back() ? "" : last == 0 ? "nothing" : last == 2 ? "the last" : "another";
}

static const struct outcome had_it[] = {
    {"nothing", ACCEPTABLE, "it was forgotten before"},
    {"the last", ACCEPTABLE, "it came before that"},
    {"another", FORBIDDEN, "what is kept is the last one"},
    {0},
};

static const char *had_it_or_it_went(void)
{
    bool had = world.note[0][0] == 1, went = world.note[1][0];
    return !all_comes_back() ? "" : had ? "had it" : went ? "went" : "lost";
}

static const struct outcome had_it_or_went[] = {
    {"had it", ACCEPTABLE, "it was read, before it gave way or in spite of that"},
    {"went", ACCEPTABLE, "its memory was given to another"},
    {"lost", ACCEPTABLE, "it was forgotten while the late one held it: the next eviction finds it"},
    {0},
};

const struct race abandoned_races[] = {
    {"keep anew ‖ forget the oldest", {8, 2}, 2, 3, one_kept_block, {keep_two, evict_the_oldest}, two_are_kept, kept_only},
    {"keep first ‖ forget the oldest", {8, 2}, 2, 3, a_promise_of_nothing, {keep_one, evict_the_oldest}, one_is_kept, kept_only},
    {"keep anew ‖ forget all", {8, 1}, 2, 3, one_kept_message, {keep_two, forget_all}, two_are_kept, kept_only},
    {"come late ‖ forget all", {8, 1}, 2, 2, one_kept_message, {come_late, forget_all}, had_it_or_not, had_it},
    {"come late ‖ forget the oldest", {8, 2}, 2, 2, one_kept_block, {come_late, evict_the_oldest}, had_it_or_it_went,
     had_it_or_went},
    {0},
};
