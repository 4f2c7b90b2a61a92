/* What came from other hosts and waits for room on the bus. */
#include <stdlib.h>

#include "engine.h"

enum { SPACE_FIRST = 64 };

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

bool backlog_add(struct backlog *b, struct sample sample)
{
    if (b->count == b->space && !grow(b)) return false;
    b->ring[(b->first + b->count++) & (b->space - 1)] = sample;
    b->bytes += ddsi_serdata_size(sample.data);
    return true;
}

struct sample *backlog_first(struct backlog *b) { return b->count ? &b->ring[b->first] : NULL; }

void backlog_drop_first(struct backlog *b, uint32_t bytes)
{
    b->bytes -= bytes;
    b->first = (b->first + 1) & (b->space - 1);
    b->count--;
}

void backlog_clear(struct backlog *b)
{
    for (struct sample *s; (s = backlog_first(b));) {
        struct ddsi_serdata *data = s->data;
        backlog_drop_first(b, ddsi_serdata_size(data));
        ddsi_serdata_unref(data);
    }
    free(b->ring);
    *b = (struct backlog){0};
}
