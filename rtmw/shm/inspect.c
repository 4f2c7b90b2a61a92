/* What tools see of a region that is at work. They hold nothing, claim nothing and change nothing, so no publisher or
 * subscriber finds them in its way; and since all may change while it is read, what was read is validated afterwards.
 *
 *   peek_next            the messages of a queue, one by one, with the first bytes of each      rtmw topic peek, viewers
 *   topic_contents       how many there are of which types, and what they take of the pool      rtmw top
 *   *_fingerprint        one number that changes when anything comes or goes                    the node
 *   books_check          whether all that there is is accounted for                             rtmw doctor
 *   rtmw_describe        a code in words                                                        people
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "identity.h"
#include "inspect.h"
#include "queue.h"

/* ======== messages ======== */

/* Looking at the messages of a queue without holding them, for tools: nothing shared is written.
 *
 * A descriptor that is not held may begin another life at any moment. Its state then has another generation. So what was
 * read of it is the message if, and only if, the state has the same generation before and after, and names a message both
 * times. Fields are loaded with acquire, so that none is loaded after the second look at the state.
 */

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

/* ======== contents ======== */

/* Contents of the queues of a topic: how many messages, of which types, and how much of the pool they have.
 *
 * A queue is read without holding its messages, so that no publisher finds one held by an observer. A field that was
 * read belongs to the message if and only if head has not passed the sequence of the message after the read.
 */

enum { LOOKS_AT_A_QUEUE = 4 };

static void add_type(struct contents *contents, uint64_t type)
{
    for (uint32_t i = 0; i < contents->types; i++)
        if (contents->type[i] == type) return;
    if (contents->types < CONTENTS_TYPES) contents->type[contents->types++] = type;
}

/* Adds the messages of a band. false: head passed the walk; what was added was there, and more may be. */
static bool add_band(struct rtmw_region *r, struct band *band, struct contents *contents)
{
    uint64_t head = load_seq(&band->head), began = load_relaxed(&band->began);
    uint64_t sequence = sequence_near(link_tag(head), began);
    uint32_t index = link_index(head);
    for (uint32_t i = 0; index < r->header->descriptors && i < r->header->descriptors; i++) {
        struct descriptor *d = &r->descriptors[index];
        bool is_message = descriptor_is_message(d);
        uint64_t type = type_life(r, load_acquire(&d->type)); /* acquire: before head is read again */
        uint32_t granules = load_acquire(&d->block_granules);
        uint64_t next = load_acquire(&d->next), its_sequence = load_acquire(&d->sequence);
        if (sequence_near(link_tag(load_seq(&band->head)), sequence) > sequence) return false;
        if ((its_sequence ^ sequence) & TAG_MASK) break; /* somebody wrote over the links, which may lead in a circle */
        if (is_message && sequence > began) {
            contents->messages++;
            add_type(contents, type);
        }
        contents->bytes += (uint64_t)granules * GRANULE;
        index = link_index(next);
        sequence++;
    }
    return true;
}

/* Where head keeps passing the walk, as in a short queue of a fast publisher, the last look counts too few. */
void contents_count(struct rtmw_region *r, struct topic *topic, struct contents *contents)
{
    memset(contents, 0, sizeof *contents);
    for (uint32_t band = 0; band < BANDS; band++) {
        struct contents before = *contents;
        for (int look = 0; look < LOOKS_AT_A_QUEUE; look++) {
            contents->messages = before.messages;
            contents->bytes = before.bytes;
            if (add_band(r, &topic->band[band], contents)) break;
        }
    }
}

/* ======== fingerprints ======== */

/* One number for all endpoints, and one for all participants, for programs that look again and again whether anything has
 * changed: the node, say. Two equal numbers mean that nothing has come or gone in between, but for one chance in 2^64.
 *
 * The words of slots carry generations, so an endpoint that has gone and come again changes the number too. The words do
 * not carry the limits of a subscriber, which may change while it is open (rtmw_subscriber_adjust).
 */

#define FIRST UINT64_C(0x9E3779B97F4A7C15)

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xBF58476D1CE4E5B9);
    return hash ^ (hash >> 29);
}

static uint64_t mix_limits(uint64_t hash, const struct subscriber_block *s)
{
    return mix(mix(hash, load_relaxed(&s->depth)), load_relaxed(&s->min_interval_ns));
}

uint64_t endpoints_fingerprint(struct rtmw_region *r)
{
    uint64_t hash = FIRST;
    uint32_t publishers = load_seq(&r->hints->publishers_top), subscribers = load_seq(&r->hints->subscribers_top);
    for (uint32_t i = 0; i < publishers && i < r->header->publishers; i++)
        hash = mix(hash, load_seq(&r->publisher_words[i]));
    for (uint32_t i = 0; i < subscribers && i < r->header->subscribers; i++) {
        uint64_t word = load_seq(&r->subscriber_words[i]);
        hash = mix(hash, word);
        if (slot_state_of(word) >= SLOT_ACTIVE) hash = mix_limits(hash, &r->subscribers[i]);
    }
    return mix(hash, ((uint64_t)publishers << 32) | subscribers);
}

