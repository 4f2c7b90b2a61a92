/* Shared by the files of the core inside one process. Nothing here lies in shared memory (see layout.h).
 *
 *   atomics.h ← layout.h ← core.h   what all files of the core share
 *
 *   clock blocks descriptors slots ← queue ← wait trace ← participants ← reclaim ← topics ← publish take ← region inspect
 *
 * A file calls those to its left, and none to its right (tests/test_circles.py). Headers that fewer files share: wait.h,
 * queue.h, reclaim.h. Which file has what stands in docs/design/core.md.
 */
#ifndef RTMW_CORE_H
#define RTMW_CORE_H

#include <pthread.h>

#include "atomics.h"
#include "clock.h"
#include "layout.h"
#include "rtmw.h"

/* ---- what a process remembers of messages that history keeps on topics without a publisher: reclaim.c ---- */

/* The oldest, oldest first. */
enum { LISTED = 16 };
struct kept_message {
    uint64_t published_ns;
    uint32_t topic, band;
};
struct abandoned {
    struct kept_message oldest[LISTED];
    uint64_t horizon_ns, made_ns; /* no other is older than this; when it was listed, CLOCK_MONOTONIC */
    uint32_t count, gone, scan;   /* listed; `abandoned` of the hints then; where the next pass begins */
    bool of_pages, was_vain;      /* it has those with blocks; the pass found none */
};

/* Granules, or descriptors. */
struct tally {
    uint64_t history, unread;
};

/* What fills the memory, when that was looked at last, in rounds over all topics. */
struct known_tally {
    struct tally sum;   /* of the topics before `scan` */
    uint32_t scan;      /* where the round goes on; 0: there is none */
    uint64_t at_ns;     /* CLOCK_MONOTONIC, when the last round ended; 0: none has */
    bool history_holds; /* history kept more than RELIABLE subscribers had unread */
};

/* ---- what it remembers of the queues in which it looks, message by message, behind one that is needed: reclaim.c ---- */

enum { READERS = 32, TRAVERSALS = 4, GUESSES = 8 };

/* A subscriber that is asked for each message whether it needs it. Times are published_ns of messages. */
struct reader {
    uint64_t word;          /* of its slot */
    uint64_t behind;        /* it needs nothing up to this sequence */
    uint64_t interval;      /* its min_interval, if what that leaves out is not needed; 0: none. The rest is for that */
    uint64_t cursor[BANDS]; /* sequences to which it has come */
    uint64_t next;          /* the sequence that it may take next out of turn; 0: none of this band */
    uint64_t began[GUESSES];    /* what it had accepted last when it was asked, 0: nothing; each of these may be true */
    uint64_t accepted[GUESSES]; /* the same, when it will have come to where the traversal is */
    uint32_t guesses;           /* so many of these */
    bool frozen;                /* what it will accept from there on is not known */
    bool above;                 /* it has unread messages in a higher band */
    bool exact;
    uint32_t type, reliability; /* that it asks for */
};

/* Through a band, from its oldest message on; before that through the higher ones, if an interval has to be foretold. */
struct traversal {
    uint32_t topic, band, look;
    uint32_t epoch; /* of the topic */
    uint32_t index, count;
    uint32_t stage; /* the band in which it is */
    bool begun;
    bool clogged;            /* when it came to the end last, more than half of its messages were needed by nobody */
    uint64_t end;            /* which was at this sequence */
    uint64_t sequence;       /* of the message at `index` of the stage, to which it has come; 0: of none */
    uint64_t last[BANDS];    /* the newest sequence of each band */
    uint64_t seen, unneeded; /* messages of its band that it has come to, and those of them that nobody needs */
    uint64_t began_ns;
    struct reader reader[READERS];
};

struct within {
    uint32_t topic, band; /* at which the next search begins */
    uint32_t turn;        /* the traversal that is given up next */
    bool came_to_end;     /* the last traversal, of which another would begin anew */
    bool others_first;    /* in the next search, before the publisher's own queue */
    struct traversal traversal[TRAVERSALS];
};

enum { STASH = 256 };
enum { SCATTER = 1024 }; /* descriptors: see scattered in descriptors.c */
#define LENT (UINT64_C(1) << 32)
enum { LARGE_COPY = 256 << 10 }; /* from so many bytes on a copy costs by where its block lies, not by its words */

/* Descriptors that this process saw passed and may claim again: a hint, checked by generation at use. Oldest first. */
struct stash {
    uint32_t first, count;
    struct {
        uint32_t index;
        uint64_t generation;
    } entry[STASH];
};

