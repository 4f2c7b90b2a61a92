/* The books: every descriptor, page and granule is in exactly one place, and the holders are known.
 *
 * A region at work moves while it is examined. So what does not add up is looked at again, and only what is wrong in
 * each of several looks, the same way, is called a problem.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "books.h"
#include "fnv.h"
#include "standing.h"
#include "topics.h"

enum { LOOKS = 4, PAUSE_NS = 2000000 };

/* Findings of one look: a set of hashes of complaints, so that the next look can confirm them. */
struct look {
    struct rtmw_region *region;
    struct books *books;
    const struct look *before; /* NULL: the first */
    uint64_t complaints[BOOKS_PROBLEMS];
    uint32_t count;
    uint8_t *queued; /* a byte a descriptor: 1 reached from a head */
    uint8_t *moving; /* a byte a topic, a bit a band: its head moved during the walk, so not all was reached */
};

/* `life` tells two lives of a descriptor apart, of which the text names only the index. */
static void complain(struct look *look, uint64_t life, const char *text)
{
    uint64_t hash = fnv1a_text(FNV_BASIS ^ life, text);
    bool seen_before = look->before == NULL;
    for (uint32_t i = 0; look->before && i < look->before->count; i++)
        seen_before |= look->before->complaints[i] == hash;
    if (!seen_before || look->count == BOOKS_PROBLEMS) return;
    snprintf(look->books->problem[look->count], BOOKS_TEXT, "%s", text);
    look->complaints[look->count++] = hash;
}

#define COMPLAIN_OF(look, life, ...)                \
    do {                                            \
        char text_[BOOKS_TEXT];                     \
        snprintf(text_, sizeof text_, __VA_ARGS__); \
        complain(look, life, text_);                \
    } while (0)
#define COMPLAIN(look, ...) COMPLAIN_OF(look, 0, __VA_ARGS__)

/* Each message's standing is that of the one before it plus itself. */
static void check_standing(struct look *look, struct descriptor *d, const struct standing *before)
{
    struct standing at = standing_before(d);
    bool same = true;
    for (uint32_t i = 0; before && i < OFFERS; i++) same &= at.count[i] == before->count[i];
    if (!same)
        COMPLAIN_OF(look, load_relaxed(&d->state), "sequence %llu miscounts the messages of an offer before it",
                    (unsigned long long)load_relaxed(&d->sequence));
}

static void walk_band(struct look *look, uint32_t topic, uint32_t band)
{
    struct rtmw_region *r = look->region;
    struct band *b = &r->topics[topic].band[band];
    uint64_t head = load_seq(&b->head);
    uint32_t index = link_index(head);
    uint64_t sequence = link_tag(head);
    struct standing before = {0};
    for (uint64_t i = 0; index != NIL; i++) { /* to the last one linked, which tail may not name yet */
        struct descriptor *d = descriptor_at(r, index);
        if (load_seq(&b->head) != head) { /* the next look may be luckier */
            look->moving[topic] |= 1u << band;
            return;
        }
        if (!d || i > r->header->descriptors) {
            COMPLAIN(look, "topic %.*s, band %u: the queue is broken after %llu messages", NAME_BYTES,
                     r->topics[topic].name, band, (unsigned long long)i);
            return;
        }
        if ((load_relaxed(&d->sequence) & TAG_MASK) != ((sequence + i) & TAG_MASK))
            COMPLAIN_OF(look, load_relaxed(&d->state), "topic %.*s, band %u: sequence %llu is out of place", NAME_BYTES,
                        r->topics[topic].name, band, (unsigned long long)load_relaxed(&d->sequence));
        check_standing(look, d, i ? &before : NULL);
        before = standing_of(d);
        look->queued[index] = 1;
        index = link_index(load_seq(&d->next));
    }
}

static bool is_present(struct rtmw_region *r, uint32_t slot)
{
    return slot < PARTICIPANTS && participant_state_of(load_seq(&r->participants[slot].word)) != ABSENT;
}

static void check_holders(struct look *look, uint32_t index, struct descriptor *d)
{
    for (uint32_t slot = 0; slot < PARTICIPANTS; slot++)
        if ((load_seq(&d->holders[slot >> 6]) >> (slot & 63) & 1) && !is_present(look->region, slot))
            COMPLAIN(look, "descriptor %u is held by participant %u, which is not there", index, slot);
}

static bool may_be_in_its_queue(struct look *look, struct descriptor *d)
{
    uint64_t place = load_relaxed(&d->place);
    uint32_t topic = place_topic(place), band = place_band(place);
    return topic < look->region->header->topics && band < BANDS && (look->moving[topic] >> band & 1);
}

