/* Names: topics, types, and the slots of endpoints.
 *
 * A topic or type is made in a slot of its own (CLAIMED by its maker, seen by nobody), and found through a directory:
 *
 *     directory[hash + i]   0: free    n + 1: slot n          open addressing; entries are only ever added
 *
 * The CAS of a directory entry decides between two makers of one name: what it points to is complete, so the loser
 * reads the winner's name and gives its own slot back. A maker that dies before that CAS leaves a CLAIMED slot that
 * no entry names: freed by the sweep. After it: the sweep, or whoever finds it, makes it ACTIVE.
 */
#include <string.h>

#include "core.h"

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
    return hash ^ (hash >> 29);
}

uint64_t slot_claim(struct rtmw_region *r, uint64_t *words, uint32_t count, uint32_t *top, uint32_t topic,
                    uint32_t *slot)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        for (uint32_t i = 0; i < count; i++) {
            uint64_t word = load_relaxed(&words[i]);
            if (slot_state_of(word) != SLOT_FREE) continue;
            raise_to(top, i + 1);
            uint64_t mine = slot_make(slot_generation(word) + 1, topic, r->me, SLOT_CLAIMED);
            if (!cas64(&words[i], word, mine)) continue;
            *slot = i;
            return mine;
        }
        if (attempt == 0 && !sweep_the_dead(r)) break;
    }
    return 0;
}

bool slot_free(uint64_t *word, uint64_t value)
{
    return cas64(word, value, slot_make(slot_generation(value), 0, 0, SLOT_FREE));
}

/* A table with a directory. Topics and types differ in where the words lie and in what tells two entries apart. */
struct table {
    uint8_t *entries;
    size_t stride;
    uint32_t count;
    uint64_t *directory;
    bool (*same)(const void *entry, const void *key);
    void (*fill)(void *entry, const void *key);
};

enum { SPARSE = 4 }; /* directory entries a slot */

static uint64_t *word_at(const struct table *table, uint32_t slot) /* the word is the first field of every entry */
{
    return (uint64_t *)(void *)(table->entries + slot * table->stride);
}

static void activate(uint64_t *word)
{
    uint64_t seen = load_seq(word);
    if (slot_state_of(seen) == SLOT_CLAIMED) cas64(word, seen, slot_make(slot_generation(seen), 0, 0, SLOT_ACTIVE));
}

/* Claims a free slot. Not slot_claim: the words lie inside the entries here. */
static bool claim_entry(struct rtmw_region *r, const struct table *table, uint32_t *slot, uint64_t *mine)
{
    for (uint32_t i = 0; i < table->count; i++) {
        uint64_t word = load_relaxed(word_at(table, i));
        if (slot_state_of(word) != SLOT_FREE) continue;
        *mine = slot_make(slot_generation(word) + 1, 0, r->me, SLOT_CLAIMED);
        if (!cas64(word_at(table, i), word, *mine)) continue;
        *slot = i;
        return true;
    }
    return false;
}

/* The slot of `key`, made when there is none. false: the table is full. */
static bool intern(struct rtmw_region *r, const struct table *table, uint64_t hash, const void *key, uint32_t *slot)
{
    uint32_t made = UINT32_MAX, places = table->count * SPARSE;
    uint64_t mine = 0;
    for (uint32_t i = 0; i < places;) {
        uint64_t *place = &table->directory[(hash + i) % places], named = load_seq(place);
        if (named == 0) {
            if (made == UINT32_MAX) {
                if (!claim_entry(r, table, &made, &mine)) return false;
                table->fill(table->entries + made * table->stride, key);
            }
            cas64(place, 0, made + 1); /* won or lost: look again at what stands there now */
            continue;
        }
        *slot = (uint32_t)named - 1;
        if (*slot < table->count && table->same(table->entries + *slot * table->stride, key)) {
            if (made != UINT32_MAX && made != *slot) slot_free(word_at(table, made), mine);
            activate(word_at(table, *slot));
            return true;
        }
        i++;
    }
    return false;
}

