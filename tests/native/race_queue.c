/* Races of queues: append, evict, take, and claiming what is passed. */
#include <stdio.h>
#include <stdlib.h>

#include "races.h"

static char text[160];

static void publish_1(void) { note(publish_word(me(), 101 + me(), PUBLISHED_BYTES)); }

static void publish_2(void)
{
    for (uint64_t i = 0; i < 2; i++) note(publish_word(me(), 101 + me() + 10 * i, PUBLISHED_BYTES));
}

/* All at once; a note for each that was published. */
static void publish_at_once(uint32_t count)
{
    uint64_t words[4][PUBLISHED_BYTES / 8] = {0};
    struct part parts[4];
    uint32_t published;
    for (uint64_t i = 0; i < count; i++) {
        words[i][0] = words[i][PUBLISHED_BYTES / 8 - 1] = 101 + me() + 10 * i;
        parts[i] = (struct part){words[i], PUBLISHED_BYTES};
    }
    publish_quietly(&world.publisher[me()], parts, count, NULL, &published);
    for (uint32_t i = 0; i < published; i++) note(1);
}

static void publish_2_at_once(void) { publish_at_once(2); }
static void publish_3_at_once(void) { publish_at_once(3); }

static void publish_4(void)
{
    for (uint64_t i = 0; i < 4; i++) note(publish_word(me(), 101 + me() + 10 * i, PUBLISHED_BYTES));
}

/* Takes, and sees that what it holds stays what it is while the others go on. */
static void take_two(void)
{
    rtmw_message m[2];
    uint64_t value[2];
    int count = 0;
    for (int tries = 0; tries < 3 && count < 2; tries++)
        if (take_word(me(), &m[count])) {
            if (!is_whole(&m[count])) broken("took a message of another life");
            value[count] = word_of(&m[count]);
            note(m[count++].sequence);
        }
    for (int i = 0; i < count; i++) {
        if (!is_whole(&m[i]) || word_of(&m[i]) != value[i]) broken("a held message changed");
        rtmw_release(&world.region[me()], m[i].descriptor);
    }
    if (count == 2 && m[1].sequence <= m[0].sequence) broken("taken out of order");
}

/* From head: is it dense, and which publishers' words lie in it? */
static uint32_t walk(uint64_t *value, uint32_t most)
{
    struct band *band = band_of(0);
    uint64_t sequence = link_tag(band->head);
    uint32_t count = 0;
    for (uint32_t index = link_index(band->head); index != NIL && count < most; count++) {
        struct descriptor *d = &world.shared.descriptors[index];
        if (d->sequence != sequence++) broken("the sequence is not dense");
        if (state_kind(d->state) != QUEUED) broken("in the queue and not QUEUED");
        value[count] = *(uint64_t *)(void *)payload_of(&world.region[AUDITOR], d, d->size);
        index = link_index(d->next);
    }
    if (count && link_tag(band->tail) != sequence - 1) broken("tail stayed behind");
    return count;
}

static void two_publishers(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 64);
    open_publisher(1, RTMW_ADAPTIVE, 64);
}

static void two_publishers_after_one_message(void)
{
    two_publishers();
    publish_word(0, 100, PUBLISHED_BYTES);
}

static void three_publishers(void)
{
    two_publishers();
    open_publisher(2, RTMW_ADAPTIVE, 64);
}

/* The order in which the words of the actors lie in the queue, as text. */
static const char *order_of_words(void)
{
    uint64_t value[MOST_DESCRIPTORS];
    uint32_t count = walk(value, MOST_DESCRIPTORS), length = 0;
    if (!all_comes_back()) return "";
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        if (value[i] != 100) length += (uint32_t)snprintf(text + length, sizeof text - length, "%c", (char)('A' + value[i] - 101));
    return text;
}

static const struct outcome both_orders[] = {
    {"AB", ACCEPTABLE, "A linked first"},
    {"BA", ACCEPTABLE, "B linked first"},
    {"A", FORBIDDEN, "B was told that it is published"},
    {"B", FORBIDDEN, "A was told that it is published"},
    {0},
};

static const struct outcome six_orders[] = {
    {"ABC", ACCEPTABLE, "an order"}, {"ACB", ACCEPTABLE, "an order"}, {"BAC", ACCEPTABLE, "an order"},
    {"BCA", ACCEPTABLE, "an order"}, {"CAB", ACCEPTABLE, "an order"}, {"CBA", ACCEPTABLE, "an order"}, {0},
};

/* Four descriptors, two messages in the queue: who publishes must evict, and claim what it evicted. */
static void little_memory(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_subscriber(1, RTMW_TIMELY, 8);
    open_subscriber(2, RTMW_TIMELY, 2);
    for (uint64_t i = 0; i < 3; i++) publish_word(0, 100, PUBLISHED_BYTES);
}

static void little_memory_two_publishers(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(1, RTMW_TIMELY, 1);
    open_subscriber(2, RTMW_TIMELY, 2);
    for (uint64_t i = 0; i < 3; i++) publish_word(0, 100, PUBLISHED_BYTES);
}

