/* The hostile hand: which words, and what is written there. See fuzz.h. */
#undef mmap /* here they are the real ones; the core's are guarded */
#undef munmap
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "fuzz.h"

enum { GUARD = 1 << 24, MAPPINGS = 8, TABLES = 11, OFTEN = 42, PAUSE_NS = 20000, MOST_DESCRIPTORS = 4096 };

static uint8_t *control; /* a mapping of its own */
static struct header header;
static uint64_t *step_random;
static uint32_t steps_one_in;
static uint32_t looked_twice_at = NO_WORD; /* this word of each descriptor is spoilt at an operation's second look */
static uint8_t looks[MOST_DESCRIPTORS];    /* of this operation at that word of each descriptor; 3: three or more */
static uint32_t stopped = 1;
static pthread_t thread;

static struct mapping {
    uint8_t *base;
    size_t size;
} mappings[MAPPINGS];

/* ---- words ---- */

struct table {
    uint64_t at, words; /* bytes from the beginning; how many words from there, so that words in use are hit */
    uint32_t stride;    /* words from one entry to the next */
    uint32_t often;     /* of OFTEN times */
};

static struct table table_of(uint32_t number)
{
    enum { SUBSCRIBER = sizeof(struct subscriber_block) / 8 };
    const struct table all[TABLES] = {
        {header.at_topics, 3 * sizeof(struct topic) / 8, sizeof(struct topic) / 8, 14},
        {header.at_subscribers, 6 * SUBSCRIBER, SUBSCRIBER, 6},
        {header.at_subscriber_words, 8, 1, 4},
        {header.at_publisher_words, 8, 1, 2},
        {header.at_publishers, 6 * sizeof(struct publisher_block) / 8, sizeof(struct publisher_block) / 8, 2},
        {header.at_granules, 256, 1, 4},
        {header.at_pages, 16, 1, 4},
        {header.at_participants, 3 * sizeof(struct participant) / 8, sizeof(struct participant) / 8, 2},
        {sizeof(struct header), sizeof(struct hints) / 8, 1, 2},
        {header.at_types, 32, 1, 1},
        {0, sizeof(struct header) / 8, 1, 1},
    };
    return all[number];
}

static struct descriptor *descriptors(void) { return (struct descriptor *)(void *)(control + header.at_descriptors); }

static struct band *some_band(uint64_t *random)
{
    struct topic *topics = (struct topic *)(void *)(control + header.at_topics);
    return &topics[random_below(random, 3)].band[random_below(random, BANDS)];
}

/* Mostly one that lies in a queue. */
static uint32_t some_descriptor(uint64_t *random)
{
    uint32_t index = link_index(load_relaxed(&some_band(random)->head));
    for (uint32_t steps = random_below(random, 4); steps > 0 && index < header.descriptors; steps--) {
        uint32_t next = link_index(load_relaxed(&descriptors()[index].next));
        if (next < header.descriptors) index = next;
    }
    return index < header.descriptors ? index : random_below(random, header.descriptors);
}

/* What a link may be made to name: others, the last one, the first beyond it, nothing. */
static uint32_t some_index(uint64_t *random)
{
    switch (random_below(random, 8)) {
    case 0:
        return NIL;
    case 1:
        return header.descriptors;
    case 2:
        return header.descriptors - 1;
    default:
        return some_descriptor(random);
    }
}

static uint64_t spoilt(uint64_t value, uint64_t neighbour, uint64_t *random)
{
    uint64_t any = random_next(random);
    switch (random_below(random, 9)) {
    case 0:
        return any;
    case 1:
        return 0;
    case 2:
        return UINT64_MAX;
    case 3:
        return value ^ (UINT64_C(1) << (any & 63));
    case 4:
        return neighbour;
    case 5:
        return (value & ~(uint64_t)NIL) | some_index(random);
    case 6:
        return value + ((any & 7) << INDEX_BITS) - (UINT64_C(3) << INDEX_BITS);
    case 7:
        return value ^ ((any & 1) ? any << 32 : any >> 32);
    default:
        return value + (any & 15) - 7;
    }
}

static void spoil(uint64_t *word, const uint64_t *neighbour, uint64_t *random)
{
    store_relaxed(word, spoilt(load_relaxed(word), load_relaxed(neighbour), random));
    fetch_add(&counts->words, 1);
}

/* A band whose links lead back to its head, and whose last message claims to be far away. */
static void make_circle(uint64_t *random)
{
    struct band *band = some_band(random);
    uint32_t head = link_index(load_relaxed(&band->head)), tail = link_index(load_relaxed(&band->tail));
    if (head >= header.descriptors || tail >= header.descriptors) return;
    uint64_t *next = &descriptors()[tail].next;
    store_relaxed(next, link_make(link_tag(load_relaxed(next)), head));
    store_relaxed(&descriptors()[tail].sequence, UINT64_C(1) << 42);
    fetch_add(&counts->words, 2);
}