static bool same_topic(const void *entry, const void *key)
{
    return strncmp(((const struct topic *)entry)->name, key, NAME_BYTES) == 0;
}

static void fill_topic(void *entry, const void *key)
{
    struct topic *topic = entry;
    strncpy(topic->name, key, NAME_BYTES - 1);
}

static bool same_type(const void *entry, const void *key)
{
    return ((const struct type_entry *)entry)->identity == ((const rtmw_type *)key)->identity;
}

static void fill_type(void *entry, const void *key)
{
    struct type_entry *made = entry;
    const rtmw_type *type = key;
    made->identity = type->identity;
    made->bytes = (uint32_t)type->description_bytes;
    strncpy(made->name, type->name, TYPE_NAME_BYTES - 1);
    memcpy(made->description, type->description, type->description_bytes);
}

static struct table topic_table(struct rtmw_region *r)
{
    return (struct table){(uint8_t *)r->topics, sizeof(struct topic), r->header->topics,
                          r->topic_directory,   same_topic,           fill_topic};
}

static struct table type_table(struct rtmw_region *r)
{
    return (struct table){(uint8_t *)r->types, sizeof(struct type_entry),
                          r->header->types,    r->type_directory,
                          same_type,           fill_type};
}

/* Names with the characters of a pattern are kept free: a subscriber of "pump/" and a star would wait for ever for a topic of
 * just that name. */
bool is_topic_name(const char *name)
{
    size_t length = name ? strnlen(name, NAME_BYTES) : 0;
    if (length == 0 || length >= NAME_BYTES || strpbrk(name, "*?[")) return false;
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)name[i] < 0x20 || name[i] == 0x7F) return false;
    return true;
}

int topic_open(struct rtmw_region *r, const char *name, uint32_t *topic)
{
    if (!is_topic_name(name)) return RTMW_BAD_NAME;
    struct table table = topic_table(r);
    if (!intern(r, &table, hash_of(name), name, topic)) return RTMW_NO_TOPIC_SLOT;
    raise_to(&r->hints->topics_top, *topic + 1);
    return RTMW_OK;
}

int type_register(struct rtmw_region *r, const rtmw_type *type, uint16_t *index)
{
    if (!type || type == RTMW_ANY) {
        *index = type ? TYPE_ANY : TYPE_RAW;
        return RTMW_OK;
    }
    if (!type->name || strlen(type->name) >= TYPE_NAME_BYTES || type->description_bytes > TYPE_BYTES)
        return RTMW_TOO_LARGE;
    struct table table = type_table(r);
    uint32_t slot;
    if (!intern(r, &table, type->identity, type, &slot)) return RTMW_NO_TYPE_SLOT;
    *index = (uint16_t)slot;
    return RTMW_OK;
}

static void settle_table(const struct table *table, uint32_t dead)
{
    for (uint32_t slot = 0; slot < table->count; slot++) {
        uint64_t word = load_seq(word_at(table, slot));
        if (slot_state_of(word) != SLOT_CLAIMED || slot_owner(word) != dead) continue;
        bool named = false;
        for (uint32_t i = 0; i < table->count * SPARSE && !named; i++)
            named = load_seq(&table->directory[i]) == slot + 1;
        if (named)
            activate(word_at(table, slot));
        else
            slot_free(word_at(table, slot), word);
    }
}

void settle_half_made(struct rtmw_region *r, uint32_t dead)
{
    struct table topics = topic_table(r), types = type_table(r);
    settle_table(&topics, dead);
    settle_table(&types, dead);
}

bool types_match(uint32_t publisher, uint32_t subscriber) { return subscriber == TYPE_ANY || publisher == subscriber; }

void topic_keep_bytes(struct topic *topic, struct publisher_block *block)
{
    fetch_add(&topic->retired_bytes, exchange(&block->bytes, 0));
}
