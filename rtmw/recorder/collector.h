/* The part of the recorder that touches messages: one thread, without Python, that takes from all topics into chunks.
 *
 *   topics ─ take ─► open chunk ─ full, or a second old ─► full chunks ─ next ─► the writer, in Python: compress, write
 *                        ▲                                                            │
 *                        └───────────────────── free chunks ◄──────────── give ───────┘
 *
 * A message is copied and released at once. When no chunk is free, because the disk is slower than the topics, messages
 * are taken all the same, and counted as overflowed: nobody waits for a disk. Only sources that are RELIABLE are not
 * taken from then, and hold their publishers back.
 */
#ifndef RTMW_COLLECTOR_H
#define RTMW_COLLECTOR_H

#include <pthread.h>

#include "../recording/chunk.h"
#include "../shm/atomics.h"
#include "../shm/rtmw.h"

enum { BANDS = RTMW_PRIORITIES, TYPES_AT_FIRST = 2, SOURCES_AT_FIRST = 64 };

/* Why a message is not in the recording; the numbers are those of the side record (docs/formats/format.md). */
enum cause { MISSED = 1, EXPIRED, UNKNOWN_TYPE, OVERFLOWED, PAUSED, EARLY, CAUSES };

/* A type of the messages of a topic. While nobody uses it its slot may go to another; when it comes again, `life` is new. */
struct kind {
    uint64_t life, identity; /* of raw bytes, `identity` is 0 */
    uint16_t channel;
};

/* A topic that is recorded. The collector thread writes; counters may be read by anyone. Once its subscriber is closed, the
 * thread does not touch it until source_resume has opened another one. */
struct source {
    rtmw_subscriber *subscriber; /* NULL: it was left. Changed under the lock */
    uint32_t leaving;            /* anyone: close the subscriber when there is nothing left to take */
    bool is_empty;               /* the last take found nothing more */
    char *topic;
    uint32_t number;
    uint32_t new_depth; /* anyone: it is to be ADAPTIVE with this depth, for other publishers have come. 0: as it is */
    bool is_reliable;
    bool is_new; /* the topic appeared while recording: what was published before is EARLY */
    bool has_held;
    rtmw_message held;     /* taken, but there is no chunk for it yet: of RELIABLE sources only */
    bool is_second;        /* its subscriber has taken over from another one */
    uint64_t last[BANDS];  /* sequence of the last message; of none yet: of the last one that is not to be recorded */
    uint64_t early;        /* messages before its subscriber came, as they were at the last look */
    uint64_t gaps, filled; /* messages of a RELIABLE source that did not come, and those of them that were counted */
    uint64_t again;        /* messages that the subscriber before this one has counted, and this one will count again */
    uint16_t channel;      /* of its last message; 0: none yet */
    uint32_t kind_count, kinds_room;
    struct kind *kinds;
    rtmw_subscriber_counters bus;           /* as they were at the last look */
    uint64_t taken, bytes, missing[CAUSES]; /* in all */
    uint64_t told[CAUSES];                  /* of missing; written by the thread that tells, under the lock */
    bool has_news;                          /* is in the list of sources with something to tell; under the lock */
};

/* Messages of a source that are not in the recording. */
struct missed {
    uint32_t source;
    uint16_t channel; /* of its last message; 0: none yet */
    int cause;
    uint64_t count;
};

struct channel {
    uint32_t source;
    uint64_t life;     /* of its type, when the channel was made */
    void *description; /* of its type, which may be gone when it is written; NULL: raw bytes */
    size_t description_bytes;
};

struct collector {
    rtmw_region *region;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;          /* a chunk is full, or the thread has ended */
    uint64_t chunk_age_ns;           /* an open chunk is closed at latest then */
    uint64_t budget;                 /* bytes that messages larger than a chunk may take together */
    uint32_t stopping, paused, cuts; /* anyone; cuts counts the demands to close a chunk */

    /* The thread's own. */
    struct source **taken_from; /* those of `sources` that it has seen and not left */
    uint32_t taken_from_count, changes_seen;
    rtmw_subscriber **waited_for; /* theirs */
    bool *ready;
    struct chunk *open;
    uint64_t opened_ns, last_log_ns;
    uint32_t cuts_seen;
    bool has_found;         /* messages, since it slept */
    bool has_lost_patience; /* at the end: with a disk that does not take what is there */

    /* Under the lock. */
    struct source **sources;
    uint32_t source_count, sources_room;
    uint32_t changes; /* times that a source was added or resumed */
    uint32_t *news;   /* numbers of sources with something to tell; as much room as sources */
    uint32_t news_count;
    struct channel *channels; /* by number; 0 is none. Only the thread adds */
    uint32_t channel_count;
    struct chunk **free, **full; /* a stack, and a ring from `first` on; both have room for all chunks */
    uint32_t chunks, free_count, full_count, first;
    uint64_t charged; /* bytes of large messages in chunks */
    bool has_ended;

    uint64_t clock_jumps; /* times that the wall clock went back; the thread writes, anyone reads */
};

/* A topic to record from now on; its number, or -1 with a code. */
int64_t source_add(struct collector *, const char *topic, const rtmw_subscriber_qos *, bool is_new, int *code);
/* A source that was left, or is to leave, goes on: behind the last message that it took or, where the topic was given up and
 * made again (`is_other`), as one that is new. */
int source_resume(struct collector *, struct source *, const rtmw_subscriber_qos *, bool is_other);
/* The thread has found nothing more to take: close the subscriber. false: it is to go on after all. */
bool source_leave(struct collector *, struct source *);
void source_close(struct source *);
/* The thread sees what was added; false: no memory. */
bool sources_adopt(struct collector *);
/* The channel of a message that is held, a new one if it is the first of its type; 0: there are no more. */
uint16_t source_channel(struct collector *, struct source *, uint16_t type);
void source_count_missing(struct source *, enum cause, uint64_t count);
/* What the bus dropped since the last look, and what is new to tell. */
void source_count_bus(struct collector *, struct source *);
/* What was not told yet, and is from here on; to be freed. NULL: no memory, and it is told the next time. */
struct missed *sources_missing(struct collector *, uint32_t *count);
void sources_untell(struct collector *, const struct missed *, uint32_t count); /* it is to be told again */
/* A message comes; false: it came before. */
bool source_see(struct source *, const rtmw_message *);
/* Go on as ADAPTIVE with another depth, from the message behind the last one; no room: the next time. */
void source_adapt(struct collector *, struct source *, uint32_t depth);

bool exchange_lend(struct collector *, struct chunk *); /* one more chunk, empty, to be filled; false: no memory */
void exchange_give(struct collector *, struct chunk *); /* one that was full, empty again */
/* A message larger than a chunk goes into this one: may it? One at a time always may. */
bool exchange_charge(struct collector *, struct chunk *, uint64_t bytes);
struct chunk *exchange_free_chunk(struct collector *); /* NULL: none */
void exchange_full(struct collector *, struct chunk *);
struct chunk *exchange_next(struct collector *,
                            uint64_t timeout_ns); /* NULL: the time is up, or the thread has ended */

uint64_t monotonic_now(void);
int collector_start(struct collector *); /* 0, or an errno */
void collector_stop(struct collector *); /* what is on the bus now is taken; then the thread ends */
void collector_free(struct collector *);

#endif
