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

#include "bitmap.h"
#include "core.h"

enum { AHEAD = 1, LINES_AHEAD = 3 };
enum { SCATTER_STEP = 619, SCATTER_BACK = 579 }; /* STEP × BACK is 1 modulo SCATTER */
enum { RECLAIM_HINTED = 64 };

static uint32_t granules_for(uint64_t size)
{
    return size <= IN_PLACE ? 0 : (uint32_t)((size + GRANULE - 1) / GRANULE);
}

/* A block that is kept must hold the message and not waste more than it carries. A message that needs no whole page shares
 * one: where it stayed in a page of its own, that would lie anywhere, and divide the room for large ones. */
static bool block_suits(struct descriptor *d, uint32_t granules)
{
    uint32_t has = load_relaxed(&d->block_granules);
    if (granules == 0) return has == 0;
    bool alike = (has >= GRANULES_A_PAGE) == (granules >= GRANULES_A_PAGE);
    return alike && has >= granules && has <= 2 * granules + GRANULES_A_PAGE;
}

void *block_of(struct rtmw_region *r, struct descriptor *d, uint64_t size)
{
    uint64_t granules = load_relaxed(&d->block_granules);
    uint64_t all = (uint64_t)r->header->pages * GRANULES_A_PAGE, first = load_relaxed(&d->block_granule);
    if (first >= all || granules > all - first || size > granules * GRANULE) return NULL;
    return r->blocks + first * GRANULE;
}

/* The k-th descriptor to be claimed. Neighbours in time are not neighbours in memory: else the processor of a subscriber,
 * which looks ahead in memory, takes from the publisher the very lines that the next message is written to. */
static uint32_t scattered(uint32_t k, uint32_t count)
{
    uint32_t whole = count - count % SCATTER;
    return k < whole ? k - k % SCATTER + k * SCATTER_STEP % SCATTER : k;
}

/* Which k that is. Bitmaps and the reserve count descriptors in this order. */
static uint32_t gathered(uint32_t index, uint32_t count)
{
    uint32_t whole = count - count % SCATTER;
    return index < whole ? index - index % SCATTER + index * SCATTER_BACK % SCATTER : index;
}

static bool is_open(struct rtmw_region *r, uint32_t index, uint32_t band)
{
    return index >= r->reserve_end || gathered(index, r->header->descriptors) >= r->open_descriptors[band];
}

bool descriptor_is_open(struct rtmw_region *r, uint32_t index, uint32_t band)
{
    struct descriptor *d = &r->descriptors[index];
    return is_open(r, index, band) && (!load_relaxed(&d->block_granules) || block_is_open(r, d, band));
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
    bitmap_set(r->free_descriptors, gathered(index, r->header->descriptors));
}

void hint_passed(struct rtmw_region *r, uint32_t index) { bitmap_set(r->passed_descriptors, index); }

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
    if (load_relaxed(&r->descriptors[index].block_granules) >= GRANULES_A_PAGE) hint_passed(r, index);
    if (stash->count == STASH) { /* forget the oldest: others may find it */
        hint_passed(r, stash->entry[stash->first].index);
        stash->first = (stash->first + 1) % STASH;
        stash->count--;
    }
    stash_add(stash, false, index, generation);
}

static inline bool has_holders(struct descriptor *d)
{
    return (load_seq(&d->holders[0]) | load_seq(&d->holders[1])) != 0; /* pairs with hold: bit first, then head */
}

bool descriptor_is_held(struct descriptor *d) { return has_holders(d); }

/* A descriptor that is asked for: for a message of this band, with so many granules. */
struct want {
    uint32_t granules, band;
};

static inline bool suits(struct rtmw_region *r, struct descriptor *d, struct want want)
{
    return block_suits(d, want.granules) && (!want.granules || block_is_open(r, d, want.band));
}

/* A stashed descriptor that is free, open to the band and, if `suited`, has a suitable block: the oldest; for a large
 * message the newest, whose block was in use last and lies in the cache. */
__attribute__((always_inline)) static inline uint32_t stash_claim(struct rtmw_region *r, struct stash *stash,
                                                                  struct want want, bool suited)
{
    bool newest_first = want.granules >= LARGE_COPY / GRANULE;
    for (uint32_t tries = stash->count < 16 ? stash->count : 16; tries > 0; tries--) {
        uint32_t at = newest_first ? (stash->first + stash->count - 1) % STASH : stash->first;
        uint32_t index = stash->entry[at].index;
        uint64_t generation = stash->entry[at].generation;
        if (!newest_first) stash->first = (stash->first + 1) % STASH;
        stash->count--;
        struct descriptor *d = &r->descriptors[index];
        uint64_t state = load_seq(&d->state);
        if (state_generation(state) != generation || !state_is_at_rest(state)) continue; /* somebody else claimed it */
        if (has_holders(d) || !is_open(r, index, want.band) || (suited && !suits(r, d, want)))
            stash_add(stash, newest_first, index, generation); /* where it is tried last */
        else if (descriptor_take_over(r, index, state))
            return index;
    }
    return NIL;
}

