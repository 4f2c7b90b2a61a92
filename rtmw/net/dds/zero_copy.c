/* Large messages go between the pool and DDS without a copy: they are sent from the pool, and received into a loan of it. */
#include <stdlib.h>
#include <string.h>

#include "../../shm/crc32c.h"
#include "engine.h"

/* ---- what both have in common ---- */

/* All samples of rtmw are of topics without keys. */

enum { HASH = 0x6579656B }; /* of all of them alike: they are of one instance */

void *keyless_new(size_t bytes, const struct ddsi_serdata_ops *operations, const struct ddsi_sertype *type, int kind)
{
    struct ddsi_serdata *d = calloc(1, bytes);
    if (!d) return NULL;
    ddsi_serdata_init(d, type, kind);
    d->operations = operations;
    d->hash = HASH;
    return d;
}

bool keyless_are_equal(const struct ddsi_serdata *a, const struct ddsi_serdata *b)
{
    (void)a;
    (void)b;
    return true;
}

size_t keyless_print(const struct ddsi_sertype *type, const struct ddsi_serdata *d, char *text, size_t bytes)
{
    (void)type;
    (void)d;
    if (bytes) *text = 0;
    return 0;
}

void keyless_hash(const struct ddsi_serdata *d, void *hash, bool force_md5)
{
    (void)d;
    (void)force_md5;
    memset(hash, 0, 16);
}

/* ---- send ---- */

/* Zero-copy send: a DDS sample whose bytes are those of a large message of the bus, in the pool.
 *
 * The DDS library reads the bytes of a sample through a table of functions; `sent_operations` is such a table. The sample takes
 * over the route's hold on the message. The library frees the sample when it has sent it or, if it is RELIABLE, when all
 * readers have acknowledged it; the hold ends then. Held messages lessen the pool of this host, so all samples together
 * hold at most `zero_copy_most` bytes; messages beyond that are copied, as small messages are.
 *
 * The bytes of a sample are `before`, the message, and `after`, in three places. A request of the library is nearly always
 * within the message; any other is answered with a copy.
 *
 * The library requests the bytes of one datagram, sends it, and then requests those of the next. The CRC is computed over
 * each datagram when it is requested: the kernel then finds the bytes in the processor's cache. The CRC's place is behind
 * all bytes that it covers, so it is complete when it is requested. Another thread may request bytes to be sent again.
 */

enum { NO_DESCRIPTOR = UINT32_MAX }; /* the sample holds no message */

struct zero_copy_sample {
    struct ddsi_serdata head;
    struct engine *engine;
    const uint8_t *data;
    size_t before_size, size, after_size;
    uint32_t descriptor;
    uint32_t is_summed;   /* 1: the CRC is in its place, or the sample has none */
    pthread_mutex_t lock; /* guards the next two, and the CRC until is_summed */
    uint32_t crc;         /* of the first `summed` bytes */
    size_t summed;
    size_t crc_at; /* offset of the CRC, which covers all before it */
    struct trailer trailer;
    uint8_t before[OCTETS_HEADER], after[AFTER_MOST];
};

static const struct ddsi_serdata_ops sent_operations;

static const struct zero_copy_sample *sample_of(const struct ddsi_serdata *d)
{
    return (const struct zero_copy_sample *)(const void *)d;
}

static size_t size_of(const struct zero_copy_sample *l) { return l->before_size + l->size + l->after_size; }

/* Copies what `part`, which begins at offset `begins` of the sample, has of the `size` bytes from `offset` on. */
static void copy_part(uint8_t *to, size_t offset, size_t size, struct iovec part, size_t begins)
{
    size_t from = offset > begins ? offset : begins, end = begins + part.iov_len;
    if (end > offset + size) end = offset + size;
    if (from < end) memcpy(to + (from - offset), (const uint8_t *)part.iov_base + (from - begins), end - from);
}

/* The bytes from `offset` to the end of the part that they lie in. */
static struct iovec piece_at(const struct zero_copy_sample *l, size_t offset)
{
    if (offset < l->before_size)
        return (struct iovec){(void *)(uintptr_t)(l->before + offset), l->before_size - offset};
    offset -= l->before_size;
    if (offset < l->size) return (struct iovec){(void *)(uintptr_t)(l->data + offset), l->size - offset};
    offset -= l->size;
    return (struct iovec){(void *)(uintptr_t)(l->after + offset), l->after_size - offset};
}

static void sum_until(struct zero_copy_sample *l, size_t end)
{
    while (l->summed < end) {
        struct iovec piece = piece_at(l, l->summed);
        size_t count = piece.iov_len < end - l->summed ? piece.iov_len : end - l->summed;
        l->crc = crc32c(l->crc, piece.iov_base, count);
        l->summed += count;
    }
}

/* Called before the library gets these bytes: the CRC then covers them or, if they contain it, is complete. */
static void sum(const struct zero_copy_sample *asked, size_t offset, size_t size)
{
    struct zero_copy_sample *l = (struct zero_copy_sample *)(uintptr_t)asked;
    if (load_acquire(&l->is_summed)) return;
    lock(&l->lock, LOCK_LEAF);
    bool is_end = offset + size > l->crc_at;
    if (is_end || offset <= l->summed) sum_until(l, is_end ? l->crc_at : offset + size);
    if (is_end && !l->is_summed) {
        l->crc = trailer_crc(l->crc, &l->trailer);
        memcpy(l->after + (l->crc_at - l->before_size - l->size), &l->crc, sizeof l->crc);
        store_release(&l->is_summed, 1u);
    }
    unlock(&l->lock, LOCK_LEAF);
}

