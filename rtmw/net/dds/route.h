/* Common parts of routes in both directions: how a payload lies in a sample, lanes, and how far a lane was carried. */
#ifndef RTMW_NET_ROUTE_H
#define RTMW_NET_ROUTE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../shm/rtmw.h"
#include "../route/carried.h"
#include "../route/sending.h"
#include "../route/trailer.h"
#include "dds.h"

struct engine;
struct inbound;
struct outbound;
struct source;

enum {
    BATCH = 32, /* samples taken from a reader in one call */
    ZERO_COPY_LEAST =
        16 << 10, /* bytes of a message that is sent or received without a copy: a copy of a smaller one is as fast */
    AFTER_MOST = TRAILER_PADDING + TRAILER_CRC + sizeof(struct trailer),
};

/* How the payload lies in the DDS sample. */
enum framing { FRAMING_CDR = 0, FRAMING_OCTETS = 1 }; /* as it is · as the one member of rtmw::Octets */
enum { OCTETS_HEADER = 8 };                           /* bytes before the octets: CDR header and length */

/* Of an inbound route, and of a remote writer: its rtmw_reliability, LANE_KEEPS where it keeps messages, and LANE_NODES in
 * the partition of nodes (policies.py). LANE_REPEATS: a node writes for plain programs what it writes for nodes, too. */
enum lane { LANE_RELIABILITY = 3, LANE_KEEPS = 4, LANE_NODES = 8, LANE_REPEATS = 254, LANE_UNKNOWN = 255 };

/* loss_report.c */
bool carried_open(struct engine *, const char *path); /* makes the file, if it is not there. false: errno says why */
void carried_close(struct engine *);
/* origin: as of carried_key */
struct carried_place carried_find(struct engine *, uint64_t topic, uint8_t lane, uint64_t origin);
void carried_begin(struct outbound *);                      /* as it opens */
void carried_take(struct outbound *, rtmw_message *);       /* it is in its queue; these three: the sender only */
void carried_pass(struct outbound *, const rtmw_message *); /* it has left, or nobody is to get it */
void carried_sent(struct outbound *);                       /* `sent` or `ahead` has changed */
void carried_reached(struct outbound *); /* the bus has nothing more for it: the sender, or at its end */
/* Lock held, before it is published: counts what was lost before it, and tells who has missed it. */
void carried_gap(struct inbound *, struct source *, const struct trailer *);
void carried_received(struct source *, uint64_t sequence); /* route's lock held: all up to this is published */

/* ---- outbound ---- */

/* An outbound route: a topic of the bus that is written to DDS, by the one thread that sends (sender.c). */

