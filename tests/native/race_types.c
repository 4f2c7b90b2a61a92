/* Races of types that give their slots back, while others use them after all, or make new ones.
 *
 * There is one slot, and it holds the type "one". When nobody uses that, it goes to "two".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "races.h"

enum { ONE = 0, TWO = 1, NEW = 200 };

static const rtmw_type types[] = {{"one", 11, "the first", 9}, {"two", 22, "second", 6}};

static int open_as(uint32_t who, uint32_t type)
{
    rtmw_publisher *p = NULL;
    rtmw_publisher_qos qos = {RTMW_ADAPTIVE, 0, 4, 0, 0};
    int code = rtmw_publisher_open(&world.region[who], "race", &types[type], &qos, &p);
    if (code != RTMW_OK && code != RTMW_NO_TYPE_SLOT) broken("publisher_open says %d", code);
    if (code != RTMW_OK) return code;
    world.publisher[who] = *p;
    free(p);
    return code;
}

static bool is_open(uint32_t who) { return world.publisher[who].region != NULL; }

static void close_at(uint32_t who)
{
    rtmw_publisher *p = malloc(sizeof *p);
    *p = world.publisher[who];
    memset(&world.publisher[who], 0, sizeof world.publisher[who]);
    rtmw_publisher_close(p);
}

static void an_idle_type(void)
{
    open_as(0, ONE);
    close_at(0);
}

static void use(uint32_t type)
{
    if (open_as(me(), type) == RTMW_OK && !publish_word(me(), NEW + type, PUBLISHED_BYTES)) broken("not published");
}

static void use_one(void) { use(ONE); }
static void use_two(void) { use(TWO); }

static void use_one_and_leave(void)
{
    use(ONE);
    if (is_open(me())) close_at(me());
}

/* What a slot says is a type as somebody named it, or nothing. */
static const rtmw_type *type_at(uint32_t index)
{
    static rtmw_type_copy copy;
    if (rtmw_type_find(&world.region[AUDITOR], (uint16_t)index, &copy) != RTMW_OK) return NULL;
    for (uint32_t i = 0; i < 2; i++)
        if (copy.identity == types[i].identity && strcmp(copy.name, types[i].name) == 0 &&
            copy.description_bytes == types[i].description_bytes &&
            memcmp(copy.description, types[i].description, copy.description_bytes) == 0)
            return &types[i];
    return broken("a type is none of these"), NULL;
}

static bool has_its_type(uint32_t who, uint32_t type)
{
    if (type_at(world.publisher[who].block->type) == &types[type]) return true;
    return broken("a publisher of %s has another type", types[type].name), false;
}

static const char *one_or_two(void)
{
    bool one = is_open(0), two = is_open(1);
    if (one && !has_its_type(0, ONE)) return "";
    if (two && !has_its_type(1, TWO)) return "";
    if (!all_comes_back()) return "";
    return one && two ? "both" : one ? "one" : two ? "two" : "neither";
}

static const struct outcome one_of_them[] = {
    {"one", ACCEPTABLE, "the type stays, for it is used"},
    {"two", ACCEPTABLE, "the type is gone, and its slot is another one's"},
    {"both", FORBIDDEN, "there is one slot, for two types"},
    {"neither", FORBIDDEN, "nobody uses the slot"},
    {0},
};

/* ---- who takes a message finds out what it is ---- */

static void an_idle_type_and_a_reader(void)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 8, 0, 0, 0, 0};
    an_idle_type();
    if (rtmw_subscriber_open(&world.region[2], "race", RTMW_ANY, &qos, &s) != RTMW_OK) return broken("no subscriber");
    world.subscriber[2] = *s;
    free(s);
}

static void take_and_look(uint32_t who)
{
    rtmw_message m;
    while (take_word(who, &m)) {
        const rtmw_type *found = type_at(m.type);
        if (found != &types[word_of(&m) - NEW]) broken("a message of %s has another type", types[word_of(&m) - NEW].name);
        rtmw_release(&world.region[who], m.descriptor);
    }
}

static void take(void) { take_and_look(2); }

static const char *all_are_what_they_were(void)
{
    take_and_look(2);
    bool two = is_open(1);
    if (two && !has_its_type(1, TWO)) return "";
    return !all_comes_back() ? "" : two ? "two" : "one";
}

static const struct outcome each_by_its_type[] = {
    {"one", ACCEPTABLE, "a message of the type was there, so that stayed"},
    {"two", ACCEPTABLE, "the message was not published yet, or taken and passed"},
    {0},
};

/* ---- who looks on ---- */

static void look(void) { type_at(0); }

static const char *whatever(void) { return all_comes_back() ? "whole" : ""; }

static const struct outcome whole_only[] = {{"whole", ACCEPTABLE, "the type as it was named, or none"}, {0}};

/* ---- death, and standing still, at every step ---- */

enum { DEAD = 0, HELPER = 1 };

static void must_use(uint32_t type, const char *when)
{
    if (open_as(HELPER, type) != RTMW_OK) return broken("%s: type %s is refused", when, types[type].name);
    if (has_its_type(HELPER, type)) close_at(HELPER);
}

static bool is_used(void)
{
    for (uint32_t i = 0; i < MOST_DESCRIPTORS; i++)
        if (state_kind(world.shared.descriptors[i].state) != FREE && world.shared.descriptors[i].type == 0) return true;
    return false;
}

/* Beside one that is stopped a type is refused, or it is the one that the slot holds. What the dead published keeps its type
 * for as long as it lies in the queue. */
static void go_on_without_it(void)
{
    if (open_as(HELPER, ONE) == RTMW_OK && has_its_type(HELPER, ONE)) close_at(HELPER);
    world_kill(DEAD);
    if (is_used()) return;
    must_use(TWO, "after a death");
    must_use(ONE, "after a death");
}

static void use_another_type(void)
{
    bool retiring = slot_state_of(world.shared.types[0].word) == SLOT_RETIRING;
    if (open_as(HELPER, TWO) != RTMW_OK && retiring) broken("a retirer that is stopped keeps a type RETIRING");
}

static void use_two_in_vain(void) { open_as(me(), TWO); }

bool die_retiring_types(void)
{
    return die_beside("use a new type", an_idle_type, use_two_in_vain, go_on_without_it) &
           die_beside("use a new type", an_idle_type, use_two_in_vain, use_another_type) &
           die_beside("publish a new type", an_idle_type, use_two, go_on_without_it);
}

const struct race type_races[] = {
    {"use a type ‖ use a new one", {4, 1}, 2, 2, an_idle_type, {use_one, use_two}, one_or_two, one_of_them},
    {"use a type, leave ‖ use a new one", {4, 1}, 2, 3, an_idle_type_and_a_reader, {use_one_and_leave, use_two},
     all_are_what_they_were, each_by_its_type},
    {"use a type, leave ‖ use a new one ‖ take", {4, 1}, 3, 2, an_idle_type_and_a_reader,
     {use_one_and_leave, use_two, take}, all_are_what_they_were, each_by_its_type},
    {"look at a type ‖ use a new one", {4, 1}, 2, 3, an_idle_type, {look, use_two}, whatever, whole_only},
    {0},
};
