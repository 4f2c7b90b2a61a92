/* Races of coming and going: participants, topics, endpoints. */
#include <stdlib.h>

#include "races.h"

enum { NEWCOMER = 2 };

static void publish_1(void) { note(publish_word(me(), 100, PUBLISHED_BYTES)); }

static void publish_2(void)
{
    for (uint64_t i = 0; i < 2; i++) note(publish_word(me(), 100 + i, PUBLISHED_BYTES));
}

/* ---- two makers of one name ---- */

static void open_topic(void)
{
    uint64_t topic = NIL;
    note(topic_open(&world.region[me()], "shared", &topic) == RTMW_OK);
    note(topic);
}

static void nothing(void) {}

static const char *one_topic(void)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < 2; i++) active += slot_state_of(world.shared.topics[i].word) == SLOT_ACTIVE;
    if (!world.note[0][0] || !world.note[1][0]) return "refused";
    if (world.note[0][1] != world.note[1][1] || active != 1) return "two topics";
    return all_comes_back() ? "one topic" : "";
}

static const struct outcome one_topic_only[] = {
    {"one topic", ACCEPTABLE, "both got the same, and the spare slot went back"},
    {"two topics", FORBIDDEN, "a name stands for one topic"},
    {"refused", FORBIDDEN, "there was a slot for it"},
    {0},
};

/* ---- sweeping after the dead while its slot finds a new owner ---- */

static void sweep(void) { sweep_the_dead(&world.region[me()]); }

/* Attaches anew: the slot of the dead is the first that may come free. Then it holds a message. */
static void attach_and_hold(void)
{
    struct rtmw_region *r = &world.region[NEWCOMER];
    world_new_process(NEWCOMER);
    if (participant_claim(r) != RTMW_OK) return broken("no slot");
    lock_take(&r->lock);
    uint64_t tail = load_seq(&band_of(0)->tail);
    if (hold(r, link_index(tail), band_of(0), link_tag(tail))) note(link_index(tail));
    lock_give(&r->lock);
}

static void one_dead(void)
{
    open_publisher(0, RTMW_ADAPTIVE, 64);
    publish_word(0, 100, PUBLISHED_BYTES);
    open_subscriber(NEWCOMER, RTMW_ADAPTIVE, 64);   /* holds the message, and dies */
    world_kill(NEWCOMER);
}

static const char *newcomer_keeps(void)
{
    struct rtmw_region *r = &world.region[NEWCOMER];
    if (load_seq(&r->participants[r->me].word) != r->my_word) return "swept alive";
    if (!world.noted[NEWCOMER]) return "holds nothing";
    uint64_t holders = world.shared.descriptors[world.note[NEWCOMER][0]].holders[r->me >> 6];
    if (!(holders >> (r->me & 63) & 1)) return "robbed";
    for (uint32_t i = 0; i < PARTICIPANTS; i++) /* both sweepers live and are done */
        if (world.shared.participants[i].sweepers[0]) return "a sweeper's bit stays";
    return all_comes_back() ? "keeps" : "";
}

static const struct outcome keeps_only[] = {
    {"keeps", ACCEPTABLE, "no sweeper takes the newcomer for the dead"},
    {"robbed", FORBIDDEN, "a slow sweeper took what the next owner of the slot holds"},
    {"swept alive", FORBIDDEN, "a slow sweeper freed the slot of its next owner"},
    {0},
};

/* ---- two that attach, one of them twice, to slots that come free and are claimed meanwhile ---- */

static void attach_anew(void)
{
    world_new_process(me());
    note(participant_claim(&world.region[me()]) == RTMW_OK);
}

static void attach_leave_attach(void)
{
    attach_anew();
    participant_leave(&world.region[me()]);
    attach_anew();
}

static void two_dead(void)
{
    for (uint32_t who = 0; who < 2; who++) world_kill(who);
}

/* What a claim that came to nothing locked is free again: the lock of each slot is held by its owner, or by nobody. */
static bool locks_are_their_owners(void)
{
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++) {
        uint64_t word = world.shared.participants[slot].word, holder = world.locks[slot];
        bool held = holder && !world.dead[holder];
        if (held != (participant_state_of(word) != ABSENT) || (held && holder != participant_pid(word))) return false;
    }
    return true;
}

static const char *each_has_its_own(void)
{
    struct rtmw_region *a = &world.region[0], *b = &world.region[1];
    if (!world.note[0][0] || !world.note[1][0]) return "refused";
    if (a->me == b->me) return "both have one slot";
    if (load_seq(&a->participants[a->me].word) != a->my_word || load_seq(&b->participants[b->me].word) != b->my_word)
        return "swept alive";
    sweep_the_dead(&world.region[AUDITOR]);
    if (!locks_are_their_owners()) return "a lock stays";
    return all_comes_back() ? "each its own" : "";
}

