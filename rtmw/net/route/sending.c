/* What a route has to send: see sending.h. */
#include "sending.h"

#include "../../shm/atomics.h"

/* ---- look-ahead ---- */

uint32_t lookahead_room(const struct lookahead *l)
{
    uint32_t fullest = l->taken < LOOKAHEAD ? 0 : l->taken - LOOKAHEAD; /* and 2 * LOOKAHEAD in all */
    for (uint32_t band = 0; band < BANDS; band++)
        if (l->ring[band].count > fullest) fullest = l->ring[band].count;
    return l->bytes < LOOKAHEAD_BYTES ? LOOKAHEAD - fullest : 0;
}

void lookahead_add(struct lookahead *l, const rtmw_message *m)
{
    *lookahead_at(l, m->priority, l->ring[m->priority].count++) = *m;
    store_relaxed(&l->taken, l->taken + 1);
    l->bytes += m->size;
}

void lookahead_pass(struct lookahead *l, uint32_t band)
{
    l->bytes -= lookahead_at(l, band, 0)->size;
    l->ring[band].first = (l->ring[band].first + 1) % LOOKAHEAD;
    l->ring[band].count--;
    store_relaxed(&l->taken, l->taken - 1);
}

/* ---- rate limit ---- */

enum { PARTS = 100 }; /* the bytes of such a part of a second leave at once */

#define SECOND_NS UINT64_C(1000000000)

void rate_limit_set(struct rate_limit *l, uint64_t bytes_per_second)
{
    store_relaxed(&l->bytes_per_second, bytes_per_second);
    l->free_ns = 0;
}

uint64_t rate_limit_free_ns(const struct rate_limit *l, uint64_t now) { return l->free_ns > now ? l->free_ns : 0; }

uint64_t rate_limit_burst(const struct rate_limit *l, uint64_t most)
{
    uint64_t part = l->bytes_per_second / PARTS + 1;
    return l->bytes_per_second && part < most ? part : most;
}

void rate_limit_charge(struct rate_limit *l, uint64_t bytes, uint64_t now)
{
    if (!l->bytes_per_second) return;
    if (l->free_ns < now) l->free_ns = now;
    l->free_ns += bytes * SECOND_NS / l->bytes_per_second;
}
