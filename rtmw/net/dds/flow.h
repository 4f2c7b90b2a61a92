/* Nodes ask each other to pause a topic, or to go on with it: see flow.c. */
#ifndef RTMW_NET_FLOW_H
#define RTMW_NET_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "dds.h"

struct engine;
struct inbound;
struct outbound;

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

#endif
