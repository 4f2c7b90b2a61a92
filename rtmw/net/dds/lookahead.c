/* The rings of a look-ahead: see lookahead.h. */
#include "lookahead.h"

static bool is_full(const struct lookahead *l)
{
    for (uint32_t band = 0; band < BANDS; band++)
        if (l->ring[band].count == LOOKAHEAD) return true;
    return false;
}

bool lookahead_has_room(const struct lookahead *l)
{
    return l->taken < 2 * LOOKAHEAD && l->bytes < LOOKAHEAD_BYTES && !is_full(l);
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
