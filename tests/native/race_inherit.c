/* Races of a block that goes from the last message, which all have read, to the next one.
 *
 * What must hold: nobody loses a message, or gets one twice; a message that is handed out is whole; no page is owned
 * twice, or by nobody while it is written to.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bitmap.h"
#include "races.h"

enum { OTHER = 1, READER = 2 };

static char text[64];
static rtmw_message kept;

static void nothing(void) {}

static void inherit(void)
{
    if (!publish_inheriting(me(), 200 + me(), PAGE)) broken("there was memory, and the publisher was refused");
}

static void inherit_twice(void)
{
    inherit();
    inherit();
}

static void publish_page(void)
{
    if (!publish_word(me(), 300, PAGE)) broken("there was memory, and the publisher was refused");
}

static void trim(void) { make_room_for_page(me()); }

static void take_one(uint32_t who)
{
    rtmw_message m;
    if (!take_word(who, &m)) return;
    if (!is_whole(&m)) broken("took a message that is not there any more");
    if (world.noted[who] && m.sequence <= world.note[who][world.noted[who] - 1]) broken("taken twice, or out of order");
    world.note[who][world.noted[who]++] = m.sequence;
    rtmw_release(&world.region[who], m.descriptor);
}

static void take(void) { take_one(me()); }

static void take_thrice(void)
{
    for (int i = 0; i < 3; i++) take_one(me());
}

/* Rests while a sample is out: its block must stay what it is until the release. */
static void rest_and_release(void)
{
    take_one(me());
    if (!is_whole(&kept)) broken("the block of a message that is held was given away");
    rtmw_release(&world.region[me()], kept.descriptor);
}

static void come_late(void)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 64, 2, 0, 0, 0};
    if (rtmw_subscriber_open(&world.region[me()], "race", NULL, &qos, &s) != RTMW_OK) return broken("subscriber_open");
    world.subscriber[me()] = *s;
    free(s);
    take_thrice();
}

/* ---- where the races begin ---- */

static void nobody_reads(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 1);
    open_publisher(OTHER, RTMW_ADAPTIVE, 1);
    publish_word(0, 100, PAGE);
}

static void one_unread(void)
{
    nobody_reads();
    open_subscriber(READER, RTMW_ADAPTIVE, 64);
    publish_word(0, 101, PAGE);
}

static void one_being_read(void)
{
    one_unread();
    if (!take_word(READER, &kept)) broken("nothing to take");
}

/* The reader has not read the first message; nobody asked for the last one. */
static void last_is_for_nobody(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 1);
    open_publisher(OTHER, RTMW_RELIABLE, 1);
    open_subscriber(READER, RTMW_RELIABLE, 64);
    publish_word(OTHER, 100, PAGE);
    publish_word(0, 101, PAGE);
}

static void one_rested_on(void)
{
    one_unread();
    take_one(READER);
    take_one(READER);
}

/* All pages are called free: wrong hints cost a look, and no more. */
static void one_rested_on_in_a_page_called_free(void)
{
    struct rtmw_region *r = &world.region[0];
    one_rested_on();
    for (uint32_t page = 0; page < r->header->pages; page++) bitmap_set(r->free_pages, page);
}

/* ---- what must have come of them ---- */

/* A band's memory, as `place` tells it, is that of its messages. */
static void see_that_granules_add_up(void)
{
    struct band *band = band_of(0);
    struct descriptor *d = &world.shared.descriptors[link_index(band->head)];
    uint64_t before = place_granules(d->place) - d->block_granules, sum = d->block_granules;
    for (; link_index(d->next) != NIL; sum += d->block_granules) d = &world.shared.descriptors[link_index(d->next)];
    if (place_granules(d->place) - before != sum) broken("the band has %u granules, and `place` tells another number", (uint32_t)sum);
}

static const char *all_received(void)
{
    struct rtmw_subscriber *s = &world.subscriber[READER];
    see_that_granules_add_up();
    for (int i = 0; i < 12; i++) take_one(READER);
    uint64_t tail = link_tag(band_of(0)->tail);
    if (s->sequence[0] != tail) broken("the reader stands at %u, tail is %u", (uint32_t)s->sequence[0], (uint32_t)tail);
    if (s->block->missed || s->block->received + 1 != tail) return "lost";
    return all_comes_back() ? "all received" : "";
}

static const char *first_received(void)
{
    struct rtmw_subscriber *s = &world.subscriber[READER];
    see_that_granules_add_up();
    for (int i = 0; i < 12; i++) take_one(READER);
    return s->block->received == 1 && !s->block->missed && all_comes_back() ? "all received" : "lost";
}

static const char *what_the_late_got(void)
{
    for (int i = 0; i < 12; i++) take_one(READER);
    if (world.subscriber[READER].block->missed) return "missed";
    snprintf(text, sizeof text, "%u", world.noted[READER]);
    return all_comes_back() ? text : "";
}

static const struct outcome received_only[] = {
    {"all received", ACCEPTABLE, "each message once, in order"},
    {"lost", FORBIDDEN, "a message that it had not read is gone"},
    {0},
};

static const struct outcome one_or_two[] = {
    {"1", ACCEPTABLE, "the new message; the block of the one before was given away"},
    {"2", ACCEPTABLE, "it held both in time"},
    {"missed", FORBIDDEN, "what went before it counted is not missed by it"},
    {0},
};

const struct race inherit_races[] = {
    {"inherit ‖ take", {5, 3}, 3, 3, one_unread, {inherit, nothing, take}, all_received, received_only},
    {"inherit ‖ rest, release", {5, 3}, 3, 3, one_being_read, {inherit, nothing, rest_and_release}, all_received, received_only},
    {"inherit, inherit ‖ take", {5, 3}, 3, 2, one_rested_on, {inherit_twice, nothing, take_thrice}, all_received, received_only},
    {"inherit ‖ take of what is unread", {6, 4}, 3, 2, last_is_for_nobody, {inherit_twice, nothing, take}, first_received, received_only},
    {"inherit ‖ inherit", {6, 4}, 2, 2, one_rested_on, {inherit, inherit}, all_received, received_only},
    {"inherit ‖ publish a page", {6, 4}, 2, 3, one_rested_on_in_a_page_called_free, {inherit, publish_page}, all_received, received_only},
    {"inherit ‖ empty last ‖ take", {6, 4}, 3, 2, one_rested_on, {inherit, trim, take}, all_received, received_only},
    {"inherit ‖ take, by a late one", {5, 3}, 3, 2, nobody_reads, {inherit, nothing, come_late}, what_the_late_got, one_or_two},
    {0},
};