static void to_ser(const struct ddsi_serdata *d, size_t offset, size_t size, void *to)
{
    const struct zero_copy_sample *l = sample_of(d);
    sum(l, offset, size);
    copy_part(to, offset, size, (struct iovec){(void *)(uintptr_t)l->before, l->before_size}, 0);
    copy_part(to, offset, size, (struct iovec){(void *)(uintptr_t)l->data, l->size}, l->before_size);
    copy_part(to, offset, size, (struct iovec){(void *)(uintptr_t)l->after, l->after_size}, l->before_size + l->size);
}

static bool is_within(const struct zero_copy_sample *l, const void *at)
{
    return (const uint8_t *)at >= l->data && (const uint8_t *)at < l->data + l->size;
}

static struct ddsi_serdata *to_ser_ref(const struct ddsi_serdata *d, size_t offset, size_t size, struct iovec *part)
{
    const struct zero_copy_sample *l = sample_of(d);
    sum(l, offset, size);
    part->iov_len = size;
    if (size && offset >= l->before_size && offset + size <= l->before_size + l->size) {
        part->iov_base = (void *)(uintptr_t)(l->data + offset - l->before_size);
    } else {
        part->iov_base = malloc(size ? size : 1);
        if (!part->iov_base) abort(); /* the interface has no error, and the library aborts, too */
        to_ser(d, offset, size, part->iov_base);
    }
    return ddsi_serdata_ref(d);
}

static void to_ser_unref(struct ddsi_serdata *d, const struct iovec *part)
{
    if (!is_within(sample_of(d), part->iov_base)) free(part->iov_base);
    ddsi_serdata_unref(d);
}

static uint32_t sent_size(const struct ddsi_serdata *d) { return (uint32_t)size_of(sample_of(d)); }

static struct zero_copy_sample *new_sample(struct engine *e, const struct ddsi_sertype *type, int kind)
{
    struct zero_copy_sample *l = keyless_new(sizeof *l, &sent_operations, type, kind);
    if (!l) return NULL;
    l->engine = e;
    l->descriptor = NO_DESCRIPTOR;
    l->is_summed = 1;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

/* The key of a sample: that of the one instance of a topic without keys. */
static struct ddsi_serdata *sent_to_untyped(const struct ddsi_serdata *d)
{
    struct zero_copy_sample *l = new_sample(sample_of(d)->engine, d->type, DDS_KEY);
    if (!l) abort();
    return &l->head;
}

static void give_back(struct ddsi_serdata *d)
{
    struct zero_copy_sample *l = (struct zero_copy_sample *)(void *)d;
    struct engine *e = l->engine;
    uint64_t size = l->size;
    if (l->descriptor != NO_DESCRIPTOR) {
        rtmw_release(e->region, l->descriptor);
        fetch_sub(&e->zero_copied, size);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static const struct ddsi_serdata_ops sent_operations = {
    .eqkey = keyless_are_equal,
    .get_size = sent_size,
    .to_ser = to_ser,
    .to_ser_ref = to_ser_ref,
    .to_ser_unref = to_ser_unref,
    .to_untyped = sent_to_untyped,
    .free = give_back,
    .print = keyless_print,
    .get_keyhash = keyless_hash,
};

static void append(struct zero_copy_sample *l, struct iovec part)
{
    memcpy(l->after + l->after_size, part.iov_base, part.iov_len);
    l->after_size += part.iov_len;
}

struct ddsi_serdata *zero_copy_sample(struct outbound *o, uint32_t descriptor, const struct iovec *parts, size_t count,
                                      const struct trailer *trailer)
{
    struct engine *e = o->engine;
    struct zero_copy_sample *l = new_sample(e, o->type, DDS_DATA);
    if (!l) return NULL;
    memcpy(l->before, parts[0].iov_base, parts[0].iov_len);
    l->before_size = parts[0].iov_len;
    l->data = parts[1].iov_base;
    l->size = parts[1].iov_len;
    for (size_t n = 2; n < count; n++) append(l, parts[n]);
    if (trailer) l->trailer = *trailer;
    l->is_summed = !trailer || !trailer_is_checked(trailer);
    l->crc_at = size_of(l) - (trailer ? trailer_size(trailer) : 0);
    l->descriptor = descriptor;
    fetch_add(&e->zero_copied, (uint64_t)l->size);
    return &l->head;
}

void zero_copy_undo(struct ddsi_serdata *d)
{
    struct zero_copy_sample *l = (struct zero_copy_sample *)(void *)d;
    fetch_sub(&l->engine->zero_copied, (uint64_t)l->size);
    l->descriptor = NO_DESCRIPTOR;
}

bool zero_copy_may(const struct outbound *o, const rtmw_message *m)
{
    return load_relaxed(&o->may_zero_copy) && m->size >= ZERO_COPY_LEAST &&
           load_relaxed(&o->engine->zero_copied) + m->size <= o->engine->zero_copy_most;
}

/* ---- receive ---- */

/* Receive into a loan: a large message of another node is copied once, from its datagrams into a loan of the pool, which
 * is then published.
 *
 * The DDS library makes samples of datagrams with a function from the table of the sample's type. `receive_in_loan` is
 * called in its place (library.c), and makes a sample that owns the loan. The library makes the sample if and only if
 * `receive_in_loan` returns NULL: (1) the message is small; (2) no node has sent it; (3) the pool has no room for it; (4)
 * its route keeps earlier messages that wait for room, or hands over to another; (5) it is damaged.
 *
 * `receive_in_loan` is called for all types, in the threads of the library that receive, and finds the route by the type.
 * A sample may outlive its route. So a `loan_receiver` has a reference for the route and one for each sample, and the
 * last to end closes the publisher.
 */

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
