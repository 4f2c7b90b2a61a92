/* Blocks: payload memory, from a granule of 256 bytes to the whole pool, without a lock and without a free list.
 *
 * A page is WHOLE, in the run of one block, or GRANULAR: split into 16 granules for blocks under a page. Every page
 * and granule has a word {tag, descriptor}. It is owned while that descriptor's block_tag is this tag; so to give a
 * block back, of any length, is one increment of the tag, and neighbours coalesce because nothing divides them.
 *
 * To allocate: begin a new tag, write the range, claim word after word by CAS. When one is lost to somebody else,
 * begin another tag: all that was claimed so far is free again at once, also if the process dies between two steps.
 *
 *   split      CAS page word: free → GRANULAR. Then granules are claimed, and the page is seen to be GRANULAR still.
 *   coalesce   CAS page word: GRANULAR → mine. Then its granules are seen to be free, or the page is made GRANULAR
 *              again. Either the one who splits sees the page gone, or the one who coalesces sees the granule owned.
 */
#include "core.h"

bool owner_is_live(struct rtmw_region *r, uint64_t word)
{
    if (word == 0 || word == GRANULAR) return false;
    struct descriptor *d = descriptor_at(r, link_index(word));
    return d == NULL || (load_seq(&d->block_tag) & TAG_MASK) == link_tag(word);
}

static bool granules_are_free(struct rtmw_region *r, uint32_t page)
{
    uint64_t *words = &r->granules[(uint64_t)page * GRANULES_A_PAGE];
    for (uint32_t i = 0; i < GRANULES_A_PAGE; i++) {
        uint64_t word = load_seq(&words[i]); /* pairs with claim_granules: its CAS, then the page word */
        if (word && owner_is_live(r, word)) return false;
    }
    return true;
}

static uint64_t begin_tag(struct descriptor *d)
{
    uint64_t tag = d->block_tag + 1;
    store_seq(&d->block_tag, tag);
    return tag & TAG_MASK;
}

static bool claim_page(struct rtmw_region *r, uint32_t page, uint64_t mine)
{
    uint64_t word = load_seq(&r->pages[page]);
    if (owner_is_live(r, word) || !cas64(&r->pages[page], word, mine)) return false;
    if (granules_are_free(r, page)) return true;
    cas64(&r->pages[page], mine, GRANULAR);
    return false;
}

static bool claim_run(struct rtmw_region *r, uint32_t index, uint32_t first, uint32_t pages)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t mine = link_make(begin_tag(d), index);
    store_relaxed(&d->block_granule, first * GRANULES_A_PAGE);
    for (uint32_t i = 0; i < pages; i++)
        if (!claim_page(r, first + i, mine)) {
            begin_tag(d);
            return false;
        }
    return true;
}

static bool page_looks_free(struct rtmw_region *r, uint32_t page)
{
    return !owner_is_live(r, load_relaxed(&r->pages[page])) && granules_are_free(r, page);
}

/* First fit from where the last search ended; the whole pool is seen once, and runs across the start point too. */
static bool allocate_pages(struct rtmw_region *r, uint32_t index, uint32_t pages)
{
    uint32_t all = r->header->pages, run = 0;
    if (pages > all) return false;
    uint32_t start = r->page_scan + pages <= all ? r->page_scan : 0;
    uint32_t page = start;
    for (uint64_t looked = 0; looked < (uint64_t)all + pages; looked++) {
        run = page_looks_free(r, page) ? run + 1 : 0;
        if (run == pages) {
            uint32_t first = page + 1 - pages;
            if (claim_run(r, index, first, pages)) {
                store_relaxed(&r->descriptors[index].block_granules, pages * GRANULES_A_PAGE);
                r->page_scan = page + 1 < all ? page + 1 : 0;
                return true;
            }
            run = 0; /* somebody else was quicker */
        }
        if (++page == all) page = run = 0;
    }
    return false;
}

static bool claim_granules(struct rtmw_region *r, uint32_t index, uint32_t page, uint32_t at, uint32_t count)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t *words = &r->granules[(uint64_t)page * GRANULES_A_PAGE + at];
    uint64_t mine = link_make(begin_tag(d), index);
    store_relaxed(&d->block_granule, page * GRANULES_A_PAGE + at);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = load_seq(&words[i]);
        if (owner_is_live(r, word) || !cas64(&words[i], word, mine)) {
            begin_tag(d);
            return false;
        }
    }
    if (load_seq(&r->pages[page]) == GRANULAR) return true; /* pairs with claim_page */
    begin_tag(d);
    return false;
}