struct rtmw_region {
    struct header header[1];   /* checked at attach; what lies in shared memory may change under anybody's hands */
    uint8_t *control, *blocks; /* the two mappings */
    int control_fd; /* holds the lock that says that this attachment lives: slots.c. Closed in a forked child */
    uint64_t control_device, control_inode; /* which file that is */
    struct rtmw_region *next;               /* of the attachments of this process: region.c */
    bool blocks_writable;                   /* read-only until the first publisher opens */
    bool memory_locked;                     /* every page of both mappings is there, and stays */
    uint32_t domain;

    struct hints *hints;
    struct participant *participants;
    struct type_entry *types;
    struct topic *topics;
    uint64_t *topic_directory, *type_directory;
    uint64_t *publisher_words, *subscriber_words;
    struct publisher_block *publishers;
    struct subscriber_block *subscribers;
    struct histogram *histograms;
    struct trace *trace;
    uint64_t *pages, *granules;
    uint64_t *free_descriptors, *passed_descriptors, *free_pages, *roomy_pages, *evictable; /* see bitmap.h */
    struct descriptor *descriptors;

    uint32_t reserve_end;                                /* descriptors from this index on are open to every band */
    uint32_t open_descriptors[BANDS], open_pages[BANDS]; /* the first that a band may claim: see first_open */

    uint64_t origin; /* hash of the name by which other hosts know this region: identity.h */
    uint32_t me;     /* participant slot; NOBODY: see is_observer */
    uint64_t my_word;
    uint64_t pid_namespace;
    bool is_tool;      /* may keep the last slot: see claim_after_sweep */
    uint32_t forks;    /* value of rtmw_forks when attached */
    bool serves_peers; /* types that it makes are of other hosts: see rtmw_serve_peers */
    uint32_t swept;    /* 1 once this process found that somebody swept after it: see is_swept */
    rtmw_lock lock;    /* guards everything below and the private part of endpoints */
    uint64_t *refs;    /* a descriptor: how many cursors of this process hold it, plus LENT for each message lent out */
    uint32_t *tracing; /* a topic: how many of this process trace it; NULL until one does */
    struct stash plain, with_block;
    uint32_t scan, reclaim_scan, expel_scan; /* where the next search starts: free, passed, stalled */
    uint32_t evict_scan[2][BANDS];           /* and those for topics whose messages give way: spare ones, unread ones */
    uint32_t evicted_last[2][BANDS];         /* which of these gave way last */
    uint32_t repair_scan, unpin_scan;        /* and where their hints are compared next */
    struct within within;                    /* and what lies within queues, behind what is needed */
    struct abandoned abandoned[2][BANDS]; /* and what history keeps: read by all, or unread; for who publishes there */
    uint32_t roomy_below[2][GRANULES_A_PAGE]; /* see blocks.c */
    uint64_t real_minus_mono, real_checked_ns;
    uint64_t swept_ns, reclaimed_ns; /* when this process last looked for the dead, for passed */
    struct known_tally tally;        /* what fills the memory */
    bool short_of_pages;             /* what the last claim that found nothing lacked; else a descriptor */
    int socket;                      /* datagrams that say "look again" arrive here; -1 until asked for */
    uint32_t sender;                 /* and leave from here: descriptor + 1; 0 until needed */
    uint32_t wakeups;                /* distinguishes one arming of a subscriber from the next */
};

struct rtmw_publisher {
    struct rtmw_region *region;
    struct topic *topic;
    uint32_t topic_index, slot;
    uint64_t word;
    struct publisher_block *block;
    uint64_t identity; /* its block has it for as long as that is its own */
    rtmw_publisher_qos qos;
    uint32_t entered;     /* bit a band that it has published in: see enter_band */
    uint8_t offer[BANDS]; /* there, the index of its offer */
    uint64_t gate[BANDS]; /* tail's sequence up to which no RELIABLE subscriber can be full */
    uint32_t gate_epoch;
    uint32_t trim_epoch;
    uint64_t trim_at[BANDS]; /* queue length at which trimming is worth another look */
    uint32_t refused_band;   /* of the message that was refused last */
    uint64_t refused_bytes;  /* that could not be had, when it was refused last; 0: there was no room in a queue */
    uint64_t lacked_memory;  /* if that was memory: how many it had published, plus 1; else 0 */
    uint64_t waited_ns;      /* when it last waited for memory, or was refused it. Read and written relaxed */
    uint64_t reclaimed_ns;   /* when it last looked as far as its message is large */
    uint64_t relieved_ns;    /* when it last looked for relief: a topic that holds more than its own */
    bool relieved;           /* then one gave way. Says nothing of other topics, which may hold less than its own */
    uint32_t expel_scan;     /* subscriber slot at which its next look for the dead and the stalled begins */
    uint32_t woken;          /* 1: the next wait, or the one there is, ends with RTMW_INTERRUPTED */
};

