#include "record.h"

#include "../shm/crc32c.h"

enum { UUID_BYTES = 16 };

uint32_t record_seed(const uint8_t uuid[16]) { return crc32c(0, uuid, UUID_BYTES); }

static uint32_t crc_of(const uint8_t *bytes, uint64_t size, uint32_t seed)
{
    return crc32c_around(seed, bytes, size, offsetof(struct record_head, crc), offsetof(struct record_head, lsn));
}

bool record_is_intact(const uint8_t *bytes, uint64_t size, uint32_t seed)
{
    uint32_t crc;
    memcpy(&crc, bytes + offsetof(struct record_head, crc), sizeof crc);
    return crc_of(bytes, size, seed) == crc;
}

void record_put(void *to, const struct record_head *head, const struct record_parts *parts, uint32_t seed)
{
    struct record_head own = *head;
    uint8_t *bytes = to;
    own.length = (uint32_t)(parts->labels_size + parts->data_size);
    uint64_t size = record_size(own.length), used = RECORD_HEAD + own.length;
    own.crc = 0;
    memcpy(bytes, &own, sizeof own);
    if (parts->labels_size) memcpy(bytes + RECORD_HEAD, parts->labels, parts->labels_size);
    if (parts->data_size) memcpy(bytes + RECORD_HEAD + parts->labels_size, parts->data, parts->data_size);
    memset(bytes + used, 0, size - used);
    own.crc = crc_of(bytes, size, seed);
    memcpy(bytes, &own, sizeof own);
}
