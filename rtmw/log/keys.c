#include "keys.h"

#include <stdlib.h>
#include <string.h>

#include "labels.h"
#include "siphash.h"

enum { SLOTS_AT_FIRST = 1024, LONGEST_KEY = 4096 };

bool key_of(const struct reader_record *record, const uint8_t uuid[16], struct key_count *key)
{
    struct label_head head;
    uint8_t text[1 + LONGEST_KEY];
    if (!label_head_of(record->labels, record->labels_size, &head) || !head.key_kind || head.key_size > LONGEST_KEY)
        return false;
    text[0] = head.key_kind;
    memcpy(text + 1, record->labels + LABEL_HEAD, head.key_size);
    struct siphash hash = siphash(uuid, text, 1 + (size_t)head.key_size);
    *key = (struct key_count){.low = hash.low | 1, .high = hash.high};
    return true;
}

/* The slot of the key, or the empty one where it would lie: one is always empty. */
static struct key_count *slot_of(const struct keys *keys, const struct key_count *key)
{
    uint32_t mask = keys->slot_count - 1, n = (uint32_t)key->high & mask;
    while (keys->slots[n].low && (keys->slots[n].low != key->low || keys->slots[n].high != key->high))
        n = (n + 1) & mask;
    return &keys->slots[n];
}

struct key_count *keys_find(const struct keys *keys, const struct key_count *key)
{
    struct key_count *slot = keys->slots ? slot_of(keys, key) : NULL;
    return slot && slot->low ? slot : NULL;
}

/* Half of the slots stay empty. */
static bool grow(struct keys *keys)
{
    struct keys larger = {.slot_count = keys->slot_count ? 2 * keys->slot_count : SLOTS_AT_FIRST, .count = keys->count};
    larger.slots = calloc(larger.slot_count, sizeof *larger.slots);
    if (!larger.slots) return false;
    for (uint32_t n = 0; n < keys->slot_count; n++)
        if (keys->slots[n].low) *slot_of(&larger, &keys->slots[n]) = keys->slots[n];
    free(keys->slots);
    *keys = larger;
    return true;
}

struct key_count *keys_add(struct keys *keys, const struct key_count *key)
{
    struct key_count *there = keys_find(keys, key);
    if (there) return there;
    if (keys->count == KEYS_MOST || (2 * keys->count >= keys->slot_count && !grow(keys))) return NULL;
    there = slot_of(keys, key);
    *there = *key;
    keys->count++;
    return there;
}

void keys_free(struct keys *keys)
{
    free(keys->slots);
    *keys = (struct keys){0};
}
