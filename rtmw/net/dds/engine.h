/* The part of the node that touches messages. Python opens and closes routes; no Python runs for a message.
 *
 *   bus ─ take ─► outbound: a queue a band ─ highest band of all topics first ─► DDS writer      (the sender thread)
 *   DDS reader ─ listener, in the thread that received ─► inbound ─ publish ─► bus
 *
 * A route is one topic in one direction. What cannot go on (a RELIABLE reader far away, or one here, is full) waits in
 * its route and delays no other; the sender thread tries again soon. What waits here is little, for a node
 * tells the others to pause the topic meanwhile (flow.c).
 *
 * Each topic has a lane for each reliability that is offered, so that none is weakened by another, and for writers that
 * keep messages another than for those that do not. A lane has DDS endpoints of its own, in each direction.
 */
#ifndef RTMW_NET_ENGINE_H
#define RTMW_NET_ENGINE_H

#include <pthread.h>

#include "../../shm/atomics.h"
#include "../../shm/rtmw.h"
#include "data_event.h"
#include "dds.h"
#include "lent.h"
#include "locks.h"
#include "matched.h"
#include "pacing.h"
#include "peer_rates.h"
#include "trailer.h"

enum {
    BANDS = 8,
    LOOKAHEAD = 32,            /* messages of a route and band that the engine takes in advance */
    LOOKAHEAD_BYTES = 1 << 20, /* once they have so many bytes, no more are taken */
    DEPTH_LEAST = 2,           /* messages that may wait on the bus, however large */
    BURST = 32,                /* messages sent between two looks at what came meanwhile */
    BURST_BYTES = 64 << 10,    /* the same, in bytes */
    BATCH = 32,                /* samples taken from a reader in one call */
    KNOWN = 64,                /* remote publishers of which a lane remembers what it has brought */
    CARRIED = 4096,            /* lanes of which is known how far they were carried, over restarts */
    CLOCKS = 2048,             /* places for clocks of other nodes; of these there are 1,000 at most */
    PAUSES = 512,              /* pauses of others that may be in force at a time */
    PAUSES_OF_ONE = 128,       /* the same, of one DDS participant */
    SHARES = 256,              /* of what waits for the bus: a participant has one, and seldom two have the same */
    RETRY_NS = 200000,
    HAND_OVER_NS = 400000000, /* a route's wait for acknowledgements, which come every 100 ms */
    LENT_LEAST = 16 << 10,    /* bytes of a message that is lent, or lands: a smaller one is copied as fast */
    AFTER_MOST = TRAILER_PADDING + TRAILER_CRC + sizeof(struct trailer),
};

/* How the payload lies in the DDS sample. */
enum framing { FRAMING_CDR = 0, FRAMING_OCTETS = 1 }; /* as it is · as the one member of rtmw::Octets */
enum { OCTETS_HEADER = 8 };                           /* bytes before the octets: CDR header and length */

/* Of an inbound route, and of a remote writer: its rtmw_reliability, LANE_KEEPS where it keeps messages, and LANE_NODES in
 * the partition of nodes (partitions.py). LANE_REPEATS: a node writes for plain programs what it writes for nodes, too. */
enum lane { LANE_KEEPS = 4, LANE_NODES = 8, LANE_REPEATS = 254, LANE_UNKNOWN = 255 };

/* How far a RELIABLE lane was carried, in memory that outlives the node: see carried.c. */
struct carried {
    uint64_t key;      /* of topic, type, DDS domain and direction; inbound of the origin, too. 0: nobody's. By CAS */
    uint64_t sequence; /* of the last sample, as its trailer said. This and the rest: the route that has the key */
    uint64_t at_ns;    /* CLOCK_MONOTONIC of it */
    uint32_t bands;    /* outbound. Bit a band of which messages have left: */
    uint32_t number[BANDS]; /* rtmw_message.number of the last that left, or was dropped for its age */
    uint8_t pad[4];
};

_Static_assert(sizeof(struct carried) == 64, "nodes of other versions read it");

/* An entry of that table, as long as it has the key: it may have given way to another lane. */
struct carried_place {
    struct carried *entry; /* NULL: there is none */
    uint64_t key;
};

