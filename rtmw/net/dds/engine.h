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
#include "../route/locks.h"
#include "../route/now.h"
#include "../route/sending.h"
#include "../route/trailer.h"
#include "dds.h"
#include "route.h"

struct engine;
struct inbound;
struct outbound;

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

/* ---- sender.c: rates of hosts ---- */

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
