/* How far RELIABLE lanes were carried, known to the next node when this one is killed: so that what is lost is told.
 *
 *   bus ─ number of the message in its lane ─► outbound ─ sequence ─► inbound ─ rtmw_publisher_lost ─► subscribers
 *              compared with number[]                      compared with sequence
 *
 * The table lies in a file in shared memory, which is named after the region and goes with it. A route writes its entry
 * as it sends or publishes. A node that follows finds it:
 *
 *   outbound  A route's subscriber begins behind a message with a number, in each band. No node has sent the messages
 *             between number[] and that one. The sequence of the first sample leaves as much out, and goes on where that
 *             of the last node ended. Messages that the bus could not keep since then, the subscriber has counted as
 *             missed.
 *   inbound   The first sample of a DDS writer has a sequence. Nobody has brought the messages between it and `sequence`.
 *
 * The gap is counted as lost if anybody here would have got it, and each RELIABLE subscriber that was open when the last
 * sample came counts it as missed. Messages that expired on the bus while no node lived are in the gap, too. A node that
 * is killed between writing a sample and its entry leaves a gap of at most BURST messages more than there was.
 *
 * A node that ends in order leaves no gap: its subscribers are parked (rtmw_subscriber_park), and those of the next node
 * begin where they ended.
 *
 * An entry is found by its key in the WINDOW places from that of its hash. Where all are taken, the one that was used
 * longest ago gives way, and of its lane no gap is told. A route that takes a place makes its key UNSET first: a node
 * that dies there leaves no key beside the words of another lane.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

enum { WINDOW = 16, UNSET = 2 }; /* keys are odd */

/* A full /dev/shm is an error here, and no SIGBUS later. posix_fallocate gives up for any signal. */
static int allocate(int fd, off_t size)
{
    int failed;
    do failed = posix_fallocate(fd, 0, size);
    while (failed == EINTR);
    return failed;
}

bool carried_open(struct engine *e, const char *path)
{
    size_t size = CARRIED * sizeof *e->carried;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    int failed = allocate(fd, (off_t)size);
    void *at = failed ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!failed && at == MAP_FAILED) failed = errno;
    close(fd);
    errno = failed;
    if (!failed) e->carried = at;
    return !failed;
}

void carried_close(struct engine *e)
{
    if (e->carried) munmap(e->carried, CARRIED * sizeof *e->carried);
    e->carried = NULL;
}

static uint64_t mix(uint64_t hash, uint64_t with) { return (hash ^ with) * UINT64_C(0x9E3779B97F4A7C15) ^ hash >> 29; }

static bool take_place(struct carried *c, uint64_t before, uint64_t key)
{
    if (!cas64(&c->key, before, UNSET)) return false;
    store_relaxed(&c->sequence, 0);
    store_relaxed(&c->at_ns, now_monotonic_ns());
    store_relaxed(&c->bands, 0u);
    store_release(&c->key, key);
    return true;
}

struct carried_place carried_find(struct engine *e, uint64_t topic, uint64_t origin)
{
    uint64_t key = mix(mix(mix(topic, e->wire_domain), origin), 1) | 1;
    struct carried *oldest = NULL;
    for (uint32_t n = 0; e->carried && n < WINDOW; n++) {
        struct carried *c = &e->carried[((key >> 40) + n) % CARRIED];
        uint64_t has = load_acquire(&c->key);
        if (has == key || (!has && take_place(c, 0, key))) return (struct carried_place){c, key};
        if (!oldest || load_relaxed(&c->at_ns) < load_relaxed(&oldest->at_ns)) oldest = c;
    }
    if (oldest && take_place(oldest, load_acquire(&oldest->key), key)) return (struct carried_place){oldest, key};
    return (struct carried_place){NULL, 0};
}

struct carried *carried_at(const struct carried_place *place)
{
    return place->entry && load_acquire(&place->entry->key) == place->key ? place->entry : NULL;
}

/* ---- outbound ---- */

/* Messages of a band that no node has sent before this route's subscriber begins. The table learns of a band that it does
 * not have yet; but where the subscriber begins in the past, not before a message of the band has left. */
static uint32_t gap_of(struct outbound *o, struct carried *c, uint32_t band)
{
    uint32_t begins = rtmw_subscriber_number(o->subscriber, (uint8_t)band);
    int32_t further = (int32_t)(begins - load_relaxed(&c->number[band]));
    if (load_relaxed(&c->bands) & (1u << band)) return further > 0 ? (uint32_t)further : 0;
    if (o->history) return 0;
    store_relaxed(&c->number[band], begins);
    store_release(&c->bands, load_relaxed(&c->bands) | 1u << band);
    return 0;
}