struct outbound {
    struct engine *engine;
    struct outbound *next;
    rtmw_subscriber *subscriber;
    dds_entity_t writer;
    const struct ddsi_sertype *type;
    enum framing framing;
    bool is_plain;  /* for plain programs: without trailers */
    uint64_t topic; /* what flow.c calls it */
    bool reliable, timely;
    bool may_lend;                      /* DDS keeps none of its messages for later readers, and its type has no key */
    bool held;                          /* nothing is sent: another writer takes over */
    uint64_t bytes_per_second, free_ns; /* of this lane; 0: no limit. When what was sent will have left. The sender's */
    uint64_t limited;             /* who reads it and has a limit: a bit each (peer_rates.h). Any thread, atomically */
    uint32_t has_last;            /* 1: it has taken all that it is to take (engine.last_ns). The sender writes it */
    uint32_t closing;             /* 1: the sender is to forget it; 2: it has */
    uint32_t may_pack, may_check; /* 1: who reads it knows packs, and CRCs, as far as was looked (packing.c) */
    uint32_t may_date;            /* 1: and lifetimes with a date (trailer.h) */
    uint64_t retry_ns;            /* not before; 0: not blocked */
    uint32_t taken;               /* messages in all queues */
    uint64_t taken_bytes;
    uint32_t history;         /* messages from before it came that it asks the bus for */
    uint16_t key;             /* of its subscriber, when that is parked */
    uint64_t park_ns;         /* not 0: that is parked for so long when the route closes */
    uint32_t depth, adjusted; /* adjusted: 1, these are to be `subscriber`'s. Whoever adjusts them; any thread */
    uint64_t min_interval_ns;
    uint32_t depth_now; /* it has, for messages of `weight` bytes. The sender only, as the weight */
    uint64_t weight;
    struct {
        uint32_t first, count;
        rtmw_message message[LOOKAHEAD]; /* expires_ns: CLOCK_MONOTONIC */
    } queue[BANDS];
    uint64_t sent, bytes, expired, refused, blocked, packs, uncopied; /* the sender thread only */
    struct carried_place carried; /* of a RELIABLE one. The sender only, as the next three */
    uint64_t ahead;         /* messages that were lost before they were sent: a trailer's number counts them, too */
    uint64_t missed;        /* those of them that the bus could not keep for this route */
    uint64_t last;          /* the sequence of the last sample that DDS took; 0: none yet */
    uint64_t kept_until_ns; /* until then nothing is sent: who reads it begins anew. Under the engine's lock */
    bool resumes;           /* it is the first of its lane in this node: it goes on where another node ended */
};

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
    rtmw_publisher *publisher; /* closed with the landing */
    struct landing *landing;
    bool reliable, may_land;   /* may_land: the DDS library is one whose datagrams we know (library.py) */
    dds_entity_t reader, heir; /* heir: the reader that is to take over; 0: none */
    struct backlog early;      /* what `heir` has received */
    enum framing framing;
    uint8_t lane;       /* samples of others are passed over: another route has them */
    uint32_t wants_old; /* 1: kept messages too, which were there before who reads */
    uint64_t topic;     /* what flow.c calls it */
    struct source *sources;
    uint32_t source_count, source_space;
    struct newest known_before[KNOWN], known[KNOWN]; /* by the routes before this one; by this one, too */
    uint32_t known_next, history;                    /* history: messages that the bus keeps of this lane */
    struct backlog backlog;
    bool is_stuck; /* the engine counts it */
    bool pausing;  /* others have been told to */
    uint64_t told_ns;
    uint64_t received, bytes, lost, expired, malformed, corrupt, implausible, no_memory, delayed,
        overflowed; /* locked */
    uint64_t uncopied, unchecked;
    bool is_keyed; /* its type has keys: plain writers have instances (instances.c) */
    dds_sample_info_t
        instance; /* of a plain writer, the last that was seen and is not settled; instance_handle 0: none */
    uint64_t disposed, unregistered;
};

/* A remote participant asks to send a topic no more. It counts if that participant reads the topic. */
struct pause {
    uint64_t topic, node, until_ns;
    enum { UNPROVEN, PROVEN, DISPROVEN } is_reader;
};

/* What waits in backlogs. */
struct share {
    uint64_t count, bytes;
};

/* Another node's clock: see dated.c. */
struct clock_of {
    uint64_t node; /* its DDS participant; 0: nobody's place */
    int64_t ahead_ns;
    uint64_t unsure_ns;
};

