/* Names: topics and types.
 *
 * A topic or type is made in a slot of its own (CLAIMED by its maker, seen by nobody). `hashes` has the hash of what lies in
 * each slot, so to find a name is to look along an array. Which of two makers of one name makes it, a word decides that all
 * makers of it share:
 *
 *     makers[hash]    {generation | slot} of what was made last of all that falls here; 0: nothing yet
 *
 * A maker reads this word, makes ACTIVE what it names, looks for the name in all slots, and only then puts its own slot
 * into it, by CAS. So what a maker does not find was not there, or has been made since: then the CAS fails, and it looks
 * again. A slot's generation grows with each claim, so the word never repeats. The slot that it names is complete: any
 * maker that comes by makes it ACTIVE for a maker that is stopped or dead, and nobody replaces the word before. The sweep
 * frees what the dead left CLAIMED, whether or not it was named: nobody uses it yet, and either that CAS succeeds or the
 * one to ACTIVE.
 *
 * When their slots are given back: retire.c. The slots of types below `first_open_type` are for programs of this host: what
 * a peer of a node describes gets one of the others. A type that is there already is found by both.
 */
#include <string.h>

#include "fnv.h"
#include "topics.h"

static uint64_t hash_of(const char *text)
{
    uint64_t hash = fnv1a_text(FNV_BASIS, text);
    return hash ^ (hash >> 29);
}

/* Topics and types differ in where the words lie and in what tells two entries apart. */
struct table {
    uint8_t *entries;
    size_t stride;
    uint32_t count, first; /* entries; the first in which this handle may make one */
    uint64_t *hashes, *makers;
    uint32_t *made; /* a hint that counts them, or NULL */
    bool (*same)(const void *entry, const void *key);
    void (*fill)(struct rtmw_region *, uint32_t slot, const void *key);
};

static uint64_t *word_at(const struct table *table, uint32_t slot) /* the word is the first field of every entry */
{
    return (uint64_t *)(void *)(table->entries + slot * table->stride);
}

static uint64_t *maker_of(const struct table *table, uint64_t hash) { return &table->makers[hash % table->count]; }

/* The slot that a maker's word names is ACTIVE from now on, unless it was already. */
static void activate(const struct table *table, uint64_t named)
{
    uint32_t slot = link_index(named);
    if (slot >= table->count) return;
    uint64_t word = load_seq(word_at(table, slot)), generation = slot_generation(word);
    if (slot_state_of(word) != SLOT_CLAIMED || generation != link_tag(named)) return;
    if (cas64(word_at(table, slot), word, slot_make(generation, 0, 0, SLOT_ACTIVE)) && table->made)
        fetch_add(table->made, 1u);
}

/* Claims a free slot and fills it. Not slot_claim: the words lie inside the entries here. */
static uint64_t make_entry(struct rtmw_region *r, const struct table *table, uint64_t hash, const void *key,
                           uint32_t *slot)
{
    for (*slot = table->first; *slot < table->count; ++*slot) {
        uint64_t word = load_relaxed(word_at(table, *slot));
        if (slot_state_of(word) != SLOT_FREE) continue;
        uint64_t mine = slot_make(slot_generation(word) + 1, 0, r->me, SLOT_CLAIMED);
        if (!cas64(word_at(table, *slot), word, mine)) continue;
        table->fill(r, *slot, key);
        store_seq(&table->hashes[*slot], hash);
        return mine;
    }
    return 0;
}

/* The life of a slot that has this key, or 0. The look at the word comes last: the entry may begin another life. */
static uint64_t find(const struct table *table, uint64_t hash, const void *key)
{
    for (uint32_t slot = 0; slot < table->count; slot++) {
        if (load_seq(&table->hashes[slot]) != hash) continue;
        uint64_t word = load_seq(word_at(table, slot)), generation = slot_generation(word);
        if (!slot_is_there(word) || !table->same(table->entries + slot * table->stride, key)) continue;
        if (slot_generation(load_seq(word_at(table, slot))) == generation) return link_make(generation, slot);
    }
    return 0;
}

/* The life of `key`, made when there is none. 0: the table is full. */
static uint64_t intern(struct rtmw_region *r, const struct table *table, uint64_t hash, const void *key)
{
    uint64_t mine = 0, life = 0, *maker = maker_of(table, hash);
    uint32_t slot = 0;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        uint64_t last = load_seq(maker); /* before the look */
        activate(table, last);
        if ((life = find(table, hash, key))) break;
        if (!mine && !(mine = make_entry(r, table, hash, key, &slot))) break;
        if (!cas64(maker, last, link_make(slot_generation(mine), slot))) continue;
        activate(table, link_make(slot_generation(mine), slot));
        return link_make(slot_generation(mine), slot);
    }
    if (mine) slot_free(word_at(table, slot), mine);
    return life;
}

