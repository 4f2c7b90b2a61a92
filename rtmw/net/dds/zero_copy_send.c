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
#include <stdlib.h>
#include <string.h>

#include "../../shm/crc32c.h"
#include "engine.h"

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
