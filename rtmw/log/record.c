#include "record.h"

#include <string.h>

#include "../shm/crc32c.h"

enum { UUID_BYTES = 16, CRC_FROM = 8 };

uint32_t record_seed(const uint8_t uuid[16]) { return crc32c(0, uuid, UUID_BYTES); }

static uint32_t crc_of(const uint8_t *bytes, uint64_t size, uint32_t seed)
{
    uint32_t crc = crc32c(seed, bytes, sizeof(uint32_t));
    return crc32c(crc, bytes + CRC_FROM, size - CRC_FROM);
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

uint64_t record_check(const void *bytes, uint64_t available, uint64_t limit, uint64_t lsn, uint32_t seed,
                      uint64_t *needs)
{
    struct record_head head;
    *needs = 0;
    if (limit < RECORD_HEAD) return 0;
    if (available < RECORD_HEAD) return *needs = RECORD_HEAD, 0;
    memcpy(&head, bytes, sizeof head);
    uint64_t size = record_size(head.length);
    if ((lsn != RECORD_ANY && head.lsn != lsn) || head.zero || !head.kind || size > limit) return 0;
    if (size > available) return *needs = size, 0;
    return crc_of(bytes, size, seed) == head.crc ? size : 0;
}
