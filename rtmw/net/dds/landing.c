/* Landing: a large message of another node goes from the datagrams that brought it straight into the pool.
 *
 * The DDS library makes a sample of datagrams by a function that is named in a table of the sample's type. Before it is
 * called, `land` is (watch.c), which takes a loan for the message and makes a sample that has it; publishing is then no copy.
 * What is small, what no node has sent, what finds no room and what would have to wait is made by the library.
 *
 * It is called for all types, in threads that receive, and looks up whose type it is. A sample may outlive its route. So
 * what it needs, the publisher, is closed with the last of them.
 */
#include <stdlib.h>
#include <string.h>

#include "../../shm/crc32c.h"
#include "engine.h"

struct landing {
    struct landing *next;
    const struct ddsi_sertype *type;
    struct inbound *inbound; /* to be asked only while this is in the list */
    struct engine *engine;
    rtmw_publisher *publisher;
    uint32_t references; /* the route's, and each sample's */
};

struct landed {
    struct ddsi_serdata head;
    struct landing *landing;
    rtmw_loan loan; /* data NULL: it is no longer ours */
    size_t tail_size;
    uint8_t tail[AFTER_MOST];
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list, and the references */
static struct landing *landings;

static const struct ddsi_serdata_ops operations;

static struct landed *landed_of(const struct ddsi_serdata *d) { return (struct landed *)(uintptr_t)d; }

/* ---- a sample ---- */

static void let_go(struct landing *l)
{
    lock(&list_lock, LOCK_LEAF);
    bool is_last = --l->references == 0;
    unlock(&list_lock, LOCK_LEAF);
    if (!is_last) return;
    struct engine *e = l->engine;
    rtmw_publisher_close(l->publisher);
    free(l);
    fetch_sub(&e->landings, 1u);
}

static void give_back(struct ddsi_serdata *d)
{
    struct landed *s = landed_of(d);
    if (s->loan.data) rtmw_loan_drop(s->landing->publisher, &s->loan);
    if (s->landing) let_go(s->landing);
    free(s);
}

static uint32_t get_size(const struct ddsi_serdata *d)
{
    return (uint32_t)(OCTETS_HEADER + landed_of(d)->loan.size + landed_of(d)->tail_size);
}

/* The instance that all of them belong to. */
static struct ddsi_serdata *to_untyped(const struct ddsi_serdata *d)
{
    struct landed *s = keyless_new(sizeof *s, &operations, d->type, DDS_KEY);
    if (!s) abort(); /* the library has no way to hear of it, and does the same */
    return &s->head;
}

static const struct ddsi_serdata_ops operations = {
    .eqkey = keyless_are_equal,
    .get_size = get_size,
    .to_untyped = to_untyped,
    .free = give_back,
    .print = keyless_print,
    .get_keyhash = keyless_hash,
};

/* ---- out of datagrams ---- */

enum { PIECE = 12 << 10 }; /* bytes that are summed, and are copied while the nearest cache has them */

/* Copies bytes `from` to `end` of a sample, and adds them to a CRC; NULL: to none. Fragments come in order, and may overlap. false: some are missing. */
static bool gather(const struct ddsi_rdata *part, size_t from, size_t end, void *to, uint32_t *crc)
{
    for (size_t at = from; at < end;) {
        if (!part || part->begin > at) return false;
        if (part->end <= at) {
            part = part->next;
            continue;
        }
        const uint8_t *bytes = (const uint8_t *)(part->message + 1) + part->payload;
        size_t count = (part->end < end ? part->end : end) - at;
        if (crc && count > PIECE) count = PIECE;
        if (crc) *crc = crc32c(*crc, bytes + (at - part->begin), count);
        memcpy((uint8_t *)to + (at - from), bytes + (at - part->begin), count);
        at += count;
    }
    return true;
}

struct octets {
    uint8_t header[4];
    uint32_t length;
};

_Static_assert(sizeof(struct octets) == OCTETS_HEADER, "as outbound.c writes it");

/* What a node's single message says of itself. */
struct heading {
    struct octets octets;
    struct trailer trailer;
};

/* false: it is something else, or its lengths are not those of such a message. */
static bool read_heading(const struct ddsi_rdata *parts, size_t size, struct heading *h)
{
    uint8_t end[TRAILER_CRC + sizeof(struct trailer)];
    size_t left = size;
    if (size < sizeof h->octets + sizeof end || !gather(parts, 0, sizeof h->octets, &h->octets, NULL)) return false;
    if (h->octets.header[0] != 0 || h->octets.header[1] != 1 || !h->octets.length) return false;
    if (!gather(parts, size - sizeof end, size, end, NULL)) return false;
    return trailer_read(end + sizeof end, &left, &h->trailer) && h->trailer.version == TRAILER_VERSION &&
           left == sizeof h->octets + (size_t)h->octets.length;
}

/* Referenced, if it takes messages just now; else NULL. */
static struct landing *find(const struct ddsi_sertype *type)
{
    lock(&list_lock, LOCK_LEAF);
    struct landing *l = landings;
    while (l && l->type != type) l = l->next;
    if (l && (load_relaxed(&l->inbound->backlog.count) || load_relaxed(&l->inbound->heir))) l = NULL;
    if (l) l->references++;
    unlock(&list_lock, LOCK_LEAF);
    return l;
}

static bool fill(struct landed *s, const struct ddsi_rdata *parts, size_t size, const struct heading *h)
{
    size_t octets = h->octets.length, end = OCTETS_HEADER + octets;
    uint32_t crc = crc32c(0, &h->octets, sizeof h->octets);
    bool is_checked = trailer_is_checked(&h->trailer);
    if (!gather(parts, OCTETS_HEADER, end, s->loan.data, is_checked ? &crc : NULL)) return false;
    if (!gather(parts, end, size, s->tail, NULL)) return false;
    if (!is_checked) return true;
    return trailer_fits(crc32c(crc, s->tail, h->trailer.padding), s->tail + s->tail_size);
}

/* Gives the reference of `l` to the sample, or back. What was damaged on the way does not land: it is counted where the
 * library's sample of it is. */
static struct ddsi_serdata *make(struct landing *l, const struct ddsi_rdata *parts, size_t size,
                                 const struct heading *h)
{
    struct landed *s = keyless_new(sizeof *s, &operations, l->type, DDS_DATA);
    if (!s) return let_go(l), NULL;
    s->landing = l;
    s->tail_size = size - OCTETS_HEADER - h->octets.length;
    if (rtmw_loan_take(l->publisher, h->octets.length, &s->loan) != RTMW_OK) s->loan.data = NULL;
    if (s->loan.data && fill(s, parts, size, h)) return &s->head;
    give_back(&s->head);
    return NULL;
}

struct ddsi_serdata *land(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *parts, size_t size)
{
    struct heading h;
    if (kind != DDS_DATA || size < LENT_LEAST || !read_heading(parts, size, &h)) return NULL;
    struct landing *l = find(type);
    return l ? make(l, parts, size, &h) : NULL;
}

/* ---- a route ---- */

struct landing *landing_open(struct inbound *i)
{
    struct landing *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    *l = (struct landing){.inbound = i, .engine = i->engine, .publisher = i->publisher, .references = 1};
    fetch_add(&i->engine->landings, 1u);
    return l;
}

void landing_begin(struct landing *l)
{
    l->type = l->inbound->type;
    if (l->inbound->framing != FRAMING_OCTETS || !l->type) return;
    lock(&list_lock, LOCK_LEAF);
    l->next = landings;
    landings = l;
    unlock(&list_lock, LOCK_LEAF);
}

void landing_close(struct landing *l)
{
    lock(&list_lock, LOCK_LEAF);
    for (struct landing **link = &landings; *link; link = &(*link)->next)
        if (*link == l) {
            *link = l->next;
            break;
        }
    unlock(&list_lock, LOCK_LEAF);
    let_go(l);
}

/* ---- to the bus ---- */

rtmw_loan *landed_loan(const struct inbound *i, const struct ddsi_serdata *d)
{
    return i->may_land && d->operations == &operations ? &landed_of(d)->loan : NULL;
}

struct iovec landed_tail(const struct inbound *i, const struct ddsi_serdata *d)
{
    if (!landed_loan(i, d)) return (struct iovec){0};
    return (struct iovec){landed_of(d)->tail, landed_of(d)->tail_size};
}
