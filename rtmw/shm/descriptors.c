/* Descriptors: FREE → LOANED → APPENDING → QUEUED, and back.
 *
 *            claim               append                link             passed by head, no holders: free already
 *   FREE ───────────► LOANED ───────────► APPENDING ───────► QUEUED (or EMPTIED: see below) ───────┐
 *    ▲                  │ drop                                  ▲                                   │ take over
 *    └──────────────────┘                                       └──── LOANED ◄──────────────────────┘
 *
 * All moves are CAS of {generation, kind, owner}; each claim begins a new generation, so a stale word never matches.
 * A descriptor keeps its block from one life to the next while the sizes suit: a steady stream allocates nothing.
 */
#include <string.h>

#include "core.h"

enum { AHEAD = 1, LINES_AHEAD = 3 };
enum { SCATTER = 1024, SCATTER_STEP = 619 }; /* without a common factor: each is met once */

static uint32_t granules_for(uint64_t size)
{
    return size <= IN_PLACE ? 0 : (uint32_t)((size + GRANULE - 1) / GRANULE);
}

/* A block that is kept must hold the message and not waste more than it carries. */
static bool block_suits(struct descriptor *d, uint32_t granules)
{
    uint32_t has = load_relaxed(&d->block_granules);
    return has >= granules && (granules == 0 ? has == 0 : has <= 2 * granules + GRANULES_A_PAGE);
}

void *payload_of(struct rtmw_region *r, struct descriptor *d, uint64_t size)
{
    uint64_t granules = load_relaxed(&d->block_granules);
    if (!granules) return size <= IN_PLACE ? d->payload : NULL;
    uint64_t all = (uint64_t)r->header->pages * GRANULES_A_PAGE, first = load_relaxed(&d->block_granule);
    if (first >= all || granules > all - first || size > granules * GRANULE) return NULL;
    return r->blocks + first * GRANULE;
}

bool descriptor_take_over(struct rtmw_region *r, uint32_t index, uint64_t state)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t generation = (state_generation(state) + 1) & TAG_MASK;
    if (!cas64(&d->state, state, state_make(generation, LOANED, r->me))) return false;
    store_release(&d->next, link_make(generation, NIL));
    return true;
}

void descriptor_free(struct rtmw_region *r, uint32_t index)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t state = load_relaxed(&d->state);
    block_drop(r, d);
    fetch_sub(&r->hints->descriptors_used, 1u);
    cas64(&d->state, state, state_make((state_generation(state) + 1) & TAG_MASK, FREE, 0));
}

static void stash_add(struct stash *stash, bool as_oldest, uint32_t index, uint64_t generation)
{
    uint32_t at = (stash->first + stash->count++) % STASH;
    if (as_oldest) at = stash->first = (stash->first + STASH - 1) % STASH;
    stash->entry[at].index = index;
    stash->entry[at].generation = generation;
}

void stash_put(struct rtmw_region *r, uint32_t index, uint64_t generation)
{
    struct stash *stash = load_relaxed(&r->descriptors[index].block_granules) ? &r->with_block : &r->plain;
    if (stash->count == STASH) { /* forget the oldest: reclaim_passed finds it */
        stash->first = (stash->first + 1) % STASH;
        stash->count--;
    }
    stash_add(stash, false, index, generation);
}

static bool has_holders(struct descriptor *d)
{
    return (load_seq(&d->holders[0]) | load_seq(&d->holders[1])) != 0; /* pairs with hold: bit first, then head */
}

/* A stashed descriptor that is free and, if `granules` says so, has a suitable block: the oldest; for a large message the
 * newest, whose block was in use last and lies in the cache. */
static uint32_t stash_claim(struct rtmw_region *r, struct stash *stash, uint32_t granules, bool suited)
{
    bool newest_first = granules >= LARGE / GRANULE;
    for (uint32_t tries = stash->count < 16 ? stash->count : 16; tries > 0; tries--) {
        uint32_t at = newest_first ? (stash->first + stash->count - 1) % STASH : stash->first;
        uint32_t index = stash->entry[at].index;
        uint64_t generation = stash->entry[at].generation;
        if (!newest_first) stash->first = (stash->first + 1) % STASH;
        stash->count--;
        struct descriptor *d = &r->descriptors[index];
        uint64_t state = load_seq(&d->state);
        if (state_generation(state) != generation || !state_is_settled(state)) continue; /* somebody else claimed it */
        if (has_holders(d) || (suited && !block_suits(d, granules)))
            stash_add(stash, newest_first, index, generation); /* where it is tried last */
        else if (descriptor_take_over(r, index, state))
            return index;
    }
    return NIL;
}