void carried_begin(struct outbound *o)
{
    if (!o->reliable || o->is_plain) return;
    o->resumes = o->sent == 0;
    o->carried = carried_find(o->engine, o->topic, 0);
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    if (load_relaxed(&c->sequence) > o->sent) o->ahead = load_relaxed(&c->sequence) - o->sent;
    for (uint32_t band = 0; band < BANDS; band++) o->ahead += gap_of(o, c, band);
}

/* A message that was published while no node lived is not old to those who read the lane before. */
static void renew(const struct outbound *o, const struct carried *c, rtmw_message *m)
{
    int32_t further = (int32_t)(m->number - load_relaxed(&c->number[m->priority]));
    if (o->resumes && (load_relaxed(&c->bands) & (1u << m->priority)) && further > 0) m->is_old = false;
}

static void count_missed(struct outbound *o)
{
    rtmw_subscriber_counters bus;
    rtmw_subscriber_count(o->subscriber, &bus);
    o->ahead += bus.missed - o->missed;
    o->missed = bus.missed;
}

void carried_take(struct outbound *o, rtmw_message *m)
{
    const struct carried *c = carried_at(&o->carried);
    if (c) renew(o, c, m);
    if (o->reliable) count_missed(o);
}

/* Messages that expired on the bus, or were thinned there, are to be missed by nobody. The sequence is written first: a
 * node that dies in between has told more, not less. */
void carried_reached(struct outbound *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    count_missed(o);
    if (load_relaxed(&c->sequence) != o->sent + o->ahead) carried_sent(o);
    for (uint32_t band = 0; band < BANDS; band++) {
        if (lookahead_count(&o->lookahead, band) || !(load_relaxed(&c->bands) & (1u << band))) continue;
        uint32_t number = rtmw_subscriber_number(o->subscriber, (uint8_t)band);
        if ((int32_t)(number - load_relaxed(&c->number[band])) > 0) store_relaxed(&c->number[band], number);
    }
}

void carried_pass(struct outbound *o, const rtmw_message *m)
{
    struct carried *c = carried_at(&o->carried);
    uint32_t bit = 1u << m->priority;
    if (!c) return;
    bool is_first = !(load_relaxed(&c->bands) & bit);
    if (!is_first && (int32_t)(m->number - load_relaxed(&c->number[m->priority])) < 0) return; /* a kept one, again */
    store_relaxed(&c->number[m->priority], m->number);
    if (is_first) store_release(&c->bands, load_relaxed(&c->bands) | bit);
}

void carried_sent(struct outbound *o)
{
    struct carried *c = carried_at(&o->carried);
    if (!c) return;
    store_relaxed(&c->sequence, o->sent + o->ahead);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}

/* ---- inbound ---- */

/* A counter that others may bring up by as much as they like. */
static void count_lost(uint64_t *counter, uint64_t by)
{
    uint64_t most = (uint64_t)INT64_MAX - load_relaxed(counter);
    count_up(counter, by < most ? by : most);
}

/* Messages that a node sent between its last sample and this one never came: DDS had less room for them, the link lost
 * them, or a node died with them. Subscribers know it before they get this one. Messages meant for nobody here are not
 * lost. They are counted once, whatever becomes of this sample: also when that waits for room, and is dropped then. */
void carried_gap(struct inbound *i, struct source *s, const struct trailer *trailer)
{
    uint64_t lost = s->is_node ? sequence_gap(s, trailer) : 0;
    if (!lost) return;
    const struct carried *carried = carried_at(&s->carried);
    uint64_t since = carried ? load_relaxed(&carried->at_ns) : now_monotonic_ns();
    if (rtmw_publisher_lost(i->publisher, lost, since)) count_lost(&i->lost, lost);
    s->passed = trailer->sequence - trailer_messages(trailer);
}

/* A sample that came before, by another writer of the lane, takes nothing back. */
void carried_received(struct source *s, uint64_t sequence)
{
    struct carried *c = carried_at(&s->carried);
    if (!c || sequence_is_repeated(load_relaxed(&c->sequence), sequence)) return;
    store_relaxed(&c->sequence, sequence);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}