struct rtmw_subscriber {
    struct rtmw_region *region;
    struct topic *topic;
    uint32_t topic_index, slot;
    uint64_t word;
    struct subscriber_block *block;
    struct histogram *histogram; /* NULL: its slot is above those that have one */
    uint64_t taken_ns;           /* CLOCK_MONOTONIC of this take; 0: not read yet */
    rtmw_subscriber_qos qos;
    bool exact; /* RTMW_EXACT */
    uint16_t type;
    uint32_t index[BANDS];    /* cursor: descriptor, or NIL: it rests */
    uint64_t place[BANDS];    /* {generation | descriptor} that it held when it began to rest; NIL: none */
    uint64_t sequence[BANDS]; /* cursor: its full sequence */
    uint64_t every[BANDS];    /* the band's offers, if it gets all of them; else NOT_EVERY */
    uint32_t beside[BANDS];   /* then so many messages are none of these: from an earlier life of the topic's slot */
    uint32_t taken[BANDS];    /* as in its block */
    uint64_t began[BANDS];    /* tail when it was first counted on */
    uint64_t start[BANDS];    /* last message before those that it takes or counts; 0: there was none */
    uint64_t early;           /* messages that are neither: they lie before `start`, or were emptied before it came */
    uint64_t rejoined[BANDS]; /* tail when it was counted on again after its last lapse */
    uint64_t deadline_at_ns;  /* CLOCK_MONOTONIC; 0: no deadline */
    uint64_t missed_at_lapse; /* told with RTMW_LAPSED */
    uint32_t empty_takes;
    uint32_t spin_ns;     /* adaptive: what a spin is worth at present */
    uint32_t short_waits; /* see wait.c */
    uint32_t alone;       /* 1: this process has one processor; which may be the peer's too */
    uint64_t alone_asked_ns;
    int pollable, socket, timer; /* of its own, when asked for; else -1. See wait.c */
    uint64_t looks_at_ns;        /* CLOCK_MONOTONIC that `timer` is set to */
    uint32_t ends;               /* SHUT or WOKEN; waiters look at it */
};

#define NOT_EVERY UINT64_MAX /* never the offers of a band */

enum { SHUT = 1, WOKEN = 2 }; /* all waits and takes end, for ever; one wait ends */

extern uint32_t rtmw_forks; /* fork() calls of which this process is the child */

static inline bool is_forked(const struct rtmw_region *r) { return __builtin_expect(r->forks != rtmw_forks, 0); }

/* 146 years. A time limit beyond it is none, and a clock plus a limit below it never overflows. */
#define LONGEST_NS (UINT64_C(1) << 62)

/* A limit that a program has asked for; 0: no limit. */
static inline uint64_t limit_of(uint64_t ns) { return ns > LONGEST_NS ? 0 : ns; }

/* The moment `at` of a clock that shows `from`, on a clock that shows `to` now. Never 0, which is no moment; a moment
 * outside the range is moved to its edge. */
static inline uint64_t on_clock(uint64_t at, uint64_t from, uint64_t to)
{
    if (at > from) return at - from > UINT64_MAX - to ? UINT64_MAX : to + (at - from);
    return from - at < to ? to - (from - at) : 1;
}

/* Lifetimes run on CLOCK_MONOTONIC: to set the wall clock neither ends nor prolongs them. */
static inline bool is_expired(const struct descriptor *d, uint64_t mono_ns)
{
    uint64_t expires = load_acquire(&d->expires_ns); /* a caller that does not hold it validates its life afterwards */
    return expires && expires <= mono_ns;
}

/* Until cancel_back nothing that a thread calls ends it: it holds the lock, or what only it knows of. */
static inline int cancel_off(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}
static inline void cancel_back(int before) { pthread_setcancelstate(before, &before); }
/* Attached to look on: the mappings are read-only. */
static inline bool is_observer(const struct rtmw_region *r) { return r->me == NOBODY; }

/* Of a participant, in a pair of words. */
static inline uint64_t bit_of(uint32_t slot) { return UINT64_C(1) << (slot & 63); }

static inline struct descriptor *descriptor_at(struct rtmw_region *r, uint32_t index)
{
    return index < r->header->descriptors ? &r->descriptors[index] : NULL;
}

