/* Races of topics that give their slots back, while others use them after all, trace them, or make new ones.
 *
 * There are two slots, and each holds a topic: "race" and "other". What is idle of them goes when a third name comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "races.h"
#include "reclaim.h"

enum { OLD = 100, NEW = 200 };

static void open_at(uint32_t who, const char *name, uint32_t history)
{
    rtmw_publisher *p = NULL;
    rtmw_publisher_qos qos = {RTMW_ADAPTIVE, 0, 4, history, 0};
    int code = rtmw_publisher_open(&world.region[who], name, NULL, &qos, &p);
    if (code != RTMW_OK && code != RTMW_NO_TOPIC_SLOT) broken("publisher_open says %d", code);
    if (code != RTMW_OK) return;
    world.publisher[who] = *p;
    free(p);
}

static bool is_open(uint32_t who) { return world.publisher[who].region != NULL; }

static void close_at(uint32_t who)
{
    rtmw_publisher *p = malloc(sizeof *p);
    *p = world.publisher[who];
    memset(&world.publisher[who], 0, sizeof world.publisher[who]);
    rtmw_publisher_close(p);
}

static void two_idle_topics(void)
{
    for (uint32_t who = 0; who < 2; who++) {
        open_at(who, who ? "other" : "race", 0);
        publish_word(who, OLD, PUBLISHED_BYTES);
        close_at(who);
    }
}

/* ---- who uses a topic, and who wants its slot ---- */

static void use(const char *name)
{
    open_at(me(), name, 0);
    if (is_open(me()) && !publish_word(me(), NEW + me(), PUBLISHED_BYTES)) broken("not published");
}

static void use_race(void) { use("race"); }
static void use_new(void) { use("new"); }

static void retire(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    retire_topics(r);
    lock_give(&r->lock);
}

static void claim_race(void)
{
    struct rtmw_region *r = &world.region[me()];
    struct claimed claimed;
    lock_take(&r->lock);
    note(endpoint_claim(r, &(struct wanted){"race", NULL, true}, &claimed));
    note(claimed.topic);
    lock_give(&r->lock);
}

/* Who uses a topic uses the only one of that name. */
static bool is_the_one(uint32_t topic, const char *name)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < TOPICS; i++)
        there += slot_is_there(world.shared.topics[i].word) && strcmp(world.shared.topics[i].name, name) == 0;
    bool right = slot_is_there(world.shared.topics[topic].word) && strcmp(world.shared.topics[topic].name, name) == 0;
    if (!right) broken("%s is used in a slot that is not its own", name);
    if (there > 1) broken("two topics are called %s", name);
    return right && there == 1;
}

/* The last message of the topic that it used is its own, and of this life. */
static bool is_newest(uint32_t who)
{
    struct band *band = band_of(world.publisher[who].topic_index);
    struct descriptor *d = &world.shared.descriptors[link_index(band->tail)];
    return d->sequence > band->origin && memcmp(d->payload, &(uint64_t){NEW + who}, 8) == 0;
}

static const char *both_use(const char *first, const char *second)
{
    const char *const names[] = {first, second};
    for (uint32_t who = 0; who < 2; who++) {
        if (!is_open(who)) return "refused";
        if (!is_the_one(world.publisher[who].topic_index, names[who])) return "";
        if (strcmp(first, second) && !is_newest(who)) broken("its message is not the newest");
    }
    if ((strcmp(first, second) == 0) != (world.publisher[0].topic_index == world.publisher[1].topic_index))
        broken("their topics are not what their names say");
    bool stayed = world.publisher[0].topic_index == 0;
    return all_comes_back() ? stayed ? "stayed" : "moved" : "";
}

static const char *race_and_new(void) { return both_use("race", "new"); }
static const char *new_and_new(void) { return both_use("new", "new"); }

static const struct outcome stayed_or_moved[] = {
    {"stayed", ACCEPTABLE, "the first one's topic is in the first slot"},
    {"moved", ACCEPTABLE, "or in the other one: the first was given to another"},
    {"refused", FORBIDDEN, "there are two slots, for two names"},
    {0},
};

static const char *as_it_was_told(void)
{
    if (world.note[2][0] != RTMW_OK) return all_comes_back() ? "refused" : "";
    return is_the_one((uint32_t)world.note[2][1], "race") && all_comes_back() ? "used" : "";
}

static const struct outcome used_or_refused[] = {
    {"used", ACCEPTABLE, "its endpoint is of a topic that is there"},
    {"refused", ACCEPTABLE, "the retirers each had a slot to themselves for a moment"},
    {0},
};

/* ---- many names, few slots ---- */

static void use_a(void) { use("a"); }
static void use_b(void) { use("b"); }
static void use_and_leave(void)
{
    use("a");
    if (is_open(me())) close_at(me());
}

