/* The part of the node that touches messages. Python opens and closes routes; no Python runs for a message.
 *
 *   bus ─ take ─► outbound: a queue a band ─ highest band of all topics first ─► DDS writer      (the sender thread)
 *   DDS reader ─ listener, in the thread that received ─► inbound ─ publish ─► bus
 *
 * A route is one topic in one direction. A message that cannot go on (a RELIABLE reader far away, or one here, is full)
 * waits in its route and delays no other; the sender thread tries again soon. Little waits here, for a node tells the
 * others to pause the topic meanwhile (flow.c).
 *
 * Each topic has a lane for each reliability that is offered, so that none is weakened by another, and for writers that
 * keep messages another than for those that do not. A lane has DDS endpoints of its own, in each direction.
 */
#ifndef RTMW_NET_ENGINE_H
#define RTMW_NET_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../shm/atomics.h"
#include "../../shm/rtmw.h"
#include "../route/carried.h"
#include "../route/locks.h"
#include "../route/now.h"
#include "../route/sending.h"
#include "../route/trailer.h"
#include "dds.h"

/* ---- routes ---- */

/* Common parts of routes in both directions: how a payload lies in a sample, lanes, and how far a lane was carried. */

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
 * the partition of nodes (wire.py). LANE_REPEATS: a node writes for plain programs what it writes for nodes, too. */
enum lane { LANE_RELIABILITY = 3, LANE_KEEPS = 4, LANE_NODES = 8, LANE_REPEATS = 254, LANE_UNKNOWN = 255 };

/* ---- loss report ---- */

/* How far lanes were carried, known to the next node when this one is killed: so that what is lost is told.
 *
 *   bus ─ number of the message in its lane ─► outbound ─ sequence ─► inbound ─ rtmw_publisher_lost ─► subscribers
 *              compared with number[]                      compared with sequence
 *
 * A route writes its entry of the table (../route/carried.c) as it sends or publishes. A node that follows finds it:
 *
 *   outbound  A route's subscriber begins behind a message with a number, in each band. No node has sent the messages
 *             between number[] and that one. The sequence of the first sample leaves as much out, and goes on where that
 *             of the last node ended. Messages that the bus could not keep since then, the subscriber has counted as
 *             missed.
 *   inbound   The first sample of a DDS writer has a sequence. Nobody has brought the messages between it and `sequence`.
 *
 * The gap is counted as lost if anybody here would have got it, and each subscriber that was open when the last sample
 * came counts it as missed. Messages that expired on the bus while no node lived are in the gap, too. A node that
 * is killed between writing a sample and its entry leaves a gap of at most BURST messages more than there was.
 *
 * A node that ends in order leaves no gap: its subscribers are parked (rtmw_subscriber_park), and those of the next node
 * begin where they ended.
 */

/* sources.c: the table */
bool carried_open(struct engine *, const char *path); /* makes the file, if it is not there. false: errno says why */
void carried_close(struct engine *);
/* origin: as of carried_key */
struct carried_place carried_find(struct engine *, uint64_t topic, uint8_t lane, uint64_t origin);
/* outbound.c */
void carried_begin(struct outbound *);                      /* as it opens */
void carried_take(struct outbound *, rtmw_message *);       /* it is in its queue; these three: the sender only */
void carried_pass(struct outbound *, const rtmw_message *); /* it has left, or nobody is to get it */
void carried_sent(struct outbound *);                       /* `sent` or `ahead` has changed */
void carried_reached(struct outbound *); /* the bus has nothing more for it: the sender, or at its end */
/* sources.c. Lock held, before it is published: counts what was lost before it, and tells who has missed it. */
void carried_gap(struct inbound *, struct source *, const struct trailer *);
void carried_received(struct source *, uint64_t sequence); /* route's lock held: all up to this is published */

/* ---- outbound ---- */

/* An outbound route: a topic of the bus that is written to DDS, by the one thread that sends (outbound.c). */

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
    uint8_t lane;            /* its rtmw_reliability */
    bool may_zero_copy;      /* DDS keeps none of its messages for later readers, and its type has no key */
    bool held;               /* nothing is sent: another writer takes over */
    struct rate_limit limit; /* of this lane */
    uint64_t limited;        /* limited hosts that read it: a bit each (struct peer_rates). Any thread, atomically */
    uint32_t has_last;       /* 1: it has taken all that it is to take (engine.last_ns). The sender writes it */
    uint32_t closing;        /* 1: the sender is to forget it; 2: it has */
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

/* outbound.c. Another DDS writer takes the place of the route's: a thread without a lock; blocks for `patience_ns`. false: not
 * yet, ask again */
bool outbound_hand_over(struct outbound *, dds_entity_t writer, int64_t patience_ns);