/* The number by which samples and tools know a publisher or subscriber: pid, life of its slot, slot. */
static inline uint64_t endpoint_identity(uint64_t participant, uint64_t word, uint32_t slot)
{
    return (uint64_t)participant_pid(participant) << 32 | (slot_generation(word) & 0xFFFF) << 16 | (slot & 0xFFFF);
}

/* A hint; below 0 when a recount and a claim crossed. */
static inline int64_t descriptors_used(struct rtmw_region *r)
{
    return (int32_t)load_relaxed(&r->hints->descriptors_used);
}

/* blocks.c, mappings */
void copy_into_block(void *block, const void *data, uint64_t size);
bool memory_make_writable(struct rtmw_region *); /* the blocks. Lock held */

/* clock.c */
uint64_t monotonic_ns(void);
/* How far CLOCK_MONOTONIC of this process is ahead of the host's, by its time namespace. false: the process has made a time
 * namespace for its children (unshare), and the kernel tells the offset of that one only. */
bool clock_offset(int64_t *ns);
/* The wall clock at `mono`, which is a reading of now; read anew every millisecond. Lock held */
uint64_t realtime_ns(struct rtmw_region *, uint64_t mono);

/* slots.c, life */
int life_take(struct rtmw_region *, uint32_t slot);
void life_give(struct rtmw_region *, uint32_t slot);
bool life_is_over(struct rtmw_region *, uint32_t slot);
bool life_file_is_open(struct rtmw_region *);
bool is_dead(struct rtmw_region *, uint32_t slot, uint64_t word); /* the word was read before. Stopped is not dead */
bool participant_is_dead(struct rtmw_region *, uint32_t slot);

/* Participants that one call has asked whether they are dead: a bit each. The caller zeroes it. */
struct owners {
    uint64_t asked[PARTICIPANTS / 64], dead[PARTICIPANTS / 64];
};
/* Is the owner of an endpoint dead? It asks the kernel about each participant once, so that a look at n endpoints costs a
 * system call a program. This attachment lives, and so does NOBODY, who has what is parked. */
bool owner_is_dead(struct rtmw_region *, uint32_t owner, struct owners *);

/* May this process change the region through this attachment? RTMW_OK, RTMW_FORKED, RTMW_SWEPT or RTMW_OBSERVER */
int region_state(struct rtmw_region *);
/* Did somebody sweep after this process, which lives? Then nothing of the region is its own any more. Any thread. Reads a
 * word that no hot path reads: for opening, closing, waiting and sweeping. */
bool is_swept(struct rtmw_region *);

/* slots.c, slots of endpoints, topics and types. Lock held where something changes */
bool slot_free(uint64_t *word, uint64_t value);
struct marks { /* a bit a topic or type */
    uint64_t bit[MOST_TOPICS / 64];
};
static inline bool is_marked(const struct marks *marks, uint32_t at) { return marks->bit[at / 64] >> at % 64 & 1; }
void mark_published(struct rtmw_region *,
                    struct marks *);                  /* topics that publishers' slots name, whatever their state */
void mark_used(struct rtmw_region *, struct marks *); /* topics that endpoints' slots name */
bool is_published(struct rtmw_region *, uint32_t topic);
/* The next ACTIVE subscriber of a topic, from *slot on; NULL at the end. A parked one whose time is over is none. */
struct subscriber_block *next_subscriber(struct rtmw_region *, uint32_t topic, uint32_t *slot);
void topic_subscribed(struct rtmw_region *, uint32_t topic, uint32_t slot); /* before that is ACTIVE */
/* Bytes that a publisher published stay counted when it goes. The block is the caller's alone. */
void topic_keep_bytes(struct topic *, struct publisher_block *);
void publisher_gone(struct rtmw_region *, uint32_t topic); /* its slot is about to be free */

/* Subscriptions without a process, for a bounded time: take.c */
static inline bool slot_is_parked(uint64_t word) /* of a subscriber */
{
    return slot_state_of(word) == SLOT_ACTIVE && slot_owner(word) == NOBODY;
}
bool parked_is_over(struct rtmw_region *, uint32_t slot, uint64_t word); /* of a slot that was read as parked before */

/* After I said in shared memory that I use it: this life goes on for as long as I do. false: it is over */
bool topic_stands(struct rtmw_region *, uint64_t life);
bool type_stands(struct rtmw_region *, uint64_t life);
void slot_rescue(uint64_t *word, uint64_t seen); /* of a topic or type: RETIRING → ACTIVE, unless it changed */

