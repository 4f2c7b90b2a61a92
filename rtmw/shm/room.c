/* When a RELIABLE publisher must wait (requirement P5): a RELIABLE subscriber of its band has `depth` unread messages.
 *
 * Counted are the messages that this subscriber will get: offered to it (by counts, see standing.h), not expired, and not
 * thinned. Each band counts for itself, so that what is urgent never waits for what is not.
 *
 * A publisher asks only when what it found the last time is used up: `gate` is the sequence up to which nobody can be
 * full, since each message counts at most once. It is void when `epoch` changes: a subscriber has joined.
 *
 * A publisher that finds a full subscriber sees whether its program lives and its lease goes on, each time, whether it
 * waits afterwards or only tries. One such look asks the kernel about a bounded number of programs, and sweeps after one;
 * the next look goes on behind them. So n dead programs among m that are in the way are gone after n + m / 8 looks.
 */
#include <string.h>

#include "retention.h"
#include "topics.h"
#include "waiting.h"

enum { MOST_LOOKED_AT = 256, MOST_EXPELLED = 64 };
enum { MOST_ASKED = 128, ASKED_PART = 16 }; /* of a topic's subscribers in one look; all within SAME_WAIT */
enum { FOR_MEMORY = BANDS };                /* in place of a band */
enum { MOST_LIVES = 8 };                    /* programs that the kernel is asked about in one look */
enum { SAME_WAIT = 128 }; /* units of `stall`: between two looks of a publisher that waits, also on a loaded machine */

static bool waits_for(struct rtmw_publisher *p, struct subscriber_block *block)
{
    return load_relaxed(&block->reliability) == RTMW_RELIABLE &&
           types_match(p->block->type, load_relaxed(&block->type));
}

/* At most so many of a subscriber's unread messages come through its min_interval, for those lie so far apart. */
static uint64_t most_let_through(struct subscriber_block *block, struct rtmw_region *r, struct band *band, uint64_t now)
{
    uint64_t interval = load_relaxed(&block->min_interval_ns), accepted = load_relaxed(&block->accepted_ns);
    struct glimpse oldest;
    if (!interval) return UINT64_MAX;
    if (accepted) return now > accepted ? (now - accepted) / interval : 0;
    if (!glimpse_first(r, band, now, &oldest)) return UINT64_MAX;
    return now > oldest.published_ns ? (now - oldest.published_ns) / interval + 1 : 1;
}

/* The oldest of a band go while they have expired, as many as one look may: others need not be looked at again. */
static bool pass_expired(struct rtmw_publisher *p, uint32_t band)
{
    struct outlook o = outlook_begin(p->region, p->topic_index, band, LOOK_UNREAD); /* and what has not is all needed */
    struct passing which = {.now = monotonic_ns(), .granules = UINT64_MAX, .most = TRIM_MOST};
    return outlook_pass(p->region, &o, 1, &which) > 0;
}

/* Of the oldest messages in a band that this subscriber has not taken: how many have expired before it got them. */
static uint64_t expired_among(struct rtmw_region *r, struct band *band, struct subscriber_block *block,
                              uint32_t band_number)
{
    uint64_t now = monotonic_ns(), expired = 0, word = load_seq(&block->cursor[band_number]);
    uint64_t cursor = sequence_near(link_tag(word), band_tail_sequence(r, band));
    uint32_t wanted = wanted_by(band, block);
    struct glimpse g;
    bool found = glimpse_cursor(r, band, word, now, &g);
    for (uint32_t looked = 0; found && looked < MOST_LOOKED_AT; looked++) {
        expired += g.expired && g.sequence > cursor && (wanted >> g.offer & 1);
        found = glimpse_next(r, band, now, &g);
    }
    return expired;
}

/* Below 1: this subscriber is full. */
static int64_t room_of(struct rtmw_publisher *p, uint32_t band_number, struct subscriber_block *block)
{
    struct rtmw_region *r = p->region;
    struct band *band = &p->topic->band[band_number];
    int64_t depth = load_relaxed(&block->depth);
    uint64_t waiting = unread_in(r, band, block, load_seq(&block->taken[band_number])).waiting;
    if ((int64_t)waiting < depth) return depth - (int64_t)waiting;
    uint64_t most = most_let_through(block, r, band, monotonic_ns());
    if (most < waiting) waiting = most;
    if ((int64_t)waiting < depth) return depth - (int64_t)waiting;
    uint64_t expired = expired_among(r, band, block, band_number);
    return depth - (int64_t)(expired < waiting ? waiting - expired : 0);
}

/* Of the fullest subscriber, or 0: one was found full, and the others were not asked. */
static int64_t least_room(struct rtmw_publisher *p, uint32_t band)
{
    int64_t room = INT32_MAX;
    struct subscriber_block *block;
    for (uint32_t slot = 0; room > 0 && (block = next_subscriber(p->region, p->topic_index, &slot)); slot++) {
        if (!waits_for(p, block)) continue;
        int64_t left = room_of(p, band, block);
        if (left < room) room = left;
    }
    return room < 0 ? 0 : room;
}

