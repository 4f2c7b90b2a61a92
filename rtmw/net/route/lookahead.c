/* The rings of a look-ahead: see lookahead.h. */
#include "lookahead.h"

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