static inline uint64_t topic_life(struct rtmw_region *r, uint32_t topic) /* 0: there is none now */
{
    uint64_t word = load_seq(&r->topics[topic].word);
    return slot_is_there(word) ? link_make(slot_generation(word), topic) : 0;
}

static inline uint64_t type_life(struct rtmw_region *r, uint32_t type) /* 0: there is none now */
{
    if (type >= r->header->types) return type == TYPE_RAW || type == TYPE_ANY ? type : 0;
    uint64_t word = load_seq(&r->types[type].word);
    return slot_is_there(word) ? link_make(slot_generation(word), type) : 0;
}

static inline bool types_match(uint32_t publisher, uint32_t subscriber)
{
    return subscriber == TYPE_ANY || publisher == subscriber;
}
static inline bool reliabilities_match(uint32_t offered, uint32_t asked, bool exact)
{
    return exact ? offered == asked : asked != RTMW_RELIABLE || offered == RTMW_RELIABLE;
}

/* participants.c */
int participant_claim(struct rtmw_region *); /* RTMW_OK, RTMW_NO_PARTICIPANT_SLOT, or RTMW_NO_LOCKS and errno */
void participant_leave(struct rtmw_region *);
uint32_t sweep_the_dead(struct rtmw_region *);                  /* how many were swept after. Lock held */
uint32_t sweep_if_due(struct rtmw_region *, uint64_t every_ns); /* Lock held */
bool sweep_if_dead(struct rtmw_region *, uint32_t slot); /* true: this participant was dead, and is swept. Lock held */
/* A tool that has the last slot calls this again and again: it sweeps once a second for those who find the table full. */
void sweep_from_last_slot(struct rtmw_region *);

/* participants.c: parked subscriptions whose time is over */
/* Frees the slot if its time is over and it still has this word. Lock held */
bool parked_end(struct rtmw_region *, uint32_t slot, uint64_t word);
uint32_t parked_sweep(struct rtmw_region *); /* all of them; how many were freed. Lock held */

/* As is_swept for who publishes, at no cost: the sweep changed a word of a line that publishing reads in any case. */
static inline bool publisher_is_swept(const struct rtmw_publisher *p)
{
    return __builtin_expect(load_relaxed(&p->block->identity) != p->identity, 0) && is_swept(p->region);
}

/* descriptors.c: lock held */
/* LOANED by me with room for size, or NIL; for a message of this band */
uint32_t descriptor_claim(struct rtmw_region *, uint64_t size, uint32_t band);
void descriptor_fetch_ahead(struct rtmw_region *);                               /* for the claims to come */
bool descriptor_is_open(struct rtmw_region *, uint32_t index, uint32_t band);    /* a message of it may lie there */
void descriptor_free(struct rtmw_region *, uint32_t index);                      /* LOANED by me → FREE */
bool descriptor_take_over(struct rtmw_region *, uint32_t index, uint64_t state); /* CAS state → LOANED by me */
bool descriptor_is_passed(struct rtmw_region *, struct descriptor *);
void descriptor_sweep(struct rtmw_region *, uint32_t index, uint32_t dead_owner);
void stash_put(struct rtmw_region *, uint32_t index, uint64_t generation);
bool descriptor_is_held(struct descriptor *);
/* Takes the block of a message that was in this state when all had read it, for the heir, or gives it back when that is
 * NIL. false: somebody holds it */
bool descriptor_empty(struct rtmw_region *, struct descriptor *, uint64_t state, uint32_t heir);
/* The same, for a new message of this band: LOANED by me, or NIL */
uint32_t descriptor_inherit(struct rtmw_region *, struct descriptor *, uint64_t state, uint64_t size, uint32_t band);
/* A message that is held: it was not emptied. */
static inline bool descriptor_is_message(struct descriptor *d) { return state_kind(load_seq(&d->state)) != EMPTIED; }
uint32_t reclaim_passed(struct rtmw_region *);  /* frees all it finds; how many */
uint32_t reclaim_hinted(struct rtmw_region *);  /* a bounded part: what somebody said may be passed */
enum { RECLAIM_LOOKED_AT = 512 };               /* descriptors of that part: */
uint32_t reclaim_stashed(struct rtmw_region *); /* a bounded part, in turn: what idle processes have in their stashes */
void hint_passed(struct rtmw_region *, uint32_t index); /* it may be passed, and nobody may know */
void recount_hints(struct rtmw_region *);
void stash_flush(struct rtmw_region *); /* frees what is stashed and unheld, with blocks */
/* NULL: the region is damaged. Else there are `size` bytes, whatever becomes of the descriptor's words meanwhile. */
void *block_of(struct rtmw_region *, struct descriptor *, uint64_t size);
/* So many bytes in the descriptor itself, or in its block; NULL: there are not so many. */
static inline void *payload_of(struct rtmw_region *r, struct descriptor *d, uint64_t size)
{
    if (load_relaxed(&d->block_granules)) return block_of(r, d, size);
    return size <= IN_PLACE ? d->payload : NULL;
}