/* A descriptor soon to be claimed: its lines are asked for now, and are here by then. Nothing waits for them. */
void descriptor_fetch_ahead(struct rtmw_region *r)
{
    const struct stash *stash = &r->plain;
    uint32_t count = r->header->descriptors, index;
    if (__builtin_expect(stash->count > AHEAD, 1))
        index = stash->entry[(stash->first + AHEAD) % STASH].index;
    else
        index = scattered((r->scan + AHEAD) % count, count);
    uint8_t *line = (uint8_t *)&r->descriptors[index];
    for (uint32_t i = 0; i < LINES_AHEAD; i++) prefetch_to_write(line + i * LINE);
}

/* A descriptor that a bit of the free ones names: claimed, or the bit is cleared. */
static bool claim_free(struct rtmw_region *r, uint32_t k, uint32_t *index)
{
    *index = scattered(k, r->header->descriptors);
    struct descriptor *d = &r->descriptors[*index];
    uint64_t state = load_relaxed(&d->state);
    bool claimed = state_kind(state) == FREE && descriptor_take_over(r, *index, state);
    bitmap_clear(r->free_descriptors, k);
    if (claimed)
        fetch_add(&r->hints->descriptors_used, 1u);
    else if (state_kind(load_seq(&d->state)) == FREE)
        bitmap_set(r->free_descriptors, k);
    return claimed;
}

/* A free one, from where the last search of this process ended on; the reserve, as far as it is open, comes last. */
static uint32_t scan_free(struct rtmw_region *r, uint32_t band)
{
    uint32_t count = r->header->descriptors, common = r->header->reserved_descriptors, index;
    uint32_t start = r->scan >= common && r->scan < count ? r->scan : common;
    uint32_t from[] = {start, common, r->open_descriptors[band]}, end[] = {count, start, common};
    for (int part = 0; part < 3; part++)
        for (uint64_t k = from[part]; (k = bitmap_next(r->free_descriptors, k, end[part])) != BITMAP_END; k++)
            if (claim_free(r, (uint32_t)k, &index)) {
                if (k >= common) r->scan = (uint32_t)k + 1;
                return index;
            }
    return NIL;
}

__attribute__((noinline)) static uint32_t stash_search(struct rtmw_region *r, struct stash *stash, struct want want,
                                                       bool suited)
{
    return stash_claim(r, stash, want, suited);
}

__attribute__((noinline)) static uint32_t claim_elsewhere(struct rtmw_region *r, struct want want)
{
    bool block = want.granules > 0;
    struct stash *near = block ? &r->with_block : &r->plain, *far = block ? &r->plain : &r->with_block;
    uint32_t index = block ? stash_search(r, near, want, true) : NIL;
    if (index == NIL && block) index = stash_search(r, far, want, false);
    if (index == NIL) index = scan_free(r, want.band);
    if (index == NIL) index = stash_search(r, near, want, false);
    if (index == NIL) index = stash_search(r, far, want, false);
    return index;
}

/* Mostly the message is small, and there is a stashed descriptor for it: that part is inlined. */
static inline uint32_t claim_any(struct rtmw_region *r, struct want want)
{
    uint32_t index = want.granules ? NIL : stash_claim(r, &r->plain, (struct want){0, want.band}, true);
    return __builtin_expect(index != NIL, 1) ? index : claim_elsewhere(r, want);
}

uint32_t descriptor_claim(struct rtmw_region *r, uint64_t size, uint32_t band)
{
    struct want want = {granules_for(size), band};
    uint32_t index = claim_any(r, want);
    if (__builtin_expect(index == NIL, 0)) return r->short_of_pages = false, NIL;
    struct descriptor *d = &r->descriptors[index];
    if (!suits(r, d, want)) {
        block_drop(r, d);
        if (want.granules && !block_allocate(r, index, size, band)) {
            descriptor_free(r, index);
            return r->short_of_pages = true, NIL;
        }
    }
    store_relaxed(&d->size, size);
    return index;
}

/* Passed: head is beyond it. Only meaningful for a state at rest that does not change meanwhile. */
bool descriptor_is_passed(struct rtmw_region *r, struct descriptor *d)
{
    uint64_t place = load_relaxed(&d->place), sequence = load_relaxed(&d->sequence);
    uint32_t topic = place_topic(place), band = place_band(place);
    if (topic >= r->header->topics || band >= BANDS) return false;
    uint64_t head = load_seq(&r->topics[topic].band[band].head);
    return sequence_near(link_tag(head), sequence) > sequence;
}

