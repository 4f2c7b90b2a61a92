/* Which topics have messages that may give way: where eviction.c looks.
 *
 * Topics are found through a bitmap a band: `evictable`, a bit a topic, beside a bit a band in the topic itself.
 *
 *   appender     links, then looks at the topic's bit; if it is clear: sets it, then the bitmap's
 *   evictor      found nothing that may go: sets `pinned` if RELIABLE subscribers need what is there; clears the
 *                bitmap's bit, then the topic's; looks again, and sets both when something may go
 *   subscriber   moves its cursor or leaves, then looks at `pinned`; if it is set: clears it, and sets both bits
 *
 * A process that changes something sets bits after the change, and the evictor looks after it has cleared them: one of the
 * two sees the other (all are sequentially consistent). A death in between is mended by the sweep, which sets them all.
 *
 * An evictor that is stopped while it clears leaves the bitmap's bit clear and the topic's set; a subscriber that is stopped
 * between its two steps leaves `pinned`. So a publisher that is refused repairs some of both, in turn.
 */
#include "bitmap.h"
#include "retention.h"

enum { REPAIRS = 64 }; /* topics */

uint64_t *evictable_map(struct rtmw_region *r, uint32_t band)
{
    return r->evictable + band * BITMAP_WORDS(r->header->topics);
}

void evictable_mark(struct rtmw_region *r, uint32_t topic, uint32_t band)
{
    fetch_or(&r->topics[topic].evictable, 1u << band);
    bitmap_set(evictable_map(r, band), topic);
}

void topic_unpin(struct rtmw_region *r, uint32_t topic)
{
    uint32_t bands = exchange(&r->topics[topic].pinned, 0u);
    for (uint32_t band = 0; band < BANDS; band++)
        if (bands & (1u << band)) evictable_mark(r, topic, band);
}

/* After a death: marks all that the dead may have been about to mark. */
void evictable_recount(struct rtmw_region *r)
{
    for (uint32_t topic = 0; topic < load_seq(&r->hints->topics_top) && topic < r->header->topics; topic++)
        for (uint32_t band = 0; band < BANDS; band++)
            if (load_seq(&r->topics[topic].bands) & (1u << band)) evictable_mark(r, topic, band);
}

/* Bits over which somebody was stopped: between clearing the one and the other, or after it moved on in a topic that is
 * pinned. The latter looks like any that is pinned, so it is one at a time that is looked at again. */
void evictable_repair(struct rtmw_region *r)
{
    uint32_t topics = load_seq(&r->hints->topics_top);
    if (topics > r->header->topics) topics = r->header->topics;
    if (topics) topic_unpin(r, r->unpin_scan++ % topics);
    for (uint32_t looked = 0; looked < REPAIRS && looked < topics; looked++) {
        uint32_t topic = r->repair_scan < topics ? r->repair_scan : 0;
        uint32_t named = load_seq(&r->topics[topic].evictable) & ((1u << BANDS) - 1);
        for (; named; named &= named - 1) bitmap_set(evictable_map(r, (uint32_t)__builtin_ctz(named)), topic);
        r->repair_scan = topic + 1;
    }
}
