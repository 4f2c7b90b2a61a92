/* How far lanes were carried: a table that outlives nodes (carried.c). */
#ifndef RTMW_NET_CARRIED_H
#define RTMW_NET_CARRIED_H

#include <stdbool.h>
#include <stdint.h>

#include "../../shm/identity.h"
#include "../../shm/rtmw.h"
#include "sending.h"

enum { CARRIED = 4096 /* lanes of which is known how far they were carried, over restarts */ };

/* In memory that outlives the node. */
struct carried {
    uint64_t key;      /* carried_key; outbound over a link, of the peer, too. 0: nobody's. By CAS */
    uint64_t sequence; /* of the last message; this and the rest: the route that has the key. Of CARRIED_LANE: how much
                          less the sequences of its routes are than the sum of their numbers */
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

/* The key of a lane, by its topic (topic_number), reliability, and origin: CARRIED_OUT, of what leaves over DDS; CARRIED_LANE;
 * or the identity of the region that it comes from, by whichever way: a topic may move from a link to DDS and back. */
enum { CARRIED_OUT, CARRIED_LANE };
static inline uint64_t carried_mix(uint64_t hash, uint64_t with)
{
    return (hash ^ with) * UINT64_C(0x9E3779B97F4A7C15) ^ hash >> 29;
}
static inline uint64_t carried_key(uint64_t topic, uint32_t wire_domain, uint32_t reliability, uint64_t origin)
{
    return carried_mix(carried_mix(carried_mix(topic, wire_domain), origin), reliability) | 1;
}

/* The number of a topic and the identity of its type, as nodes tell it to each other. */
static inline uint64_t topic_number(const char *topic, uint64_t type) { return fnv1a_text(FNV_BASIS ^ type, topic); }

/* Makes the file, if it is not there. NULL: errno says why (trusted.h) */
struct carried *carried_map(const char *path);
void carried_unmap(struct carried *table);                                  /* NULL: there is none */
struct carried_place carried_place_of(struct carried *table, uint64_t key); /* key: odd */
struct carried *carried_at(const struct carried_place *);                   /* NULL: there is none */

/* Outbound. Messages that no route has sent before this subscriber begins; is this one of those that came since the last node
 * sent; it has left, or nobody is to get it; the bus has no more of the band for the subscriber. */
uint64_t carried_not_sent(struct carried *, rtmw_subscriber *, bool begins_in_the_past);
bool carried_is_new(const struct carried *, const rtmw_message *);
void carried_number(struct carried *, const rtmw_message *);
void carried_come_to(struct carried *, rtmw_subscriber *, uint32_t band);
/* Of a lane that no route has carried this way: its sequence goes on where the one of another way would be. Then, while its route
 * is open: what the entry of CARRIED_LANE says of the two. */
void carried_align(struct carried *, struct carried *lane, rtmw_subscriber *);
void carried_tell_lane(const struct carried *, struct carried *lane);

#endif
