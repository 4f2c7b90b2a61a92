/* Blocks: payload memory, from a granule of 256 bytes to the whole pool, without a lock and without a free list.
 *
 * A page is WHOLE, in the run of one block, or GRANULAR: split into 16 granules for blocks under a page. Every page
 * and granule has a word {tag, descriptor}. It is owned while that descriptor's block_tag is this tag; so to give a
 * block back, of any length, is one increment of the tag, and neighbours coalesce because nothing divides them.
 *
 * To allocate: begin a new tag, write the range, claim word after word by CAS. When one is lost to somebody else,
 * begin another tag: all that was claimed so far is free again at once, also if the process dies between two steps.
 *
 * Where to look is said by two bitmaps of hints (bitmap.h): pages that may be free, and GRANULAR ones with room. The first
 * fit counts, runs from the bottom and granules from the top: so small blocks that stay for long lie close together and
 * leave the rest in one piece. The bottom of the pool is the reserve of the upper bands.
 *
 * How much room a GRANULAR page has is not known before it is looked at, and pages whose rest fits nothing stay roomy for
 * long. So for each count of granules a process remembers below which page it has not looked yet, and goes on there; a
 * block that it gives back takes it up again, and at the bottom it begins at the top anew.
 *
 *   split      CAS page word: free → GRANULAR. Then granules are claimed, and the page is seen to be GRANULAR still.
 *   coalesce   CAS page word: GRANULAR → mine. Then its granules are seen to be free, or the page is made GRANULAR
 *              again. Either the one who splits sees the page gone, or the one who coalesces sees the granule owned.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "bitmap.h"
#include "core.h"

enum { MOST_ROOMY = 16 }; /* GRANULAR pages that are tried before another one is split */

/* Pages that a band may claim are searched in two stretches: the common pages, then the reserve as far as it is open. */
struct stretch {
    uint32_t first, end; /* pages */
    uint32_t *below;     /* a count of granules: the page below which the next search begins; 0: at the end */
};

static struct stretch common_stretch(struct rtmw_region *r)
{
    return (struct stretch){r->header->reserved_pages, r->header->pages, r->roomy_below[0]};
}

static struct stretch reserve_stretch(struct rtmw_region *r, uint32_t band)
{
    return (struct stretch){r->open_pages[band], r->header->reserved_pages, r->roomy_below[1]};
}

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

/* How many pages of the run were claimed: all, or all before the first that is not free, and none of them any more. */
static uint32_t claim_run(struct rtmw_region *r, uint32_t index, uint32_t first, uint32_t pages)
{
    struct descriptor *d = &r->descriptors[index];
    uint64_t mine = link_make(begin_tag(d), index);
    uint32_t claimed = 0;
    store_relaxed(&d->block_granule, first * GRANULES_A_PAGE);
    while (claimed < pages && claim_page(r, first + claimed, mine)) claimed++;
    if (claimed < pages) begin_tag(d);
    return claimed;
}

static bool page_looks_free(struct rtmw_region *r, uint32_t page)
{
    return !owner_is_live(r, load_seq(&r->pages[page])) && granules_are_free(r, page);
}

static bool page_looks_roomy(struct rtmw_region *r, uint32_t page)
{
    if (load_seq(&r->pages[page]) != GRANULAR) return false;
    for (uint32_t i = 0; i < GRANULES_A_PAGE; i++)
        if (!owner_is_live(r, load_seq(&r->granules[(uint64_t)page * GRANULES_A_PAGE + i]))) return true;
    return false;
}

static void hint(struct rtmw_region *r, uint64_t *map, uint32_t page, bool (*looks)(struct rtmw_region *, uint32_t))
{
    if (!looks(r, page)) {
        bitmap_clear(map, page);
        if (!looks(r, page)) return;
    }
    bitmap_set(map, page);
}

/* The hints of a page are made true again. */
static void hint_page(struct rtmw_region *r, uint32_t page)
{
    hint(r, r->roomy_pages, page, page_looks_roomy); /* first, so that a page with room is in one of them at any time */
    hint(r, r->free_pages, page, page_looks_free);
}

