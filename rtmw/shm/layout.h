/* The control region: every word that processes share, drawn, typed and pinned. Nothing else describes it.
 *
 *   control object                                         blocks object
 *   ┌──────────────────────────────────────────────┐       ┌─────────────────────────────┐
 *   │ header · hints   magic, version, sizes       │       │ page 0 │ page 1 │ … │ page n│  4096 bytes each
 *   │ participants  128 × 128 B  attached processes│       │        16 granules of 256 B │
 *   │ types         type descriptions              │       └─────────────────────────────┘
 *   │ topics        name, wait words, 8 bands      │          payloads only, never a pointer
 *   │ directories   hashes, makers (see topics.c)  │
 *   │ publisher words · publishers                 │
 *   │ subscriber words · subscribers · histograms  │       band of a topic, oldest → newest:
 *   │ trace         ring of what happened          │
 *   │ page words · granule words    who owns what  │       head ─► D ─next─► D ─next─► D ◄─ tail
 *   │ bitmaps       hints: where to look           │
 *   │ descriptors   256 B each                     │
 *   └──────────────────────────────────────────────┘                ▲ cursor of a subscriber (held)
 *
 * Words that are claimed carry who claims and a generation, so that one compare-and-swap says it all:
 *
 *   descriptor state   {generation:44 | kind:4 | owner:8 | 0:8}     FREE → LOANED → APPENDING → QUEUED (→ EMPTIED) → …
 *   next               {generation:44 | index:20}    of the successor; index NIL: the generation of the descriptor itself
 *   head, tail, cursor {sequence:44   | index:20}    the sequence only grows, so the word never repeats
 *   participant        {0:4 | generation:36 | pid:22 | state:2}      its first byte is locked while it lives: slots.c
 *   slot word          {generation:36 | topic:16 | owner:8 | state:4}
 *                      of topics, types and endpoints. An ACTIVE subscriber of owner NOBODY: take.c
 *   life of a topic    {generation:44 | index:20}    of its slot; what tools know it by. The same of a type
 *   page, granule      {tag:44 | descriptor:20}      owned while that descriptor's block_tag is this tag
 *   trace turn         {ticket:48 | owner:8 | state:8}   of an entry of the ring; owner NOBODY unless it is being written
 *   place              {granules:40 | topic:16 | band:8}  granules of this message and of all before it in the band
 *   offers             OFFERS × {used:1 | reliability:2 | type:16}  an offer is what matching depends on
 *
 * Invariants:
 *   - head.sequence ≤ tail.sequence, and both only grow; the sequence in a band is dense.
 *   - A descriptor that tail has passed is QUEUED: a process that moves tail sees to that first.
 *   - QUEUED or EMPTIED, without owner, passed by head and without holders *is* free: anyone may claim it by CAS.
 *   - A page or granule whose word names a tag that its descriptor no longer has *is* free.
 */
#ifndef RTMW_LAYOUT_H
#define RTMW_LAYOUT_H

#include "rtmw.h"

#define RTMW_MAGIC          UINT64_C(0x30776d74722d7674) /* "tv-rtmw0" */
#define RTMW_LAYOUT_VERSION 11u

enum {
    LINE = 64,
    PARTICIPANTS = 128,
    BANDS = RTMW_PRIORITIES, /* queues of a topic, one a priority */
    NAME_BYTES = 192,        /* topic name with its terminating zero */
    TYPE_NAME_BYTES = 128,   /* type name with its terminating zero */
    TYPE_BYTES = 8000,       /* longest type description */
    PAGE = 4096,
    GRANULE = 256,
    GRANULES_A_PAGE = PAGE / GRANULE,
    IN_PLACE = 128, /* payload that fits in the descriptor */
    OFFERS = 3,     /* offers of a band that are counted apart; further ones are counted together */
    HISTOGRAM_BUCKETS = 1024,
    MOST_TOPICS = 16384,
    HISTOGRAMS = 2048,     /* most subscribers that have one: the lowest slots */
    TRACE_ENTRIES = 16384, /* most events that are kept */
};

#define SMALLEST_POOL (UINT64_C(1) << 16)
#define LARGEST_POOL  (UINT64_C(1) << 39)

/* The reserve: so many 1024ths at most. */
enum { RESERVE_WHOLE = 1024, RESERVE_MOST = 512 };