/* Time between two looks that counts for a lease of so many units: none of a pause that is longer than the lease, for
 * nobody waited then, nor tried. */
static uint32_t counted(uint32_t passed, uint32_t lease)
{
    uint32_t longest = STALL_SEEN_MASK / 2, same = lease > longest ? longest : lease > SAME_WAIT ? lease : SAME_WAIT;
    return passed <= same ? passed : 0;
}

/* The value of `stall` after a look at a subscriber by a publisher that waits for it or was refused. It begins at 0 when the
 * subscriber has moved on. */
static uint64_t stall_after(uint64_t stall, uint32_t position, uint32_t now, uint32_t lease)
{
    uint32_t passed = (now - stall_seen(stall)) & STALL_SEEN_MASK, waited = stall_waited(stall);
    if (stall == 0 || stall_position(stall) != position) return stall_make(position, 0, now);
    if (passed > STALL_SEEN_MASK - SAME_WAIT) return stall; /* another publisher looked after I read the clock */
    waited += counted(passed, lease);
    return stall_make(position, waited < STALL_WAITED_MASK ? waited : STALL_WAITED_MASK, now);
}

static bool lapse(struct rtmw_region *r, uint32_t topic, uint32_t slot, uint64_t word)
{
    if (!cas64(&r->subscriber_words[slot], word, (word & ~UINT64_C(15)) | SLOT_LAPSED)) return false;
    fetch_add(&r->topics[topic].epoch, 1u);
    topic_unpin(r, topic);
    wake_subscribers(r, &r->topics[topic], topic);
    return true;
}

/* A subscriber that stands still while a publisher waits for it: where, and for how long. One word, so that what two
 * publishers write about it never mixes. true: its lease has run out, and nobody waits for it any more. */
static bool watch(struct rtmw_region *r, uint32_t topic, uint32_t slot, uint64_t word)
{
    struct subscriber_block *block = &r->subscribers[slot];
    uint64_t lease_ns = load_relaxed(&block->lease_ns), units = (lease_ns >> 20) + 1, stall = load_seq(&block->stall);
    uint32_t position = 0, now = (uint32_t)(monotonic_ns() >> 20);
    uint32_t lease = units < STALL_WAITED_MASK ? (uint32_t)units : STALL_WAITED_MASK;
    if (!lease_ns) return false;
    for (uint32_t b = 0; b < BANDS; b++) position += (uint32_t)link_tag(load_seq(&block->cursor[b]));
    uint64_t seen = stall_after(stall, position & STALL_POSITION_MASK, now, lease);
    if (seen != stall && !cas64(&block->stall, stall, seen)) return false; /* another publisher sees to it */
    return stall_waited(seen) >= lease && lapse(r, topic, slot, word);
}

/* Memory is waited for from everybody who has something unread, on any topic; room only from the full ones of mine. */
static bool is_in_the_way(struct rtmw_publisher *p, uint32_t topic, struct subscriber_block *block, uint32_t band)
{
    struct topic *t = &p->region->topics[topic];
    if (load_relaxed(&block->reliability) != RTMW_RELIABLE || !load_relaxed(&t->reliable)) return false;
    if (band == FOR_MEMORY) return unread_by(p->region, t, block).waiting > 0;
    return topic == p->topic_index && waits_for(p, block) && room_of(p, band, block) <= 0;
}

static struct blocker blocker_at(struct rtmw_publisher *p, uint32_t slot, uint32_t topic, uint32_t band)
{
    struct rtmw_region *r = p->region;
    struct topic *t = &r->topics[topic];
    struct subscriber_block *block = &r->subscribers[slot];
    struct blocker found = {.topic = topic, .depth = load_relaxed(&block->depth), .is_full = band != FOR_MEMORY};
    found.owner = slot_owner(load_seq(&r->subscriber_words[slot]));
    found.unread = found.is_full ? unread_in(r, &t->band[band], block, load_seq(&block->taken[band])).waiting
                                 : unread_by(r, t, block).waiting;
    return found;
}

static uint32_t full_ones(struct rtmw_publisher *p, struct blocker *found, uint32_t most)
{
    uint32_t topic = p->topic_index, band = p->refused_band, count = 0;
    struct subscriber_block *block;
    for (uint32_t slot = 0; count < most && (block = next_subscriber(p->region, topic, &slot)); slot++)
        if (is_in_the_way(p, topic, block, band)) found[count++] = blocker_at(p, slot, topic, band);
    return count;
}