static void set_free(struct rtmw_region *r, uint32_t first, uint32_t pages)
{
    for (uint32_t i = 0; i < pages; i++) bitmap_set(r->free_pages, first + i);
}

/* They are mine: nobody else says that they are free before I give them back. */
static void clear_free(struct rtmw_region *r, uint32_t first, uint32_t pages)
{
    for (uint32_t i = 0; i < pages; i++) {
        bitmap_clear(r->free_pages, first + i);
        bitmap_clear(r->roomy_pages, first + i);
    }
}

/* A run that its hints call free. false: one page is not; its hints are true again. */
static bool take_run(struct rtmw_region *r, uint32_t index, uint32_t first, uint32_t pages)
{
    uint32_t claimed = claim_run(r, index, first, pages);
    if (claimed < pages) {
        set_free(r, first, claimed); /* they were mine for a moment, in which somebody may have cleared their hints */
        return hint_page(r, first + claimed), false;
    }
    store_relaxed(&r->descriptors[index].block_granules, pages * GRANULES_A_PAGE);
    clear_free(r, first, pages);
    return true;
}

static bool run_between(struct rtmw_region *r, uint32_t index, uint32_t pages, uint32_t from, uint32_t end)
{
    for (uint64_t at = from; (at = bitmap_run(r->free_pages, at, end, pages)) != BITMAP_END; at++)
        if (take_run(r, index, (uint32_t)at, pages)) return true;
    return false;
}

/* A run in what every band may claim; else one that may reach into the reserve. */
static bool allocate_pages(struct rtmw_region *r, uint32_t index, uint32_t pages, uint32_t band)
{
    uint32_t all = r->header->pages, common = r->header->reserved_pages, open = r->open_pages[band];
    return run_between(r, index, pages, common, all) || (open < common && run_between(r, index, pages, open, all));
}

/* The granules claimed of the page are free again. They were mine for a moment, in which somebody may have cleared
 * hints. */
static bool give_up(struct rtmw_region *r, struct descriptor *d, uint32_t page)
{
    begin_tag(d);
    hint_page(r, page);
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
        if (owner_is_live(r, word) || !cas64(&words[i], word, mine)) return give_up(r, d, page);
    }
    if (load_seq(&r->pages[page]) == GRANULAR) return true; /* pairs with claim_page */
    return give_up(r, d, page);
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
    uint32_t run = 0;
    for (uint32_t i = 0; i < GRANULES_A_PAGE; i++) {
        run = owner_is_live(r, load_relaxed(&r->granules[(uint64_t)page * GRANULES_A_PAGE + i])) ? 0 : run + 1;
        if (run == count && claim_granules(r, index, page, i + 1 - count, count)) {
            store_relaxed(&r->descriptors[index].block_granules, count);
            hint_page(r, page);
            return true;
        }
        if (run == count) run--;
    }
    return false;
}

/* In a page that is GRANULAR already: the next ones below where the last search for as many ended. */
static bool allocate_in_roomy(struct rtmw_region *r, uint32_t index, uint32_t count, struct stretch in)
{
    uint32_t *below = &in.below[count];
    bool anew = !*below || *below > in.end;
    uint64_t page = anew ? in.end : *below;
    for (uint32_t tried = 0; tried < MOST_ROOMY;) {
        page = bitmap_last(r->roomy_pages, in.first, page);
        if (page == BITMAP_END) {
            *below = 0;
            if (anew) return false;
            anew = true;
            page = in.end;
            continue;
        }
        tried++;
        *below = (uint32_t)page + 1;
        if (allocate_in_page(r, index, (uint32_t)page, count)) return true;
        *below = (uint32_t)page;
        if (!page_looks_roomy(r, (uint32_t)page)) hint_page(r, (uint32_t)page);
    }
    return false;
}

/* There is room again for as many granules as were given back. */
static void look_from(struct rtmw_region *r, uint32_t page, uint32_t granules)
{
    uint32_t *below = r->roomy_below[page < r->header->reserved_pages];
    for (uint32_t count = 1; count <= granules; count++)
        if (below[count] && below[count] <= page) below[count] = page + 1;
}