struct engine {
    rtmw_region *region;
    struct carried *carried; /* CARRIED of them, mapped; NULL: there are none */
    uint32_t wire_domain;    /* the DDS domain */
    pthread_t sender;
    pthread_mutex_t lock; /* guards the lists; the sender holds it while it sends */
    uint32_t openers;     /* threads that wait for it to open a route: the sender lets them, between two bursts */
    struct outbound *outbounds;
    struct inbound *inbounds;
    struct outbound *unflushed;      /* written to last */
    uint32_t stop, has_ended, stuck; /* has_ended: the sender; stuck: inbound routes with something waiting */
    uint64_t lend_most, lent;        /* bytes that may be, and are, lent to DDS (lent.c); so many may wait for it */
    uint32_t landings;               /* routes whose publishers are not closed (landing.c) */
    struct clock_of clocks[CLOCKS];  /* by a hash of the node */
    pthread_mutex_t clocks_lock;
    struct pacing pacing;
    uint64_t paced_ns; /* when it may be sent again, as far as the line is concerned; 0: at once */
    uint32_t unflushed_band;
    uint64_t last_ns;    /* CLOCK_REALTIME: what is published from then on is left to the next node; 0: never */
    uint32_t leaves_all; /* 1: so is all that RELIABLE routes have not taken yet, for their subscribers are parked */
    uint64_t bytes_per_second, free_ns; /* of the link; 0: no limit. When what was sent will have left */
    struct peer_rates peer_rates;
    dds_entity_t flow_writer, flow_reader;
    const struct ddsi_sertype *flow_type;
    uint32_t heard, looked; /* readers that came since the start; those that packing was decided with knowledge of */
    uint64_t turn;          /* odd: a sample that not everybody may know is handed to DDS (packing.c). The sender's */
    dds_entity_t readers;   /* the DDS reader that tells of them; 0: none */
    pthread_mutex_t flow_lock; /* guards the pauses */
    struct pause pauses[PAUSES];
    uint32_t pause_count;                                  /* read without the lock: 0 is usual */
    uint64_t flow_malformed, flow_unmatched, flow_crowded; /* what was not believed of pauses; under the flow lock */
    uint64_t salt;                                         /* of shares: others cannot know who shares one */
    struct news news;
    dds_entity_t participant;         /* that tells of matches; 0: none */
    struct share shares[SHARES], all; /* of the backlogs: each remote participant's; atomically */
};

/* sender.c */
int engine_start(struct engine *);
void engine_trim(
    void); /* returns free memory of the process to the system: milliseconds in which others wait for memory */
void engine_stop(struct engine *); /* no thread of its own from here on; routes that are open carry nothing out */
/* Of an engine that was stopped and has no routes. false: DDS holds messages yet, and the engine must not be freed. */
bool engine_end(struct engine *);
void sender_wake(struct engine *); /* it looks at all routes again. The lock is held */
void sender_lock(struct engine *); /* takes the engine's lock, between two bursts */
void sender_forget(
    struct engine *); /* routes that close are no longer the sender's. Where it runs, it does so itself */

/* outbound.c: called by the sender, but for open and close */
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

/* pacing.c: lock held, but for open and close */
bool pacing_open(struct engine *, int descriptor); /* of a socket that DDS sends with. false: there are too many */
void pacing_close(struct engine *);
uint64_t pacing_wait(struct engine *, uint64_t now); /* 0: something may be sent. Else when to ask again */
uint64_t pacing_burst(const struct engine *);        /* bytes that may be sent before it is asked again */
void pacing_mark(struct engine *, uint32_t band);    /* datagrams of this band follow */

/* inbound.c */
int inbound_open(struct inbound *);
void inbound_close(struct inbound *);
void inbound_retry(struct inbound *);
bool inbound_is_delivered(struct inbound *); /* nothing waits for room on the bus */
void inbound_on_data(dds_entity_t reader, void *inbound);
void inbound_move(struct inbound *); /* lock held, as for the next five */
void inbound_tell_stuck(struct inbound *);
void inbound_accept(struct inbound *, struct sample);
struct sample inbound_sample(struct inbound *, struct ddsi_serdata *, const dds_sample_info_t *); /* as it was taken */
bool inbound_is_next(struct inbound *, struct sample *); /* no gap between it and what its source sent before */
bool inbound_is_past(struct inbound *, struct sample *); /* it is delivered already */
int listen_to(dds_entity_t reader, void (*callback)(dds_entity_t, void *), void *argument); /* NULL: no more */

/* instances.c: lock held */
void instances_see(struct inbound *, const dds_sample_info_t *); /* each sample, in the order in which they are taken */
void instances_settle(struct inbound *);                         /* no more are there */

/* sources.c: lock held, but for open */
bool sources_open(struct inbound *); /* false: no memory */
/* Valid until another writer is asked for. */
struct source *inbound_source(struct inbound *, dds_instance_handle_t publication);
/* The identity of a remote publisher: one of its host's and one of its own, never that of a process here. */
uint64_t source_publisher(const struct source *, uint64_t publisher);
bool is_matched(dds_entity_t reader, dds_instance_handle_t publication);
uint64_t node_named(const uint8_t guid[16]);
uint64_t node_of(const dds_endpoint_t *); /* what `node` is of a source: its DDS participant */