/* outbound.c. Keep: a thread without a lock; waits for the end of a burst. 0: it goes on. `last`: the sequence of its last sample.
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

/* inbound.c. Another DDS reader takes the place of the route's: Python's thread, without a lock. false: not yet, ask again */
bool inbound_hand_over(struct inbound *, dds_entity_t reader, bool at_once);

/* inbound.c. Any thread, without a lock. Is all up to this sequence of a node on the bus? */
bool inbound_has(struct inbound *, uint64_t node, uint64_t sequence, bool is_acknowledged);
/* The sequence up to which a node's samples have come; 0: none has. false: some wait here, and it may move yet. */
bool inbound_reached(struct inbound *, uint64_t node, uint64_t *sequence);

/* ---- library.c ---- */

/* The callback of the DDS library when a reader has data. */

/* Has `callback(reader, argument)` called from now on, in the thread of the library that received, which holds locks of the
 * library. NULL: no longer; returns when no callback is running. Any thread that holds no lock which the callback takes.
 * Returns DDS_OK or a code of the library. */
int listen_to(dds_entity_t reader, void (*callback)(dds_entity_t, void *), void *argument);

/* ---- library.c: the log ---- */

/* The log of the DDS library, as lines for the log of the node: see library.c. */

enum { LIBRARY_LOG_LINES = 64, LIBRARY_LOG_LONGEST = 512 };
struct library_log {
    uint32_t count;                                     /* of `lines` */
    uint64_t more;                                      /* lines that came when these were full */
    char lines[LIBRARY_LOG_LINES][LIBRARY_LOG_LONGEST]; /* each ends with a 0; a longer one is cut */
};
/* While this is on, a DDS library that begins to log takes the node's stream for standard error, and keeps it for as long
 * as the process runs. For one thread. False: there is no memory, or libc has no such stream. */
bool library_log_capture(bool is_on);
/* The lines that have come since the last call. For any thread. */
void library_log_take(struct library_log *);

/* ---- events.c ---- */

/* Tells an event loop that a DDS reader has something: see events.c. */

enum { DATA_EVENT_KEEPS = 256 };
struct data_event {
    dds_entity_t reader;
    int descriptor; /* becomes readable when the reader has something */
    pthread_mutex_t lock;
    uint64_t count,
        came_ns
            [DATA_EVENT_KEEPS]; /* samples since the last data_event_take; when the last of them came, CLOCK_MONOTONIC */
};
struct data_event *data_event_open(dds_entity_t reader); /* NULL: that is no reader */
/* Before how many nanoseconds each sample came, the last DATA_EVENT_KEEPS, oldest first; how many. */
uint32_t data_event_take(struct data_event *, uint64_t *ages_ns);
void data_event_close(struct data_event *);

/* ---- events.c: matches ---- */

/* Whom the DDS endpoints of this node have met: see events.c. */

/* Endpoints of ours whose matches have changed. */
struct news {
    pthread_mutex_t lock;
    dds_entity_t *endpoint; /* of who has taken it: to be freed */
    uint32_t count, space;
    bool all; /* there was no room: it may be any endpoint */
};

int matched_open(struct engine *, dds_entity_t participant); /* before it has endpoints */
void matched_close(struct engine *);
struct news matched_take(struct engine *); /* its lock is not to be used */

/* ---- flow.c ---- */

/* Nodes ask each other to pause a topic, or to go on with it: see flow.c. */

enum {
    PAUSES = 512,        /* pauses of others that may be in force at a time */
    PAUSES_OF_ONE = 128, /* the same, of one DDS participant */
};

/* A remote participant asks to send a topic no more. It counts if that participant reads the topic. */
struct pause {
    uint64_t topic, node, until_ns;
    enum { UNPROVEN, PROVEN, DISPROVEN } is_reader;
};

/* flow.c. Open and close: Python's thread, without a lock. Idempotent: a pause that is told again lasts longer, and no more. */
int flow_open(struct engine *, dds_entity_t writer, dds_entity_t reader);
void flow_close(struct engine *);
void flow_tell(
    struct inbound *); /* the route's lock is held: pauses or resumes the topic elsewhere, as its backlog asks for */
bool flow_is_paused(struct outbound *, uint64_t now_ns); /* the sender only */

/* ---- pacing.c ---- */

enum { SOCKETS_MOST = 8 }; /* that are looked at, to pace what is sent */