static void check_descriptor(struct look *look, uint32_t index)
{
    struct rtmw_region *r = look->region;
    struct descriptor *d = &r->descriptors[index];
    uint64_t state = load_seq(&d->state);
    bool held = (load_seq(&d->holders[0]) | load_seq(&d->holders[1])) != 0;
    check_holders(look, index, d);
    switch (state_kind(state)) {
    case FREE:
        look->books->free++;
        if (load_relaxed(&d->block_granules)) COMPLAIN_OF(look, state, "descriptor %u is free and has a block", index);
        if (held) COMPLAIN_OF(look, state, "descriptor %u is free and held", index);
        break;
    case LOANED:
    case APPENDING:
        look->books->loaned++;
        if (!is_present(r, state_owner(state)))
            COMPLAIN_OF(look, state, "descriptor %u is loaned to participant %u, which is not there", index,
                        state_owner(state));
        break;
    case QUEUED:
    case EMPTIED:
        if (!state_is_at_rest(state) && !is_present(r, state_owner(state)))
            COMPLAIN_OF(look, state, "descriptor %u is being emptied by participant %u, which is not there", index,
                        state_owner(state));
        if (look->queued[index])
            look->books->queued++;
        else if (descriptor_is_passed(r, d) && held)
            look->books->held++;
        else if (descriptor_is_passed(r, d))
            look->books->free++, look->books->granules_kept += load_relaxed(&d->block_granules);
        else if (!may_be_in_its_queue(look, d))
            COMPLAIN_OF(look, state, "descriptor %u is queued in no queue", index);
        break;
    default:
        COMPLAIN_OF(look, state, "descriptor %u is in no known state", index);
    }
}

/* Whose owner may be stopped in the middle of claiming the block or of giving it back. */
static bool is_at_work(struct descriptor *d)
{
    uint64_t state = load_seq(&d->state);
    return state_kind(state) == LOANED || (state_kind(state) == EMPTIED && !state_is_at_rest(state));
}

/* Every word that is owned lies in the block of its owner, and every block owns all of its words; but for a descriptor
 * that somebody is at work on. */
static void check_blocks(struct look *look)
{
    struct rtmw_region *r = look->region;
    uint64_t owned = 0, blocks = 0, all = (uint64_t)r->header->pages * GRANULES_A_PAGE;
    for (uint64_t g = 0; g < all; g++) {
        uint64_t page = load_seq(&r->pages[g / GRANULES_A_PAGE]), word = load_seq(&r->granules[g]);
        uint64_t owner = owner_is_live(r, page) ? page : owner_is_live(r, word) ? word : 0;
        struct descriptor *d = descriptor_at(r, link_index(owner));
        if (!owner || (d && is_at_work(d))) continue;
        owned++;
        uint64_t first = d ? load_relaxed(&d->block_granule) : 0, count = d ? load_relaxed(&d->block_granules) : 0;
        if (!d || g < first || g >= first + count)
            COMPLAIN(look, "granule %llu belongs to descriptor %u, whose block is elsewhere", (unsigned long long)g,
                     link_index(owner));
    }
    for (uint32_t i = 0; i < r->header->descriptors; i++) {
        uint32_t granules = load_relaxed(&r->descriptors[i].block_granules);
        look->books->granules_used += granules;
        if (!is_at_work(&r->descriptors[i])) blocks += granules;
    }
    if (owned != blocks)
        COMPLAIN(look, "blocks cover %llu granules, and %llu are owned", (unsigned long long)blocks,
                 (unsigned long long)owned);
}

static void check_endpoints(struct look *look)
{
    struct rtmw_region *r = look->region;
    for (uint32_t i = 0; i < r->header->publishers + r->header->subscribers; i++) {
        bool publisher = i < r->header->publishers;
        uint32_t slot = publisher ? i : i - r->header->publishers;
        uint64_t word = load_seq(publisher ? &r->publisher_words[slot] : &r->subscriber_words[slot]);
        bool is_nobodys = slot_state_of(word) == SLOT_FREE || (!publisher && slot_is_parked(word));
        if (!is_nobodys && !is_present(r, slot_owner(word)))
            COMPLAIN(look, "%s %u belongs to participant %u, which is not there",
                     publisher ? "publisher" : "subscriber", slot, slot_owner(word));
    }
}

static void take_look(struct look *look)
{
    struct books *books = look->books;
    memset(books, 0, sizeof *books);
    memset(look->queued, 0, books_marks(look->region));
    for (uint32_t topic = 0; topic < look->region->header->topics; topic++)
        for (uint32_t band = 0; band < BANDS; band++) walk_band(look, topic, band);
    for (uint32_t index = 0; index < look->region->header->descriptors; index++) check_descriptor(look, index);
    check_blocks(look);
    check_endpoints(look);
    books->problems = look->count;
}

size_t books_marks(struct rtmw_region *r) { return (size_t)r->header->descriptors + r->header->topics; }

/* `marks`: books_marks() bytes, lent by the caller. The first are a byte a descriptor: 1 reached from a head. */
void books_examine(struct rtmw_region *r, struct books *books, uint8_t *marks)
{
    struct look looks[LOOKS];
    for (int i = 0; i < LOOKS; i++) {
        looks[i] = (struct look){.region = r,
                                 .books = books,
                                 .before = i ? &looks[i - 1] : NULL,
                                 .queued = marks,
                                 .moving = marks + r->header->descriptors};
        take_look(&looks[i]);
        if (looks[i].count == 0) return;
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
    }
}

/* Sweep after the dead and free what is passed; how many participants and descriptors. */
void books_repair(struct rtmw_region *r, uint32_t *swept, uint32_t *freed)
{
    lock_take(&r->lock);
    *swept = sweep_the_dead(r);
    *freed = reclaim_passed(r);
    lock_give(&r->lock);
}
