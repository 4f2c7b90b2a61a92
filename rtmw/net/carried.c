/* How far RELIABLE lanes were carried, known to the next node when this one is killed: so that what is lost is told.
 *
 *   bus ─ number of the message in its lane ─► outbound ─ sequence ─► inbound ─ rtmw_publisher_lost ─► subscribers
 *              compared with number[]                      compared with sequence
 *
 * The table lies in a file in shared memory, which is named after the region and goes with it. A route writes its entry
 * as it sends or publishes. A node that follows finds it:
 *
 *   outbound  The first message of a band that a route takes has a number. What lies between it and number[], no node has
 *             sent. The sequence of its sample leaves as much out, and goes on where that of the last node ended.
 *   inbound   The first sample of a DDS writer has a sequence. What lies between it and `sequence`, nobody has brought.
 *
 * The gap is counted as lost, and each RELIABLE subscriber that was open when the last sample came counts it as missed.
 * What expired on the bus while no node lived is in the gap, too. A node that is killed between writing a sample and its
 * entry leaves a gap of at most BURST messages more than there was.
 *
 * An entry is found by its key in the WINDOW places from that of its hash. Where all are taken, the one that was used
 * longest ago gives way, and of its lane no gap is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

enum { WINDOW = 16 };

bool carried_open(struct engine *e, const char *path)
{
    size_t size = CARRIED * sizeof *e->carried;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    int failed = posix_fallocate(fd, 0, (off_t)size); /* a full /dev/shm is an error here, and no SIGBUS later */
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
    if (!cas64(&c->key, before, key)) return false;
    store_relaxed(&c->sequence, 0);
    store_relaxed(&c->at_ns, now_monotonic_ns());
    store_relaxed(&c->bands, 0u);
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

void carried_begin(struct outbound *o)
{
    if (!o->reliable || o->is_plain) return;
    o->resumes = o->sent == 0;
    o->carried = carried_find(o->engine, o->topic, 0);
    const struct carried *c = carried_at(&o->carried);
    if (c && load_relaxed(&c->sequence) > o->sent) o->ahead = load_relaxed(&c->sequence) - o->sent;
}

/* What was published while no node lived is not old to those who read the lane before. */
static void meet(struct outbound *o, const struct carried *c, rtmw_message *m)
{
    uint32_t bit = 1u << m->priority;
    if (!(load_relaxed(&c->bands) & bit)) return;
    int32_t further = (int32_t)(m->number - load_relaxed(&c->number[m->priority]));
    if (further > 0 && o->resumes) m->is_old = false;
    if (further > 1 && !(o->met & bit)) o->ahead += (uint32_t)further - 1;
}

void carried_take(struct outbound *o, rtmw_message *m)
{
    rtmw_subscriber_counters bus;
    const struct carried *c = carried_at(&o->carried);
    if (c) meet(o, c, m);
    if (!o->reliable) return;
    o->met |= 1u << m->priority;
    rtmw_subscriber_count(o->subscriber, &bus);
    o->ahead += bus.missed - o->missed;
    o->missed = bus.missed;
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

/* What a node sent between its last sample and this one never came: DDS had less room for it, the link lost it, or a node
 * died with it. Subscribers know it before they get this one. */
void carried_gap(struct inbound *i, const struct source *s, struct sample *sample, const struct trailer *trailer)
{
    uint64_t lost = s->is_node && !sample->is_counted ? sequence_gap(s, trailer) : 0;
    sample->is_counted = true;
    if (!lost) return;
    count_lost(&i->lost, lost);
    const struct carried *carried = carried_at(&s->carried);
    rtmw_publisher_lost(i->publisher, lost, carried ? load_relaxed(&carried->at_ns) : now_monotonic_ns());
}

void carried_received(struct source *s)
{
    struct carried *c = carried_at(&s->carried);
    if (!c) return;
    store_relaxed(&c->sequence, s->sequence);
    store_relaxed(&c->at_ns, now_monotonic_ns());
}