/* How much of what was sent has not left this host: see pacing.c. The sender's, as it holds the lock. */
struct pacing {
    int socket[SOCKETS_MOST]; /* those that DDS sends with */
    uint32_t count, band;     /* band: the one whose code point they have; BANDS: none yet */
    uint64_t rate;            /* bytes a second, as the kernel counts them; 0: not known */
    uint64_t queued, looked_ns;
    bool has_waited;                 /* nothing was sent since that look */
    bool has_sent;                   /* something was */
    uint64_t held[SOCKETS_MOST];     /* of each socket, what it had queued at that look */
    uint64_t stuck[SOCKETS_MOST];    /* bytes of it that wait for something else than the line */
    uint64_t moved_ns[SOCKETS_MOST]; /* when it was last seen to drain, or may have */
};

/* ---- outbound.c: rates of hosts ---- */

/* Limits of what leaves towards single hosts. A route has a bit for each limited host that reads it, and what it sends is
 * charged to all of these: one datagram may serve them all. All functions: with the engine's lock. */

enum { LIMITED_PEERS = 64 };

struct peer_rates {
    struct rate_limit limits[LIMITED_PEERS];
};

/* When something may be sent to all of them again; 0: at once. */
uint64_t peer_rates_free_ns(const struct peer_rates *, uint64_t peers, uint64_t now);
uint64_t peer_rates_burst(const struct peer_rates *, uint64_t peers,
                          uint64_t most); /* rate_limit_burst of the lowest */
void peer_rates_charge(struct peer_rates *, uint64_t peers, uint64_t bytes, uint64_t now);

/* ---- zero_copy.c ---- */

/* Large messages go between pool and DDS without a copy. */

/* A sample with a table of functions of rtmw, `bytes` long with its head; zeros behind it. NULL: no memory. */
void *keyless_new(size_t bytes, const struct ddsi_serdata_ops *, const struct ddsi_sertype *, int kind);
bool keyless_are_equal(const struct ddsi_serdata *, const struct ddsi_serdata *);
size_t keyless_print(const struct ddsi_sertype *, const struct ddsi_serdata *, char *text, size_t bytes);
void keyless_hash(const struct ddsi_serdata *, void *hash, bool force_md5);

/* Is this message to be sent without a copy? The sender's. */
bool zero_copy_may(const struct outbound *, const rtmw_message *);
/* A sample of parts[0], the message, and parts[2] and on, the last of which is the trailer, if there is one; a CRC before it
 * is filled in while the sample is sent. The sample takes over the hold on the message. `trailer` NULL: the sample has
 * none. Returns NULL without memory; the hold is the caller's then. */
struct ddsi_serdata *zero_copy_sample(struct outbound *, uint32_t descriptor, const struct iovec *parts, size_t count,
                                      const struct trailer *);
/* DDS has refused the sample: the hold on the message is the caller's again. */
void zero_copy_undo(struct ddsi_serdata *);

struct loan_receiver *loan_receiver_open(struct inbound *); /* NULL: no memory */
/* From here on samples of the route's type may be received into loans. */
void loan_receiver_begin(struct loan_receiver *);
void loan_receiver_close(struct loan_receiver *);
/* A sample that owns a loan with the message; NULL: the library makes the sample. In any thread of the library. */
struct ddsi_serdata *receive_in_loan(const struct ddsi_sertype *, int kind, const struct ddsi_rdata *, size_t bytes);
/* The loan of a sample of the route; NULL: it was not received into one. */
rtmw_loan *received_loan(const struct inbound *, const struct ddsi_serdata *);
/* The padding and trailer of such a sample; empty: it was not received into a loan. */
struct iovec received_tail(const struct inbound *, const struct ddsi_serdata *);

/* ---- the engine ---- */

enum {
    BURST = 32,             /* messages sent between two looks at what came meanwhile */
    BURST_BYTES = 64 << 10, /* the same, in bytes */
    CLOCKS = 2048,          /* places for clocks of other nodes; of these there are 1,000 at most */
    LINKED = 1000,          /* nodes that are met over links */
    SHARES = 256,           /* of what waits for the bus: a participant has one, and seldom two have the same */
    RETRY_NS = 200000,
    HAND_OVER_NS = 400000000, /* a route's wait for acknowledgements, which come every 100 ms */
};

/* Samples that wait in backlogs. */
struct share {
    uint64_t count, bytes;
};

