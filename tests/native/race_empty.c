/* Races of the last message: its block is taken away when all have read it, and cursors that rest let go of it.
 *
 * What must hold: nobody who was counted loses a message, or gets one twice; what is missed is counted; a message that
 * is handed out has its block; a block is given back once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "races.h"

enum { BLOCK = 512, ABOVE = 200, LATE = 1, READER = 2 };

static char text[64];

/* What publishers do when memory is short: the first turn takes only what nobody needs. */
static void trim(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    make_room_for_page(me());
    lock_give(&r->lock);
}

/* As a large message, for which there is no room here: before it all is passed that everybody has read. */
static void trim_as_large(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    queue_trim(&world.publisher[me()], 0, 2 * PAGE);
    lock_give(&r->lock);
}

static void publish(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        trim_as_large();
        if (!publish_word(me(), 100 + i, BLOCK)) broken("there was memory, and the publisher was refused");
    }
}

static void publish_1(void) { publish(1); }
static void publish_2(void) { publish(2); }
static void publish_3(void) { publish(3); }

/* On another band, where the sequences begin anew: so one is that which a reader of the first band looks for. */
static void publish_1_and_3_above(void)
{
    uint64_t words[BLOCK / 8] = {0};
    publish(1);
    for (uint32_t i = 0; i < 3; i++) {
        words[0] = words[BLOCK / 8 - 1] = ABOVE + i;
        if (rtmw_publish(&world.publisher[me()], words, BLOCK, &(rtmw_message_qos){.priority = 1}) != RTMW_OK)
            broken("there was memory, and the publisher was refused");
    }
}

static bool take_one(uint32_t who)
{
    rtmw_message m;
    int code = rtmw_take(&world.subscriber[who], &m);
    if (code != RTMW_OK && code != RTMW_EMPTY && code != RTMW_LAPSED) broken("a take says %d", code);
    if (code != RTMW_OK) return code == RTMW_LAPSED;
    if (!is_whole(&m)) broken("took a message that is not there any more");
    if (world.noted[who] && m.sequence <= world.note[who][world.noted[who] - 1]) broken("taken twice, or out of order");
    world.note[who][world.noted[who]++] = m.sequence;
    rtmw_release(&world.region[who], m.descriptor);
    return true;
}

static void nothing(void) {}

static void take_all(uint32_t who)
{
    for (int i = 0; i < 12 && take_one(who);) i++;
}

static void take(void) { take_one(me()); }

/* Finds nothing, rests, and comes back for what there is by then. */
static void take_thrice(void)
{
    for (int i = 0; i < 3; i++) take_one(me());
}

static void take_of_two_bands(uint32_t who)
{
    rtmw_message m;
    int code = RTMW_OK;
    for (int i = 0; i < 6 && code == RTMW_OK; i++) {
        code = rtmw_take(&world.subscriber[who], &m);
        if (code != RTMW_OK && code != RTMW_EMPTY) broken("a take says %d", code);
        if (code != RTMW_OK) continue;
        if ((m.priority != 0) != (word_of(&m) >= ABOVE)) broken("a message of another band");
        rtmw_release(&world.region[who], m.descriptor);
    }
}

static void take_of_both(void) { take_of_two_bands(me()); }

static rtmw_message kept;

static void take_what_is_there(void)
{
    if (!take_one(me())) broken("a message was there, and the take found none");
}

/* Rests while a sample is out, which keeps the message as it is. */
static void rest_and_release(void)
{
    take_one(me());
    take_one(me()); /* others run here, while only the sample holds it */
    if (!is_whole(&kept)) broken("a message that is held was emptied");
    rtmw_release(&world.region[me()], kept.descriptor);
}

static void come_late(void)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 64, 2, 0, 0, 0};
    if (rtmw_subscriber_open(&world.region[me()], "race", NULL, &qos, &s) != RTMW_OK) return broken("subscriber_open");
    world.subscriber[me()] = *s;
    free(s);
    take_all(me());
}

static bool is_resting(uint32_t who) { return world.subscriber[who].index[0] == NIL && world.subscriber[who].sequence[0]; }

static bool has_block(void) { return world.shared.descriptors[link_index(band_of(0)->tail)].block_granules != 0; }

/* ---- where the races begin ---- */

static void one_unread(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 1);
    open_publisher(1, RTMW_ADAPTIVE, 1);
    open_subscriber(READER, RTMW_ADAPTIVE, 64);
    publish_word(0, 100, BLOCK);
}

