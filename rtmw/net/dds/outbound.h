/* An outbound route: a topic of the bus that is written to DDS, by the one thread that sends (sender.c). */
#ifndef RTMW_NET_OUTBOUND_H
#define RTMW_NET_OUTBOUND_H

#include "../route/sending.h"
#include "dds.h"
#include "route.h"

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
    uint64_t limited;             /* limited hosts that read it: a bit each (peer_rates.h). Any thread, atomically */
    uint32_t has_last;            /* 1: it has taken all that it is to take (engine.last_ns). The sender writes it */
    uint32_t closing;             /* 1: the sender is to forget it; 2: it has */
    uint32_t may_pack, may_check; /* 1: its readers know packs, and CRCs, as far as was looked (packing.c) */
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
    uint64_t advance; /* bytes that may be taken in advance (advance.c). Reckoned anew before each look at the bus */
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

/* advance.c. The sender, with the engine's lock. Bytes that a route may take in advance, and it may always take one message;
 * bytes of small messages of a TIMELY route that may wait on the bus. */
uint64_t outbound_advance(const struct outbound *);
uint64_t outbound_timely_bytes(const struct outbound *);

/* packing.c. Open, close, heard, looked: Python's thread. Begin and end: the sender, with the engine's lock; no other is taken. */
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

/* leaving.c. Keep: a thread without a lock; waits for the end of a burst. 0: it goes on. `last`: the sequence of its last sample.
 * false: what it had taken is being sent, ask again. To say the same again is harmless. Kept_ns: the engine's lock is held; until
 * when a kept route sends nothing, 0: it may send. */
bool outbound_keep(struct outbound *, uint64_t until_ns, uint64_t *last);
uint64_t outbound_kept_ns(const struct outbound *, uint64_t now);

#endif