#define NIL        0xFFFFFu /* no descriptor */
#define INDEX_BITS 20
#define TAG_BITS   44
#define TAG_MASK   ((UINT64_C(1) << TAG_BITS) - 1)

/* {tag | index} words: next, head, tail, cursor, page, granule */
static inline uint64_t link_make(uint64_t tag, uint32_t index) { return (tag << INDEX_BITS) | index; }
static inline uint32_t link_index(uint64_t link) { return (uint32_t)link & NIL; }
static inline uint64_t link_tag(uint64_t link) { return link >> INDEX_BITS; }

/* The full sequence whose low 44 bits are `tag`, given one near it. */
static inline uint64_t sequence_near(uint64_t tag, uint64_t near)
{
    return near + (uint64_t)((int64_t)((tag - near) << INDEX_BITS) >> INDEX_BITS);
}

/* descriptor states; owner NOBODY where none is at work */
enum { NOBODY = 255 };
enum descriptor_kind { FREE = 0, LOANED = 1, APPENDING = 2, QUEUED = 3, EMPTIED = 4 };

static inline uint64_t state_make(uint64_t generation, enum descriptor_kind kind, uint32_t owner)
{
    return (generation << 20) | ((uint64_t)kind << 16) | ((uint64_t)owner << 8);
}
static inline uint64_t state_generation(uint64_t state) { return state >> 20; }
static inline enum descriptor_kind state_kind(uint64_t state) { return (enum descriptor_kind)((state >> 16) & 15); }
/* In the queue, or passed and free to claim: nobody is at work on it. */
static inline bool state_is_at_rest(uint64_t state)
{
    enum descriptor_kind kind = state_kind(state);
    return kind == QUEUED || (kind == EMPTIED && ((state >> 8) & 255) == NOBODY);
}
static inline uint32_t state_owner(uint64_t state) { return (uint32_t)(state >> 8) & 255; }

/* slot words: topics, types, publishers, subscribers */
enum slot_state { SLOT_FREE = 0, SLOT_CLAIMED = 1, SLOT_ACTIVE = 2, SLOT_LAPSED = 3, SLOT_RETIRING = 4 };

static inline uint64_t slot_make(uint64_t generation, uint32_t topic, uint32_t owner, enum slot_state state)
{
    return (generation << 28) | ((uint64_t)topic << 12) | ((uint64_t)owner << 4) | (uint64_t)state;
}
static inline uint64_t slot_generation(uint64_t word) { return word >> 28; }
static inline uint32_t slot_topic(uint64_t word) { return (uint32_t)(word >> 12) & 0xFFFF; }
static inline uint32_t slot_owner(uint64_t word) { return (uint32_t)(word >> 4) & 255; }
static inline enum slot_state slot_state_of(uint64_t word) { return (enum slot_state)(word & 15); }
/* Of a topic or type: others may find it. RETIRING: unless somebody uses it, its slot is given back. */
static inline bool slot_is_there(uint64_t word)
{
    return slot_state_of(word) == SLOT_ACTIVE || slot_state_of(word) == SLOT_RETIRING;
}

/* Slots of types from this one on are for everybody; those before it only for programs of this host. */
static inline uint32_t first_open_type(uint32_t types) { return types / 2; }
/* Slots of publishers, or subscribers, below this are for everybody; those from it on only for programs of this host. */
static inline uint32_t first_kept_endpoint(uint32_t endpoints) { return endpoints - endpoints / 8; }

/* participant words */
enum participant_state { ABSENT = 0, PRESENT = 1, LEAVING = 2 };
#define PID_MASK                    0x3FFFFFu
#define PARTICIPANT_GENERATION_MASK ((UINT64_C(1) << 36) - 1)

static inline uint64_t participant_make(uint32_t pid, uint64_t generation)
{
    return ((generation & PARTICIPANT_GENERATION_MASK) << 24) | ((uint64_t)(pid & PID_MASK) << 2) | PRESENT;
}
static inline uint64_t participant_in_state(uint64_t word, enum participant_state state)
{
    return (word & ~UINT64_C(3)) | (uint64_t)state;
}
static inline uint32_t participant_pid(uint64_t word) { return (uint32_t)(word >> 2) & PID_MASK; }
static inline uint64_t participant_generation(uint64_t word) { return (word >> 24) & PARTICIPANT_GENERATION_MASK; }
static inline enum participant_state participant_state_of(uint64_t word) { return (enum participant_state)(word & 3); }

