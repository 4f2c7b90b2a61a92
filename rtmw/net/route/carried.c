/* The table of how far lanes were carried (../dds/engine.h, ../link/link.h): a file in shared memory, which is
 * named after the region and goes with it. An entry is found by its key in the WINDOW places from that of its hash. Where all
 * are taken, the one that was used longest ago gives way, and of its lane no gap is told. A route that takes a place makes its
 * key UNSET first: a node that dies there leaves no key beside the words of another lane.
 */
#include "carried.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../shm/atomics.h"
#include "../../shm/trusted.h"
#include "now.h"

enum { WINDOW = 16, UNSET = 2 }; /* keys are odd */

/* A full /dev/shm is an error here, and no SIGBUS later. posix_fallocate gives up for any signal. */
static int allocate(int fd, off_t size)
{
    int failed;
    do failed = posix_fallocate(fd, 0, size);
    while (failed == EINTR);
    return failed;
}

struct carried *carried_map(const char *path)
{
    size_t size = CARRIED * sizeof(struct carried);
    int fd = open_trusted(path, O_RDWR);
    if (fd < 0 && errno == ENOENT) fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return NULL;
    int failed = allocate(fd, (off_t)size);
    void *at = failed ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!failed && at == MAP_FAILED) failed = errno;
    close(fd);
    errno = failed;
    return failed ? NULL : at;
}

void carried_unmap(struct carried *table)
{
    if (table) munmap(table, CARRIED * sizeof *table);
}

static bool take_place(struct carried *c, uint64_t before, uint64_t key)
{
    if (!cas64(&c->key, before, UNSET)) return false;
    store_relaxed(&c->sequence, 0);
    store_relaxed(&c->at_ns, now_monotonic_ns());
    store_relaxed(&c->bands, 0u);
    store_release(&c->key, key);
    return true;
}

struct carried_place carried_place_of(struct carried *table, uint64_t key)
{
    struct carried *oldest = NULL;
    for (uint32_t n = 0; table && n < WINDOW; n++) {
        struct carried *c = &table[((key >> 40) + n) % CARRIED];
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

/* Messages of a band that no node has sent before a route's subscriber begins. The table learns of a band that it does not have
 * yet; but where the subscriber begins in the past, not before a message of the band has left. */
static uint32_t gap_of(struct carried *c, rtmw_subscriber *subscriber, uint32_t band, bool begins_in_the_past)
{
    uint32_t begins = rtmw_subscriber_number(subscriber, (uint8_t)band);
    int32_t further = (int32_t)(begins - load_relaxed(&c->number[band]));
    bool is_known = load_relaxed(&c->bands) & (1u << band);
    if (is_known && (further >= 0 || begins_in_the_past)) return further > 0 ? (uint32_t)further : 0;
    if (begins_in_the_past) return 0; /* else it is new, or of another life of the topic */
    store_relaxed(&c->number[band], begins);
    store_release(&c->bands, load_relaxed(&c->bands) | 1u << band);
    return 0;
}

uint64_t carried_not_sent(struct carried *c, rtmw_subscriber *subscriber, bool begins_in_the_past)
{
    uint64_t sum = 0;
    for (uint32_t band = 0; band < BANDS; band++) sum += gap_of(c, subscriber, band, begins_in_the_past);
    return sum;
}

bool carried_is_new(const struct carried *c, const rtmw_message *m)
{
    int32_t further = (int32_t)(m->number - load_relaxed(&c->number[m->priority]));
    return (load_relaxed(&c->bands) & (1u << m->priority)) && further > 0;
}

void carried_number(struct carried *c, const rtmw_message *m)
{
    uint32_t bit = 1u << m->priority;
    bool is_first = !(load_relaxed(&c->bands) & bit);
    if (!is_first && (int32_t)(m->number - load_relaxed(&c->number[m->priority])) < 0) return; /* a kept one, again */
    store_relaxed(&c->number[m->priority], m->number);
    if (is_first) store_release(&c->bands, load_relaxed(&c->bands) | bit);
}

void carried_come_to(struct carried *c, rtmw_subscriber *subscriber, uint32_t band)
{
    if (!(load_relaxed(&c->bands) & (1u << band))) return;
    uint32_t number = rtmw_subscriber_number(subscriber, (uint8_t)band);
    if ((int32_t)(number - load_relaxed(&c->number[band])) > 0) store_relaxed(&c->number[band], number);
}

/* ---- both ways ---- */

enum { ALL_BANDS = (1 << BANDS) - 1 };

/* Sequences count the messages of a lane as the bus numbers them, but for those that are to be missed by nobody. So the entries
 * of all ways and peers have one scale, and a receiver knows by its last message over one way what is missing before the first one
 * over another. */
void carried_align(struct carried *c, struct carried *lane, rtmw_subscriber *subscriber)
{
    uint64_t sum = 0;
    if (load_relaxed(&c->sequence) || load_relaxed(&c->bands)) return;
    for (uint32_t band = 0; band < BANDS; band++) sum += rtmw_subscriber_number(subscriber, (uint8_t)band);
    if (lane) {
        store_relaxed(&lane->at_ns, now_monotonic_ns());
        sum -= load_relaxed(&lane->sequence);
    }
    store_relaxed(&c->sequence, sum <= INT64_MAX ? sum : 0);
}

void carried_tell_lane(const struct carried *c, struct carried *lane)
{
    uint64_t sum = 0;
    if (!lane || load_relaxed(&c->bands) != ALL_BANDS) return;
    for (uint32_t band = 0; band < BANDS; band++) sum += load_relaxed(&c->number[band]);
    sum -= load_relaxed(&c->sequence);
    if (load_relaxed(&lane->sequence) != sum) store_relaxed(&lane->sequence, sum);
}