/* What an entry says may be written over meanwhile, by the maker of another one: who reads it looks at the word of the
 * entry afterwards. Hence whole words, with acquire and release. */
static void read_words(void *to, const void *shared, size_t bytes)
{
    const uint64_t *words = shared;
    for (size_t i = 0; i * 8 < bytes; i++) {
        uint64_t word = load_acquire(&words[i]);
        memcpy((uint8_t *)to + i * 8, &word, bytes - i * 8 < 8 ? bytes - i * 8 : 8);
    }
}

static void write_words(void *shared, const void *from, size_t bytes)
{
    uint64_t *words = shared;
    for (size_t i = 0; i * 8 < bytes; i++) {
        uint64_t word = 0;
        memcpy(&word, (const uint8_t *)from + i * 8, bytes - i * 8 < 8 ? bytes - i * 8 : 8);
        store_release(&words[i], word);
    }
}

static bool same_topic(const void *entry, const void *key)
{
    char name[NAME_BYTES];
    read_words(name, ((const struct topic *)entry)->name, NAME_BYTES);
    return strncmp(name, key, NAME_BYTES) == 0;
}

static void fill_topic(struct rtmw_region *r, uint32_t slot, const void *key)
{
    topic_reset(r, slot);
    write_words(r->topics[slot].name, key, strlen(key) + 1);
}

uint64_t topic_read(struct rtmw_region *r, uint32_t topic, char name[NAME_BYTES])
{
    uint64_t life = topic_life(r, topic);
    read_words(name, r->topics[topic].name, NAME_BYTES);
    name[NAME_BYTES - 1] = 0;
    return topic_life(r, topic) == life ? life : 0;
}

static bool same_type(const void *entry, const void *key)
{
    return load_acquire(&((const struct type_entry *)entry)->identity) == ((const rtmw_type *)key)->identity;
}

static void fill_type(struct rtmw_region *r, uint32_t slot, const void *key)
{
    struct type_entry *made = &r->types[slot];
    const rtmw_type *type = key;
    store_release(&made->identity, type->identity);
    store_release(&made->bytes, (uint32_t)type->description_bytes);
    write_words(made->name, type->name, strlen(type->name) + 1);
    write_words(made->description, type->description, type->description_bytes);
}

static struct table topic_table(struct rtmw_region *r)
{
    uint32_t count = r->header->topics;
    return (struct table){.entries = (uint8_t *)r->topics,
                          .stride = sizeof(struct topic),
                          .count = count,
                          .hashes = r->topic_directory,
                          .makers = r->topic_directory + count,
                          .made = &r->hints->topics_made,
                          .same = same_topic,
                          .fill = fill_topic};
}

static struct table type_table(struct rtmw_region *r)
{
    uint32_t count = r->header->types;
    return (struct table){.entries = (uint8_t *)r->types,
                          .stride = sizeof(struct type_entry),
                          .count = count,
                          .first = r->serves_peers ? first_open_type(count) : 0,
                          .hashes = r->type_directory,
                          .makers = r->type_directory + count,
                          .same = same_type,
                          .fill = fill_type};
}

/* Names with the characters of a pattern are kept free: a subscriber of "pump/" and a star would wait for ever for a
 * topic of just that name. */
bool is_topic_name(const char *name)
{
    size_t length = name ? strnlen(name, NAME_BYTES) : 0;
    if (length == 0 || length >= NAME_BYTES || strpbrk(name, "*?[")) return false;
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)name[i] < 0x20 || name[i] == 0x7F) return false;
    return true;
}

uint64_t topic_find(struct rtmw_region *r, const char *name)
{
    struct table table = topic_table(r);
    return is_topic_name(name) ? find(&table, hash_of(name), name) : 0;
}

enum { MOST_ROUNDS = 64 };

/* The life of `key`, for which slots are given back if there is none. 0: none can be. */
static uint64_t intern_making_room(struct rtmw_region *r, const struct table *table, uint64_t hash, const void *key,
                                   bool (*make_room)(struct rtmw_region *))
{
    uint64_t life = intern(r, table, hash, key);
    for (uint32_t in_vain = 0; !life; in_vain++) { /* others may take what came free, or have made this very entry */
        bool room = make_room(r);
        life = intern(r, table, hash, key);
        if (!room || in_vain == MOST_ROUNDS) break;
    }
    return life;
}

/* Idle topics give their slots back, or those do that only the dead used; else the oldest that only history keeps. */
static bool make_topic_slots(struct rtmw_region *r)
{
    return retire_topics(r) || (sweep_the_dead(r) && retire_topics(r)) || retire_kept_topic(r);
}

int topic_open(struct rtmw_region *r, const char *name, uint64_t *life)
{
    if (!is_topic_name(name)) return RTMW_BAD_NAME;
    struct table table = topic_table(r);
    *life = intern_making_room(r, &table, hash_of(name), name, make_topic_slots);
    if (!*life) return RTMW_NO_TOPIC_SLOT;
    raise_to(&r->hints->topics_top, link_index(*life) + 1);
    return RTMW_OK;
}