struct outbound {
    struct engine *engine;
    struct outbound *next;
    rtmw_subscriber *subscriber;
    dds_entity_t writer;
    const struct ddsi_sertype *type;
    enum framing framing;
    bool is_plain;  /* for plain programs: without trailers */
    uint64_t topic; /* its number in flow.c */
    bool reliable, timely;
    uint8_t lane;                 /* its rtmw_reliability */
    bool may_zero_copy;           /* DDS keeps none of its messages for later readers, and its type has no key */
    bool held;                    /* nothing is sent: another writer takes over */
    struct rate_limit limit;      /* of this lane */
    uint64_t limited;             /* limited hosts that read it: a bit each (engine.h). Any thread, atomically */
    uint32_t has_last;            /* 1: it has taken all that it is to take (engine.last_ns). The sender writes it */
    uint32_t closing;             /* 1: the sender is to forget it; 2: it has */
    uint32_t may_pack, may_check; /* 1: its readers know packs, and CRCs, as far as was looked (outbound.c) */
    uint32_t may_date;            /* 1: and lifetimes with a date (trailer.h) */
    uint64_t full_until_ns;       /* DDS has no room: not before. The sender's */
    uint64_t retry_ns;            /* not before, for whatever cause; 0: at once. Reckoned anew before each burst */
    uint32_t history;             /* messages from before it came that it asks the bus for */
    uint16_t key;                 /* of its subscriber, when that is parked */
    uint64_t park_ns;             /* not 0: that is parked for so long when the route closes */
    uint32_t depth, adjusted;     /* adjusted: 1, these are to be `subscriber`'s. Any thread that adjusts them */
    uint64_t min_interval_ns;
    uint32_t depth_now; /* it has, for messages of `weight` bytes. The sender only, as the weight */
    uint64_t weight;
    struct lookahead lookahead;
    uint64_t advance; /* bytes that may be taken in advance (outbound.c). Reckoned anew before each look at the bus */
    uint64_t sent, bytes, expired, refused, blocked, packs, uncopied; /* the sender thread only */
    struct carried_place carried; /* not of one for plain programs. The sender only, as the next four */
    struct carried_place numbers; /* CARRIED_LANE */
    uint64_t ahead;         /* messages that were lost before they were sent: a trailer's number counts them, too */
    uint64_t missed;        /* those of them that the bus could not keep for this route */
    uint64_t last;          /* the sequence of the last sample that DDS took; 0: none yet. Others load it, atomically */
    uint64_t kept_until_ns; /* until then nothing is taken: who reads it begins anew. Written under the engine's lock */
    uint64_t drain_until_ns; /* messages that a kept route has taken are sent until then. Under the engine's lock */
    bool resumes;            /* it is the first of its lane in this node: it goes on where another node ended */
};

/* outbound.c. Open, stop, close, park: any thread without a lock; they wait for the sender, which may be in a burst. Adjust and
 * is_delivered: any thread. All others: the sender, with the engine's lock; they block on nothing but DDS. */
int outbound_open(struct outbound *);
void outbound_stop(struct outbound *);  /* waits for the sender to let go of it: from then on it counts nothing more */
void outbound_close(struct outbound *); /* stops it, too */
void outbound_park(struct outbound *, uint64_t for_ns); /* when it closes, what it has not taken is kept for so long */
bool outbound_is_delivered(struct outbound *);
bool outbound_may_take(const struct outbound *);
void outbound_gather(struct outbound *);
void outbound_adjust(struct outbound *, uint32_t depth, uint64_t min_interval_ns);
/* Sends from one band until `most` messages or `most_bytes` have left, or the route is blocked. Returns the bytes sent. */
uint64_t outbound_send(struct outbound *, uint32_t band, uint32_t most, uint64_t most_bytes);
void outbound_forget(struct outbound *);

/* outbound.c. The sender, with the engine's lock. Bytes that a route may take in advance, and it may always take one message;
 * bytes of small messages of a TIMELY route that may wait on the bus. */
uint64_t outbound_advance(const struct outbound *);
uint64_t outbound_timely_bytes(const struct outbound *);

/* outbound.c. Open, close, heard, looked: Python's thread. Begin and end: the sender, with the engine's lock; no other is taken. */
int packing_open(struct engine *, dds_entity_t readers);
void packing_close(struct engine *);
uint32_t packing_heard(struct engine *);
void packing_looked(struct engine *, uint32_t heard); /* heard before it was looked who reads which topic */
struct readers_know {
    bool packs, crcs, dates;
};
struct readers_know packing_begin(struct outbound *); /* the form of a sample that is handed to DDS before the end */
void packing_end(struct outbound *);

/* handover.c. Another DDS writer takes the place of the route's: a thread without a lock; blocks for `patience_ns`. false: not
 * yet, ask again */
bool outbound_hand_over(struct outbound *, dds_entity_t writer, int64_t patience_ns);

/* handover.c. Keep: a thread without a lock; waits for the end of a burst. 0: it goes on. `last`: the sequence of its last sample.
 * false: what it had taken is being sent, ask again. To say the same again is harmless. Kept_ns: the engine's lock is held; until
 * when a kept route sends nothing, 0: it may send. */
bool outbound_keep(struct outbound *, uint64_t until_ns, uint64_t *last);
uint64_t outbound_kept_ns(const struct outbound *, uint64_t now);

