/* Races of hints: what may be claimed or evicted is always named by the bitmap that a search goes by. See bitmap.h.
 *
 * A hint that is missing would hide memory until somebody dies, and refuse messages for which there is room.
 */
#include <stdio.h>
#include <stdlib.h>

#include "races.h"
#include "reclaim.h"

enum { LENDER = 1, READER = 1, THIRD = 2, GLANCES = 12 };

static rtmw_loan loan;

/* ---- topics of which something may go ---- */

static void search_as(uint32_t who, uint32_t band)
{
    struct rtmw_region *r = &world.region[who];
    lock_take(&r->lock);
    struct search search = search_begin(&world.publisher[who], band, PUBLISHED_BYTES);
    search.looks = GLANCES;
    make_room(&search);
    lock_give(&r->lock);
}

static void search_once(void) { search_as(me(), 0); }

/* Its own topic has nothing in that band, so it goes by the bitmap alone. */
static void search_urgently(void) { search_as(me(), 1); }

static void publish_1(void) { publish_word(me(), 7, PUBLISHED_BYTES); }

static void publish_2(void)
{
    for (int i = 0; i < 2; i++) publish_1();
}

static void take_1(void)
{
    rtmw_message m;
    if (!take_word(me(), &m)) broken("a message was there, and the take found none");
    rtmw_release(&world.region[me()], m.descriptor);
}

static void leave(void)
{
    rtmw_subscriber *s = malloc(sizeof *s);
    *s = world.subscriber[me()];
    rtmw_subscriber_close(s);
}

static void one_message(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(1, RTMW_TIMELY, 1);
    publish_word(0, 7, PUBLISHED_BYTES);
}

static void one_of_a_history_of_two(void)
{
    one_message();
    world.shared.topics[0].history = 2;
}

static void two_that_are_needed(void)
{
    open_publisher(0, RTMW_RELIABLE, 8);
    open_subscriber(READER, RTMW_RELIABLE, 8);
    for (int i = 0; i < 2; i++) publish_word(0, 7, PUBLISHED_BYTES);
}

static bool is_named(void) { return (world.shared.topics[0].evictable & 1) && (world.shared.evictable[0] & 1); }

static const char *named_if_it_may_go(void)
{
    struct rtmw_region *r = &world.region[AUDITOR];
    struct outlook o = outlook_of(r, 0, 0, LOOK_UNREAD);
    struct glimpse oldest;
    bool is_there = glimpse_first(r, band_of(0), world.clock_ns, &oldest);
    bool may_go = is_there && o.kept > (o.history ? o.history : 1) && oldest.sequence <= o.floor[oldest.offer];
    if (may_go && !is_named()) return "hidden";
    return all_comes_back() ? may_go ? "may go" : "stays" : "";
}

static const struct outcome never_hidden[] = {
    {"may go", ACCEPTABLE, "and its topic is named"},
    {"stays", ACCEPTABLE, "the search was last, and took what might go"},
    {"hidden", FORBIDDEN, "no search finds it"},
    {0},
};

/* ---- what a publisher offers that comes while somebody looks ---- */

static void two_that_may_go_unread(void)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_subscriber(0, RTMW_ADAPTIVE, 8);
    open_subscriber(THIRD, RTMW_RELIABLE, 8);
    for (int i = 0; i < 2; i++) publish_word(0, 7, PUBLISHED_BYTES);
}

static void offer_reliable(void)
{
    open_publisher(me(), RTMW_RELIABLE, 8);
    for (uint64_t value = 1; value <= 2; value++) publish_word(me(), value, PUBLISHED_BYTES);
}

static const char *all_that_is_needed_is_there(void)
{
    rtmw_message m;
    for (uint64_t value = 1; value <= 2; value++)
        if (!take_word(THIRD, &m) || word_of(&m) != value) return "evicted";
    return "kept";
}

static const struct outcome kept_if_offered[] = {
    {"kept", ACCEPTABLE, "both, for the RELIABLE subscriber"},
    {"evicted", FORBIDDEN, "a RELIABLE subscriber lost a message of a RELIABLE publisher"},
    {0},
};