static const struct outcome own_slots_only[] = {
    {"each its own", ACCEPTABLE, "nobody is taken for dead between his lock and his word"},
    {"swept alive", FORBIDDEN, "a sweeper saw a word whose lock was not taken yet"},
    {"both have one slot", FORBIDDEN, "two processes claimed one slot"},
    {"a lock stays", FORBIDDEN, "the slot can never be claimed again"},
    {"refused", FORBIDDEN, "there were slots for both"},
    {0},
};

/* ---- one lives and is swept, for it lost its lock: it stops, and harms nobody who has its slots now ---- */

enum { LOST = 0, HEIR = 1 };

static void swept_alive(void)
{
    struct rtmw_region *r = &world.region[HEIR];
    participant_leave(r);
    world_new_process(HEIR);
    open_publisher(LOST, RTMW_ADAPTIVE, 64);
    open_subscriber(LOST, RTMW_ADAPTIVE, 64);
    publish_word(LOST, 100, PUBLISHED_BYTES);
    world.locks[world.region[LOST].me] = 0;
    sweep_the_dead(&world.region[AUDITOR]);
    if (publish_word(LOST, 200, PUBLISHED_BYTES)) broken("publishes by a slot that is nobody's");
    world.region[LOST].swept = 0;
    world.claiming = HEIR;
    if (participant_claim(r) != RTMW_OK || r->me != world.region[LOST].me) broken("not the slot of the one that was swept");
    world.claiming = AUDITOR;
    open_publisher(HEIR, RTMW_ADAPTIVE, 64);
    open_subscriber(HEIR, RTMW_ADAPTIVE, 64);
    if (world.publisher[HEIR].slot != world.publisher[LOST].slot || world.subscriber[HEIR].slot != world.subscriber[LOST].slot)
        broken("not its endpoints");
}

static void go_on_and_close(void)
{
    rtmw_message m;
    rtmw_publisher *p = malloc(sizeof *p);
    rtmw_subscriber *s = malloc(sizeof *s);
    uint64_t word = 200;
    *p = world.publisher[LOST];
    *s = world.subscriber[LOST];
    note((uint64_t)rtmw_publish(p, &word, sizeof word, NULL));
    note((uint64_t)rtmw_take(s, &m));
    note((uint64_t)rtmw_wait(s, UINT64_MAX, 0));
    rtmw_publisher_close(p);
    rtmw_subscriber_close(s);
    rtmw_publisher_qos qos = RTMW_PUBLISHER_QOS;
    note((uint64_t)rtmw_publisher_open(&world.region[LOST], "race", NULL, &qos, &p));
}

static const char *stopped_and_harmed_nobody(void)
{
    rtmw_message m;
    struct rtmw_region *r = &world.region[HEIR];
    if (world.note[0][0] != RTMW_SWEPT || world.note[0][1] != RTMW_SWEPT || world.note[0][3] != RTMW_SWEPT) return "goes on";
    if (world.note[0][2] != RTMW_OK) return "waits";
    if (load_seq(&r->publisher_words[world.publisher[HEIR].slot]) != world.publisher[HEIR].word ||
        load_seq(&r->subscriber_words[world.subscriber[HEIR].slot]) != world.subscriber[HEIR].word)
        return "closed another's";
    if (!publish_word(HEIR, 300, PUBLISHED_BYTES) || !take_word(HEIR, &m) || word_of(&m) != 300) return "the heir is harmed";
    rtmw_release(r, m.descriptor);
    return all_comes_back() ? "stopped" : "";
}

static const struct outcome stopped_only[] = {
    {"stopped", ACCEPTABLE, "each call says SWEPT, waits end, and closing changes nothing"},
    {"goes on", FORBIDDEN, "it uses slots that are another process'"},
    {"waits", FORBIDDEN, "nobody will ever wake it"},
    {"closed another's", FORBIDDEN, "it freed the slot of another process"},
    {0},
};

/* ---- a subscriber comes while others publish and evict ---- */

static void subscribe_and_take(void)
{
    rtmw_message m;
    open_subscriber(me(), RTMW_RELIABLE, 4);
    uint64_t from = link_tag(load_seq(&band_of(0)->tail)), next = 0;
    note(from);
    for (int i = 0; i < 6 && take_word(me(), &m); i++) {
        if (!is_whole(&m)) broken("took a message of another life");
        if (next && m.sequence != next) broken("a gap");
        next = m.sequence + 1;
        note(m.sequence);
        rtmw_release(&world.region[me()], m.descriptor);
    }
}