/* sequence.c: lock held */
enum turn { TURN_NEXT, TURN_PAST, TURN_REFUSED };
enum turn sequence_turn(struct source *, const struct trailer *);     /* may it be published? PAST: it was, already */
uint64_t sequence_gap(const struct source *, const struct trailer *); /* how many were lost before it */
void sequence_move(struct source *, const struct trailer *);          /* it is published */
void sequence_pass(struct source *, const struct trailer *);          /* nobody here wants it */
bool sequence_is_repeated(uint64_t last, uint64_t sequence);          /* is it no further than the last one? */

/* carried.c */
bool carried_open(struct engine *, const char *path); /* makes the file, if it is not there. false: errno says why */
void carried_close(struct engine *);
struct carried_place carried_find(struct engine *, uint64_t topic, uint64_t origin); /* origin 0: outbound */
struct carried *carried_at(const struct carried_place *);                            /* NULL: there is none */
void carried_begin(struct outbound *);                                               /* as it opens */
void carried_take(struct outbound *, rtmw_message *);       /* it is in its queue; these three: the sender only */
void carried_pass(struct outbound *, const rtmw_message *); /* it has left, or nobody is to get it */
void carried_sent(struct outbound *);                       /* `sent` or `ahead` has changed */
void carried_reached(struct outbound *); /* the bus has nothing more for it: the sender, or at its end */
/* Lock held, before it is published: counts what was lost before it, and tells who has missed it. */
void carried_gap(struct inbound *, struct source *, const struct trailer *);
void carried_received(struct source *, uint64_t sequence); /* route's lock held: all up to this is published */

/* dated.c */
void dated_forget(struct engine *); /* no clock is known */
void dated_learn(struct engine *, const uint8_t participant[16], int64_t ahead_ns, uint64_t unsure_ns);
uint64_t dated_left(struct engine *, uint64_t node,
                    uint64_t lifetime); /* of a lifetime as it came, not 0. 0: it is over */

/* dedup.c: lock held */
void dedup_begin(struct inbound *, uint64_t publisher, uint64_t newest_ns); /* this is on the bus. Before opening */
bool dedup_is(struct inbound *, struct source *, uint64_t publisher, uint64_t source_time_ns);
void dedup_add(struct inbound *, struct source *, uint64_t publisher, uint64_t source_time_ns);

/* watch.c: counts samples that are not of the type of a route. From opening to closing; not by several threads */
void watch(struct inbound *);
void unwatch(struct inbound *);

/* backlog.c */
/* false: no memory, or too much waits of its participant (`node`), or of all. */
bool backlog_add(struct engine *, struct backlog *, struct sample);
struct sample *backlog_first(struct backlog *);
void backlog_drop_first(struct engine *, struct backlog *, uint32_t bytes); /* the sample itself is its taker's */
void backlog_clear(struct engine *, struct backlog *);

/* handover.c: another DDS endpoint takes the place of a route's. false: not yet, ask again */
bool outbound_hand_over(struct outbound *, dds_entity_t writer, int64_t patience_ns);
bool inbound_hand_over(struct inbound *, dds_entity_t reader, bool at_once);

/* leaving.c */
uint64_t outbound_keep(struct outbound *,
                       uint64_t until_ns); /* 0: it goes on. Returns the sequence of its last sample */
bool inbound_has(struct inbound *, uint64_t node, uint64_t sequence,
                 bool is_acknowledged); /* all up to it is on the bus */

/* flow.c */
uint64_t flow_topic(const char *topic, uint64_t type);
int flow_open(struct engine *, dds_entity_t writer, dds_entity_t reader);
void flow_close(struct engine *);
void flow_tell(struct inbound *); /* lock held: pauses or resumes the topic elsewhere, as its backlog asks for */
bool flow_is_paused(struct outbound *, uint64_t now_ns); /* the sender only */

/* abi_check.c */
bool abi_check(dds_entity_t writer, const void *sample, size_t size); /* writes the sample, CDR of the writer's type */

/* type_hash.c: to be called before there is any Topic. false: cyclonedds' table of functions is not as dds.h declares it */
bool type_hash_install(struct ddsi_sertype_ops *);

/* packing.c */
int packing_open(struct engine *, dds_entity_t readers);
void packing_close(struct engine *);
uint32_t packing_heard(struct engine *);
void packing_looked(struct engine *, uint32_t heard); /* heard before it was looked who reads which topic */
struct readers_know {
    bool packs, crcs, dates;
};
struct readers_know packing_begin(struct outbound *); /* what a sample may be that is handed to DDS before the end */
void packing_end(struct outbound *);

uint64_t now_realtime_ns(void);
uint64_t now_monotonic_ns(void);

#endif
