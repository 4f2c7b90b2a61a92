/* Receive into a loan: a large message of another node is copied once, from its datagrams into a loan of the pool, which
 * is then published.
 *
 * The DDS library makes samples of datagrams with a function from the table of the sample's type. `receive_in_loan` is
 * called in its place (watch.c), and makes a sample that owns the loan. The library makes the sample if and only if
 * `receive_in_loan` returns NULL: (1) the message is small; (2) no node has sent it; (3) the pool has no room for it; (4)
 * its route keeps earlier messages that wait for room, or hands over to another; (5) it is damaged.
 *
 * `receive_in_loan` is called for all types, in the threads of the library that receive, and finds the route by the type.
 * A sample may outlive its route. So a `loan_receiver` has a reference for the route and one for each sample, and the
 * last to end closes the publisher.
 */
#include <stdlib.h>
#include <string.h>

#include "../../shm/crc32c.h"
#include "engine.h"

struct loan_receiver {
    struct loan_receiver *next;
    const struct ddsi_sertype *type;
    struct inbound *inbound; /* valid only while this is in the list */
    struct engine *engine;
    rtmw_publisher *publisher;
    uint32_t references; /* the route has one, and each sample */
};

struct loan_sample {
    struct ddsi_serdata head;
    struct loan_receiver *receiver;
    rtmw_loan loan; /* data NULL: published, or never taken */
    size_t tail_size;
    uint8_t tail[AFTER_MOST];
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list, and the references */
static struct loan_receiver *receivers;

static const struct ddsi_serdata_ops received_operations;

static struct loan_sample *loan_sample_of(const struct ddsi_serdata *d) { return (struct loan_sample *)(uintptr_t)d; }

/* ---- a sample ---- */

static void unreference(struct loan_receiver *l)
{
    lock(&list_lock, LOCK_LEAF);
    bool is_last = --l->references == 0;
    unlock(&list_lock, LOCK_LEAF);
    if (!is_last) return;
    struct engine *e = l->engine;
    rtmw_publisher_close(l->publisher);
    free(l);
    fetch_sub(&e->loan_receivers, 1u);
}

static void drop(struct ddsi_serdata *d)
{
    struct loan_sample *s = loan_sample_of(d);
    if (s->loan.data) rtmw_loan_drop(s->receiver->publisher, &s->loan);
    if (s->receiver) unreference(s->receiver);
    free(s);
}

static uint32_t received_size(const struct ddsi_serdata *d)
{
    return (uint32_t)(OCTETS_HEADER + loan_sample_of(d)->loan.size + loan_sample_of(d)->tail_size);
}

/* The key of a sample: that of the one instance of a topic without keys. */
static struct ddsi_serdata *received_to_untyped(const struct ddsi_serdata *d)
{
    struct loan_sample *s = keyless_new(sizeof *s, &received_operations, d->type, DDS_KEY);
    if (!s) abort(); /* the interface has no error, and the library aborts, too */
    return &s->head;
}

static const struct ddsi_serdata_ops received_operations = {
    .eqkey = keyless_are_equal,
    .get_size = received_size,
    .to_untyped = received_to_untyped,
    .free = drop,
    .print = keyless_print,
    .get_keyhash = keyless_hash,
};

/* ---- out of datagrams ---- */

enum { PIECE = 12 << 10 }; /* bytes of which the CRC is computed, and which are copied while the L1 cache has them */

/* Copies bytes `from` to `end` of a sample. `crc`: covers them, too, afterwards; NULL: none is computed. Fragments are in the
 * order of their offsets, and may overlap. false: bytes are missing. */
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

/* The bytes before and behind the single message of a node's sample. */
struct heading {
    struct octets octets;
    struct trailer trailer;
};

/* false: the sample is not a node's single message, or its lengths contradict each other. */
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

/* The caller's reference to the receiver of this type. NULL: there is none, or the route's messages have to wait. */
static struct loan_receiver *find(const struct ddsi_sertype *type)
{
    lock(&list_lock, LOCK_LEAF);
    struct loan_receiver *l = receivers;
    while (l && l->type != type) l = l->next;
    if (l && (load_relaxed(&l->inbound->backlog.count) || load_relaxed(&l->inbound->heir))) l = NULL;
    if (l) l->references++;
    unlock(&list_lock, LOCK_LEAF);
    return l;
}

static bool fill(struct loan_sample *s, const struct ddsi_rdata *parts, size_t size, const struct heading *h)
{
    size_t octets = h->octets.length, end = OCTETS_HEADER + octets;
    uint32_t crc = crc32c(0, &h->octets, sizeof h->octets);
    bool is_checked = trailer_is_checked(&h->trailer);
    if (!gather(parts, OCTETS_HEADER, end, s->loan.data, is_checked ? &crc : NULL)) return false;
    if (!gather(parts, end, size, s->tail, NULL)) return false;
    if (!is_checked) return true;
    return trailer_fits(crc32c(crc, s->tail, h->trailer.padding), s->tail + s->tail_size);
}

/* The sample takes over the reference to `l`. NULL: no memory, no room, or damaged; the reference is ended. A damaged
 * sample is counted when the library's sample of it is taken. */
static struct ddsi_serdata *make(struct loan_receiver *l, const struct ddsi_rdata *parts, size_t size,
                                 const struct heading *h)
{
    struct loan_sample *s = keyless_new(sizeof *s, &received_operations, l->type, DDS_DATA);
    if (!s) return unreference(l), NULL;
    s->receiver = l;
    s->tail_size = size - OCTETS_HEADER - h->octets.length;
    if (rtmw_loan_take(l->publisher, h->octets.length, &s->loan) != RTMW_OK) s->loan.data = NULL;
    if (s->loan.data && fill(s, parts, size, h)) return &s->head;
    drop(&s->head);
    return NULL;
}

struct ddsi_serdata *receive_in_loan(const struct ddsi_sertype *type, int kind, const struct ddsi_rdata *parts,
                                     size_t size)
{
    struct heading h;
    if (kind != DDS_DATA || size < ZERO_COPY_LEAST || !read_heading(parts, size, &h)) return NULL;
    struct loan_receiver *l = find(type);
    return l ? make(l, parts, size, &h) : NULL;
}

/* ---- a route ---- */

struct loan_receiver *loan_receiver_open(struct inbound *i)
{
    struct loan_receiver *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    *l = (struct loan_receiver){.inbound = i, .engine = i->engine, .publisher = i->publisher, .references = 1};
    fetch_add(&i->engine->loan_receivers, 1u);
    return l;
}

void loan_receiver_begin(struct loan_receiver *l)
{
    l->type = l->inbound->type;
    if (l->inbound->framing != FRAMING_OCTETS || !l->type) return;
    lock(&list_lock, LOCK_LEAF);
    l->next = receivers;
    receivers = l;
    unlock(&list_lock, LOCK_LEAF);
}

void loan_receiver_close(struct loan_receiver *l)
{
    lock(&list_lock, LOCK_LEAF);
    for (struct loan_receiver **link = &receivers; *link; link = &(*link)->next)
        if (*link == l) {
            *link = l->next;
            break;
        }
    unlock(&list_lock, LOCK_LEAF);
    unreference(l);
}

/* ---- to the bus ---- */

rtmw_loan *received_loan(const struct inbound *i, const struct ddsi_serdata *d)
{
    return i->may_receive_in_loan && d->operations == &received_operations ? &loan_sample_of(d)->loan : NULL;
}

struct iovec received_tail(const struct inbound *i, const struct ddsi_serdata *d)
{
    if (!received_loan(i, d)) return (struct iovec){0};
    return (struct iovec){loan_sample_of(d)->tail, loan_sample_of(d)->tail_size};
}