uint64_t participants_fingerprint(struct rtmw_region *r)
{
    uint64_t hash = FIRST;
    for (uint32_t i = 0; i < PARTICIPANTS; i++) hash = mix(hash, load_seq(&r->participants[i].word));
    return hash;
}

/* ======== books ======== */

/* The books: every descriptor, page and granule is in exactly one place, and the holders are known.
 *
 * A region at work moves while it is examined. So what does not add up is looked at again, and only what is wrong in
 * each of several looks, the same way, is called a problem.
 */

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

/* ======== codes in words ======== */

const char *rtmw_describe(int code)
{
    static const char *const sentences[] = {
        [RTMW_OK] = "done",
        [RTMW_EMPTY] = "there is nothing to take",
        [RTMW_FULL] = "the queue of a RELIABLE subscriber is full",
        [RTMW_NO_MEMORY] = "no descriptor or block is free, and none may be evicted",
        [RTMW_TIMEOUT] = "the time is up",
        [RTMW_DEADLINE] = "the deadline passed without a message",
        [RTMW_INTERRUPTED] = "a signal came, or another thread woke it",
        [RTMW_LAPSED] = "the lease of this RELIABLE subscriber ran out",
        [RTMW_CLOSED] = "the handle was closed",
        [RTMW_TOO_LARGE] = "larger than the pool",
        [RTMW_BAD_NAME] = "not a topic name: empty, longer than 191 bytes, or with control characters, *, ? or [",
        [RTMW_BAD_QOS] = "a priority above 7, an unknown reliability, or a depth of 0",
        [RTMW_NO_PARTICIPANT_SLOT] = "every participant slot is taken by a living process",
        [RTMW_NO_TOPIC_SLOT] = "every topic slot is taken",
        [RTMW_NO_ENDPOINT_SLOT] = "every endpoint slot is taken by a living process",
        [RTMW_NO_TYPE_SLOT] = "every type slot is taken by a type that a publisher, a subscriber or a message has, or "
                              "is kept for this host",
        [RTMW_NOT_FOUND] = "there is no such domain",
        [RTMW_VERSION] = "the region was made by another version",
        [RTMW_DAMAGED] = "the region is half made, truncated, or contradicts itself",
        [RTMW_DENIED] = "the region belongs to another user",
        [RTMW_FORKED] = "the handle belongs to the parent process",
        [RTMW_SYSTEM] = "a system call failed",
        [RTMW_BAD_LOAN] = "this loan is not lent: it was published or dropped before, or was made larger",
        [RTMW_BAD_RELEASE] = "this process holds no such message: it was released before",
        [RTMW_EXISTS] = "there is such a domain already",
        [RTMW_NO_SPACE] = "/dev/shm has no room for it",
        [RTMW_BAD_SIZE] = "a pool has 64 KiB to 512 GiB, and a reserve half of it at most",
        [RTMW_NO_TYPE] = "there is no such type",
        [RTMW_SWEPT] = "another process took this one for dead, because its file descriptor of the region was closed",
        [RTMW_NO_LOCKS] = "the kernel or a sandbox refuses locks of the region's file",
        [RTMW_OBSERVER] = "this attachment is one to look on",
        [RTMW_AGAIN] = "messages that this subscriber does not get were passed over; the next call goes on behind them",
        [RTMW_OTHER_TIME] = "the monotonic clock of this process is not the region's: they are of two time namespaces",
        [RTMW_BAD_TIMES] = "a min_interval longer than the deadline, or a lease without RELIABLE",
    };
    bool known = code >= 0 && (size_t)code < sizeof sentences / sizeof *sentences;
    return known ? sentences[code] : "unknown code";
}

static const char *advice_on(int number)
{
    switch (number) {
    case EMFILE:
        return ": this process has as many open files as it may; raise the limit (ulimit -n), or close some";
    case ENFILE:
        return ": this host has as many open files as it may; raise the limit (sysctl fs.file-max)";
    case ENOMEM:
        return ": free memory, or raise the limit of this process (ulimit -v) or of its container";
    case EAGAIN:
        return ": end threads or processes, or raise the limit (ulimit -u)";
    case EACCES:
    case EPERM:
        return ": permit it in the sandbox that this process runs in (seccomp, AppArmor, SELinux)";
    default:
        return "";
    }
}

const char *rtmw_explain(int code, int number, char *text, size_t size)
{
    bool is_system = code == RTMW_SYSTEM || code == RTMW_NO_LOCKS;
    errno = number; /* for %m */
    if (is_system && number)
        snprintf(text, size, "%s: %m%s", rtmw_describe(code), advice_on(number));
    else
        snprintf(text, size, "%s", rtmw_describe(code));
    return text;
}