/* blocks.c: lock held */
bool block_allocate(struct rtmw_region *, uint32_t index, uint64_t size, uint32_t band);
bool block_is_open(struct rtmw_region *, struct descriptor *,
                   uint32_t band); /* its block lies where the band may claim */
void recount_pages(struct rtmw_region *);
void block_drop(struct rtmw_region *, struct descriptor *);
void block_move(struct rtmw_region *, struct descriptor *from, uint32_t to);
bool owner_is_live(struct rtmw_region *, uint64_t word);
bool descriptors_are_low(struct rtmw_region *, uint32_t band);
bool pool_is_low(struct rtmw_region *, uint32_t band);
enum { GRANULAR_PAGE_TAG = 1 };
#define GRANULAR link_make(GRANULAR_PAGE_TAG, NIL)

/* queue.c */
bool hold(struct rtmw_region *, uint32_t index, struct band *, uint64_t sequence);         /* lock held */
void hold_mine(struct rtmw_region *, uint32_t index);                                      /* lock held */
void let_go(struct rtmw_region *, uint32_t index);                                         /* lock held */
static inline void lend(struct rtmw_region *r, uint32_t index) { r->refs[index] += LENT; } /* what is held. Lock held */
bool take_back(struct rtmw_region *, uint32_t index); /* false: none of it is lent out. Lock held */
/* A LOANED descriptor whose fields are written, its offer among them, in a band that is in use. false: damaged */
bool queue_append(struct rtmw_region *, uint32_t topic, uint32_t band, uint32_t index);
/* Which of the oldest messages of a band may be passed over. */
struct passing {
    uint64_t up_to;        /* none with a greater sequence */
    const uint64_t *floor; /* an entry an offer, OFFERS + 1: none with a greater sequence. NULL: any */
    uint64_t now;          /* CLOCK_MONOTONIC: those that have expired by now, whatever `floor` says. 0: not these */
    uint64_t granules;     /* enough, when so many are passed over */
    uint32_t most;         /* at most STASH */
};
uint32_t queue_pass(struct rtmw_region *, struct band *, const struct passing *);         /* how many. Lock held */
uint32_t queue_evict(struct rtmw_region *, struct band *, uint64_t up_to, uint32_t most); /* lock held */
/* A message of a queue, looked at without being held: its fields are those of that message. */
struct glimpse {
    uint64_t sequence, published_ns, state;
    uint32_t index, next, offer, type, reliability;
    bool expires, expired; /* it has a lifetime; that was over by `now` */
};
/* Where an earlier glimpse was: `index` and `sequence` say so. false: it is passed. */
bool glimpse_again(struct rtmw_region *, struct band *, uint64_t now, struct glimpse *);
bool glimpse_first(struct rtmw_region *, struct band *, uint64_t now, struct glimpse *); /* the oldest; false: none */
bool glimpse_cursor(struct rtmw_region *, struct band *, uint64_t cursor, uint64_t now, struct glimpse *);
bool glimpse_next(struct rtmw_region *, struct band *, uint64_t now, struct glimpse *); /* false: the end, or passed */
uint64_t band_tail_sequence(struct rtmw_region *, struct band *);
uint64_t band_last_sequence(struct rtmw_region *, struct band *);
uint64_t band_head_sequence(struct band *, uint64_t near);
uint64_t band_start(struct band *, uint64_t near); /* the sequence before the oldest that is kept of this topic */
uint64_t queue_catch_up(struct rtmw_region *, struct band *); /* the last sequence, and tail names it. Nobody appends */
enum { STEP_NONE = 0, STEP_OK = 1, STEP_PASSED = 2, STEP_DAMAGED = 3 };
enum { MOST_IN_VAIN = 1 << 16 }; /* tries that somebody else's progress spoils: more in a row, and it is not progress */
int queue_resume(struct rtmw_region *, struct band *, uint64_t place, uint32_t *index, uint64_t *sequence);
int queue_step(struct rtmw_region *, struct band *, uint32_t *index, uint64_t *sequence,
               uint64_t *missed); /* lock held */