/* A subscriber that publishers wait for: {position:20 | waited:26 | seen:18}. The sum of its cursors, how long publishers
 * have waited while it stood there, and when one saw that last; times in units of 2^20 ns, about a millisecond. */
enum { STALL_SEEN_BITS = 18, STALL_WAITED_BITS = 26 };
#define STALL_POSITION_MASK ((1u << (64 - STALL_SEEN_BITS - STALL_WAITED_BITS)) - 1)
#define STALL_SEEN_MASK     ((1u << STALL_SEEN_BITS) - 1)
#define STALL_WAITED_MASK   ((1u << STALL_WAITED_BITS) - 1)

static inline uint64_t stall_make(uint32_t position, uint32_t waited, uint32_t seen)
{
    return ((uint64_t)position << (STALL_SEEN_BITS + STALL_WAITED_BITS)) |
           ((uint64_t)(waited & STALL_WAITED_MASK) << STALL_SEEN_BITS) | (seen & STALL_SEEN_MASK);
}
static inline uint32_t stall_position(uint64_t stall)
{
    return (uint32_t)(stall >> (STALL_SEEN_BITS + STALL_WAITED_BITS));
}
static inline uint32_t stall_waited(uint64_t stall) { return (uint32_t)(stall >> STALL_SEEN_BITS) & STALL_WAITED_MASK; }
static inline uint32_t stall_seen(uint64_t stall) { return (uint32_t)stall & STALL_SEEN_MASK; }

/* where a descriptor lies, and how many granules the band has taken up to it */
#define PLACE_GRANULES_MASK ((UINT64_C(1) << 40) - 1)

static inline uint64_t place_make(uint64_t granules, uint32_t topic, uint32_t band)
{
    return (granules << 24) | ((uint64_t)topic << 8) | band;
}
/* The place of the next message of the band, which has so many granules. */
static inline uint64_t place_add(uint64_t place, uint64_t granules) { return place + (granules << 24); }
static inline uint64_t place_granules(uint64_t place) { return place >> 24; }
static inline uint32_t place_topic(uint64_t place) { return (uint32_t)(place >> 8) & 0xFFFF; }
static inline uint32_t place_band(uint64_t place) { return (uint32_t)place & 255; }

/* offers of a band */
#define OFFER_BITS 19

static inline uint64_t offer_make(uint32_t type, uint32_t reliability)
{
    return (UINT64_C(1) << 18) | ((uint64_t)(reliability & 3) << 16) | (type & 0xFFFF);
}
static inline uint64_t offer_at(uint64_t offers, uint32_t i)
{
    return (offers >> (i * OFFER_BITS)) & ((UINT64_C(1) << OFFER_BITS) - 1);
}
static inline uint32_t offer_type(uint64_t offer) { return (uint32_t)offer & 0xFFFF; }
static inline uint32_t offer_reliability(uint64_t offer) { return (uint32_t)(offer >> 16) & 3; }

/* Written once, by the creator. A process that attaches checks a copy of its own, and never looks at this one again. */
struct header {
    uint64_t magic;   /* written last by the creator, before the object gets its name */
    uint32_t version; /* RTMW_LAYOUT_VERSION */
    uint32_t creator; /* pid */
    uint64_t nonce;   /* names the blocks object and the wake-up sockets of this region */
    uint64_t control_bytes;
    uint64_t pool_bytes;
    uint32_t topics, publishers, subscribers, types, descriptors, pages, histograms,
        trace_entries; /* table lengths, never changed */
    uint32_t reserve;  /* 1024ths of the descriptors and pages that are for the upper bands alone */
    uint32_t reserved_descriptors, reserved_pages;
    uint8_t pad0[4];
    uint64_t at_participants, at_types, at_topics, at_topic_directory, at_type_directory, at_publisher_words,
        at_publishers, at_subscriber_words, at_subscribers, at_pages, at_granules, at_descriptors, at_histograms,
        at_trace, at_free_descriptors, at_passed_descriptors, at_free_pages, at_roomy_pages,
        at_evictable;        /* offsets in bytes from the header */
    int64_t clock_offset_ns; /* of the creator, as clock_offset says; it is that of all who attach */
    uint8_t pad1[8];
};

