/* Packs, as they are read. They come from another host: each length is compared with what there is, before any is used. */
#include <string.h>

#include "pack.h"

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