static const char *each_its_own(void)
{
    static const char *const names[] = {"a", "a", "b"};
    uint32_t open = 0;
    for (uint32_t who = 0; who < ACTORS; who++) {
        if (!is_open(who)) continue;
        open++;
        if (!is_the_one(world.publisher[who].topic_index, names[who])) return "";
    }
    for (uint32_t i = 0; i < TOPICS; i++)
        if (slot_state_of(world.shared.topics[i].word) == SLOT_RETIRING) broken("a retirer leaves a topic RETIRING");
    return !all_comes_back() ? "" : open == 2 ? "all" : "one refused";
}

static const struct outcome all_or_one_refused[] = {
    {"all", ACCEPTABLE, "each name has a slot"},
    {"one refused", ACCEPTABLE, "two makers of one name each had a slot for a moment"},
    {0},
};

/* ---- tracing ---- */

static uint64_t old_life;

static void one_idle_topic(void)
{
    two_idle_topics();
    open_at(2, "other", 0);
    old_life = topic_life(&world.region[AUDITOR], 0);
}

static void trace(void) { note(trace_begin(&world.region[me()], old_life)); }

static const char *traced_or_gone(void)
{
    bool stands = topic_life(&world.region[AUDITOR], 0) == old_life;
    uint64_t traced = world.shared.topics[0].tracers[0];
    if (world.note[0][0] == RTMW_OK) return !stands || !traced ? "traced in vain" : all_comes_back() ? "traced" : "";
    if (stands || traced) return "gone in vain";
    return all_comes_back() ? "gone" : "";
}

static const struct outcome traced_or_gone_only[] = {
    {"traced", ACCEPTABLE, "its slot stays its own"},
    {"gone", ACCEPTABLE, "it is told so, and traces nothing else"},
    {"traced in vain", FORBIDDEN, "a topic that is traced has given its slot away"},
    {"gone in vain", FORBIDDEN, "it is there all the same"},
    {0},
};

/* ---- what is evicted and taken while a slot changes hands ---- */

/* Of "race", which is idle, three messages are kept. */
static void three_old_messages(void)
{
    two_idle_topics();
    open_at(0, "race", 0);
    for (int i = 0; i < 2; i++) publish_word(0, OLD, PUBLISHED_BYTES);
    close_at(0);
    open_at(2, "other", 0);
}

static void keep_two(void)
{
    open_at(me(), "new", 2);
    for (uint64_t i = 0; i < 2; i++) publish_word(me(), NEW + i, PUBLISHED_BYTES);
}

static void evict_everywhere(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    world.publisher[2].region = r; /* the topic is another one's, what is evicted is not */
    struct search search = search_begin(&world.publisher[2], 0, PUBLISHED_BYTES);
    make_room(&search);
    lock_give(&r->lock);
}

/* What one who comes late gets of all that is kept. Of a new name, nothing of the topic that had the slot before. */
static uint32_t kept_of(const char *name)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {RTMW_ADAPTIVE, 8, 8, 0, 0, 0};
    rtmw_message m;
    uint32_t got = 0;
    if (rtmw_subscriber_open(&world.region[AUDITOR], name, NULL, &qos, &s) != RTMW_OK) return broken("no subscriber"), 0;
    for (; rtmw_take(s, &m) == RTMW_OK; got++) {
        if (word_of(&m) < NEW && strcmp(name, "new") == 0) broken("a message of another topic");
        rtmw_release(&world.region[AUDITOR], m.descriptor);
    }
    rtmw_subscriber_close(s);
    return got;
}

static const char *two_are_kept(void)
{
    if (!is_open(0)) return "refused";
    if (kept_of("new") != 2) return "lost";
    return all_comes_back() ? "kept" : "";
}

static const struct outcome kept_only[] = {
    {"kept", ACCEPTABLE, "what the new topic's publisher promised to keep, and no more"},
    {"lost", FORBIDDEN, "an evictor counted on what the old topic promised"},
    {"refused", FORBIDDEN, "there was a slot for it"},
    {0},
};

/* ---- death, and standing still, at every step ---- */

enum { DEAD = 0, HELPER = 1 };

static void must_use(const char *name, const char *when)
{
    open_at(HELPER, name, 0);
    if (!is_open(HELPER)) return broken("%s: %s is refused", when, name);
    if (!publish_word(HELPER, NEW + HELPER, PUBLISHED_BYTES)) broken("%s: not published", when);
    if (is_the_one(world.publisher[HELPER].topic_index, name) && !kept_of(name)) broken("%s: not taken", when);
    close_at(HELPER);
}