static uint32_t memory_keepers(struct rtmw_publisher *p, struct blocker *found, uint32_t most, uint32_t looks)
{
    struct rtmw_region *r = p->region;
    uint32_t top = load_seq(&r->hints->subscribers_top), count = 0;
    if (top > r->header->subscribers) top = r->header->subscribers;
    for (uint32_t looked = 0; looked < looks && looked < top && count < most; looked++) {
        uint32_t slot = (r->expel_scan + looked) % top;
        uint64_t word = load_seq(&r->subscriber_words[slot]);
        if (slot_state_of(word) != SLOT_ACTIVE || slot_topic(word) >= r->header->topics) continue;
        if (!is_in_the_way(p, slot_topic(word), &r->subscribers[slot], FOR_MEMORY)) continue;
        found[count++] = blocker_at(p, slot, slot_topic(word), FOR_MEMORY);
    }
    return count;
}

uint32_t blockers_of(struct rtmw_publisher *p, struct blocker *found, uint32_t most, uint32_t looks)
{
    struct rtmw_region *r = p->region;
    uint32_t count = 0;
    if (is_forked(r)) return 0;
    lock_take(&r->lock);
    if (p->lacked_memory == load_relaxed(&p->block->published) + 1)
        count = memory_keepers(p, found, most, looks);
    else if (p->qos.reliability == RTMW_RELIABLE)
        count = full_ones(p, found, most);
    lock_give(&r->lock);
    return count;
}

/* One look of a publisher at who is in its way. */
struct survey {
    struct rtmw_publisher *publisher;
    uint32_t band;        /* in which there is no room, or FOR_MEMORY */
    struct owners owners; /* of whom it was found out whether they live */
    uint32_t dead;        /* one that is dead, or NOBODY */
    bool cleared;         /* one that was in the way is so no more */
};

static bool look_is_over(const struct survey *look)
{
    int asked = __builtin_popcountll(look->owners.asked[0]) + __builtin_popcountll(look->owners.asked[1]);
    return look->dead != NOBODY || asked >= MOST_LIVES;
}

/* Looks at one subscriber slot. */
static void look_at(struct survey *look, uint32_t slot)
{
    struct rtmw_region *r = look->publisher->region;
    uint64_t word = load_seq(&r->subscriber_words[slot]);
    uint32_t topic = slot_topic(word);
    if (slot_state_of(word) != SLOT_ACTIVE || topic >= r->header->topics) return;
    if (slot_is_parked(word) && parked_end(r, slot, word)) {
        look->cleared = true;
        return;
    }
    if (!is_in_the_way(look->publisher, topic, &r->subscribers[slot], look->band)) return;
    if (watch(r, topic, slot, word)) look->cleared = true;
    if (owner_is_dead(r, slot_owner(word), &look->owners)) look->dead = slot_owner(word);
}

/* Some of the subscribers of its topic; the next look goes on behind them. */
static void look_at_mine(struct survey *look, uint32_t top)
{
    struct rtmw_publisher *p = look->publisher;
    uint32_t most = top / ASKED_PART > MOST_ASKED ? top / ASKED_PART : MOST_ASKED, first = p->expel_scan, slot = first;
    bool anew = false;
    for (uint32_t looked = 0; looked < most && !look_is_over(look); slot++, looked++) {
        bool found = next_subscriber(p->region, p->topic_index, &slot);
        if (!found && !anew) anew = true, slot = 0, found = next_subscriber(p->region, p->topic_index, &slot);
        if (!found || (anew && slot >= first)) break;
        look_at(look, slot);
    }
    p->expel_scan = slot;
}

/* Who is in the way and dead is swept after, and who stands still for its lease lapses. true: of one of them. */
static bool expel(struct rtmw_publisher *p, uint32_t band)
{
    struct rtmw_region *r = p->region;
    struct survey look = {.publisher = p, .band = band, .dead = NOBODY};
    uint32_t top = load_seq(&r->hints->subscribers_top);
    if (top > r->header->subscribers) top = r->header->subscribers;
    if (band != FOR_MEMORY) look_at_mine(&look, top);
    for (uint32_t i = 0; band == FOR_MEMORY && i < top && i < MOST_EXPELLED && !look_is_over(&look); i++)
        look_at(&look, r->expel_scan++ % top); /* the next look goes on behind them */
    if (look.dead != NOBODY && sweep_if_dead(r, look.dead)) look.cleared = true;
    return look.cleared;
}

void expel_for_memory(struct rtmw_publisher *p) { expel(p, FOR_MEMORY); }

uint32_t room_for_reliable(struct rtmw_publisher *p, uint32_t band)
{
    uint32_t epoch = load_seq(&p->topic->epoch);
    uint64_t tail = link_tag(load_seq(&p->topic->band[band].tail)), left = (p->gate[band] - tail) & TAG_MASK;
    if (epoch == p->gate_epoch && left && left <= INT32_MAX) return (uint32_t)left;
    if (epoch != p->gate_epoch) memset(p->gate, 0, sizeof p->gate);
    int64_t room = least_room(p, band);
    if (!room && pass_expired(p, band)) room = least_room(p, band);
    if (!room && expel(p, band)) room = least_room(p, band);
    p->gate_epoch = epoch;
    p->gate[band] = (tail + (uint64_t)room) & TAG_MASK;
    return (uint32_t)room;
}