/* inspect.c: looking at messages without holding them */
struct peeked {
    uint64_t sequence, size, publisher, source_time_ns, expires_ns, holders[2], next; /* as in struct descriptor */
    uint64_t type;                                                                    /* its life: topics.c */
    uint32_t shown;                                                                   /* bytes of the payload */
    uint8_t reliability;
    bool is_message; /* false: emptied */
};
struct peek { /* begins as {.band = ..., .index = NIL, .preview = ..., .room = ...} */
    struct band *band;
    uint64_t *preview;       /* the first bytes of each payload are copied here */
    uint32_t room;           /* that many at most, in whole words */
    uint64_t last, sequence; /* the last message that was looked at, and the one to look at */
    uint32_t index;          /* where that is; NIL: at head */
    bool ended;
};
bool peek_next(struct rtmw_region *, struct peek *, struct peeked *);

/* publish.c, trim. Lock held */
/* Before a message of this size is published. false: the queue is clogged and memory is low, so it is refused */
bool queue_trim(struct rtmw_publisher *, uint32_t band, uint64_t size);

/* reclaim.c: what a topic keeps. Lock held */
/* LOANED by me with the block of the last message, which all have read; or NIL */
uint32_t inherit_last(struct rtmw_publisher *, uint32_t band, uint64_t size);
/* Late subscribers do not get what is there now; how much that is. `alone`: unless it has a publisher */
uint64_t topic_forget(struct rtmw_region *, uint64_t life, bool alone);

/* queue.c, hints: which topics have messages that may give way. Lock held */
void evictable_mark(struct rtmw_region *, uint32_t topic, uint32_t band);
void evictable_recount(struct rtmw_region *);
void topic_unpin(struct rtmw_region *, uint32_t topic); /* a subscriber moved on, or is gone */
/* Messages of the band may go again, or RELIABLE subscribers need all of them. */
static inline void evictable_appended(struct rtmw_region *r, uint32_t topic, uint32_t band)
{
    if (!(load_seq(&r->topics[topic].evictable) & (1u << band))) evictable_mark(r, topic, band);
}

/* publish.c: when a RELIABLE publisher must wait. Lock held */
uint32_t room_for_reliable(struct rtmw_publisher *, uint32_t band);
/* Messages until a RELIABLE subscriber may be full. */
static inline uint32_t reliable_room(struct rtmw_publisher *p, uint32_t band)
{
    return p->qos.reliability == RTMW_RELIABLE ? room_for_reliable(p, band) : UINT32_MAX;
}
/* take.c: one call steps over so many messages that the subscriber does not get; RTMW_AGAIN: there may be more behind these. */
enum { STEPS_OVER = 64 };

/* publish.c, beyond rtmw.h */
struct part { /* a message to be copied */
    const void *data;
    uint64_t size;
};
/* Publishes in order until one is refused, and wakes nobody. Other than RTMW_OK: why not all of them were. */
int publish_quietly(rtmw_publisher *, const struct part *, uint32_t count, const rtmw_message_qos *,
                    uint32_t *published);
/* As rtmw_loan_take, for a message of the priority that `qos` says: within what that may use of the pool. */
int loan_take(rtmw_publisher *, uint64_t size, const rtmw_message_qos *, rtmw_loan *);
int loan_append(rtmw_publisher *, rtmw_loan *, const rtmw_message_qos *); /* wakes nobody */
void publisher_refused(rtmw_publisher *, int code);
void loan_keep(rtmw_publisher *, rtmw_loan *);
int loan_give_back(struct rtmw_region *, const rtmw_loan *); /* LOANED by this process → FREE, or RTMW_BAD_LOAN */
bool could_be_had(rtmw_publisher *, uint64_t size); /* memory for a message, as it would be had now. Lock held */
/* After a message was refused for want of memory: does history, of topics with a publisher or without, keep more of what is
 * short than RELIABLE subscribers have unread? Looks anew a hundred times a second at most. Takes the lock */
bool history_is_in_the_way(struct rtmw_region *);

bool is_lapsed(struct rtmw_subscriber *);
void subscriber_shut(struct rtmw_subscriber *); /* waiters return RTMW_CLOSED; takes do too */

