/* Samples that came from other hosts and wait for room on the bus.
 *
 * A node that is asked to pause sends little more; so much may come that others on its way see no limit. One that does not
 * heed it, and many that are none, take so much memory and no more.
 */
#include <stdlib.h>

#include "engine.h"

enum {
    SPACE_FIRST = 64,
    COUNT_MOST = 1 << 18, /* samples that wait of one participant, */
    BYTES_MOST = 256 << 20,
    ALL_COUNT_MOST = 1 << 20, /* and of all */
    ALL_BYTES_MOST = 1 << 30,
};

static struct share *share_of(struct engine *e, uint64_t node)
{
    return &e->shares[((node ^ e->salt) * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (SHARES - 1)];
}

static bool has_room(const struct share *s, uint64_t count_most, uint64_t bytes_most)
{
    return load_relaxed(&s->count) < count_most && load_relaxed(&s->bytes) < bytes_most;
}

static void charge(struct share *s, uint64_t count, uint64_t bytes)
{
    fetch_add(&s->count, count);
    fetch_add(&s->bytes, bytes);
}

static bool grow(struct backlog *b)
{
    uint32_t space = b->space ? b->space * 2 : SPACE_FIRST;
    struct sample *ring = space ? malloc(space * sizeof *ring) : NULL;
    if (!ring) return false;
    for (uint32_t n = 0; n < b->count; n++) ring[n] = b->ring[(b->first + n) & (b->space - 1)];
    free(b->ring);
    b->ring = ring;
    b->space = space;
    b->first = 0;
    return true;
}

bool backlog_add(struct engine *e, struct backlog *b, struct sample sample)
{
    struct share *own = share_of(e, sample.node);
    uint64_t bytes = ddsi_serdata_size(sample.data);
    if (!has_room(own, COUNT_MOST, BYTES_MOST) || !has_room(&e->all, ALL_COUNT_MOST, ALL_BYTES_MOST)) return false;
    if (b->count == b->space && !grow(b)) return false;
    b->ring[(b->first + b->count++) & (b->space - 1)] = sample;
    b->bytes += bytes;
    charge(own, 1, bytes);
    charge(&e->all, 1, bytes);
    return true;
}

struct sample *backlog_first(struct backlog *b) { return b->count ? &b->ring[b->first] : NULL; }

void backlog_drop_first(struct engine *e, struct backlog *b, uint32_t bytes)
{
    charge(share_of(e, b->ring[b->first].node), UINT64_C(-1), -(uint64_t)bytes);
    charge(&e->all, UINT64_C(-1), -(uint64_t)bytes);
    b->bytes -= bytes;
    b->first = (b->first + 1) & (b->space - 1);
    b->count--;
}

void backlog_clear(struct engine *e, struct backlog *b)
{
    for (struct sample *s; (s = backlog_first(b));) {
        struct ddsi_serdata *data = s->data;
        backlog_drop_first(e, b, ddsi_serdata_size(data));
        ddsi_serdata_unref(data);
    }
    free(b->ring);
    *b = (struct backlog){0};
}