/* Another node's clock: see inbound.c. */
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
    uint32_t holding;                /* routes that have something to send. The sender's */
    uint32_t stop, has_ended, stuck; /* has_ended: the sender; stuck: inbound routes with something waiting */
    bool public_calls_only;  /* the DDS library is laid out otherwise than dds.h says. Set before the first route */
    uint64_t zero_copy_most; /* bytes of the pool that DDS may hold (zero_copy.c); so many may wait for the sender */
    uint64_t zero_copied;    /* bytes of the pool that DDS holds */
    uint32_t loan_receivers; /* whose publishers are not closed (zero_copy.c) */
    uint64_t linked[LINKED]; /* regions of nodes that are met over links, by their identity. Python's */
    uint32_t linked_count;
    struct clock_of clocks[CLOCKS]; /* by a hash of the node */
    pthread_mutex_t clocks_lock;
    struct pacing pacing;
    uint64_t paced_ns; /* when it may be sent again, as far as the line is concerned; 0: at once */
    uint32_t unflushed_band;
    uint64_t last_ns;    /* CLOCK_REALTIME: what is published from then on is left to the next node; 0: never */
    uint32_t leaves_all; /* 1: so is all that RELIABLE routes have not taken yet, for their subscribers are parked */
    struct rate_limit limit; /* of the link */
    struct peer_rates peer_rates;
    dds_entity_t flow_writer, flow_reader;
    const struct ddsi_sertype *flow_type;
    uint32_t heard, looked; /* readers that came since the start; those that packing was decided with knowledge of */
    uint64_t turn;          /* odd: a sample that not everybody may know is handed to DDS (outbound.c). The sender's */
    dds_entity_t readers;   /* the DDS reader that tells of them; 0: none */
    pthread_mutex_t flow_lock; /* guards the pauses */
    struct pause pauses[PAUSES];
    uint32_t pause_count;                                  /* read without the lock: 0 is usual */
    uint64_t flow_malformed, flow_unmatched, flow_crowded; /* pauses that were not believed; under the flow lock */
    uint64_t salt;                                         /* of shares: others cannot know who shares one */
    struct news news;
    dds_entity_t participant;         /* that tells of matches; 0: none */
    struct share shares[SHARES], all; /* of the backlogs: each remote participant's; atomically */
};

/* outbound.c. Start, stop, end, forget: Python's thread, without a lock; stop and forget wait for the end of a burst. */
int engine_start(struct engine *);
void engine_trim(
    void); /* returns free memory of the process to the system: milliseconds in which others wait for memory */
void engine_stop(struct engine *); /* no thread of its own from here on; routes that are open carry nothing out */
/* Of an engine that was stopped and has no routes. false: DDS holds messages yet, and the engine must not be freed. */
bool engine_end(struct engine *);
void sender_wake(struct engine *); /* it looks at all routes again. The engine's lock is held */
void sender_lock(struct engine *); /* takes the engine's lock, between two bursts */
/* Sets a limit of the link, of a route or of a host, if it is another. Any thread without a lock; waits for the end of a burst. */
void sender_limit(struct engine *, struct rate_limit *, uint64_t bytes_per_second);
void sender_forget(
    struct engine *); /* routes that close are no longer the sender's. Where it runs, it does so itself */

/* pacing.c: the sender, with the engine's lock, but for open and close */
bool pacing_open(struct engine *, int descriptor); /* of a socket that DDS sends with. false: there are too many */
void pacing_close(struct engine *);
uint64_t pacing_wait(struct engine *, uint64_t now); /* 0: something may be sent. Else when to ask again */
uint64_t pacing_burst(const struct engine *);        /* bytes that may be sent before it is asked again */
void pacing_mark(struct engine *, uint32_t band);    /* datagrams of this band follow */

/* sources.c: one thread at a time sets, at most LINKED. When it returns, what came of them over DDS is on the bus, and
 * nothing more of them is published. linked_may_come, with inbound.lock held: is the source of the route's lane, and not
 * met over a link? */
void linked_set(struct engine *, const uint64_t *regions, uint32_t count);
bool linked_may_come(const struct inbound *, const struct source *);

/* inbound.c: any thread */
void dated_forget(struct engine *); /* no clock is known */
void dated_learn(struct engine *, const uint8_t participant[16], int64_t ahead_ns, uint64_t unsure_ns);
uint64_t dated_left(struct engine *, uint64_t node,
                    uint64_t lifetime); /* of a lifetime as it came, not 0. 0: it is over */

/* abi_check.c: before the first route, with CDR of the writer's type. Writes it once or more */
bool abi_check(dds_entity_t writer, const void *sample, size_t size);

struct cdr { /* with its header */
    const struct iovec *parts;
    size_t count, size;
    uint64_t time_ns; /* of the source: CLOCK_REALTIME */
};
/* Any thread, for one writer one at a time; blocks on nothing but DDS. DDS_TIMEOUT: what is on its way to RELIABLE
 * readers is as much as there may be. -1: not CDR of the type, or no memory. */
dds_return_t write_cdr(const struct engine *, dds_entity_t writer, const struct ddsi_sertype *, const struct cdr *);
bool public_calls_carry(const struct ddsi_sertype *, struct iovec cdr); /* can it be written by public calls alone? */

/* abi_check.c: to be called before there is any Topic. false: cyclonedds' table of functions is not as dds.h declares it */
bool type_hash_install(struct ddsi_sertype_ops *);

#endif
