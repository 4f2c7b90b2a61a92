#include "ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "labels.h"
#include "siphash.h"

enum { ROOM_AT_FIRST = 64, LONGEST_ID = 4096 };
static const uint32_t NONE = UINT32_MAX;

bool id_of_labels(const void *labels, size_t size, const uint8_t uuid[16], struct id_entry *entry)
{
    struct label_head head;
    uint8_t text[1 + LONGEST_ID];
    if (!label_head_of(labels, size, &head) || !head.id_kind || head.id_size > LONGEST_ID) return false;
    text[0] = head.id_kind;
    memcpy(text + 1, (const uint8_t *)labels + LABEL_HEAD + head.key_size, head.id_size);
    struct siphash id = siphash(uuid, text, 1 + (size_t)head.id_size);
    *entry = (struct id_entry){.low = id.low, .high = id.high};
    return true;
}

static void begin_batch(struct id_batch *b, const struct record_head *head, const struct record_parts *parts,
                        const uint8_t uuid[16])
{
    b->has_id = id_of_labels(parts->labels, parts->labels_size, uuid, &b->entry);
    if (!b->has_id) return;
    b->entry.position = head->lsn;
    b->entry.kind = head->kind == RECORD_DATA ? 0 : head->kind;
    b->size = 0;
    memcpy(&b->content, uuid, sizeof b->content);
}

bool id_batch_pass(struct id_batch *b, const struct record_head *head, const struct record_parts *parts,
                   const uint8_t uuid[16])
{
    bool is_first = !b->is_inside;
    b->is_inside = head->flags & RECORD_MORE;
    if (is_first) begin_batch(b, head, parts, uuid);
    if (!b->has_id) return false;
    uint64_t length = parts->labels_size + parts->data_size;
    b->content = siphash((const uint8_t *)&b->content, parts->labels, parts->labels_size);
    b->content = siphash((const uint8_t *)&b->content, parts->data, parts->data_size);
    b->size += record_size(length);
    b->entry.content = b->content.low;
    b->entry.length = (uint32_t)(is_first ? length : b->size - RECORD_HEAD);
    return !b->is_inside;
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
    ids->floor = id_entry_end(&ids->ring[ids->first]);
    ids->first = ids->first + 1 == ids->room ? 0 : ids->first + 1;
    ids->count--;
}

void ids_add(struct ids *ids, const struct id_entry *entry, uint64_t position)
{
    if (ids->count == ids->window) drop_oldest(ids);
    uint32_t n = (uint32_t)(((uint64_t)ids->first + ids->count) % ids->room);
    ids->ring[n] = *entry;
    ids->ring[n].position = position;
    ids->count++;
    link_entry(ids, n);
}

bool ids_copy(const struct ids *ids, uint64_t upto, struct ids_snapshot *snapshot)
{
    struct id_entry *copy = malloc((ids->count + 1) * sizeof *copy);
    *snapshot = (struct ids_snapshot){.entries = copy, .upto = upto, .floor = ids->floor};
    for (uint32_t n = 0; copy && n < ids->count; n++) {
        const struct id_entry *entry = &ids->ring[((uint64_t)ids->first + n) % ids->room];
        if (entry->position >= upto) break;
        copy[snapshot->count++] = *entry;
    }
    return copy;
}