/* The k-th descriptor to be claimed. Neighbours in time are not neighbours in memory: else the processor of a subscriber,
 * which looks ahead in memory, takes from the publisher the very lines that the next message is written to. */
static uint32_t scattered(uint32_t k, uint32_t count)
{
    uint32_t whole = count - count % SCATTER;
    return k < whole ? k - k % SCATTER + k * SCATTER_STEP % SCATTER : k;
}

/* A descriptor soon to be claimed: its lines are asked for now, and are here by then. Nothing waits for them. */
void descriptor_fetch_ahead(struct rtmw_region *r)
{
    const struct stash *stash = &r->plain;
    uint32_t count = r->header->descriptors, free = scattered((r->scan + AHEAD) % count, count);
    uint32_t index = stash->count > AHEAD ? stash->entry[(stash->first + AHEAD) % STASH].index : free;
    uint8_t *line = (uint8_t *)&r->descriptors[index];
    for (uint32_t i = 0; i < LINES_AHEAD; i++) prefetch_to_write(line + i * LINE);
}

static uint32_t scan_free(struct rtmw_region *r)
{
    uint32_t count = r->header->descriptors;
    if (descriptors_used(r) >= (int64_t)count) return NIL; /* make_room recounts when this is wrong */
    for (uint32_t looked = 0; looked < count; looked++) {
        uint32_t index = scattered(r->scan, count);
        r->scan = r->scan + 1 < count ? r->scan + 1 : 0;
        uint64_t state = load_relaxed(&r->descriptors[index].state);
        if (state_kind(state) != FREE || !descriptor_take_over(r, index, state)) continue;
        fetch_add(&r->hints->descriptors_used, 1u);
        return index;
    }
    return NIL;
}

static uint32_t claim_any(struct rtmw_region *r, uint32_t granules)
{
    struct stash *near = granules ? &r->with_block : &r->plain, *far = granules ? &r->plain : &r->with_block;
    uint32_t index = stash_claim(r, near, granules, true);
    if (index == NIL && granules) index = stash_claim(r, far, 0, false);
    if (index == NIL) index = scan_free(r);
    if (index == NIL) index = stash_claim(r, near, 0, false);
    if (index == NIL) index = stash_claim(r, far, 0, false);
    return index;
}

uint32_t descriptor_claim(struct rtmw_region *r, uint64_t size)
{
    uint32_t granules = granules_for(size);
    uint32_t index = claim_any(r, granules);
    if (index == NIL) return NIL;
    struct descriptor *d = &r->descriptors[index];
    if (!block_suits(d, granules)) {
        block_drop(r, d);
        if (granules && !block_allocate(r, index, size)) {
            descriptor_free(r, index);
            return NIL;
        }
    }
    store_relaxed(&d->size, size);
    return index;
}

/* Passed: head is beyond it. Only meaningful for a settled state that does not change meanwhile. */
bool descriptor_is_passed(struct rtmw_region *r, struct descriptor *d)
{
    uint64_t place = load_relaxed(&d->place), sequence = load_relaxed(&d->sequence);
    uint32_t topic = place_topic(place), band = place_band(place);
    if (topic >= r->header->topics || band >= BANDS) return false;
    uint64_t head = load_seq(&r->topics[topic].band[band].head);
    return sequence_near(link_tag(head), sequence) > sequence;
}

/* A full pass: whatever is passed and unheld becomes FREE, and its block with it. */
uint32_t reclaim_passed(struct rtmw_region *r)
{
    uint32_t freed = 0;
    for (uint32_t index = 0; index < r->header->descriptors; index++) {
        struct descriptor *d = &r->descriptors[index];
        uint64_t state = load_seq(&d->state);
        if (!state_is_settled(state) || !descriptor_is_passed(r, d) || has_holders(d)) continue;
        if (!descriptor_take_over(r, index, state)) continue;
        descriptor_free(r, index);
        freed++;
    }
    recount_hints(r);
    return freed;
}

void stash_flush(struct rtmw_region *r)
{
    struct stash *both[] = {&r->plain, &r->with_block};
    for (int i = 0; i < 2; i++)
        for (uint32_t left = both[i]->count, index; left > 0 && (index = stash_claim(r, both[i], 0, false)) != NIL;
             left--)
            descriptor_free(r, index);
}

