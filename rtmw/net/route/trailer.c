/* Trailers, as they are read. They come from another host: each field is compared with what may be, before any is used. */
#include "trailer.h"

#include <string.h>

#include "../../shm/crc32c.h"

enum { PRIORITIES = 8 };

/* Fields that a pack has for each message are not set for all, and a field is set only where somebody reads it. */
static bool is_consistent(const struct trailer *t)
{
    if (t->lifetime_ns > INT64_MAX) return false;
    if (t->version == TRAILER_PACK) return t->messages >= TRAILER_PACK_LEAST && !t->publisher && !t->lifetime_ns;
    return (t->version == TRAILER_VERSION || t->version == TRAILER_OLD) && !t->messages;
}

bool trailer_read(const uint8_t *end, size_t *size, struct trailer *t)
{
    if (*size < sizeof *t) return false;
    memcpy(t, end - sizeof *t, sizeof *t);
    if ((t->magic != TRAILER_MAGIC && t->magic != TRAILER_CHECKED) || t->priority >= PRIORITIES ||
        t->padding > TRAILER_PADDING || !is_consistent(t) || *size < trailer_size(t) + t->padding)
        return false;
    *size -= trailer_size(t) + t->padding;
    return true;
}

uint32_t trailer_crc(uint32_t crc, const struct trailer *t) { return crc32c(crc, t, sizeof *t); }

bool trailer_fits(uint32_t crc, const uint8_t *end)
{
    struct trailer t;
    uint32_t sent;
    memcpy(&t, end - sizeof t, sizeof t);
    memcpy(&sent, end - sizeof t - sizeof sent, sizeof sent);
    return trailer_crc(crc, &t) == sent;
}

/* ---- packs ---- */

/* Packs, as they are read. They come from another host: each length is compared with what there is, before any is used. */

bool pack_open(struct pack *p, const uint8_t *bytes, size_t size, size_t before, uint32_t messages)
{
    size_t table = messages * sizeof(struct packed);
    if (messages < TRAILER_PACK_LEAST || size < before || size - before < table) return false;
    *p = (struct pack){bytes + before, bytes + size - table, messages};
    uint64_t payload = 0;
    struct packed entry;
    for (uint32_t n = 0; n < messages; n++) {
        memcpy(&entry, p->table + n * sizeof entry, sizeof entry);
        payload += entry.size;
    }
    return payload == size - before - table;
}

bool pack_may_be(const struct packed *entry)
{
    return entry->source_time_ns <= INT64_MAX && entry->lifetime_ns <= INT64_MAX && !entry->reserved;
}

bool pack_next(struct pack *p, const uint8_t **payload, struct packed *entry)
{
    if (!p->left) return false;
    memcpy(entry, p->table, sizeof *entry);
    *payload = p->payload;
    p->payload += entry->size;
    p->table += sizeof *entry;
    p->left--;
    return true;
}