static bool allocate_in_new(struct rtmw_region *r, uint32_t index, uint32_t count, struct stretch in)
{
    uint64_t page = in.end;
    while ((page = bitmap_last(r->free_pages, in.first, page)) != BITMAP_END) {
        bool split = split_page(r, (uint32_t)page);
        if (split && allocate_in_page(r, index, (uint32_t)page, count)) return true;
        hint_page(r, (uint32_t)page);
    }
    return false;
}

/* The second look at those that have room: a page that was free at the first one may have been split meanwhile. */
static bool granules_from(struct rtmw_region *r, uint32_t index, uint32_t count, struct stretch in)
{
    return allocate_in_roomy(r, index, count, in) || allocate_in_new(r, index, count, in) ||
           allocate_in_roomy(r, index, count, in);
}

static bool allocate_granules(struct rtmw_region *r, uint32_t index, uint32_t count, uint32_t band)
{
    struct stretch reserve = reserve_stretch(r, band);
    return granules_from(r, index, count, common_stretch(r)) ||
           (reserve.first < reserve.end && granules_from(r, index, count, reserve));
}

bool block_allocate(struct rtmw_region *r, uint32_t index, uint64_t size, uint32_t band)
{
    uint64_t granules = (size + GRANULE - 1) / GRANULE, pages = (size + PAGE - 1) / PAGE;
    if (pages > r->header->pages) return false;
    bool done = granules < GRANULES_A_PAGE ? allocate_granules(r, index, (uint32_t)granules, band)
                                           : allocate_pages(r, index, (uint32_t)pages, band);
    if (done) fetch_add(&r->hints->granules_used, r->descriptors[index].block_granules);
    return done;
}

bool block_is_open(struct rtmw_region *r, struct descriptor *d, uint32_t band)
{
    uint64_t first = (uint64_t)r->open_pages[band] * GRANULES_A_PAGE;
    return load_relaxed(&d->block_granule) >= first;
}

void block_drop(struct rtmw_region *r, struct descriptor *d)
{
    uint32_t granules = d->block_granules, page = load_relaxed(&d->block_granule) / GRANULES_A_PAGE;
    store_relaxed(&d->block_granules, 0u);
    begin_tag(d); /* also without a block: its last owner may have died while claiming one */
    if (!granules || page >= r->header->pages) return;
    fetch_sub(&r->hints->granules_used, granules);
    uint32_t pages = granules / GRANULES_A_PAGE, left = r->header->pages - page;
    if (pages)
        set_free(r, page, pages < left ? pages : left);
    else
        hint_page(r, page), look_from(r, page, granules);
}

/* The block of one descriptor becomes that of another, which is LOANED by me and has none. Each page belongs to one of the
 * two all along, so that nobody else can claim it, and no hint calls it free. `from` says first that it has no block (see
 * finish_emptying), so after a death in between each of the two gives back the pages that name it. Only whole pages: else
 * the block is given back. */
void block_move(struct rtmw_region *r, struct descriptor *from, uint32_t to_index)
{
    struct descriptor *to = &r->descriptors[to_index];
    uint32_t granules = load_relaxed(&from->block_granules), first = load_relaxed(&from->block_granule);
    uint64_t pages = granules / GRANULES_A_PAGE, at = first / GRANULES_A_PAGE, all = r->header->pages;
    bool whole = (first | granules) % GRANULES_A_PAGE == 0 && at < all && pages <= all - at;
    if (!whole) return block_drop(r, from);
    store_relaxed(&from->block_granules, 0u);
    uint64_t mine = link_make(begin_tag(to), to_index);
    store_relaxed(&to->block_granule, first);
    for (uint64_t page = at; page < at + pages; page++) store_release(&r->pages[page], mine);
    begin_tag(from); /* after the pages: none is without an owner */
    store_relaxed(&to->block_granules, granules);
}

/* After a death: pages of which nobody knows that they are free. */
void recount_pages(struct rtmw_region *r)
{
    for (uint32_t page = 0; page < r->header->pages; page++) hint_page(r, page);
}

/* Below the low-water mark: less than an eighth of what this band may claim is free. */
bool descriptors_are_low(struct rtmw_region *r, uint32_t band)
{
    const struct header *h = r->header;
    int64_t open = h->descriptors - r->open_descriptors[band];
    return descriptors_used(r) > open - open / 8;
}

