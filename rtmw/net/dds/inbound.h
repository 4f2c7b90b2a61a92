/* An inbound route: a topic of DDS that is published on the bus, by the thread of the library that received. */
#ifndef RTMW_NET_INBOUND_H
#define RTMW_NET_INBOUND_H

#include <pthread.h>

#include "../../shm/rtmw.h"
#include "dds.h"
#include "route.h"

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
    bool is_keyed; /* its type has keys: plain writers have instances (instances.c) */
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

/* instances.c: the route's lock is held */
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

/* sequence.c: the route's lock is held */
enum turn { TURN_NEXT, TURN_PAST, TURN_REFUSED };
enum turn sequence_turn(struct source *, const struct trailer *);     /* may it be published? PAST: it was, already */
uint64_t sequence_gap(const struct source *, const struct trailer *); /* how many were lost before it */
void sequence_move(struct source *, const struct trailer *);          /* it is published */
void sequence_pass(struct source *, const struct trailer *);          /* nobody here wants it */
bool sequence_is_repeated(uint64_t last, uint64_t sequence);          /* is it no further than the last one? */

/* dedup.c: the route's lock is held */
void dedup_begin(struct inbound *, uint64_t publisher, uint64_t newest_ns); /* this is on the bus. Before opening */
bool dedup_is_duplicate(struct inbound *, struct source *, uint64_t publisher, uint64_t source_time_ns);
void dedup_add(struct inbound *, struct source *, uint64_t publisher, uint64_t source_time_ns);

/* backlog.c: the route's lock is held, or nobody else knows the route */
/* false: no memory, or too much waits of its participant (`node`), or of all. */
bool backlog_add(struct engine *, struct backlog *, struct sample);
struct sample *backlog_first(struct backlog *);
void backlog_drop_first(struct engine *, struct backlog *, uint32_t bytes); /* the sample itself is its taker's */
void backlog_clear(struct engine *, struct backlog *);

/* watch.c: counts samples that are not of the type of a route. From opening to closing; not by several threads */
void watch(struct inbound *);
void unwatch(struct inbound *);

/* handover.c. Another DDS reader takes the place of the route's: Python's thread, without a lock. false: not yet, ask again */
bool inbound_hand_over(struct inbound *, dds_entity_t reader, bool at_once);

/* leaving.c. Any thread, without a lock. Is all up to this sequence of a node on the bus? */
bool inbound_has(struct inbound *, uint64_t node, uint64_t sequence, bool is_acknowledged);
/* The sequence up to which a node's samples have come; 0: none has. false: some wait here, and it may move yet. */
bool inbound_reached(struct inbound *, uint64_t node, uint64_t *sequence);

#endif