/* ---- stopped for good, and not dead: nobody sweeps ---- */

enum { STOPPED_ONE = 0, OTHER = 1 };

static void one_message_and_a_third(void)
{
    one_message();
    open_publisher(THIRD, RTMW_TIMELY, 1);
}

static void append_two(void)
{
    world.claiming = OTHER;
    for (int i = 0; i < 2; i++) publish_word(OTHER, 7, PUBLISHED_BYTES);
}

/* As a search leaves a topic of which nothing may go. */
static void name_no_more(void)
{
    world.shared.topics[0].pinned = 1;
    world.shared.topics[0].evictable = 0;
    world.shared.evictable[0] = 0;
}

static void one_message_that_stays(void)
{
    one_message_and_a_third();
    name_no_more();
}

/* All that the topic has is needed. */
static void pinned(void)
{
    open_publisher(OTHER, RTMW_RELIABLE, 8);
    open_subscriber(STOPPED_ONE, RTMW_RELIABLE, 8);
    open_publisher(THIRD, RTMW_TIMELY, 1);
    append_two();
    name_no_more();
}

static void take_2(void)
{
    rtmw_message m[2];
    uint32_t count;
    rtmw_take_many(&world.subscriber[me()], m, 2, UINT64_MAX, &count);
}

static void nothing_further(void) {}

/* By others, who find nothing and repair what they may; so the next one would. */
static bool is_hidden_from_searches(void)
{
    struct outlook o;
    world.claiming = THIRD;
    for (int i = 0; i < TOPICS; i++) {
        search_as(THIRD, 1);
        evictable_repair(&world.region[THIRD]);
    }
    world.claiming = AUDITOR;
    o = outlook_of(&world.region[AUDITOR], 0, 0, LOOK_UNREAD);
    return o.kept > 1 && o.floor[0] > o.passed.sequence && !is_named();
}

static bool stop_in(const char *name, void (*prepare)(void), void (*act)(void), void (*then)(void))
{
    bool stopped = true;
    uint32_t step;
    for (step = 1; stopped; step++) {
        world_make((struct size){6, 1});
        prepare();
        stopped = run_until_step(act, step);
        then();
        if (!is_hidden_from_searches() && !world.broken[0]) continue;
        fprintf(stderr, "stopped in %s at step %u: what may go is hidden %s\n", name, step, world.broken);
        return false;
    }
    printf("stopped in %-28s %4u steps, then others search\n", name, step - 2);
    return true;
}

bool stop_at_every_step(void)
{
    return stop_in("a search, before appends", one_message_and_a_third, search_urgently, append_two) &
           stop_in("an append, before appends", one_message_that_stays, publish_1, append_two) &
           stop_in("a take of what is pinned", pinned, take_2, nothing_further);
}

/* ---- descriptors and pages that are free ---- */

/* The hint of what is lent out is old: it says that it is free. */
static void lend_out(uint64_t size)
{
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(LENDER, RTMW_TIMELY, 1);
    if (rtmw_loan_take(&world.publisher[LENDER], size, &loan) != RTMW_OK) broken("no loan");
    world.shared.free_descriptors[0] = (UINT64_C(1) << world.region[0].header->descriptors) - 1;
    world.shared.free_pages[0] = (UINT64_C(1) << world.region[0].header->pages) - 1;
    world.shared.roomy_pages[0] = world.shared.free_pages[0];
}

static void lend_small(void) { lend_out(PUBLISHED_BYTES); }
static void lend_page(void) { lend_out(PAGE); }
static void lend_granules(void) { lend_out(15 * GRANULE); }

static void drop(void) { rtmw_loan_drop(&world.publisher[LENDER], &loan); }

static void lend_myself(uint64_t size)
{
    rtmw_loan mine;
    if (rtmw_loan_take(&world.publisher[me()], size, &mine) == RTMW_OK) rtmw_loan_drop(&world.publisher[me()], &mine);
}

static void loan_small(void) { lend_myself(PUBLISHED_BYTES); }
static void loan_page(void) { lend_myself(PAGE); }
static void loan_granules(void) { lend_myself(15 * GRANULE); }

