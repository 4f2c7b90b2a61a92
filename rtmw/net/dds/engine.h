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

#include "../../shm/atomics.h"
#include "../../shm/rtmw.h"
#include "../route/locks.h"
#include "../route/now.h"
#include "../route/sending.h"
#include "../route/trailer.h"
#include "data_event.h"
#include "dds.h"
#include "flow.h"
#include "inbound.h"
#include "listen.h"
#include "matched.h"
#include "outbound.h"
#include "pacing.h"
#include "peer_rates.h"
#include "route.h"
#include "zero_copy.h"

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
    uint32_t holding;                /* routes that have something to send. The sender's */
    uint32_t stop, has_ended, stuck; /* has_ended: the sender; stuck: inbound routes with something waiting */
    bool public_calls_only; /* the DDS library is laid out otherwise than dds.h says. Set before the first route */
    uint64_t
        zero_copy_most;   /* bytes of the pool that DDS may hold (zero_copy_send.c); so many may wait for the sender */
    uint64_t zero_copied; /* bytes of the pool that DDS holds */
    uint32_t loan_receivers; /* whose publishers are not closed (zero_copy_receive.c) */
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
    uint64_t turn;          /* odd: a sample that not everybody may know is handed to DDS (packing.c). The sender's */
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

/* sender.c. Start, stop, end, forget: Python's thread, without a lock; stop and forget wait for the end of a burst. */
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

/* dated.c: any thread */
void dated_forget(struct engine *); /* no clock is known */
void dated_learn(struct engine *, const uint8_t participant[16], int64_t ahead_ns, uint64_t unsure_ns);
uint64_t dated_left(struct engine *, uint64_t node,
                    uint64_t lifetime); /* of a lifetime as it came, not 0. 0: it is over */

/* abi_check.c: before the first route, with CDR of the writer's type. Writes it once or more */
bool abi_check(dds_entity_t writer, const void *sample, size_t size);

/* write_cdr.c */
struct cdr { /* with its header */
    const struct iovec *parts;
    size_t count, size;
    uint64_t time_ns; /* of the source: CLOCK_REALTIME */
};
/* Any thread, for one writer one at a time; blocks on nothing but DDS. DDS_TIMEOUT: what is on its way to RELIABLE
 * readers is as much as there may be. -1: not CDR of the type, or no memory. */
dds_return_t write_cdr(const struct engine *, dds_entity_t writer, const struct ddsi_sertype *, const struct cdr *);
bool public_calls_carry(const struct ddsi_sertype *, struct iovec cdr); /* can it be written by public calls alone? */

/* type_hash.c: to be called before there is any Topic. false: cyclonedds' table of functions is not as dds.h declares it */
bool type_hash_install(struct ddsi_sertype_ops *);

#endif