static void reliable_publishers(void)
{
    open_publisher(0, RTMW_RELIABLE, 1);
    open_publisher(1, RTMW_RELIABLE, 1);
    publish_word(0, 100, PUBLISHED_BYTES);
    publish_word(0, 100, PUBLISHED_BYTES);
}

/* From the moment that open returned, nothing is lost: what it has not taken is still before it. */
static const char *nothing_lost(void)
{
    uint64_t from = world.note[2][0], cursor = world.subscriber[2].sequence[0], head = link_tag(band_of(0)->head);
    if (head > cursor + 1 && head > from + 1) return "evicted unread";
    for (uint32_t i = 1; i + 1 < world.noted[2]; i++)
        if (world.note[2][i + 1] != world.note[2][i] + 1) return "a gap";
    if (world.noted[2] > 1 && world.note[2][1] > from + 1) return "the first is missing";
    return all_comes_back() ? "nothing lost" : "";
}

static const struct outcome nothing_lost_only[] = {
    {"nothing lost", ACCEPTABLE, "all that was published after open returned is there"},
    {"evicted unread", FORBIDDEN, "a RELIABLE subscriber's message was evicted"},
    {0},
};

/* ---- a slot of a subscriber changes hands while a publisher judges its owner ---- */

static void expel(void) { rtmw_publisher_wait(&world.publisher[0], 0); }

static void close_and_come_again(void)
{
    rtmw_subscriber *old = malloc(sizeof *old);
    *old = world.subscriber[me()];
    rtmw_subscriber_close(old);
    open_subscriber(me(), RTMW_RELIABLE, 1);
    if (is_lapsed(&world.subscriber[me()])) broken("lapsed before it was asked for anything");
}

static void stalled_subscriber(void)
{
    open_publisher(0, RTMW_RELIABLE, 1);
    open_subscriber(1, RTMW_RELIABLE, 1);
    world.subscriber[1].block->lease_ns = 1;
    publish_word(0, 100, PUBLISHED_BYTES);
    world.clock_ns += 1u << 30;
    expel();                        /* sees where it stands */
    world.clock_ns += 50u << 20;    /* and the lease runs out */
}

/* A lease of 180 units. What does a publisher see of it that waits, gives up, and waits again later? */
static void wait_now_and_then(void)
{
    struct subscriber_block *block = world.subscriber[1].block;
    block->lease_ns = UINT64_C(180) << 20;
    for (int i = 0; i < 3; i++) {
        world.clock_ns += UINT64_C(100000) << 20; /* nobody waits */
        expel();
        world.clock_ns += 50u << 20;
        expel();
        note(is_lapsed(&world.subscriber[1]));
    }
    world.clock_ns += 50u << 20;
    expel();
    note(is_lapsed(&world.subscriber[1]));
}

static const char *lapsed_after(void)
{
    uint32_t looks = 0;
    while (looks < world.noted[0] && !world.note[0][looks]) looks++;
    return looks == 3 ? "its lease" : looks < 3 ? "too early" : "never";
}

static const struct outcome its_lease_only[] = {
    {"its lease", ACCEPTABLE, "only time counts in which a publisher waits"},
    {"too early", FORBIDDEN, "the lease ran while nobody waited"},
    {"never", FORBIDDEN, "publishers wait for ever, each for a short time"},
    {0},
};

static const char *judged_rightly(void) { return all_comes_back() ? "right" : ""; }

static const struct outcome right_only[] = {
    {"right", ACCEPTABLE, "the new owner is not blamed for the old one's stall"},
    {0},
};

const struct race membership_races[] = {
    {"open topic ‖ open topic", {4, 1}, 2, 3, nothing, {open_topic, open_topic}, one_topic, one_topic_only},
    {"sweep ‖ sweep ‖ attach", {4, 1}, 3, 2, one_dead, {sweep, sweep, attach_and_hold}, newcomer_keeps, keeps_only},
    {"attach ‖ attach, leave ‖ sweep", {4, 1}, 3, 2, two_dead, {attach_anew, attach_leave_attach, sweep}, each_has_its_own, own_slots_only},
    {"go on after being swept", {5, 1}, 1, 0, swept_alive, {go_on_and_close}, stopped_and_harmed_nobody, stopped_only},
    {"subscribe ‖ publish, evict ‖ publish", {8, 1}, 3, 2, reliable_publishers, {publish_2, publish_1, subscribe_and_take},
     nothing_lost, nothing_lost_only},
    {"expel, …, expel", {4, 1}, 1, 0, stalled_subscriber, {wait_now_and_then}, lapsed_after, its_lease_only},
    {"expel ‖ close, subscribe", {4, 1}, 2, 3, stalled_subscriber, {expel, close_and_come_again}, judged_rightly, right_only},
    {0},
};