/* How many messages each subscriber got; that each is right it saw itself. */
static const char *sums_add_up(void)
{
    uint64_t value[MOST_DESCRIPTORS], tail = link_tag(band_of(0)->tail);
    walk(value, MOST_DESCRIPTORS);
    for (uint32_t who = 0; who < ACTORS; who++) {
        rtmw_subscriber *s = &world.subscriber[who];
        if (!s->block) continue;
        uint64_t sum = s->block->received + s->block->missed, passed = s->sequence[0];
        if (sum != passed) broken("subscriber %u: %u are accounted for, %u were passed", who, (uint32_t)sum, (uint32_t)passed);
        if (passed > tail) broken("a cursor beyond tail");
    }
    return all_comes_back() ? "right" : "";
}

static const struct outcome right_only[] = {
    {"right", ACCEPTABLE, "whole messages, in order, and every sequence accounted for"},
    {0},
};

/* The least of it: one descriptor is passed and claimed anew while a subscriber is about to hold it. */
static void one_to_claim(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_subscriber(1, RTMW_TIMELY, 8);
    for (uint64_t i = 0; i < 2; i++) publish_word(0, 100, PUBLISHED_BYTES);
}

static void evict_and_claim(void)
{
    struct rtmw_region *r = &world.region[0];
    lock_take(&r->lock);
    queue_evict(r, band_of(0), 1, 8);
    uint32_t index = descriptor_claim(r, PUBLISHED_BYTES, 0);
    if (index != NIL) {
        *(uint64_t *)(void *)r->descriptors[index].payload = 999;
        store_relaxed(&r->descriptors[index].sequence, 999);
        descriptor_free(r, index);
    }
    lock_give(&r->lock);
}

/* Tail moves on, what was passed is evicted, and all of it lives anew elsewhere. */
static void publish_and_claim_the_rest(void)
{
    struct rtmw_region *r = &world.region[0];
    publish_word(0, 100, PUBLISHED_BYTES);
    lock_take(&r->lock);
    for (uint32_t passed = queue_evict(r, band_of(0), 2, 8); passed > 0; passed--) {
        uint32_t index = descriptor_claim(r, PUBLISHED_BYTES, 0);
        if (index == NIL) break;
        store_release(&r->descriptors[index].sequence, 999);
        descriptor_free(r, index);
    }
    lock_give(&r->lock);
}

static void look_at_tail(void)
{
    note(band_tail_sequence(&world.region[me()], band_of(0)));
    note(band_last_sequence(&world.region[me()], band_of(0)));
}

static const char *sequences_that_were(void)
{
    for (uint32_t i = 0; i < world.noted[1]; i++)
        if (world.note[1][i] != 2 && world.note[1][i] != 3) return "never was";
    return all_comes_back() ? "right" : "";
}

static const struct outcome no_sequence_of_another_life[] = {
    {"right", ACCEPTABLE, "the sequence of the message that was last before, or is now"},
    {"never was", FORBIDDEN, "a sequence of the descriptor's next life, in another band"},
    {0},
};

static const char *claimed_or_held(void) { return all_comes_back() ? "right" : ""; }

/* An appender that sleeps while the tail it read is passed and begins another life. */
static void stale_tail(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(1, RTMW_TIMELY, 1);
    publish_word(0, 100, PUBLISHED_BYTES);
}

static const char *nothing_vanishes(void)
{
    uint64_t value[MOST_DESCRIPTORS];
    uint32_t count = walk(value, MOST_DESCRIPTORS);
    uint64_t published = world.note[0][0] + world.note[1][0] + world.note[1][1] + world.note[1][2] + world.note[1][3];
    if (count && link_tag(band_of(0)->tail) < published + 1) broken("a published message is in no queue");
    return all_comes_back() ? "right" : "";
}

static const struct outcome orders_of_two_and_one[] = {
    {"AKB", ACCEPTABLE, "both first"},
    {"ABK", ACCEPTABLE, "one between the two"},
    {"BAK", ACCEPTABLE, "both last"},
    {0},
};

/* RELIABLE, and three unread messages are enough. */
static void three_are_enough(void)
{
    open_publisher(0, RTMW_RELIABLE, 64);
    open_publisher(1, RTMW_RELIABLE, 64);
    open_subscriber(2, RTMW_RELIABLE, 3);
}

static const char *few_too_many(void)
{
    uint64_t unread = link_tag(band_of(0)->tail), told = 0;
    for (uint32_t who = 0; who < 2; who++)
        for (uint32_t i = 0; i < world.noted[who]; i++) told += world.note[who][i];
    if (unread != told) broken("%u in the queue, told otherwise", (uint32_t)unread);
    if (!all_comes_back()) return "";
    return unread < 3 ? "too few" : unread == 3 ? "as many" : unread == 4 ? "one more" : "too many";
}

static const struct outcome one_for_each_other[] = {
    {"as many", ACCEPTABLE, "as the subscriber asks for"},
    {"one more", ACCEPTABLE, "one for each other publisher that appends at the same moment"},
    {"too few", FORBIDDEN, "there was room"},
    {"too many", FORBIDDEN, "many at once look at the room again when another publisher comes between"},
    {0},
};