static void spoil_descriptor(uint64_t *random)
{
    uint64_t *words = (uint64_t *)(void *)&descriptors()[some_descriptor(random)];
    uint64_t *others = (uint64_t *)(void *)&descriptors()[some_descriptor(random)];
    uint32_t at = random_below(random, 18);
    spoil(&words[at], &others[at], random);
}

static void spoil_table(uint64_t *random)
{
    uint32_t drawn = random_below(random, OFTEN), number = 0;
    while (drawn >= table_of(number).often) drawn -= table_of(number++).often;
    struct table table = table_of(number);
    uint64_t *first = (uint64_t *)(void *)(control + table.at);
    uint64_t at = random_below(random, (uint32_t)table.words);
    spoil(&first[at], &first[(at + table.stride) % table.words], random);
}

void damage_some(uint64_t *random)
{
    if (random_below(random, 8) == 0) make_circle(random);
    for (uint32_t words = 1 + random_below(random, 4); words > 0; words--)
        random_below(random, 3) ? spoil_table(random) : spoil_descriptor(random);
}

/* ---- when ---- */

void damage_begin(void *own_control, uint64_t *random)
{
    control = own_control;
    step_random = random;
    memcpy(&header, control, sizeof header);
    CHECK(header.descriptors <= MOST_DESCRIPTORS);
}

void damage_before_steps(uint32_t one_in) { steps_one_in = one_in; }

void damage_at_second_looks(uint32_t word) { looked_twice_at = word; }

void damage_new_operation(void) { memset(looks, 0, sizeof looks); }

/* The second look and no later one: a loop would get all of it. */
static bool is_second_look(uint64_t at)
{
    uint64_t in_descriptors = at - header.at_descriptors, index = in_descriptors / sizeof(struct descriptor);
    if (index >= header.descriptors || in_descriptors % sizeof(struct descriptor) / 8 != looked_twice_at) return false;
    if (looks[index] < 3) looks[index]++;
    return looks[index] == 2;
}

static bool is_due(uint64_t at)
{
    return is_second_look(at) || (steps_one_in && random_below(step_random, steps_one_in) == 0);
}

/* The word that the core is about to look at. The core is compiled with RTMW_EXPLORE, this file is not. */
void rtmw_explore_step(const volatile void *address)
{
    if (!steps_one_in && looked_twice_at == NO_WORD) return;
    for (int i = 0; i < MAPPINGS; i++) {
        uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)mappings[i].base) & ~UINT64_C(7);
        if (mappings[i].size != header.control_bytes || at >= header.control_bytes) continue;
        if (!is_due(at)) return;
        uint64_t next = (at + sizeof(struct descriptor)) % header.control_bytes;
        spoil((uint64_t *)(void *)(control + at), (uint64_t *)(void *)(control + next), step_random);
        return;
    }
}

static void *spoil_on(void *seed)
{
    uint64_t random = *(uint64_t *)seed;
    while (!load_relaxed(&stopped)) {
        damage_some(&random);
        if (random_below(&random, 4) == 0) nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return NULL;
}

void damage_start_thread(uint64_t seed)
{
    static uint64_t kept;
    kept = seed;
    store_relaxed(&stopped, 0u);
    CHECK(pthread_create(&thread, NULL, spoil_on, &kept) == 0);
}

void damage_stop_thread(void)
{
    if (load_relaxed(&stopped)) return;
    store_relaxed(&stopped, 1u);
    pthread_join(thread, NULL);
}

/* ---- guard pages ---- */

void *guarded_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    uint8_t *guards = mmap(at, size + 2 * (size_t)GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (guards == MAP_FAILED) return MAP_FAILED;
    for (int i = 0; i < MAPPINGS; i++) {
        if (mappings[i].base) continue;
        mappings[i] = (struct mapping){guards + GUARD, size};
        return mmap(guards + GUARD, size, protection, flags | MAP_FIXED, fd, offset);
    }
    fail(__FILE__, __LINE__, "more mappings than there is room to note", " ");
}

int guarded_munmap(void *base, size_t size)
{
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].base == base && mappings[i].size == size) {
            mappings[i] = (struct mapping){0};
            return munmap((uint8_t *)base - GUARD, size + 2 * (size_t)GUARD);
        }
    fail(__FILE__, __LINE__, "an unmapping of what was not mapped, or of another size", " ");
}