static void one_read(void)
{
    one_unread();
    take_one(READER);
}

static void one_being_read(void)
{
    one_unread();
    if (!take_word(READER, &kept)) broken("nothing to take");
}

static void one_rested_on(void)
{
    one_read();
    take_one(READER);
    if (!is_resting(READER)) broken("the reader does not rest");
}

static void one_unread_by_who_rests(void)
{
    one_rested_on();
    publish_word(0, 101, BLOCK);
}

/* So many that the next publication passes over two of them. */
static void three_rested_on(void)
{
    one_rested_on();
    for (uint32_t i = 0; i < 2; i++) {
        publish_word(0, 101 + i, BLOCK);
        take_all(READER);
    }
}

static void two_rested_on(void)
{
    one_rested_on();
    publish_word(0, 101, BLOCK);
    take_all(READER);
    if (!is_resting(READER)) broken("the reader does not rest");
}

static void one_rested_on_by_a_publisher(void)
{
    one_rested_on();
    open_publisher(READER, RTMW_ADAPTIVE, 1);
}

static void one_read_at_depth_1(void)
{
    one_unread();
    world.subscriber[READER].block->depth = world.subscriber[READER].qos.depth = 1;
    world.subscriber[READER].block->reliability = world.subscriber[READER].qos.reliability = RTMW_TIMELY;
    take_one(READER);
}

static void one_that_nobody_reads(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 1);
    open_publisher(1, RTMW_ADAPTIVE, 1);
    publish_word(0, 100, BLOCK);
}

/* The lease of the reader ran out; its message is unread. */
static void one_lapsed(void)
{
    open_publisher(0, RTMW_RELIABLE, 1);
    open_subscriber(READER, RTMW_RELIABLE, 4);
    publish_word(0, 100, BLOCK);
    uint64_t *word = &world.shared.subscriber_words[world.subscriber[READER].slot];
    *word = (*word & ~UINT64_C(15)) | SLOT_LAPSED;
}

/* The same, while it rests. */
static void one_lapsed_at_rest(void)
{
    one_lapsed();
    uint64_t *word = &world.shared.subscriber_words[world.subscriber[READER].slot], lapsed = *word;
    *word = world.subscriber[READER].word;
    take_all(READER);
    if (!is_resting(READER)) broken("the reader does not rest");
    *word = lapsed;
}

/* ---- what must have come of them ---- */

/* The reader gets all that is there, and every sequence is accounted for. */
static bool adds_up(void)
{
    struct rtmw_subscriber *s = &world.subscriber[READER];
    take_all(READER);
    uint64_t tail = link_tag(band_of(0)->tail), received = s->block->received, missed = s->block->missed;
    if (s->sequence[0] != tail) broken("the reader stands at %u, tail is %u", (uint32_t)s->sequence[0], (uint32_t)tail);
    if (received + missed != tail)
        broken("%u received and %u missed, of %u", (uint32_t)received, (uint32_t)missed, (uint32_t)tail);
    return world.broken[0] == 0;
}

static const char *all_received(void)
{
    if (!adds_up()) return "";
    if (world.subscriber[READER].block->missed) return "lost";
    return all_comes_back() ? "all received" : "";
}

static const char *all_accounted_for(void) { return adds_up() && all_comes_back() ? "accounted for" : ""; }

/* Also after the race: the next message comes to who rests, and to who was late. */
static const char *block_kept_or_not(void)
{
    snprintf(text, sizeof text, has_block() ? "kept" : "given back");
    if (!publish_word(0, 100, BLOCK)) return "refused";
    if (world.subscriber[READER].block && !adds_up()) return "";
    if (world.subscriber[READER].block && world.subscriber[READER].block->missed) return "lost";
    return all_comes_back() ? text : "";
}

static const char *blocks_in_use(void)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < MOST_DESCRIPTORS; i++) blocks += world.shared.descriptors[i].block_granules != 0;
    snprintf(text, sizeof text, "%u blocks", blocks);
    return adds_up() && all_comes_back() ? text : "";
}

static const char *what_the_late_got(void)
{
    uint32_t got = world.noted[LATE];
    if (!publish_word(0, 100, BLOCK)) return "refused";
    take_all(LATE);
    if (world.noted[LATE] != got + 1) return "deaf";
    if (world.subscriber[LATE].block->missed) return "missed";
    return all_comes_back() ? got ? "taken" : "too late" : "";
}

