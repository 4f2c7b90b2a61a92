#include "ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "labels.h"
#include "siphash.h"

enum { ROOM_AT_FIRST = 64, LONGEST_ID = 4096 };
static const uint32_t NONE = UINT32_MAX;

bool id_entry_of(const struct record_parts *parts, const uint8_t uuid[16], struct id_entry *entry)
{
    struct label_head head;
    const uint8_t *labels = parts->labels;
    uint8_t text[1 + LONGEST_ID];
    if (!label_head_of(labels, parts->labels_size, &head) || !head.id_kind || head.id_size > LONGEST_ID) return false;
    text[0] = head.id_kind;
    memcpy(text + 1, labels + LABEL_HEAD + head.key_size, head.id_size);
    struct siphash id = siphash(uuid, text, 1 + (size_t)head.id_size);
    struct siphash of_labels = siphash(uuid, labels, parts->labels_size);
    struct siphash of_data = siphash((const uint8_t *)&of_labels, parts->data, parts->data_size);
    *entry = (struct id_entry){.low = id.low, .high = id.high, .content = of_data.low};
    entry->length = (uint32_t)(parts->labels_size + parts->data_size);
    return true;
}

void ids_begin(struct ids *ids, uint32_t window) { *ids = (struct ids){.window = window}; }

void ids_free(struct ids *ids)
{
    free(ids->ring);
    free(ids->older);
    free(ids->heads);
    *ids = (struct ids){.window = ids->window};
}

static uint32_t *bucket_of(const struct ids *ids, const struct id_entry *id)
{
    return &ids->heads[id->low & ids->mask];
}

const struct id_entry *ids_find(const struct ids *ids, const struct id_entry *id)
{
    if (!ids->count) return NULL;
    for (uint32_t n = *bucket_of(ids, id); n != NONE; n = ids->older[n])
        if (ids->ring[n].low == id->low && ids->ring[n].high == id->high) return &ids->ring[n];
    return NULL;
}

static void link_entry(struct ids *ids, uint32_t n)
{
    uint32_t *head = bucket_of(ids, &ids->ring[n]);
    ids->older[n] = *head;
    *head = n;
}

/* A ring that is full and smaller than the window has never wrapped: its first entry lies at 0. */
int ids_reserve(struct ids *ids)
{
    if (ids->count < ids->room || ids->count == ids->window) return 0;
    uint32_t room = ids->room ? 2 * ids->room : ROOM_AT_FIRST, buckets = 2;
    if (room > ids->window) room = ids->window;
    while (buckets < room) buckets *= 2;
    struct id_entry *ring = realloc(ids->ring, room * sizeof *ring);
    if (ring) ids->ring = ring;
    uint32_t *older = realloc(ids->older, room * sizeof *older);
    if (older) ids->older = older;
    uint32_t *heads = ring && older ? malloc(buckets * sizeof *heads) : NULL;
    if (!heads) return -ENOMEM;
    free(ids->heads);
    ids->heads = heads;
    ids->room = room;
    ids->mask = buckets - 1;
    memset(heads, 0xff, buckets * sizeof *heads);
    for (uint32_t n = 0; n < ids->count; n++) link_entry(ids, n);
    return 0;
}

/* The oldest entry is the last one of its bucket. */
static void drop_oldest(struct ids *ids)
{
    uint32_t *at = bucket_of(ids, &ids->ring[ids->first]);
    while (*at != ids->first) at = &ids->older[*at];
    *at = ids->older[ids->first];
    ids->first = ids->first + 1 == ids->room ? 0 : ids->first + 1;
    ids->count--;
}

void ids_add(struct ids *ids, const struct id_entry *entry)
{
    if (ids->count == ids->window) drop_oldest(ids);
    uint32_t n = (uint32_t)(((uint64_t)ids->first + ids->count) % ids->room);
    ids->ring[n] = *entry;
    ids->count++;
    link_entry(ids, n);
}

struct id_entry *ids_copy(const struct ids *ids, uint64_t upto, uint32_t *count)
{
    struct id_entry *copy = malloc((ids->count + 1) * sizeof *copy);
    *count = 0;
    for (uint32_t n = 0; copy && n < ids->count; n++) {
        const struct id_entry *entry = &ids->ring[((uint64_t)ids->first + n) % ids->room];
        if (entry->position >= upto) break;
        copy[(*count)++] = *entry;
    }
    return copy;
}
