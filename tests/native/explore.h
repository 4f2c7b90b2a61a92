/* Every interleaving of a small race, up to a bound of preemptions (Musuvathi and Qadeer's iterative context bounding).
 *
 * The core is compiled with -DRTMW_EXPLORE: each atomic operation first calls rtmw_explore_step(). Actors are
 * coroutines of one thread, each a participant with a region handle of its own, in a world of a few descriptors and
 * pages. A race is run again and again from the same start, each time with another schedule, until all were seen.
 *
 *   continue            costs nothing            switch at the end, or when asleep in the kernel: costs nothing
 *   preempt             before an operation on a word that two actors touch and one changes; at most `bound` times
 *
 * What such a search finds holds for sequentially consistent memory; weaker orders are ThreadSanitizer's part.
 */
#ifndef RTMW_EXPLORE_H
#define RTMW_EXPLORE_H

#include "inspect.h"
#include "core.h"

enum { ACTORS = 3, AUDITOR = ACTORS, REGIONS = ACTORS + 1, MOST_DESCRIPTORS = 8, MOST_PAGES = 4, SLOTS = 4, TOPICS = 2,
       EVENTS = 2 };

struct size {
    uint32_t descriptors, pages;
};

/* Everything that a schedule changes, put back before the next one. `shared` is what processes share. */
struct world {
    struct {
        struct hints hints;
        struct participant participants[PARTICIPANTS];
        struct type_entry types[1];
        struct topic topics[TOPICS];
        uint64_t topic_directory[8], type_directory[4];
        uint64_t publisher_words[SLOTS], subscriber_words[SLOTS];
        struct publisher_block publishers[SLOTS];
        struct subscriber_block subscribers[SLOTS];
        uint64_t pages[MOST_PAGES], granules[MOST_PAGES * GRANULES_A_PAGE];
        uint64_t free_descriptors[1], passed_descriptors[1], free_pages[1], roomy_pages[1], evictable[BANDS];
        struct descriptor descriptors[MOST_DESCRIPTORS];
        struct trace trace;
        struct trace_entry events[EVENTS];
        uint8_t blocks[MOST_PAGES * PAGE];
    } shared;
    struct rtmw_region region[REGIONS];
    uint64_t refs[REGIONS][MOST_DESCRIPTORS];
    uint32_t tracing[REGIONS][TOPICS];
    struct rtmw_publisher publisher[REGIONS];
    struct rtmw_subscriber subscriber[REGIONS];
    uint64_t clock_ns;
    uint32_t pid[REGIONS], pids;        /* of the participants; how many were ever given */
    uint32_t claiming;                  /* who it is while no actor runs */
    bool dead[32];                      /* by pid */
    uint64_t locks[PARTICIPANTS];       /* pid that holds the lock of a slot; 0: none. Free if that pid is dead */
    uint64_t note[REGIONS][16];         /* what actors remember for the judge */
    uint32_t noted[REGIONS];
    uint32_t datagrams[PARTICIPANTS];   /* sent to the socket of a participant */
    uint32_t unsent;                    /* so many datagrams the kernel refuses, the next ones */
    bool no_wake_op;                    /* a sandbox refuses FUTEX_WAKE_OP */
    uint32_t wakes;                     /* calls that wake sleepers on a futex */
    char broken[160];                   /* said by an actor or the judge; any text is FORBIDDEN */
};

extern struct world world;

enum verdict { ACCEPTABLE, FORBIDDEN };
struct outcome {
    const char *name;
    enum verdict verdict;
    const char *reason;
};

struct race {
    const char *name;
    struct size size;
    uint32_t actors, bound;
    void (*prepare)(void);
    void (*act[ACTORS])(void);
    const char *(*judge)(void);         /* names the outcome */
    const struct outcome *outcomes;     /* ends with a NULL name; any other name is FORBIDDEN too */
};

/* explore.c */
bool explore(const struct race *);      /* prints what came of it; false: something FORBIDDEN */
/* Runs `act` alone as actor 0 until before its `step`-th atomic operation, and never again. false: it ended first. */
bool run_until_step(void (*act)(void), uint32_t step);
uint32_t me(void);                      /* the actor that runs */
extern uint64_t slept_out_ns;           /* the longest sleep of this schedule that nobody was left to end */
void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* world.c */
void world_make(struct size);
void open_publisher(uint32_t who, rtmw_reliability, uint32_t depth);
void open_subscriber(uint32_t who, rtmw_reliability, uint32_t depth);
struct band *band_of(uint32_t topic);   /* band 0 */
void note(uint64_t);
void make_room_for_page(uint32_t who);  /* as a publisher that found no page for a message: takes what is spare */
/* The same, for whom nothing else gives way: blocks of messages that lie behind others. */
void make_room_within(uint32_t who, uint32_t band, uint64_t granules);
void world_kill(uint32_t who);          /* its process does not exist any more */
void world_new_process(uint32_t who);   /* this participant is another process from now on, which holds nothing */
bool publish_word(uint32_t who, uint64_t value, uint64_t size);
/* The same, into the block of the last message if all have read it, as large messages are published. */
bool publish_inheriting(uint32_t who, uint64_t value, uint64_t size);
bool take_word(uint32_t who, rtmw_message *);
bool is_whole(const rtmw_message *);    /* its memory still is what was published as this sequence */
uint64_t word_of(const rtmw_message *);
bool books_are_right(void);             /* else says in world.broken what is wrong */
/* Sweep, close what the living have open, free what is passed: then all is free but what lies in queues. */
bool all_comes_back(void);
#define PUBLISHED_BYTES 64

#endif