/* ---- inbound ---- */

/* An inbound route: a topic of DDS that is published on the bus, by the thread of the library that received. */

enum { NEWEST_MOST = 64 }; /* remote publishers of which a lane remembers what it has brought */

struct source {
    dds_instance_handle_t publication;
    uint64_t identity;   /* of its host's domain, though nodes come and go there; of a plain writer: its own */
    uint64_t node;       /* the DDS participant */
    int64_t lifetime_ns; /* of plain writers: their Lifespan; 0: none */
    uint8_t priority;    /* of plain writers: their TransportPriority, 0 to 7 */
    uint8_t lane;
    bool is_node;
    bool is_joined;    /* the reader that takes over has all that is still to come from it */
    uint64_t sequence; /* of the last sample from a node; of a plain writer: its source time. 0: none yet */
    uint64_t passed;   /* the number up to which nothing more is to be counted as lost, if that is further; else 0 */
    uint64_t doubted;  /* of the last sample of a node that was refused for its number; 0: none since one was taken */
    uint64_t brought;  /* messages of a lane that keeps some */
    struct carried_place carried; /* how far its lane was carried, by whichever node */
};

/* A publisher elsewhere, the source time of the newest message of it that routes of a lane have brought, and the node that
 * sent it; 0: not known. */
struct newest {
    uint64_t publisher, newest_ns, node;
};

struct sample {
    struct ddsi_serdata *data;
    dds_sample_info_t info;
    uint32_t done;           /* messages of a pack that are on the bus already */
    bool is_whole, is_sound; /* its CRC is right; all of its payloads were looked at */
    uint64_t node;           /* the DDS participant that it is from, while it waits */
};

/* Samples in the order they came: a ring that grows. */
struct backlog {
    struct sample *ring;
    uint32_t space, first, count; /* space: a power of two, or 0 */
    uint64_t bytes;
};

struct inbound {
    struct engine *engine;
    struct inbound *next, *next_watched;
    const struct ddsi_sertype *type;
    uint64_t unreadable; /* samples that the library could make nothing of; any thread, atomically, as the next */
    uint64_t hashed;     /* instances that were let go by the hash of their key alone */
    pthread_mutex_t lock;
    rtmw_publisher *publisher; /* closed with loan_receiver */
    struct loan_receiver *loan_receiver;
    bool reliable,
        may_receive_in_loan;   /* the second: the layout of the DDS library's datagrams is known (library.py) */
    dds_entity_t reader, heir; /* heir: the reader that is to take over; 0: none */
    struct backlog early;      /* samples that `heir` has received */
    enum framing framing;
    uint8_t lane;       /* samples of others are passed over: another route has them */
    uint32_t wants_old; /* 1: kept messages too, which were there before who reads */
    uint64_t topic;     /* its number in flow.c */
    struct source *sources;
    uint32_t source_count, source_space;
    struct newest newest_before[NEWEST_MOST], newest[NEWEST_MOST]; /* by the routes before this one; by this one, too */
    uint32_t newest_next, history; /* history: messages that the bus keeps of this lane */
    struct backlog backlog;
    bool is_stuck;               /* the engine counts it */
    bool pausing;                /* others have been told to */
    uint64_t told_ns, unsent_ns; /* unsent_ns: when it was told last what others have not sent, or opened */
    uint64_t received, bytes, lost, expired, malformed, corrupt, implausible, no_memory, delayed,
        overflowed; /* locked */
    uint64_t uncopied, unchecked;
    bool is_keyed; /* its type has keys: plain writers have instances (inbound.c) */
    dds_sample_info_t
        instance; /* of a plain writer, the last that was seen and is not handled; instance_handle 0: none */
    uint64_t disposed, unregistered;
};

/* inbound.c. Open and close: Python's thread, without a lock; close returns when no callback of DDS is running. On_data: the DDS
 * thread that received, under locks of the library, or who opens. Retry and is_delivered: any thread without the route's lock.
 * Nothing here waits for room: what finds none waits in the backlog. */
