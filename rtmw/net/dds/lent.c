/* Lent: a large message of the bus as a DDS sample that is sent from where it lies, without a copy.
 *
 * The DDS library asks a sample for its bytes by a table of functions, and this is one of our own. The sample has the
 * hold on the message that its route had, and gives it back when the library lets go of it: once sent, or, where it is
 * RELIABLE, once acknowledged. Since what is held lessens the pool of this host, no more is lent at a time than
 * `lend_most`; what is more is copied, as small messages are.
 *
 * The bytes of a sample are `before`, those of the message, and `after`, which do not lie together. What the library
 * asks for is nearly always within the message; else it gets a copy.
 *
 * The library asks for one datagram after the other, and sends it before it asks for the next. So the CRC is reckoned as
 * far as was asked, datagram by datagram: the kernel then finds the bytes in the processor's cache. It stands behind all
 * of them, and is there when it is asked for. Another thread may ask for what is to be sent again.
 */
#include <stdlib.h>
#include <string.h>

#include "../../shm/crc32c.h"
#include "engine.h"

enum { NOBODYS = UINT32_MAX }; /* a descriptor that is not (or no longer) the sample's to give back */

struct lent {
    struct ddsi_serdata head;
    struct engine *engine;
    const uint8_t *data;
    size_t before_size, size, after_size;
    uint32_t descriptor;
    uint32_t is_summed;   /* 1: the CRC is in its place, or there is none */
    pthread_mutex_t lock; /* guards the next two, and the CRC until it is there */
    uint32_t crc;         /* of so many bytes: */
    size_t summed;
    size_t crc_at; /* where its place is: all before it is summed up */
    struct trailer trailer;
    uint8_t before[OCTETS_HEADER], after[AFTER_MOST];
};

static const struct ddsi_serdata_ops operations;

static const struct lent *lent_of(const struct ddsi_serdata *d) { return (const struct lent *)(const void *)d; }

static size_t size_of(const struct lent *l) { return l->before_size + l->size + l->after_size; }

/* Of `size` bytes from `offset` on of a part that begins at `begins`, those that fall into it. */
static void copy_part(uint8_t *to, size_t offset, size_t size, struct iovec part, size_t begins)
{
    size_t from = offset > begins ? offset : begins, end = begins + part.iov_len;
    if (end > offset + size) end = offset + size;
    if (from < end) memcpy(to + (from - offset), (const uint8_t *)part.iov_base + (from - begins), end - from);
}

/* What lies in one piece from there on. */
static struct iovec piece_at(const struct lent *l, size_t offset)
{
    if (offset < l->before_size)
        return (struct iovec){(void *)(uintptr_t)(l->before + offset), l->before_size - offset};
    offset -= l->before_size;
    if (offset < l->size) return (struct iovec){(void *)(uintptr_t)(l->data + offset), l->size - offset};
    offset -= l->size;
    return (struct iovec){(void *)(uintptr_t)(l->after + offset), l->after_size - offset};
}

static void sum_until(struct lent *l, size_t end)
{
    while (l->summed < end) {
        struct iovec piece = piece_at(l, l->summed);
        size_t count = piece.iov_len < end - l->summed ? piece.iov_len : end - l->summed;
        l->crc = crc32c(l->crc, piece.iov_base, count);
        l->summed += count;
    }
}

/* These bytes are about to be sent. */
static void sum(const struct lent *asked, size_t offset, size_t size)
{
    struct lent *l = (struct lent *)(uintptr_t)asked;
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
    const struct lent *l = lent_of(d);
    sum(l, offset, size);
    copy_part(to, offset, size, (struct iovec){(void *)(uintptr_t)l->before, l->before_size}, 0);
    copy_part(to, offset, size, (struct iovec){(void *)(uintptr_t)l->data, l->size}, l->before_size);
    copy_part(to, offset, size, (struct iovec){(void *)(uintptr_t)l->after, l->after_size}, l->before_size + l->size);
}

static bool is_within(const struct lent *l, const void *at)
{
    return (const uint8_t *)at >= l->data && (const uint8_t *)at < l->data + l->size;
}

static struct ddsi_serdata *to_ser_ref(const struct ddsi_serdata *d, size_t offset, size_t size, struct iovec *part)
{
    const struct lent *l = lent_of(d);
    sum(l, offset, size);
    part->iov_len = size;
    if (size && offset >= l->before_size && offset + size <= l->before_size + l->size) {
        part->iov_base = (void *)(uintptr_t)(l->data + offset - l->before_size);
    } else {
        part->iov_base = malloc(size ? size : 1);
        if (!part->iov_base) abort(); /* the library has no way to hear of it, and does the same */
        to_ser(d, offset, size, part->iov_base);
    }
    return ddsi_serdata_ref(d);
}

static void to_ser_unref(struct ddsi_serdata *d, const struct iovec *part)
{
    if (!is_within(lent_of(d), part->iov_base)) free(part->iov_base);
    ddsi_serdata_unref(d);
}

static uint32_t get_size(const struct ddsi_serdata *d) { return (uint32_t)size_of(lent_of(d)); }

static struct lent *new_lent(struct engine *e, const struct ddsi_sertype *type, int kind)
{
    struct lent *l = keyless_new(sizeof *l, &operations, type, kind);
    if (!l) return NULL;
    l->engine = e;
    l->descriptor = NOBODYS;
    l->is_summed = 1;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

/* The instance that all of them belong to, as topics without keys have one. */
static struct ddsi_serdata *to_untyped(const struct ddsi_serdata *d)
{
    struct lent *l = new_lent(lent_of(d)->engine, d->type, DDS_KEY);
    if (!l) abort();
    return &l->head;
}

static void give_back(struct ddsi_serdata *d)
{
    struct lent *l = (struct lent *)(void *)d;
    struct engine *e = l->engine;
    uint64_t size = l->size;
    if (l->descriptor != NOBODYS) {
        rtmw_release(e->region, l->descriptor);
        fetch_sub(&e->lent, size);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static const struct ddsi_serdata_ops operations = {
    .eqkey = keyless_are_equal,
    .get_size = get_size,
    .to_ser = to_ser,
    .to_ser_ref = to_ser_ref,
    .to_ser_unref = to_ser_unref,
    .to_untyped = to_untyped,
    .free = give_back,
    .print = keyless_print,
    .get_keyhash = keyless_hash,
};

static void append(struct lent *l, struct iovec part)
{
    memcpy(l->after + l->after_size, part.iov_base, part.iov_len);
    l->after_size += part.iov_len;
}

struct ddsi_serdata *lend(struct outbound *o, uint32_t descriptor, const struct iovec *parts, size_t count,
                          const struct trailer *trailer)
{
    struct engine *e = o->engine;
    struct lent *l = new_lent(e, o->type, DDS_DATA);
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
    fetch_add(&e->lent, (uint64_t)l->size);
    return &l->head;
}

void lend_undo(struct ddsi_serdata *d)
{
    struct lent *l = (struct lent *)(void *)d;
    fetch_sub(&l->engine->lent, (uint64_t)l->size);
    l->descriptor = NOBODYS;
}

bool lend_may(const struct outbound *o, const rtmw_message *m)
{
    return load_relaxed(&o->may_lend) && m->size >= LENT_LEAST &&
           load_relaxed(&o->engine->lent) + m->size <= o->engine->lend_most;
}
