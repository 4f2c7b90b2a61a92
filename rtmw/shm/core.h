/* What the files of the core share inside one process. Nothing here lies in shared memory (see layout.h).
 *
 *   atomics.h ← layout.h ← core.h ← participants · descriptors · blocks · queue · topics · wait · spin
 *                                   ← publisher · publish · subscriber · take · books ← rtmw.h ← _*.c (Python)
 */
#ifndef RTMW_CORE_H
#define RTMW_CORE_H

#include "atomics.h"
#include "layout.h"
#include "rtmw.h"

enum { STASH = 256 };
enum { LARGE = 256 << 10 }; /* bytes from which on copying a message costs by where its block lies, not by its words */

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
    int blocks_fd;
    bool blocks_writable; /* read-only until the first publisher opens */
    bool memory_locked;   /* every page of both mappings is there, and stays */
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
    struct descriptor *descriptors;

    uint32_t me; /* participant slot */
    uint64_t my_word;
    uint64_t pid_namespace;
    uint32_t forks;    /* value of rtmw_forks when attached */
    rtmw_lock lock;    /* guards everything below and the private part of endpoints */
    uint32_t *refs;    /* a descriptor: how many cursors and messages of this process hold it */
    uint32_t *tracing; /* a topic: how many of this process trace it; NULL until one does */
    struct stash plain, with_block;
    uint32_t scan, page_scan; /* where the next search starts */
    uint64_t real_minus_mono, real_checked_ns;
    uint64_t swept_ns, trimmed_ns; /* when this process last looked for the dead, and through all topics */
    int socket;                    /* datagrams that say "look again" arrive here; -1 until asked for */
    uint32_t sender;               /* and leave from here: descriptor + 1; 0 until needed */
    uint32_t wakeups;              /* distinguishes one arming of a subscriber from the next */
};

struct rtmw_publisher {
    struct rtmw_region *region;
    struct topic *topic;
    uint32_t topic_index, slot;
    uint64_t word;
    struct publisher_block *block;
    rtmw_publisher_qos qos;
    uint64_t gate; /* topic total up to which no RELIABLE subscriber can be full */
    uint32_t gate_epoch;
    uint32_t trim_epoch;
    uint64_t trim_at[BANDS]; /* queue length at which trimming is worth another look */
    bool closed;
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
    uint32_t index[BANDS];    /* cursor: descriptor, or NIL: resume at head */
    uint64_t sequence[BANDS]; /* cursor: its full sequence */
    uint64_t began[BANDS];    /* tail when it was first counted on */
    uint64_t accepted_ns;     /* published_ns of the last message that min_interval let through; 0: none */
    uint64_t deadline_at_ns;  /* CLOCK_MONOTONIC; 0: no deadline */
    uint64_t missed_at_lapse; /* told with RTMW_LAPSED */
    uint32_t empty_takes;
    uint32_t spin_ns;     /* adaptive: what a spin is worth at present */
    uint32_t short_waits; /* see spin.c */
    uint32_t alone;       /* 1: this process has one processor; which may be the peer's too */
    uint64_t alone_asked_ns;
    int socket;      /* of its own, when asked for; else -1 */
    uint32_t closed; /* 1 once closed; waiters look at it */
};

extern uint32_t rtmw_forks; /* fork() calls of which this process is the child */

static inline bool is_forked(const struct rtmw_region *r) { return __builtin_expect(r->forks != rtmw_forks, 0); }

/* Of a participant, in a pair of words. */
static inline uint64_t bit_of(uint32_t slot) { return UINT64_C(1) << (slot & 63); }

static inline struct descriptor *descriptor_at(struct rtmw_region *r, uint32_t index)
{
    return index < r->header->descriptors ? &r->descriptors[index] : NULL;
}

/* What samples and tools know a publisher or subscriber by: pid, life of its slot, slot. */
static inline uint64_t endpoint_identity(uint64_t participant, uint64_t word, uint32_t slot)
{
    return (uint64_t)participant_pid(participant) << 32 | (slot_generation(word) & 0xFFFF) << 16 | (slot & 0xFFFF);
}

/* A hint; below 0 when a recount and a claim crossed. */
static inline int64_t descriptors_used(struct rtmw_region *r)
{
    return (int32_t)load_relaxed(&r->hints->descriptors_used);
}

/* memory.c */
bool memory_make_writable(struct rtmw_region *); /* the blocks. Lock held */

/* clock.c */
uint64_t monotonic_ns(void);
uint64_t realtime_ns(struct rtmw_region *, uint64_t mono); /* the wall clock at `mono`, re-read every millisecond */

