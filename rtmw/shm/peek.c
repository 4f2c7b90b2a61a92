/* Looking at the messages of a queue without holding them, for tools: nothing shared is written.
 *
 * A descriptor that is not held may begin another life at any moment. Its state then has another generation. So what was
 * read of it is the message if, and only if, the state has the same generation before and after, and names a message both
 * times. Fields are loaded with acquire, so that none is loaded after the second look at the state.
 */
#include "topics.h"

static bool is_message_of(uint64_t state, uint64_t generation)
{
    enum descriptor_kind kind = state_kind(state);
    return state_generation(state) == generation && (kind == QUEUED || kind == APPENDING);
}

static void copy_preview(struct rtmw_region *r, struct descriptor *d, const struct peek *at, struct peeked *m)
{
    const uint64_t *payload = payload_of(r, d, m->size); /* whole words: in the descriptor, or in granules */
    m->shown = !payload ? 0 : m->size < at->room ? (uint32_t)m->size : at->room;
    for (uint32_t i = 0; i * 8 < m->shown; i++) at->preview[i] = load_acquire(&payload[i]);
}

/* Reads the message to look at from this descriptor. false: it is gone, or the region is damaged. */
static bool read_message(struct rtmw_region *r, struct descriptor *d, const struct peek *at, struct peeked *m)
{
    uint64_t sequence = at->sequence;
    uint64_t state = load_acquire(&d->state), generation = state_generation(state);
    m->sequence = sequence;
    m->size = load_acquire(&d->size);
    m->publisher = load_acquire(&d->publisher);
    m->source_time_ns = load_acquire(&d->source_time_ns);
    m->expires_ns = load_acquire(&d->expires_ns);
    m->type = type_life(r, load_acquire(&d->type));
    m->reliability = load_acquire(&d->reliability);
    m->holders[0] = load_acquire(&d->holders[0]);
    m->holders[1] = load_acquire(&d->holders[1]);
    m->next = load_acquire(&d->next);
    m->is_message = is_message_of(state, generation);
    m->shown = 0;
    if (m->is_message) copy_preview(r, d, at, m);
    bool is_in_place = ((load_acquire(&d->sequence) ^ sequence) & TAG_MASK) == 0;
    return state_generation(load_relaxed(&d->state)) == generation && is_in_place;
}

/* The next message of the band, oldest first. false: that was the last, or others evict faster than this one looks. */
bool peek_next(struct rtmw_region *r, struct peek *at, struct peeked *m)
{
    for (uint32_t in_vain = 0; !at->ended && in_vain < MOST_IN_VAIN; in_vain++) {
        if (at->index == NIL) {
            uint64_t head = load_seq(&at->band->head);
            at->index = link_index(head);
            at->sequence = sequence_near(link_tag(head), at->last);
        }
        struct descriptor *d = descriptor_at(r, at->index);
        if (!d) return false;
        uint64_t sequence = at->sequence;
        if (!read_message(r, d, at, m)) {
            at->index = NIL; /* evicted meanwhile: what is left begins at head */
            continue;
        }
        at->index = link_index(m->next);
        at->ended = at->index == NIL;
        at->sequence = sequence + 1;
        if (sequence <= at->last) continue;
        at->last = sequence;
        if (m->is_message) return true;
    }
    return false;
}
