/* What a route has to send, whether over DDS or over a link: messages that it has taken from the bus in advance, how many may
 * wait there, and when they may leave. */
#ifndef RTMW_NET_SENDING_H
#define RTMW_NET_SENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "../../shm/atomics.h"
#include "../../shm/rtmw.h"

/* ---- look-ahead ---- */

/* Look-ahead: messages that a route has taken from the bus and not sent yet, in a ring for each priority.
 *
 *   bus ─ lookahead_add ─► ring of its priority ─ lookahead_at ─► sent or expired ─ lookahead_pass ─► released by the route
 *
 * Routes over DDS (../dds/engine.h) and over links (../link/link.h) have one. All functions: under the lock of the routes.
 */

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

/* ---- depth ---- */

/* Depth: how many messages of a route may wait on the bus, by what they weigh. Routes over DDS (../dds/outbound.c) and over links
 * (../link/out.c) reckon with these. */

enum {
    DEPTH_LEAST = 2,  /* messages that may wait on the bus, however large */
    DEPTH_USUAL = 64, /* from it on more of small messages may wait; a route of less wants the newest alone */
    WEIGHED = 16,     /* so many smaller ones, about, and the weight of a larger message is forgotten */
};

/* The weight of the messages of a route after another one, of this size. */
static inline uint64_t weight_after(uint64_t weight, uint64_t size)
{
    return size >= weight ? size : weight - (weight - size + WEIGHED - 1) / WEIGHED;
}

/* As many of `depth` as have no more than `bytes` together, and a few in any case. */
static inline uint32_t depth_within(uint32_t depth, uint64_t bytes, uint64_t weight)
{
    uint32_t least = depth < DEPTH_LEAST ? depth : DEPTH_LEAST;
    uint64_t most = weight ? bytes / weight : depth;
    return most >= depth ? depth : most > least ? (uint32_t)most : least;
}

/* ---- rate limit ---- */

/* A limit of bytes a second: of the link, of a lane, or of what leaves towards a host. Bytes sent are a debt until they
 * would have left at that rate. All functions: with the engine's lock. */

struct rate_limit {
    uint64_t bytes_per_second; /* 0: no limit. Written with the engine's lock; any thread reads it, atomically */
    uint64_t free_ns;          /* when what was sent will have left, CLOCK_MONOTONIC */
};

/* Ends the debt, too: it was made at the rate before, and can be minutes of a low one. */
void rate_limit_set(struct rate_limit *, uint64_t bytes_per_second);
/* When something may be sent again; 0: at once. */
uint64_t rate_limit_free_ns(const struct rate_limit *, uint64_t now);
/* Bytes that may leave at once, of `most`: little, so that a rate holds over short times, too. */
uint64_t rate_limit_burst(const struct rate_limit *, uint64_t most);
void rate_limit_charge(struct rate_limit *, uint64_t bytes, uint64_t now);

#endif