/* participants.c */
int participant_claim(struct rtmw_region *);
void participant_leave(struct rtmw_region *);
bool participant_is_dead(struct rtmw_region *, uint32_t slot);
uint32_t sweep_the_dead(struct rtmw_region *);                  /* how many were swept after. Lock held */
uint32_t sweep_if_due(struct rtmw_region *, uint64_t every_ns); /* Lock held */

/* descriptors.c: lock held */
uint32_t descriptor_claim(struct rtmw_region *, uint64_t size); /* LOANED by me with room for size, or NIL */
void descriptor_fetch_ahead(struct rtmw_region *);              /* for the claims to come */
void descriptor_free(struct rtmw_region *, uint32_t index);     /* LOANED by me → FREE */
bool descriptor_take_over(struct rtmw_region *, uint32_t index, uint64_t state); /* CAS state → LOANED by me */
bool descriptor_is_passed(struct rtmw_region *, struct descriptor *);
void descriptor_settle(struct rtmw_region *, uint32_t index, uint32_t dead_owner);
void stash_put(struct rtmw_region *, uint32_t index, uint64_t generation);
/* Takes the block of a message that was in this state when all had read it, for the heir, or gives it back when that is
 * NIL. false: somebody holds it */
bool descriptor_empty(struct rtmw_region *, struct descriptor *, uint64_t state, uint32_t heir);
uint32_t descriptor_inherit(struct rtmw_region *, struct descriptor *, uint64_t state, uint64_t size);
bool descriptor_is_message(struct descriptor *); /* held, and not emptied */
uint32_t reclaim_passed(struct rtmw_region *);   /* frees all it finds; how many */
void recount_hints(struct rtmw_region *);
void stash_flush(struct rtmw_region *); /* frees what is stashed and unheld, with blocks */
/* NULL: the region is damaged. Else there are `size` bytes, whatever becomes of the descriptor's words meanwhile. */
void *payload_of(struct rtmw_region *, struct descriptor *, uint64_t size);

/* blocks.c: lock held */
bool block_allocate(struct rtmw_region *, uint32_t index, uint64_t size);
void block_drop(struct rtmw_region *, struct descriptor *);
void block_move(struct rtmw_region *, struct descriptor *from, uint32_t to);
bool owner_is_live(struct rtmw_region *, uint64_t word);
bool pool_is_low(struct rtmw_region *);
enum { GRANULAR_PAGE_TAG = 1 };
#define GRANULAR link_make(GRANULAR_PAGE_TAG, NIL)

/* queue.c */
bool hold(struct rtmw_region *, uint32_t index, struct band *, uint64_t sequence); /* lock held */
void hold_mine(struct rtmw_region *, uint32_t index);                              /* lock held */
void hold_again(struct rtmw_region *, uint32_t index);                             /* lock held */
void let_go(struct rtmw_region *, uint32_t index);                                 /* lock held */
bool queue_append(struct rtmw_region *, uint32_t topic, uint32_t band, uint32_t index);
uint32_t queue_evict(struct rtmw_region *, struct band *, uint64_t up_to, uint32_t most); /* lock held */
uint64_t band_tail_sequence(struct rtmw_region *, struct band *);
uint64_t band_last_sequence(struct rtmw_region *, struct band *);
uint64_t band_head_sequence(struct band *, uint64_t near);
enum { STEP_NONE = 0, STEP_OK = 1, STEP_PASSED = 2, STEP_DAMAGED = 3 };
enum { MOST_IN_VAIN = 1 << 16 }; /* tries that somebody else's progress spoils: more in a row, and it is not progress */
int queue_step(struct rtmw_region *, struct band *, uint32_t *index, uint64_t *sequence,
               uint64_t *missed); /* lock held */

/* topics.c */
int topic_open(struct rtmw_region *, const char *name, uint32_t *topic);
int type_register(struct rtmw_region *, const rtmw_type *, uint16_t *type);
void settle_half_made(struct rtmw_region *, uint32_t dead);
/* A CLAIMED word in the lowest free slot, or 0; tries again after a sweep. Lock held */
uint64_t slot_claim(struct rtmw_region *, uint64_t *words, uint32_t count, uint32_t *top, uint32_t topic,
                    uint32_t *slot);
bool slot_free(uint64_t *word, uint64_t value);
bool types_match(uint32_t publisher, uint32_t subscriber);
static inline bool reliabilities_match(uint32_t offered, uint32_t asked, bool exact)
{
    return exact ? offered == asked : asked != RTMW_RELIABLE || offered == RTMW_RELIABLE;
}
/* What a publisher published stays counted when it goes. The block is the caller's alone. */
void topic_keep_bytes(struct topic *, struct publisher_block *);