int inbound_open(struct inbound *);
void inbound_close(struct inbound *);
void inbound_retry(struct inbound *);
void inbound_unsent(struct inbound *, rtmw_lost); /* another node has not sent these */
uint64_t inbound_held(struct inbound *);          /* samples that wait for room on the bus, or for a handover */
void inbound_on_data(dds_entity_t reader, void *inbound);
void inbound_move(struct inbound *); /* the route's lock is held, as for the next five */
void inbound_tell_stuck(struct inbound *);
void inbound_accept(struct inbound *, struct sample);
struct sample inbound_sample(struct inbound *, struct ddsi_serdata *, const dds_sample_info_t *); /* as it was taken */
bool inbound_is_next(struct inbound *, struct sample *); /* no gap between it and what its source sent before */
bool inbound_is_past(struct inbound *, struct sample *); /* it is delivered already */

/* inbound.c: the route's lock is held */
void instances_see(struct inbound *, const dds_sample_info_t *); /* each sample, in the order in which they are taken */
void instances_count(struct inbound *);                          /* no more are there */

/* sources.c: the route's lock is held, but for open */
bool sources_open(struct inbound *); /* false: no memory */
/* Valid until another writer is asked for. */
struct source *inbound_source(struct inbound *, dds_instance_handle_t publication);
/* The identity of a remote publisher: one of its host's and one of its own, never that of a process here. */
uint64_t source_publisher(const struct source *, uint64_t publisher);
bool is_matched(dds_entity_t reader, dds_instance_handle_t publication);
uint64_t node_named(const uint8_t guid[16]);
uint64_t node_of(const dds_endpoint_t *); /* `node` of a source: its DDS participant */

/* sources.c: the route's lock is held */
enum turn { TURN_NEXT, TURN_PAST, TURN_REFUSED };
enum turn sequence_turn(struct source *, const struct trailer *);     /* may it be published? PAST: it was, already */
uint64_t sequence_gap(const struct source *, const struct trailer *); /* how many were lost before it */
void sequence_move(struct source *, const struct trailer *);          /* it is published */
void sequence_pass(struct source *, const struct trailer *);          /* nobody here wants it */
bool sequence_is_repeated(uint64_t last, uint64_t sequence);          /* is it no further than the last one? */

/* sources.c: the route's lock is held */
void dedup_begin(struct inbound *, uint64_t publisher, uint64_t newest_ns); /* this is on the bus. Before opening */
bool dedup_is_duplicate(struct inbound *, struct source *, uint64_t publisher, uint64_t source_time_ns);
void dedup_add(struct inbound *, struct source *, uint64_t publisher, uint64_t source_time_ns);

/* inbound.c: the route's lock is held, or nobody else knows the route */
/* false: no memory, or too much waits of its participant (`node`), or of all. */
bool backlog_add(struct engine *, struct backlog *, struct sample);
struct sample *backlog_first(struct backlog *);
void backlog_drop_first(struct engine *, struct backlog *, uint32_t bytes); /* the sample itself is its taker's */
void backlog_clear(struct engine *, struct backlog *);

/* library.c: counts samples that are not of the type of a route. From opening to closing; not by several threads */
void watch(struct inbound *);
void unwatch(struct inbound *);

/* handover.c. Another DDS reader takes the place of the route's: Python's thread, without a lock. false: not yet, ask again */
bool inbound_hand_over(struct inbound *, dds_entity_t reader, bool at_once);

/* handover.c. Any thread, without a lock. Is all up to this sequence of a node on the bus? */
bool inbound_has(struct inbound *, uint64_t node, uint64_t sequence, bool is_acknowledged);
/* The sequence up to which a node's samples have come; 0: none has. false: some wait here, and it may move yet. */
bool inbound_reached(struct inbound *, uint64_t node, uint64_t *sequence);

#endif