/* Types that nobody uses give their slots back; then those of messages that were held longer than their topic lasted; then
 * those that only the dead used, or the messages of idle topics. What history keeps is not given up for a type. */
static bool make_type_slots(struct rtmw_region *r)
{
    return retire_types(r) || reset_free_topics(r) || sweep_the_dead(r) || retire_topics(r);
}

int type_open(struct rtmw_region *r, const rtmw_type *type, uint64_t *life)
{
    *life = type == RTMW_ANY ? TYPE_ANY : TYPE_RAW;
    if (!type || type == RTMW_ANY) return RTMW_OK;
    if (!type->name || strlen(type->name) >= TYPE_NAME_BYTES || type->description_bytes > TYPE_BYTES)
        return RTMW_TOO_LARGE;
    struct table table = type_table(r);
    *life = intern_making_room(r, &table, type->identity, type, make_type_slots);
    return *life ? RTMW_OK : RTMW_NO_TYPE_SLOT;
}

/* Copied: a process that overwrites the region while somebody reads it shall not lead anybody out of it. */
uint64_t type_read(struct rtmw_region *r, uint32_t type, rtmw_type_copy *copy)
{
    _Static_assert(sizeof copy->name == TYPE_NAME_BYTES && sizeof copy->description == TYPE_BYTES, "rtmw.h says it");
    uint64_t life = type_life(r, type);
    if (!life || type >= r->header->types) return 0;
    const struct type_entry *entry = &r->types[type];
    uint32_t bytes = load_acquire(&entry->bytes);
    copy->identity = load_acquire(&entry->identity);
    copy->description_bytes = bytes < TYPE_BYTES ? bytes : TYPE_BYTES;
    read_words(copy->name, entry->name, TYPE_NAME_BYTES);
    copy->name[TYPE_NAME_BYTES - 1] = 0;
    read_words(copy->description, entry->description, copy->description_bytes);
    return type_life(r, type) == life ? life : 0;
}

int rtmw_type_find(rtmw_region *r, uint16_t type, rtmw_type_copy *copy)
{
    if (is_forked(r)) return RTMW_FORKED;
    return type_read(r, type, copy) ? RTMW_OK : RTMW_NO_TYPE;
}

uint64_t rtmw_type_life(rtmw_region *r, uint16_t type) { return is_forked(r) ? 0 : type_life(r, type); }

void rtmw_serve_peers(rtmw_region *r) { r->serves_peers = true; }

void sweep_half_made(struct rtmw_region *r, uint32_t dead)
{
    struct table tables[] = {topic_table(r), type_table(r)};
    for (int i = 0; i < 2; i++)
        for (uint32_t slot = 0; slot < tables[i].count; slot++) {
            uint64_t word = load_seq(word_at(&tables[i], slot));
            if (slot_owner(word) != dead) continue;
            if (slot_state_of(word) == SLOT_CLAIMED) slot_free(word_at(&tables[i], slot), word);
            if (slot_state_of(word) == SLOT_RETIRING) slot_rescue(word_at(&tables[i], slot), word);
        }
}

void topic_keep_bytes(struct topic *topic, struct publisher_block *block)
{
    fetch_add(&topic->retired_bytes, exchange(&block->bytes, 0));
}

/* A 64th of the subscriber table is a bit of `subscribed`: those in which the topic never had one are stepped over. */
static uint32_t subscriber_share(struct rtmw_region *r) { return (r->header->subscribers + 63) / 64; }

void topic_subscribed(struct rtmw_region *r, uint32_t topic, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << (slot / subscriber_share(r));
    if (!(load_seq(&r->topics[topic].subscribed) & bit)) fetch_or(&r->topics[topic].subscribed, bit);
}

struct subscriber_block *next_subscriber(struct rtmw_region *r, uint32_t topic, uint32_t *slot)
{
    uint32_t top = load_seq(&r->hints->subscribers_top), share = subscriber_share(r);
    uint64_t subscribed = load_seq(&r->topics[topic].subscribed);
    if (top > r->header->subscribers) top = r->header->subscribers;
    while (*slot < top) {
        uint32_t part = *slot / share, end = (part + 1) * share < top ? (part + 1) * share : top;
        if (!(subscribed & (UINT64_C(1) << part))) *slot = end;
        for (; *slot < end; ++*slot) {
            uint64_t word = load_seq(&r->subscriber_words[*slot]);
            if (slot_state_of(word) != SLOT_ACTIVE || slot_topic(word) != topic) continue;
            if (slot_owner(word) != NOBODY || !parked_is_over(r, *slot, word)) return &r->subscribers[*slot];
        }
    }
    return NULL;
}