/* retention.c: what may be evicted, and when a RELIABLE publisher must wait. Lock held */
void queue_trim(struct rtmw_publisher *, uint32_t band, bool has_block);
uint32_t inherit_last(struct rtmw_publisher *, uint32_t band,
                      uint64_t size);                   /* the block of the last message, or NIL */
bool make_room(struct rtmw_publisher *, uint32_t turn); /* after descriptor_claim found nothing: true, try again */
uint32_t reliable_room(struct rtmw_publisher *);        /* messages until a RELIABLE subscriber may be full */
/* A publisher waits: for room in full queues, or for memory. The dead are swept after, the stalled lapse. */
void expel_stalled(struct rtmw_publisher *, bool for_memory);
uint64_t unread_by(struct rtmw_region *, struct topic *, struct subscriber_block *);
uint64_t waiting_for(struct rtmw_region *, struct topic *, struct subscriber_block *);
/* The next ACTIVE subscriber of a topic, from *slot on; NULL at the end. */
struct subscriber_block *next_subscriber(struct rtmw_region *, uint32_t topic, uint32_t *slot);

/* wait.c */
void wake_subscribers(struct rtmw_region *, struct topic *, uint32_t topic_index);
void wake_publishers(struct topic *);
int futex_sleep(uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void futex_wake_and_add(uint32_t *word);
uint32_t arm_word(uint32_t *word);
bool has_next(struct rtmw_subscriber *);

/* Wait until `end` (CLOCK_MONOTONIC), as rtmw_wait. */
int subscriber_wait(struct rtmw_subscriber *, uint64_t end, uint64_t spin_ns);

/* spin.c: true when there is something to take */
enum { GLANCE_NS = 3000 };
bool subscriber_glance(struct rtmw_subscriber *); /* for so short a time that the GIL need not be given away */
bool subscriber_spin(struct rtmw_subscriber *, uint64_t now, uint64_t end); /* as long as it is worth at present */
bool subscriber_spin_for(struct rtmw_subscriber *, uint64_t until);
void subscriber_slept(struct rtmw_subscriber *, uint64_t waited_ns); /* after a spin that found nothing */

/* trace.c */
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
void trace_missed(struct rtmw_subscriber *, uint32_t band, uint64_t last, uint64_t count);
enum trace_found { TRACE_READ, TRACE_LATER, TRACE_LOST }; /* LATER: it is being written, or its writer died just now */
uint64_t trace_next(struct rtmw_region *);                /* the ticket of the next event */
enum trace_found trace_read(struct rtmw_region *, uint64_t ticket, struct trace_event *);
int trace_begin(struct rtmw_region *, uint32_t topic);
void trace_end(struct rtmw_region *, uint32_t topic); /* once for each trace_begin */
void trace_settle(struct rtmw_region *, uint32_t dead);

/* take.c: at most `most` messages, 1 or more. RTMW_OK: there may be another one; else why not, after `count` of them. */
int take_some(rtmw_subscriber *, rtmw_message *, uint32_t most, uint32_t *count);

/* publish.c, beyond rtmw.h */
struct part { /* a message to be copied */
    const void *data;
    uint64_t size;
};
/* Publishes in order until one is refused, and wakes nobody. Other than RTMW_OK: why not all of them were. */
int publish_quietly(rtmw_publisher *, const struct part *, uint32_t count, const rtmw_message_qos *,
                    uint32_t *published);
int loan_append(rtmw_publisher *, rtmw_loan *, const rtmw_message_qos *); /* wakes nobody */
void publisher_flush(rtmw_publisher *);                                   /* wakes who sleeps */
void publisher_refused(rtmw_publisher *, int code);
void loan_keep(rtmw_publisher *, rtmw_loan *);
void loan_give_back(struct rtmw_region *, uint32_t descriptor); /* LOANED by this process → FREE */

bool is_lapsed(struct rtmw_subscriber *);
int region_socket(struct rtmw_region *);         /* the process' one file descriptor; -1 and errno */
int subscriber_socket(struct rtmw_subscriber *); /* one of its own; -1 and errno */
bool subscriber_arm(struct rtmw_subscriber *);   /* ask for a datagram. true: there is something to take already */
bool subscriber_rearm(struct rtmw_subscriber *); /* empty its own socket, and arm */
void drain(int socket);
void subscriber_shut(struct rtmw_subscriber *); /* waiters return RTMW_CLOSED; takes do too */

#endif