void recount_hints(struct rtmw_region *r)
{
    uint32_t used = 0, granules = 0;
    for (uint32_t i = 0; i < r->header->descriptors; i++) {
        struct descriptor *d = &r->descriptors[i];
        if (state_kind(load_relaxed(&d->state)) == FREE) continue;
        used++;
        granules += load_relaxed(&d->block_granules);
    }
    store_relaxed(&r->hints->descriptors_used, used);
    store_relaxed(&r->hints->granules_used, granules);
}

bool descriptor_is_message(struct descriptor *d) { return state_kind(load_seq(&d->state)) != EMPTIED; }

/* EMPTIED by me, who says so first and then looks for holders. A holder sets its bit and then looks at the state: one of
 * the two sees the other. With holders, it is a message again; but not if one who died here had begun to give the block
 * back: then all its holders saw it EMPTIED. The block becomes that of the heir, if there is one. */
static bool finish_emptying(struct rtmw_region *r, struct descriptor *d, uint64_t mine, uint32_t heir)
{
    bool held = load_relaxed(&d->block_granules) && has_holders(d);
    if (!held && heir != NIL) block_move(r, d, heir);
    if (!held && heir == NIL) block_drop(r, d);
    cas64(&d->state, mine, state_make(state_generation(mine), held ? QUEUED : EMPTIED, held ? 0 : NOBODY));
    return !held;
}

/* Take the block from a queued message that all have read, and that stays only because a queue is never empty. One whose
 * cursor says that it has read it may be about to look at the state: it holds the message since before it said so. */
bool descriptor_empty(struct rtmw_region *r, struct descriptor *d, uint64_t state, uint32_t heir)
{
    uint64_t mine = state_make(state_generation(state), EMPTIED, r->me);
    if (state_kind(state) != QUEUED || has_holders(d)) return false;
    return cas64(&d->state, state, mine) && finish_emptying(r, d, mine, heir);
}

/* The same, and the block goes to a descriptor that is LOANED by me then; NIL: somebody holds the message, or its block
 * does not suit. */
uint32_t descriptor_inherit(struct rtmw_region *r, struct descriptor *d, uint64_t state, uint64_t size)
{
    if (has_holders(d) || !block_suits(d, granules_for(size))) return NIL;
    uint32_t heir = claim_any(r, 0);
    if (heir == NIL) return NIL;
    block_drop(r, &r->descriptors[heir]);
    if (descriptor_empty(r, d, state, heir) && block_suits(&r->descriptors[heir], granules_for(size))) {
        store_relaxed(&r->descriptors[heir].size, size);
        return heir;
    }
    descriptor_free(r, heir);
    return NIL;
}

/* After a death: a LOANED descriptor is given back. One found APPENDING is in its queue if, and only if, its
 * predecessor's `next` names it: a predecessor that has begun another life was passed, and whoever moved tail past
 * the successor first saw to it that the successor was QUEUED; so this one, still APPENDING, was not it. */
void descriptor_settle(struct rtmw_region *r, uint32_t index, uint32_t dead_owner)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t state = load_seq(&d->state);
    if (state_owner(state) != dead_owner) return;
    if (state_kind(state) == APPENDING) {
        uint64_t behind = load_seq(&d->predecessor), place = load_seq(&d->place);
        uint64_t self = link_make(state_generation(state), index), named;
        bool linked;
        if (place_topic(place) >= r->header->topics || place_band(place) >= BANDS) return;
        if (link_index(behind) == NIL) { /* the first message of its band */
            named = load_seq(&r->topics[place_topic(place)].band[place_band(place)].head);
            linked = link_index(named) == index;
        } else {
            struct descriptor *predecessor = descriptor_at(r, link_index(behind));
            if (!predecessor) return;
            named = load_seq(&predecessor->next);
            linked = named == self && state_generation(load_seq(&predecessor->state)) == link_tag(behind);
        }
        if (linked) {
            cas64(&d->state, state, state_make(state_generation(state), QUEUED, 0));
            return;
        }
    } else if (state_kind(state) == EMPTIED) {
        uint64_t mine = state_make(state_generation(state), EMPTIED, r->me);
        if (cas64(&d->state, state, mine)) finish_emptying(r, d, mine, NIL);
        return;
    } else if (state_kind(state) != LOANED) {
        return;
    }
    if (descriptor_take_over(r, index, state)) descriptor_free(r, index);
}