bool pool_is_low(struct rtmw_region *r, uint32_t band)
{
    const struct header *h = r->header;
    int64_t open = (int64_t)(h->pages - r->open_pages[band]) * GRANULES_A_PAGE;
    return descriptors_are_low(r, band) || (int64_t)load_relaxed(&r->hints->granules_used) > open - open / 8;
}

/* ======== mappings ======== */

/* The mappings of the region in this process: which it may write, which pages are there before they are needed, and how a
 * payload is copied into it. */

/* A page is mapped for writing when it is first written. Adding nothing is a write that changes nothing, also of a word
 * that another process is just writing. */
static void touch(void *base, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PAGE) fetch_add((uint64_t *)(void *)((uint8_t *)base + at), 0);
}

/* The first publisher of a process makes its mapping of the blocks writable. Lock held. */
bool memory_make_writable(struct rtmw_region *r)
{
    if (r->blocks_writable) return true;
    r->blocks_writable = mprotect(r->blocks, r->header->pool_bytes, PROT_READ | PROT_WRITE) == 0;
    if (r->blocks_writable && r->memory_locked) touch(r->blocks, r->header->pool_bytes);
    return r->blocks_writable;
}

static bool lock_all(struct rtmw_region *r)
{
    uint64_t refs = r->header->descriptors * sizeof *r->refs;
    if (mlock(r->control, r->header->control_bytes) || mlock(r->blocks, r->header->pool_bytes) || mlock(r->refs, refs))
        return false;
    touch(r->control, r->header->control_bytes);
    if (r->blocks_writable) touch(r->blocks, r->header->pool_bytes);
    return true;
}

static void unlock_all(struct rtmw_region *r)
{
    munlock(r->control, r->header->control_bytes);
    munlock(r->blocks, r->header->pool_bytes);
    munlock(r->refs, r->header->descriptors * sizeof *r->refs);
}

int rtmw_lock_memory(rtmw_region *r)
{
    int state = region_state(r);
    if (state != RTMW_OK) return state;
    lock_take(&r->lock);
    bool locked = r->memory_locked || lock_all(r);
    int failed = errno;
    if (!locked) unlock_all(r);
    r->memory_locked = locked;
    lock_give(&r->lock);
    errno = failed;
    return locked ? RTMW_OK : RTMW_SYSTEM;
}

typedef long long vector __attribute__((vector_size(16), may_alias));
typedef vector unaligned_vector __attribute__((aligned(1)));

/* Eight vectors. The target is aligned. */
static inline void copy_eight(void *to, const void *from)
{
    const unaligned_vector *f = from;
    vector *t = to, a = f[0], b = f[1], c = f[2], d = f[3], e = f[4], g = f[5], h = f[6], i = f[7];
    t[0] = a, t[1] = b, t[2] = c, t[3] = d, t[4] = e, t[5] = g, t[6] = h, t[7] = i;
}

static void copy_vectors(uint8_t *to, const uint8_t *from, uint64_t size)
{
    uint64_t done = 0, step = 8 * sizeof(vector);
    for (; size - done >= step; done += step) copy_eight(to + done, from + done);
    memcpy(to + done, from + done, size - done);
}

#if defined(__x86_64__)
#include <cpuid.h>

/* FSRM: this processor's own copy is fast for all sizes and alignments. */
static bool copies_by_itself(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 4);
}

/* The lines of the target are not fetched before they are written. */
static void copy_string(uint8_t *to, const uint8_t *from, uint64_t size)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}
#else
static bool copies_by_itself(void) { return false; }
#define copy_string copy_vectors
#endif

static bool has_copy;

__attribute__((constructor)) static void look_at_processor(void) { has_copy = copies_by_itself(); }

/* The libc's memcpy takes 1.04 to 1.5 times as long for the large body of a `bytes` object: that lies 48 bytes ahead of the
 * beginning of the page that it goes to, modulo 4,096. */
void copy_into_block(void *block, const void *data, uint64_t size)
{
    if (size < LARGE_COPY)
        memcpy(block, data, size);
    else if (has_copy)
        copy_string(block, data, size);
    else
        copy_vectors(block, data, size);
}