static const char *received_in_its_band(void)
{
    take_of_two_bands(READER);
    return world.broken[0] ? "" : all_comes_back() ? "each in its band" : "";
}

static const struct outcome each_in_its_band[] = {
    {"each in its band", ACCEPTABLE, "what followed the message in its next life is not what follows it in the queue"},
    {0},
};

static const struct outcome received_only[] = {
    {"all received", ACCEPTABLE, "each message once, in order"},
    {"lost", FORBIDDEN, "a message that it had not read is gone"},
    {0},
};

static const struct outcome accounted_only[] = {
    {"accounted for", ACCEPTABLE, "received once or counted as missed"},
    {0},
};

static const struct outcome kept_or_not[] = {
    {"given back", ACCEPTABLE, "nobody held it"},
    {"kept", ACCEPTABLE, "somebody held it at that time"},
    {"lost", FORBIDDEN, "the next message did not come to the reader"},
    {0},
};

static const struct outcome given_back_only[] = {
    {"given back", ACCEPTABLE, "once, by one of the two"},
    {0},
};

static const struct outcome three_blocks[] = {
    {"3 blocks", ACCEPTABLE, "the message took the block of one that all had read"},
    {"4 blocks", FORBIDDEN, "a subscriber that only polls kept the publisher from blocks that nobody needs"},
    {0},
};

static const struct outcome taken_or_too_late[] = {
    {"taken", ACCEPTABLE, "it held the message in time, block and all"},
    {"too late", ACCEPTABLE, "it found the message emptied, or saw it being emptied"},
    {"deaf", FORBIDDEN, "it does not get what is published after it came"},
    {"missed", FORBIDDEN, "what went before it counted is not missed by it"},
    {0},
};

const struct race empty_races[] = {
    {"empty last ‖ take", {4, 1}, 3, 3, one_unread, {trim, nothing, take}, all_received, received_only},
    {"empty last ‖ take, by one that lapsed", {4, 1}, 3, 3, one_lapsed, {trim, nothing, take_thrice}, all_accounted_for, accounted_only},
    {"append, evict ‖ take, by one that lapsed at rest", {4, 1}, 3, 2, one_lapsed_at_rest, {publish_3, nothing, take_thrice},
     all_accounted_for, accounted_only},
    {"empty last ‖ take, by a late one", {4, 1}, 2, 3, one_that_nobody_reads, {trim, come_late}, what_the_late_got, taken_or_too_late},
    {"empty last ‖ append, evict, append", {4, 1}, 2, 2, one_rested_on, {trim, publish_3}, all_received, received_only},
    {"empty last ‖ append ‖ evict", {5, 1}, 3, 2, one_rested_on_by_a_publisher, {trim, publish_1, trim}, all_received, received_only},
    {"empty last ‖ append ‖ take", {5, 1}, 3, 2, one_rested_on, {trim, publish_1, take}, all_received, received_only},
    {"empty last ‖ empty last", {4, 1}, 2, 3, one_rested_on, {trim, trim}, block_kept_or_not, given_back_only},
    {"rest ‖ empty last", {4, 1}, 3, 3, one_read, {trim, nothing, take}, block_kept_or_not, kept_or_not},
    {"rest, release ‖ empty last", {4, 1}, 3, 3, one_being_read, {trim, nothing, rest_and_release}, block_kept_or_not, kept_or_not},
    {"rest, step ‖ append ‖ evict", {6, 2}, 3, 2, one_read, {trim, publish_2, take_thrice}, all_received, received_only},
    {"resting take ‖ append, evict, append", {4, 1}, 3, 3, one_unread_by_who_rests, {publish_3, nothing, take_what_is_there},
     all_received, received_only},
    {"resting take ‖ append, evict, append to another band", {4, 1}, 3, 2, two_rested_on,
     {publish_1_and_3_above, nothing, take_of_both}, received_in_its_band, each_in_its_band},
    {"resting take that finds nothing ‖ append", {6, 1}, 3, 3, three_rested_on, {publish_1, nothing, take}, blocks_in_use, three_blocks},
    {"rest, step ‖ append ‖ evict unread", {6, 2}, 3, 2, one_read_at_depth_1, {trim, publish_2, take_thrice}, all_accounted_for,
     accounted_only},
    {0},
};