/* Any process, any time. Wrong ones cost work, never harm: a sweep recounts them. Behind the header. */
struct hints {
    uint64_t granules_used;
    uint32_t descriptors_used;
    uint32_t topics_top, publishers_top, subscribers_top; /* slots from here on were never used */
    uint32_t topics_made;                                 /* grows with each new topic */
    uint32_t abandoned; /* grows with each publisher that goes from a topic of which history is kept */
    uint8_t pad[32];
};

struct participant {
    uint64_t word;          /* claimed by CAS under the lock of its first byte, freed by CAS */
    uint64_t sweepers[2];   /* participants that sweep after this one; the slot is not claimed anew while one does */
    uint64_t pid_namespace; /* inode: where the pid means something; 0: not known. The owner, and who sweeps after it */
    char name[64];          /* program, for people */
    uint32_t wait; /* futex. Odd: a thread of it sleeps until any subscriber that is armed has something: wait.c */
    uint8_t pad[28];
};

struct type_entry {
    uint64_t word;     /* slot word: by CAS, as topics.c draws it. The rest is written by the claimer, before ACTIVE */
    uint64_t identity; /* hash of the description */
    uint32_t bytes;    /* of the description */
    uint8_t pad[44];
    char name[TYPE_NAME_BYTES];
    uint8_t description[TYPE_BYTES];
};

struct band {
    uint64_t head;   /* oldest message kept. Evictors, by CAS forward. Index NIL: nothing published yet */
    uint64_t offers; /* of its messages. The appender of the first of an offer, by CAS, before the link; they stay */
    uint64_t
        origin; /* last sequence that late subscribers do not get: of another life of the topic, or forgotten. Grows */
    uint64_t began; /* last sequence before this life of the topic. Its maker, before ACTIVE */
    uint8_t pad0[LINE - 32];
    uint64_t tail; /* newest, or the one before it while an append is under way. Anyone, by CAS forward */
    uint8_t pad1[LINE - 8];
};

struct topic {
    uint64_t word; /* slot word: by CAS, as topics.c draws it. The rest is written by who has an endpoint of it */
    uint64_t retired_bytes; /* payload bytes of publishers that are gone */
    uint32_t epoch;         /* grows when a subscriber joins: what publishers cached is void */
    uint32_t bands;         /* bit a band that was ever used; only grows */
    uint32_t history;       /* the largest that a publisher promised; only grows, and 0 in a new life */
    uint32_t timely;        /* 1 once a TIMELY publisher was here */
    uint32_t reliable;      /* 1 once a RELIABLE publisher was here */
    uint32_t evictable;     /* bit a band that may hold what may go. Appenders set, evictors clear: see queue.c */
    uint64_t tracers[2]; /* bit a participant that traces it: set and cleared by it, cleared by who sweeps after it */
    uint64_t subscribed; /* bit a 64th of the subscriber table in which it ever had one: they set, before ACTIVE */
    uint32_t wait;       /* futex. Odd: somebody sleeps. A wake-up makes it even */
    uint32_t poll;       /* odd: some subscriber wants a datagram. See wait.c */
    uint32_t room;       /* futex of RELIABLE publishers that wait for a subscriber to move */
    uint32_t pinned;     /* bit a band of which RELIABLE subscribers need all. Evictors set, readers clear */
    uint8_t pad1[LINE - 16];
    char name[NAME_BYTES];
    struct band band[BANDS];
};

struct publisher_block {
    uint64_t identity; /* pid, generation and slot: Sample.publisher. The owner; 0 by who sweeps after it */
    uint32_t type;     /* index in types; TYPE_RAW for raw bytes */
    uint32_t depth;
    uint32_t history;
    uint8_t reliability, priority, pad0[2];
    uint64_t lifetime_ns;  /* of messages that say nothing else; 0: no limit. The owner, before ACTIVE */
    uint64_t max_blocking; /* ns, plus 1, that its publish() waits for room; UINT64_MAX: no limit; 0: not known, as of C
                              programs, which wait by themselves. The owner; only observers read it */
    uint8_t pad2[24];
    uint64_t published, bytes, timed_out, exhausted; /* the owner only */
    uint64_t held_by_history; /* of the exhausted: history kept more than RELIABLE subscribers need. The owner only */
    uint8_t pad1[24];
};