/* trace.c: what happened to the messages of a topic, for tools that look on */
struct trace_event {
    enum trace_kind kind;
    uint32_t topic, band, count;
    uint64_t at_ns, who, publisher, sequence, size, published_ns; /* as in struct trace_entry */
};
static inline bool is_traced(const struct topic *t)
{
    return __builtin_expect((load_relaxed(&t->tracers[0]) | load_relaxed(&t->tracers[1])) != 0, 0);
}
void trace_write(struct rtmw_region *, const struct trace_event *);
void trace_published(struct rtmw_publisher *, uint32_t band, struct descriptor *);
void trace_refused(struct rtmw_publisher *, enum trace_kind);
void trace_reached(struct rtmw_subscriber *, enum trace_kind, uint32_t band);
void trace_gone(struct rtmw_subscriber *, enum trace_kind, uint32_t band, uint64_t last, uint64_t count);
enum trace_found { TRACE_READ, TRACE_LATER, TRACE_LOST }; /* LATER: it is being written, or its writer died just now */
uint64_t trace_next(struct rtmw_region *);                /* the ticket of the next event */
enum trace_found trace_read(struct rtmw_region *, uint64_t ticket, struct trace_event *);
int trace_begin(struct rtmw_region *, uint64_t life); /* RTMW_EMPTY: the topic is not there any more */
void trace_end(struct rtmw_region *, uint32_t topic); /* once for each trace_begin */
void trace_sweep(struct rtmw_region *, uint32_t dead);

/* region.c: making, naming and laying out regions, beyond rtmw.h */
#define SHM "/dev/shm" /* where Linux shows shared-memory objects as files */

#define REGION_CONTROL    "/rtmw.%u.control"
#define REGION_BLOCKS     "/rtmw.%u.blocks.%016llx"
#define REGION_UNFINISHED "/rtmw.%u.new.%d.%016llx"

/* The parameters of a region to be made. */
struct pool {
    uint64_t bytes;   /* whole pages */
    uint32_t reserve; /* 1024ths of it that are for urgent messages */
    uint64_t nonce;
};

uint64_t region_control_bytes(uint64_t pool_bytes);
/* As rtmw_create, with a nonce that nobody else uses, and a pool whose size is possible. */
int region_create(uint32_t domain, const struct pool *);
int region_format(int control_fd, const struct pool *);
/* TO_LOOK_ON: with read-only mappings and without a participant slot, for what changes nothing. AS_TOOL: with the last slot
 * where all others are taken by the living; see sweep_from_last_slot. */
enum attaching { TO_TAKE_PART, TO_LOOK_ON, AS_TOOL };
int region_attach(uint32_t domain, enum attaching how, struct rtmw_region **region, uint32_t *version_found);

/* ---- topics, types and endpoints: their slots, and how long those are theirs ---- */

/* topics.c. A life of a topic: {generation | index} of its slot */
bool is_topic_name(const char *name);
int topic_open(struct rtmw_region *, const char *name, uint64_t *life); /* found or made; it may be retired at once */
uint64_t topic_find(struct rtmw_region *, const char *name);            /* its life, or 0 */
uint64_t topic_read(struct rtmw_region *, uint32_t topic, char name[NAME_BYTES]); /* its life; 0: there is none now */
/* A life of a type: {generation | index} of its slot; TYPE_RAW and TYPE_ANY have no slot, and are their own lives */
int type_open(struct rtmw_region *, const rtmw_type *, uint64_t *life); /* found or made; it may be retired at once */
uint64_t type_read(struct rtmw_region *, uint32_t type, rtmw_type_copy *); /* its life; 0: there is none now */

/* giving back: topics and types that nobody uses. Lock held */
uint32_t retire_topics(struct rtmw_region *);     /* how many gave their slots back */
bool retire_kept_topic(struct rtmw_region *);     /* one that has only messages that history keeps */
uint32_t retire_types(struct rtmw_region *);      /* how many gave their slots back */
uint32_t reset_free_topics(struct rtmw_region *); /* those of which a message that was held still names a type */
/* Sets the state that a topic begins with. The slot is CLAIMED by the caller, and no endpoint names it. All that is to be
 * another in another life of a topic is reset here */
void topic_reset(struct rtmw_region *, uint32_t topic);

/* slots of endpoints. Lock held */
struct wanted {
    const char *topic;
    const rtmw_type *type;
    bool publishes;
};
struct claimed {
    uint64_t word; /* CLAIMED */
    uint32_t topic, slot, type;
};
int endpoint_claim(struct rtmw_region *, const struct wanted *, struct claimed *); /* its block names the type */
/* A CLAIMED word in the lowest free slot, or 0; tries again after a sweep. Lock held */
uint64_t slot_claim(struct rtmw_region *, uint64_t *words, uint32_t count, uint32_t *top, uint32_t topic,
                    uint32_t *slot);

#endif
