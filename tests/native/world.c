/* A region of a few descriptors and pages in private memory, and what actors do in it. See explore.h. */
#include <stdlib.h>
#include <string.h>

#include "explore.h"
#include "reclaim.h"

struct world world;

static void find_tables(struct rtmw_region *r)
{
    r->hints = &world.shared.hints;
    r->blocks = world.shared.blocks;
    r->blocks_writable = true;
    r->participants = world.shared.participants;
    r->types = world.shared.types;
    r->topics = world.shared.topics;
    r->topic_directory = world.shared.topic_directory;
    r->type_directory = world.shared.type_directory;
    r->publisher_words = world.shared.publisher_words;
    r->subscriber_words = world.shared.subscriber_words;
    r->publishers = world.shared.publishers;
    r->subscribers = world.shared.subscribers;
    r->trace = &world.shared.trace;
    r->pages = world.shared.pages;
    r->granules = world.shared.granules;
    r->descriptors = world.shared.descriptors;
    r->free_descriptors = world.shared.free_descriptors;
    r->passed_descriptors = world.shared.passed_descriptors;
    r->free_pages = world.shared.free_pages;
    r->roomy_pages = world.shared.roomy_pages;
    r->evictable = world.shared.evictable;
    r->socket = -1;
}

static void empty_queues(void)
{
    for (uint32_t t = 0; t < TOPICS; t++)
        for (uint32_t b = 0; b < BANDS; b++)
            world.shared.topics[t].band[b].head = world.shared.topics[t].band[b].tail = link_make(0, NIL);
    for (uint32_t s = 0; s < SLOTS; s++)
        for (uint32_t b = 0; b < BANDS; b++) world.shared.subscribers[s].cursor[b] = link_make(0, NIL);
    for (uint32_t i = 0; i < MOST_DESCRIPTORS; i++) {
        world.shared.descriptors[i].next = link_make(0, NIL);
        world.shared.descriptors[i].block_tag = 1;
    }
}

void world_make(struct size size)
{
    memset(&world, 0, sizeof world);
    world.clock_ns = 1;
    struct header sizes = {.topics = TOPICS, .publishers = SLOTS, .subscribers = SLOTS, .types = 1,
                                          .descriptors = size.descriptors, .trace_entries = EVENTS, .pages = size.pages,
                                          .pool_bytes = (uint64_t)size.pages * PAGE};
    world.shared.trace.next = 1;
    world.shared.free_descriptors[0] = (UINT64_C(1) << size.descriptors) - 1;
    world.shared.free_pages[0] = (UINT64_C(1) << size.pages) - 1;
    empty_queues();
    for (uint32_t who = 0; who < REGIONS; who++) {
        struct rtmw_region *r = &world.region[who];
        *r->header = sizes;
        find_tables(r);
        r->refs = world.refs[who];
        r->tracing = world.tracing[who];
        r->domain = who;
        world_new_process(who);
        world.claiming = who;
        if (participant_claim(r) != RTMW_OK) broken("no participant slot");
    }
    world.claiming = AUDITOR;
}

/* Handles live in the world, so that they too are put back. The region of the auditor opens nothing. */
void open_publisher(uint32_t who, rtmw_reliability reliability, uint32_t depth)
{
    rtmw_publisher *p = NULL;
    rtmw_publisher_qos qos = {reliability, 0, depth, 0, 0};
    if (rtmw_publisher_open(&world.region[who], "race", NULL, &qos, &p) != RTMW_OK) return broken("publisher_open");
    world.publisher[who] = *p;
    free(p);
}

void open_subscriber(uint32_t who, rtmw_reliability reliability, uint32_t depth)
{
    rtmw_subscriber *s = NULL;
    rtmw_subscriber_qos qos = {reliability, depth, 0, 0, 0, 0};
    if (rtmw_subscriber_open(&world.region[who], "race", NULL, &qos, &s) != RTMW_OK) return broken("subscriber_open");
    world.subscriber[who] = *s;
    free(s);
}

struct band *band_of(uint32_t topic) { return &world.shared.topics[topic].band[0]; }

void note(uint64_t value)
{
    if (world.noted[me()] < 16) world.note[me()][world.noted[me()]++] = value;
}

void make_room_for_page(uint32_t who)
{
    rtmw_publisher *p = &world.publisher[who];
    p->region->short_of_pages = true;
    struct search search = search_begin(p, 0, PAGE);
    make_spare_room(&search);
}

void make_room_within(uint32_t who, uint32_t band, uint64_t granules)
{
    struct rtmw_region *r = &world.region[who];
    lock_take(&r->lock);
    r->short_of_pages = true;
    struct search search = {.publisher = &world.publisher[who], .need = granules, .looks_within = 64};
    search.now = monotonic_ns();
    struct outlook o = outlook_begin(r, 0, band, LOOK_UNREAD);
    empty_within(&search, &o);
    lock_give(&r->lock);
}