struct subscriber_block {
    uint64_t min_interval_ns, deadline_ns, lease_ns; /* 0: none */
    uint32_t type, depth, history;
    uint8_t reliability, exact; /* exact: 1 is matched with publishers of this reliability alone */
    uint16_t parked_key;        /* which subscription may take its place: see take.c. The owner, before it parks */
    uint64_t opened_ns;         /* CLOCK_MONOTONIC. The owner, before ACTIVE */
    uint64_t missed_afar;     /* messages for it that were lost between hosts: publishers, by fetch_add; the owner: 0 */
    uint64_t parked_until_ns; /* CLOCK_MONOTONIC; while it is parked. The owner, before it parks */
    uint64_t cursor[BANDS];   /* the message it took last: held, unless the index is NIL. The owner only */
    uint64_t received, bytes, missed, expired, thinned, unmatched, deadlines_missed, lapses; /* the owner only */
    uint64_t other_types;  /* the owner only: messages of types it does not take */
    uint64_t stall;        /* see stall_make: publishers, by CAS, while they wait for it; the owner: 0 */
    uint32_t armed;        /* not 0: wants a datagram at the next message. The owner sets, publishers clear by CAS */
    uint32_t own_socket;   /* 1: it has a socket of its own, beside its process' */
    uint32_t taken[BANDS]; /* how many of the messages up to the cursor were offered to it. The owner, behind cursor */
    uint64_t accepted_ns;  /* published_ns of the last message that min_interval let through; 0: none. The owner */
    uint64_t expired_afar, thinned_afar; /* as missed_afar */
    uint8_t pad[LINE - 16];
};

struct descriptor {
    uint64_t state;          /* by CAS; the owner alone while LOANED */
    uint64_t holders[2];     /* bit a participant: set and cleared by it, cleared by who sweeps after it */
    uint64_t next;           /* by CAS once: NIL → successor */
    uint64_t sequence;       /* of its band: the predecessor's plus one. The owner, before the link */
    uint64_t predecessor;    /* {generation | index} it is being linked behind. The owner, before the link */
    uint64_t place;          /* topic, band and granules. The owner, before the link */
    uint64_t block_tag;      /* page and granule words must name it to be its block. Grows */
    uint32_t block_granule;  /* first granule of the block, counted over the whole pool */
    uint32_t block_granules; /* 0: no block */
    uint64_t published_ns;   /* CLOCK_MONOTONIC */
    uint64_t source_time_ns; /* CLOCK_REALTIME of the source */
    uint64_t expires_ns;     /* CLOCK_MONOTONIC; 0: never. The owner, before the link */
    uint64_t size;           /* payload bytes */
    uint64_t publisher;      /* identity */
    uint16_t type;
    uint8_t reliability;    /* of the publisher */
    uint8_t offer;          /* index among the band's; OFFERS: counted together. The owner, before the link */
    uint32_t count[OFFERS]; /* messages of each offer up to this one, modulo 2^32. The owner, before the link */
    uint8_t payload[IN_PLACE];
};

/* How long messages were on their way to a subscriber, from publish to take. histogram.h says which bucket is which. */
struct histogram {
    uint64_t count[HISTOGRAM_BUCKETS]; /* the owner of the subscriber's slot only */
};

/* Events of a message. The drops are those of subscriber_block and publisher_block, by the same names. */
enum trace_kind {
    TRACE_PUBLISHED,
    TRACE_TAKEN,
    TRACE_MISSED,
    TRACE_EXPIRED,
    TRACE_THINNED,
    TRACE_UNMATCHED,
    TRACE_OTHER_TYPES,
    TRACE_TIMED_OUT,
    TRACE_EXHAUSTED,
};
enum trace_state { TRACE_VOID = 0, TRACE_WRITING = 1, TRACE_DONE = 2 };

static inline uint64_t turn_make(uint64_t ticket, uint32_t owner, enum trace_state state)
{
    return (ticket << 16) | ((uint64_t)owner << 8) | (uint64_t)state;
}
static inline uint64_t turn_ticket(uint64_t turn) { return turn >> 16; }
static inline uint32_t turn_owner(uint64_t turn) { return (uint32_t)(turn >> 8) & 255; }
static inline enum trace_state turn_state(uint64_t turn) { return (enum trace_state)(turn & 255); }