/* Another allocator may split the page at the same time: then it is as good. */
static bool split_page(struct rtmw_region *r, uint32_t page)
{
    uint64_t word;
    while ((word = load_seq(&r->pages[page])) != GRANULAR) {
        if (owner_is_live(r, word)) return false;
        cas64(&r->pages[page], word, GRANULAR);
    }
    return true;
}

static bool allocate_in_page(struct rtmw_region *r, uint32_t index, uint32_t page, uint32_t count)
{
    if (!split_page(r, page)) return false;
    uint32_t run = 0;
    for (uint32_t i = 0; i < GRANULES_A_PAGE; i++) {
        run = owner_is_live(r, load_relaxed(&r->granules[(uint64_t)page * GRANULES_A_PAGE + i])) ? 0 : run + 1;
        if (run == count && claim_granules(r, index, page, i + 1 - count, count)) {
            store_relaxed(&r->descriptors[index].block_granules, count);
            return true;
        }
        if (run == count) run--;
    }
    return false;
}

static bool allocate_granules(struct rtmw_region *r, uint32_t index, uint32_t count)
{
    uint32_t all = r->header->pages;
    for (uint32_t looked = 0; looked < all; looked++) {
        uint32_t page = (r->page_scan + looked) % all;
        if (!allocate_in_page(r, index, page, count)) continue;
        r->page_scan = page;
        return true;
    }
    return false;
}

bool block_allocate(struct rtmw_region *r, uint32_t index, uint64_t size)
{
    uint64_t granules = (size + GRANULE - 1) / GRANULE, pages = (size + PAGE - 1) / PAGE;
    if (pages > r->header->pages) return false;
    bool done = granules < GRANULES_A_PAGE ? allocate_granules(r, index, (uint32_t)granules)
                                           : allocate_pages(r, index, (uint32_t)pages);
    if (done) fetch_add(&r->hints->granules_used, r->descriptors[index].block_granules);
    return done;
}

void block_drop(struct rtmw_region *r, struct descriptor *d)
{
    uint32_t granules = d->block_granules;
    store_relaxed(&d->block_granules, 0u);
    begin_tag(d); /* also without a block: its last owner may have died while claiming one */
    if (granules) fetch_sub(&r->hints->granules_used, granules);
}

/* The block of one descriptor becomes that of another, which is LOANED by me and has none. Each page belongs to one of the
 * two all along, so that nobody else can claim it. `from` says first that it has no block (see finish_emptying), so after
 * a death in between each of the two gives back the pages that name it. Not whole pages: the block is given back. */
void block_move(struct rtmw_region *r, struct descriptor *from, uint32_t to_index)
{
    struct descriptor *to = &r->descriptors[to_index];
    uint32_t granules = load_relaxed(&from->block_granules), first = load_relaxed(&from->block_granule);
    uint64_t pages = granules / GRANULES_A_PAGE, at = first / GRANULES_A_PAGE, all = r->header->pages;
    bool whole = (first | granules) % GRANULES_A_PAGE == 0 && at < all && pages <= all - at;
    store_relaxed(&from->block_granules, 0u);
    uint64_t mine = link_make(begin_tag(to), to_index);
    store_relaxed(&to->block_granule, first);
    for (uint64_t page = at; whole && page < at + pages; page++) store_release(&r->pages[page], mine);
    begin_tag(from); /* after the pages: none is without an owner */
    if (whole)
        store_relaxed(&to->block_granules, granules);
    else
        fetch_sub(&r->hints->granules_used, granules);
}

/* Below the low-water mark: less than an eighth of the descriptors or of the pool is free. */
bool pool_is_low(struct rtmw_region *r)
{
    const struct header *h = r->header;
    int64_t granules = (int64_t)h->pages * GRANULES_A_PAGE, descriptors = h->descriptors;
    return descriptors_used(r) > descriptors - descriptors / 8 ||
           (int32_t)load_relaxed(&r->hints->granules_used) > granules - granules / 8;
}