static void two_pages_of_which_one_is_lent(void)
{
    open_publisher(2, RTMW_TIMELY, 1);
    if (rtmw_loan_take(&world.publisher[2], PAGE, &loan) != RTMW_OK) broken("no loan");
    rtmw_loan first = loan;
    if (rtmw_loan_take(&world.publisher[2], PAGE, &loan) != RTMW_OK) broken("no loan");
    rtmw_loan_drop(&world.publisher[2], &first);
    open_publisher(0, RTMW_TIMELY, 1);
    open_publisher(1, RTMW_TIMELY, 1);
    world.shared.free_pages[0] = 3;
}

/* By one who does nothing further: four granules are left. */
static void most_of_a_page_is_lent(void)
{
    for (uint32_t who = 0; who < ACTORS; who++) open_publisher(who, RTMW_TIMELY, 1);
    if (rtmw_loan_take(&world.publisher[2], 12 * GRANULE, &loan) != RTMW_OK) broken("no loan");
}

static void loan_two_pages(void) { lend_myself(2 * PAGE); }
static void loan_three_granules(void) { lend_myself(3 * GRANULE); }

static void keep_two_granules(void)
{
    rtmw_loan mine;
    rtmw_loan_take(&world.publisher[me()], 2 * GRANULE, &mine);
}

static bool has_room(uint32_t page)
{
    struct rtmw_region *r = &world.region[AUDITOR];
    uint32_t used = 0;
    for (uint32_t i = 0; i < GRANULES_A_PAGE; i++) used += owner_is_live(r, world.shared.granules[page * GRANULES_A_PAGE + i]);
    return !owner_is_live(r, world.shared.pages[page]) && used < GRANULES_A_PAGE;
}

static const char *all_is_named(void)
{
    struct header *sizes = world.region[0].header;
    for (uint32_t i = 0; i < sizes->descriptors; i++)
        if (state_kind(world.shared.descriptors[i].state) == FREE && !(world.shared.free_descriptors[0] >> i & 1)) return "hidden";
    for (uint32_t page = 0; page < sizes->pages; page++)
        if (has_room(page) && !((world.shared.free_pages[0] | world.shared.roomy_pages[0]) >> page & 1)) return "hidden";
    return all_comes_back() ? "named" : "";
}

static const struct outcome all_named[] = {
    {"named", ACCEPTABLE, "all that is free"},
    {"hidden", FORBIDDEN, "no search finds it"},
    {0},
};

const struct race hint_races[] = {
    {"hints: search ‖ append", {4, 1}, 2, 3, one_message, {search_once, publish_1}, named_if_it_may_go, never_hidden},
    {"hints: search ‖ append, append", {5, 1}, 2, 2, one_of_a_history_of_two, {search_once, publish_2}, named_if_it_may_go, never_hidden},
    {"hints: search ‖ take", {4, 1}, 2, 3, two_that_are_needed, {search_once, take_1}, named_if_it_may_go, never_hidden},
    {"hints: search ‖ leave", {4, 1}, 2, 2, two_that_are_needed, {search_once, leave}, named_if_it_may_go, never_hidden},
    {"hints: search ‖ offer RELIABLE", {6, 1}, 2, 1, two_that_may_go_unread, {search_urgently, offer_reliable},
     all_that_is_needed_is_there, kept_if_offered},
    {"hints: claim ‖ drop", {2, 1}, 2, 3, lend_small, {loan_small, drop}, all_is_named, all_named},
    {"hints: claim ‖ drop, a page", {2, 1}, 2, 3, lend_page, {loan_page, drop}, all_is_named, all_named},
    {"hints: claim ‖ drop, granules", {2, 1}, 2, 2, lend_granules, {loan_granules, drop}, all_is_named, all_named},
    {"hints: claim in vain ‖ claim in vain", {4, 2}, 2, 3, two_pages_of_which_one_is_lent, {loan_two_pages, loan_two_pages},
     all_is_named, all_named},
    {"hints: claim in vain ‖ claim, granules", {4, 1}, 2, 2, most_of_a_page_is_lent, {loan_three_granules, keep_two_granules},
     all_is_named, all_named},
    {0},
};