static bool reclaim(struct rtmw_region *r, uint32_t index)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t state = load_seq(&d->state);
    if (!state_is_at_rest(state) || !descriptor_is_passed(r, d) || has_holders(d)) return false;
    if (!descriptor_take_over(r, index, state)) return false;
    descriptor_free(r, index);
    return true;
}

/* A full pass: each descriptor that is passed and unheld becomes FREE, and its block with it. */
uint32_t reclaim_passed(struct rtmw_region *r)
{
    uint32_t freed = 0;
    for (uint32_t index = 0; index < r->header->descriptors; index++) freed += reclaim(r, index);
    recount_hints(r);
    return freed;
}

/* Reclaims descriptors that somebody said may be passed. The holder of one that is held says so again when it lets go. */
uint32_t reclaim_hinted(struct rtmw_region *r)
{
    uint32_t freed = 0, looked = 0;
    uint64_t index = 0, count = r->header->descriptors;
    while (looked++ < RECLAIM_HINTED && (index = bitmap_next(r->passed_descriptors, index, count)) != BITMAP_END) {
        bitmap_clear(r->passed_descriptors, index);
        freed += reclaim(r, (uint32_t)index);
    }
    return freed;
}

uint32_t reclaim_stashed(struct rtmw_region *r)
{
    uint32_t freed = 0, count = r->header->descriptors;
    r->reclaimed_ns = monotonic_ns();
    for (uint32_t looked = 0; looked < RECLAIM_LOOKED_AT && looked < count; looked++) {
        freed += reclaim(r, r->reclaim_scan);
        r->reclaim_scan = r->reclaim_scan + 1 < count ? r->reclaim_scan + 1 : 0;
    }
    return freed;
}

void stash_flush(struct rtmw_region *r)
{
    struct stash *both[] = {&r->plain, &r->with_block};
    struct want anything = {0, BANDS - 1};
    for (int i = 0; i < 2; i++)
        for (uint32_t left = both[i]->count, index;
             left > 0 && (index = stash_search(r, both[i], anything, false)) != NIL; left--)
            descriptor_free(r, index);
}

/* After a death, when hints may be wrong or missing. */
void recount_hints(struct rtmw_region *r)
{
    uint32_t used = 0, count = r->header->descriptors;
    uint64_t granules = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct descriptor *d = &r->descriptors[i];
        enum descriptor_kind kind = state_kind(load_relaxed(&d->state));
        if (kind == FREE) bitmap_set(r->free_descriptors, gathered(i, count));
        if (kind == FREE) continue;
        if (kind != LOANED) hint_passed(r, i);
        used++;
        granules += load_relaxed(&d->block_granules);
    }
    store_relaxed(&r->hints->descriptors_used, used);
    store_relaxed(&r->hints->granules_used, granules);
    recount_pages(r);
}

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

/* Take the block from a queued message that all have read, and that stays only because a queue is never empty. The caller
 * has seen that nobody holds it, after the cursors said that all have read it: a reader whose cursor says so may be about
 * to look at the state, and holds the message since before its cursor said so. */
bool descriptor_empty(struct rtmw_region *r, struct descriptor *d, uint64_t state, uint32_t heir)
{
    uint64_t mine = state_make(state_generation(state), EMPTIED, r->me);
    if (state_kind(state) != QUEUED) return false;
    return cas64(&d->state, state, mine) && finish_emptying(r, d, mine, heir);
}

/* The same, and the block goes to a descriptor that is LOANED by me then; NIL: somebody holds the message, or its block
 * does not suit, or is not open to the band. */
uint32_t descriptor_inherit(struct rtmw_region *r, struct descriptor *d, uint64_t state, uint64_t size, uint32_t band)
{
    struct want want = {granules_for(size), band}, no_block = {0, band};
    if (has_holders(d) || !suits(r, d, want)) return NIL;
    uint32_t index = claim_any(r, no_block);
    if (index == NIL) return NIL;
    struct descriptor *heir = &r->descriptors[index];
    block_drop(r, heir);
    if (descriptor_empty(r, d, state, index) && suits(r, heir, want)) {
        store_relaxed(&heir->size, size);
        return index;
    }
    descriptor_free(r, index);
    return NIL;
}

/* After a death: a LOANED descriptor is given back. One found APPENDING is in its queue if, and only if, its
 * predecessor's `next` names it: a predecessor that has begun another life was passed, and whoever moved tail past
 * the successor first saw to it that the successor was QUEUED; so this one, still APPENDING, was not it. */
void descriptor_sweep(struct rtmw_region *r, uint32_t index, uint32_t dead_owner)
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