/* Another one uses what the dead was about to retire, while that is only stopped; then what it was about to make. */
static void go_on_without_it(void)
{
    must_use("race", "beside one that is stopped");
    world_kill(DEAD);
    must_use("new", "after a death");
    must_use("race", "after a death");
}

/* A stopped retirer keeps the slot that it has to itself, and no other. */
static void one_slot_to_retire(void)
{
    two_idle_topics();
    open_at(2, "other", 0);
}

static void use_another_name(void)
{
    bool retiring = false;
    for (uint32_t i = 0; i < TOPICS; i++) retiring |= slot_state_of(world.shared.topics[i].word) == SLOT_RETIRING;
    open_at(HELPER, "fresh", 0);
    if (!is_open(HELPER) && retiring) broken("a retirer that is stopped keeps a topic RETIRING");
}

static void leave_it_to_the_sweep(void) { world_kill(DEAD); }

/* "race" is left by a death somewhere in publishing; its slot goes to another topic. */
static void one_that_dies_here(void)
{
    two_idle_topics();
    open_at(DEAD, "race", 0);
    open_at(2, "other", 0);
}

static void publish_old(void) { publish_word(DEAD, OLD, PUBLISHED_BYTES); }

static void make_another_of_it(void)
{
    world_kill(DEAD);
    must_use("new", "in the slot of a topic that the dead left");
}

bool die_beside(const char *name, void (*prepare)(void), void (*act)(void), void (*go_on)(void))
{
    static struct world start;
    uint32_t step = 1;
    world_make((struct size){8, 1});
    prepare();
    start = world;
    for (bool more = true; more; step++) {
        world = start;
        more = run_until_step(act, step);
        go_on();
        all_comes_back();
        if (!world.broken[0]) continue;
        fprintf(stderr, "death in %s, before step %u: %s\n", name, step, world.broken);
        return false;
    }
    printf("death in %-28s %6u steps, in a full table\n", name, step - 2);
    return true;
}

bool die_retiring(void)
{
    return die_beside("use a new topic", two_idle_topics, use_new, go_on_without_it) &
           die_beside("use a new topic", two_idle_topics, use_new, leave_it_to_the_sweep) &
           die_beside("use a new topic", one_slot_to_retire, use_new, use_another_name) &
           die_beside("publish, then another topic", one_that_dies_here, publish_old, make_another_of_it);
}

/* ---- a maker died between naming its topic and making it ACTIVE ---- */

static void make_as_the_dead(void)
{
    struct claimed claimed;
    endpoint_claim(&world.region[2], &(struct wanted){"new", NULL, true}, &claimed);
}

static bool is_named_and_claimed(void)
{
    for (uint32_t i = 0; i < TOPICS; i++) {
        uint64_t word = world.shared.topics[i].word, life = link_make(slot_generation(word), i);
        for (uint32_t m = 0; m < TOPICS; m++)
            if (slot_state_of(word) == SLOT_CLAIMED && world.shared.topic_directory[TOPICS + m] == life) return true;
    }
    return false;
}

static void a_maker_that_died(void)
{
    two_idle_topics();
    struct world before = world;
    for (uint32_t step = 1; run_until_step(make_as_the_dead, step); step++, world = before)
        if (is_named_and_claimed()) return world_kill(2);
    broken("no such step");
}

static void sweep_and_use(void)
{
    struct rtmw_region *r = &world.region[me()];
    lock_take(&r->lock);
    sweep_the_dead(r);
    lock_give(&r->lock);
    use_new();
}

const struct race retire_races[] = {
    {"use a topic ‖ use a new one", {6, 1}, 2, 3, two_idle_topics, {use_race, use_new}, race_and_new, stayed_or_moved},
    {"use a new topic ‖ use it, too", {6, 1}, 2, 2, two_idle_topics, {use_new, use_new}, new_and_new, stayed_or_moved},
    {"retire ‖ retire ‖ use a topic", {6, 1}, 3, 3, two_idle_topics, {retire, retire, claim_race}, as_it_was_told, used_or_refused},
    {"use a ‖ use a, leave ‖ use b", {6, 1}, 3, 2, two_idle_topics, {use_a, use_and_leave, use_b}, each_its_own,
     all_or_one_refused},
    {"trace ‖ use a new topic", {6, 1}, 2, 3, one_idle_topic, {trace, use_new}, traced_or_gone, traced_or_gone_only},
    {"use a new topic with history ‖ evict", {8, 1}, 2, 2, three_old_messages, {keep_two, evict_everywhere}, two_are_kept,
     kept_only},
    {"use what a dead maker named ‖ sweep", {6, 1}, 2, 2, a_maker_that_died, {use_new, sweep_and_use}, new_and_new,
     stayed_or_moved},
    {0},
};
