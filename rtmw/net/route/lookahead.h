/* Look-ahead: messages that a route has taken from the bus and not sent yet, in a ring for each priority.
 *
 *   bus ─ lookahead_add ─► ring of its priority ─ lookahead_at ─► sent or expired ─ lookahead_pass ─► released by the route
 *
 * Routes over DDS (../dds/outbound.h) and over links (../link/link.h) have one. All functions: under the lock of the routes.
 */
#ifndef RTMW_NET_LOOKAHEAD_H
#define RTMW_NET_LOOKAHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "../../shm/atomics.h"
#include "../../shm/rtmw.h"

enum {
    BANDS = RTMW_PRIORITIES,
    LOOKAHEAD = 32,            /* messages of a route and band that are taken in advance */
    LOOKAHEAD_BYTES = 1 << 20, /* once they have so many bytes, no more are taken */
};

struct lookahead {
    uint32_t taken; /* messages in all rings. Any thread reads it, with load_relaxed */
    uint64_t bytes; /* of these */
    struct {
        uint32_t first, count;
        rtmw_message message[LOOKAHEAD];
    } ring[BANDS];
};

/* How many messages may be taken, whatever their band will be, if they are small; if this is not 0, one may that is large. */
uint32_t lookahead_room(const struct lookahead *);
static inline bool lookahead_has_room(const struct lookahead *l) { return lookahead_room(l) != 0; }
/* Takes over the hold on a message of the bus. There is room. */
void lookahead_add(struct lookahead *, const rtmw_message *);
/* The first message of the band is not here any more; its hold is the caller's affair. There is one. */
void lookahead_pass(struct lookahead *, uint32_t band);

static inline uint32_t lookahead_count(const struct lookahead *l, uint32_t band) { return l->ring[band].count; }

/* `number`: from 0 on, below the count of the band. */
static inline rtmw_message *lookahead_at(struct lookahead *l, uint32_t band, uint32_t number)
{
    return &l->ring[band].message[(l->ring[band].first + number) % LOOKAHEAD];
}

/* `now`: CLOCK_MONOTONIC. By the wall clock a message would have expired that was taken just before that was set. */
static inline bool is_expired(const rtmw_message *m, uint64_t now) { return m->ends_ns && m->ends_ns <= now; }

#endif