/* ---- somebody looks at messages without holding them, while they are evicted and their descriptors used again ---- */

static void publish_3_large(void)
{
    for (uint64_t i = 1; i <= 3; i++)
        if (publish_word(0, 100 + link_tag(band_of(0)->tail) + 1, 600)) note(i);
}

static void little_memory_and_a_message(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    publish_3_large();
}

static void peek_all(void)
{
    uint64_t preview[8];
    struct peek at = {.band = band_of(0), .index = NIL, .preview = preview, .room = sizeof preview};
    struct peeked m;
    uint64_t last = 0;
    for (int i = 0; i < 6 && peek_next(&world.region[me()], &at, &m); i++) {
        if (m.sequence <= last) broken("sequence %u comes after %u", (uint32_t)m.sequence, (uint32_t)last);
        if (m.shown != sizeof preview || m.size != 600 || preview[0] != 100 + m.sequence)
            broken("sequence %u shows %u", (uint32_t)m.sequence, (uint32_t)preview[0]);
        note(last = m.sequence);
    }
}

static const char *seen_as_published(void)
{
    if (world.noted[1] == 0) return "saw none";
    return all_comes_back() ? "right" : "";
}

static const struct outcome right_or_none[] = {
    {"right", ACCEPTABLE, "what it saw was published as that, in order"},
    {"saw none", ACCEPTABLE, "each message that it came to was evicted while it looked"},
    {0},
};

/* ---- what is passed over beside what is promised ---- */

/* Of a publisher without history: enough for a look at what may go. */
static void three_to_trim(void)
{
    open_publisher(1, RTMW_ADAPTIVE, 1);
    for (int i = 0; i < 3; i++) publish_word(1, 100, PUBLISHED_BYTES);
}

static void promise_and_publish_2(void)
{
    rtmw_publisher *p = NULL;
    rtmw_publisher_qos qos = {RTMW_ADAPTIVE, 0, 4, 2, 0};
    if (rtmw_publisher_open(&world.region[me()], "race", NULL, &qos, &p) != RTMW_OK) return broken("publisher_open");
    world.publisher[me()] = *p;
    free(p);
    publish_2();
}

/* As after a large message: all but the last one goes, and what is promised. */
static void trim(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    queue_trim(&world.publisher[me()], 0, 2 * PAGE);
    lock_give(&r->lock);
}

static const char *two_are_kept(void)
{
    uint64_t kept = link_tag(band_of(0)->tail) - link_tag(band_of(0)->head) + 1;
    return kept < 2 ? "lost" : all_comes_back() ? "kept" : "";
}

static const struct outcome kept_only[] = {
    {"kept", ACCEPTABLE, "what was promised, and what was not passed over yet"},
    {"lost", FORBIDDEN, "the look at what is promised was older than the message"},
    {0},
};

const struct race queue_races[] = {
    {"append ‖ append, first of the band", {4, 1}, 2, 3, two_publishers, {publish_1, publish_1}, order_of_words, both_orders},
    {"append ‖ append", {4, 1}, 2, 3, two_publishers_after_one_message, {publish_1, publish_1}, order_of_words, both_orders},
    {"append many ‖ append", {5, 1}, 2, 3, two_publishers_after_one_message, {publish_2_at_once, publish_1}, order_of_words,
     orders_of_two_and_one},
    {"append many ‖ append, append: room", {8, 1}, 2, 2, three_are_enough, {publish_3_at_once, publish_2}, few_too_many,
     one_for_each_other},
    {"append ‖ append ‖ append", {4, 1}, 3, 2, three_publishers, {publish_1, publish_1, publish_1}, order_of_words, six_orders},
    {"append ‖ append, append, append, append", {3, 1}, 2, 2, stale_tail, {publish_1, publish_4}, nothing_vanishes, right_only},
    {"claim ‖ hold", {3, 1}, 2, 4, one_to_claim, {evict_and_claim, take_two}, claimed_or_held, right_only},
    {"append, evict, claim ‖ look at tail", {4, 1}, 2, 3, one_to_claim, {publish_and_claim_the_rest, look_at_tail},
     sequences_that_were, no_sequence_of_another_life},
    {"append, evict ‖ take", {4, 1}, 2, 3, little_memory, {publish_2, take_two}, sums_add_up, right_only},
    {"append, evict ‖ take ‖ take", {5, 1}, 3, 2, little_memory, {publish_2, take_two, take_two}, sums_add_up, right_only},
    {"append, evict ‖ append, evict ‖ take", {4, 1}, 3, 2, little_memory_two_publishers, {publish_1, publish_1, take_two},
     sums_add_up, right_only},
    {"peek ‖ append, evict", {3, 1}, 2, 3, little_memory_and_a_message, {publish_3_large, peek_all}, seen_as_published,
     right_or_none},
    {"append with history ‖ trim", {8, 1}, 2, 2, three_to_trim, {promise_and_publish_2, trim}, two_are_kept, kept_only},
    {0},
};
