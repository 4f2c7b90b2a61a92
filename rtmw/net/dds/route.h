/* Common parts of routes in both directions: how a payload lies in a sample, lanes, and how far a lane was carried. */
#ifndef RTMW_NET_ROUTE_H
#define RTMW_NET_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../shm/rtmw.h"
#include "../route/carried.h"
#include "../route/sending.h"
#include "../route/trailer.h"

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

#endif