/* {topic:16 | band:8 | kind:8 | count:32} */
static inline uint64_t what_make(uint32_t topic, uint32_t band, enum trace_kind kind, uint32_t count)
{
    return ((uint64_t)topic << 48) | ((uint64_t)band << 40) | ((uint64_t)kind << 32) | count;
}
static inline uint32_t what_topic(uint64_t what) { return (uint32_t)(what >> 48); }
static inline uint32_t what_band(uint64_t what) { return (uint32_t)(what >> 40) & 255; }
static inline uint32_t what_kind(uint64_t what) { return (uint32_t)(what >> 32) & 255; }
static inline uint32_t what_count(uint64_t what) { return (uint32_t)what; }

/* An event. The claimer of the entry writes it, and nobody else before it is DONE, or its writer was swept after. */
struct trace_entry {
    uint64_t turn;         /* by CAS from an older one's to WRITING; then DONE by its writer, or VOID by a sweep */
    uint64_t what;         /* see what_make; count: how many messages it stands for, the last of them named here */
    uint64_t at_ns;        /* CLOCK_MONOTONIC, when it happened */
    uint64_t who;          /* identity of the endpoint that it happened at */
    uint64_t publisher;    /* identity of the message's publisher; 0: not known */
    uint64_t sequence;     /* of the message in its band; 0: it never had one */
    uint64_t size;         /* payload bytes; 0 when not known */
    uint64_t published_ns; /* CLOCK_MONOTONIC; 0 when not known */
};

struct trace {
    uint64_t next; /* ticket of the next event: anyone who has one, by fetch_add */
    uint8_t pad[LINE - 8];
    struct trace_entry entry[]; /* ticket modulo trace_entries */
};

enum { TYPE_RAW = 0xFFFF, TYPE_ANY = 0xFFFE };

#ifdef __cplusplus
#define RTMW_PIN(condition) static_assert(condition, #condition)
#else
#define RTMW_PIN(condition) _Static_assert(condition, #condition)
#endif
RTMW_PIN(sizeof(struct header) == 256 && sizeof(struct hints) == 64 && sizeof(struct participant) == 128);
RTMW_PIN(sizeof(struct type_entry) == 8192 && offsetof(struct type_entry, description) == 192);
RTMW_PIN(sizeof(struct band) == 128 && offsetof(struct band, tail) == 64);
RTMW_PIN(OFFERS *OFFER_BITS <= 64);
RTMW_PIN(offsetof(struct topic, tracers) == 40 && offsetof(struct topic, wait) == 64);
RTMW_PIN(offsetof(struct topic, subscribed) == 56 && offsetof(struct topic, pinned) == 76);
RTMW_PIN(offsetof(struct topic, name) == 128);
RTMW_PIN(offsetof(struct topic, band) == 320 && sizeof(struct topic) == 1344);
RTMW_PIN(offsetof(struct publisher_block, lifetime_ns) == 24);
RTMW_PIN(offsetof(struct publisher_block, published) == 64 && sizeof(struct publisher_block) == 128);
RTMW_PIN(offsetof(struct subscriber_block, parked_key) == 38 &&
         offsetof(struct subscriber_block, parked_until_ns) == 56);
RTMW_PIN(offsetof(struct subscriber_block, cursor) == 64 && offsetof(struct subscriber_block, received) == 128);
RTMW_PIN(offsetof(struct subscriber_block, other_types) == 192 && sizeof(struct subscriber_block) == 320);
RTMW_PIN(offsetof(struct subscriber_block, taken) == 216 && offsetof(struct subscriber_block, accepted_ns) == 248);
RTMW_PIN(offsetof(struct descriptor, block_granule) == 64 && offsetof(struct descriptor, payload) == 128);
RTMW_PIN(offsetof(struct descriptor, offer) == 115 && offsetof(struct descriptor, count) == 116);
RTMW_PIN(sizeof(struct descriptor) == 256 && sizeof(struct histogram) == 2 * PAGE);
RTMW_PIN(sizeof(struct trace_entry) == LINE && sizeof(struct trace) == LINE);

#endif