void world_kill(uint32_t who) { world.dead[world.pid[who]] = true; }

void world_new_process(uint32_t who)
{
    world.pid[who] = ++world.pids;
    world.region[who].control_fd = (int)world.pid[who];
    world.region[who].swept = 0;
    memset(world.refs[who], 0, sizeof world.refs[who]);
    memset(world.tracing[who], 0, sizeof world.tracing[who]);
}

/* A message's first and last word say its value, so that one of another life shows. */
bool publish_word(uint32_t who, uint64_t value, uint64_t size)
{
    uint64_t words[3 * PAGE / 8];
    words[0] = words[size / 8 - 1] = value;
    return rtmw_publish(&world.publisher[who], words, size, NULL) == RTMW_OK;
}

bool publish_inheriting(uint32_t who, uint64_t value, uint64_t size)
{
    struct rtmw_region *r = &world.region[who];
    lock_take(&r->lock);
    uint32_t index = inherit_last(&world.publisher[who], 0, size);
    lock_give(&r->lock);
    if (index == NIL) return publish_word(who, value, size);
    struct descriptor *d = &r->descriptors[index];
    rtmw_loan loan = {payload_of(r, d, size), size, index, state_generation(d->state)};
    uint64_t *words = loan.data;
    words[0] = words[size / 8 - 1] = value;
    return loan_append(&world.publisher[who], &loan, NULL) == RTMW_OK;
}

uint64_t word_of(const rtmw_message *m) { return ((const uint64_t *)m->data)[0]; }

bool is_whole(const rtmw_message *m)
{
    const uint64_t *words = m->data;
    struct descriptor *d = &world.shared.descriptors[m->descriptor];
    enum descriptor_kind kind = state_kind(d->state);
    bool being_looked_at = kind == EMPTIED && state_owner(d->state) != NOBODY; /* by one who will see that it is held */
    return d->sequence == m->sequence && d->size == m->size && words[0] == words[m->size / 8 - 1] &&
           (kind == QUEUED || kind == APPENDING || being_looked_at);
}

bool take_word(uint32_t who, rtmw_message *m)
{
    return rtmw_take(&world.subscriber[who], m) == RTMW_OK;
}

bool books_are_right(void)
{
    static struct books books;
    uint8_t marks[MOST_DESCRIPTORS + TOPICS];
    books_examine(&world.region[AUDITOR], &books, marks);
    if (books.problems) broken("%s", books.problem[0]);
    return books.problems == 0;
}

static bool nothing_is_claimed(void)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (slot_state_of(world.shared.publisher_words[i]) || slot_state_of(world.shared.subscriber_words[i])) return false;
    for (uint32_t i = 0; i < TOPICS; i++)
        if ((world.shared.topics[i].word & 15 & ~SLOT_ACTIVE) || world.shared.topics[i].tracers[0]) return false;
    if (world.shared.types[0].word & 15 & ~SLOT_ACTIVE) return false;
    for (uint32_t i = 0; i < EVENTS; i++)
        if (turn_state(world.shared.events[i].turn) == TRACE_WRITING) return false;
    for (uint32_t i = 0; i < PARTICIPANTS; i++)
        if (i != world.region[AUDITOR].me && (world.shared.participants[i].word & 3)) return false;
    return true;
}

bool all_comes_back(void)
{
    struct rtmw_region *r = &world.region[AUDITOR];
    static struct books books;
    uint8_t marks[MOST_DESCRIPTORS + TOPICS];
    uint32_t unused = 0, swept, freed, in_queues = 0;
    if (!books_are_right()) return false;
    for (uint32_t who = 0; who < ACTORS; who++) world_kill(who);
    books_repair(r, &swept, &freed);
    if (!books_are_right()) return false;
    books_examine(r, &books, marks);
    for (uint32_t i = 0; i < r->header->descriptors; i++) {
        unused += state_kind(r->descriptors[i].state) == FREE;
        in_queues += marks[i] ? r->descriptors[i].block_granules : 0;
    }
    if (unused + books.queued != r->header->descriptors)
        broken("%u descriptors are free and %u queued, of %u", unused, books.queued, r->header->descriptors);
    if (books.granules_used != in_queues) broken("%u granules are used, %u in queues", books.granules_used, in_queues);
    if (r->hints->descriptors_used != books.queued) broken("the hint of used descriptors says %u", r->hints->descriptors_used);
    if (!nothing_is_claimed()) broken("a slot stays claimed");
    return world.broken[0] == 0;
}
