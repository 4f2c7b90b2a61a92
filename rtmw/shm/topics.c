/* Slots of topics, types and endpoints: how a name finds its slot, how long that is its own, and who gives it back.
 *
 * Callers rely on this: a life of a topic or type, {generation | slot}, goes on for as long as an endpoint of theirs names
 * it, and its number never means another one. Nobody waits for a maker or a retirer, which may be stopped or dead.
 */
#include "core.h"

#include <string.h>

#include "identity.h"

/* ======== names ======== */

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
 * When their slots are given back: see below. The slots of types below `first_open_type` are for programs of this host: what
 * a peer of a node describes gets one of the others. A type that is there already is found by both.
 */

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

/* ======== slots of endpoints ======== */

/* Slots of endpoints. The word of a slot names its owner and its topic, so a sweep finds the slots of the dead, and whoever
 * wants to give the slot of a topic back finds the endpoints that keep it.
 */

uint64_t slot_claim(struct rtmw_region *r, uint64_t *words, uint32_t count, uint32_t *top, uint32_t topic,
                    uint32_t *slot)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        for (uint32_t i = 0; i < count; i++) {
            uint64_t word = load_relaxed(&words[i]);
            if (slot_state_of(word) != SLOT_FREE) continue;
            raise_to(top, i + 1);
            uint64_t mine = slot_make(slot_generation(word) + 1, topic, r->me, SLOT_CLAIMED);
            if (!cas64(&words[i], word, mine)) continue; /* pairs with mark_used */
            *slot = i;
            return mine;
        }
        if (attempt == 0 && !parked_sweep(r) && !sweep_the_dead(r)) break;
    }
    return 0;
}

/* Topic and type may give their slots back after they were found and before the endpoint names them: then all over again. */
int endpoint_claim(struct rtmw_region *r, const struct wanted *wanted, struct claimed *claimed)
{
    uint64_t *words = wanted->publishes ? r->publisher_words : r->subscriber_words, topic, type;
    uint32_t count = wanted->publishes ? r->header->publishers : r->header->subscribers;
    uint32_t *top = wanted->publishes ? &r->hints->publishers_top : &r->hints->subscribers_top;
    for (uint32_t in_vain = 0; in_vain < MOST_IN_VAIN; in_vain++) {
        int code = type_open(r, wanted->type, &type);
        if (code == RTMW_OK) code = topic_open(r, wanted->topic, &topic);
        if (code != RTMW_OK) return code;
        *claimed = (struct claimed){.topic = link_index(topic), .type = link_index(type)};
        claimed->word = slot_claim(r, words, r->serves_peers ? first_kept_endpoint(count) : count, top, claimed->topic,
                                   &claimed->slot);
        if (!claimed->word) return RTMW_NO_ENDPOINT_SLOT;
        store_seq(wanted->publishes ? &r->publishers[claimed->slot].type : &r->subscribers[claimed->slot].type,
                  claimed->type);
        if (topic_stands(r, topic) && type_stands(r, type)) return RTMW_OK; /* pairs with retire_topics, retire_types */
        slot_free(&words[claimed->slot], claimed->word);
    }
    return RTMW_DAMAGED;
}

/* ======== giving back ======== */

/* Topics and types that nobody uses give their slots back, when a new one finds the table full.
 *
 *              a maker             its name is decided              nobody uses it, it seems
 *      FREE ───────────────► CLAIMED ────────────────────► ACTIVE ─────────────────────────► RETIRING
 *       ▲                       ▲ │                          ▲        somebody does            │ │
 *       └───────────────────────┼─┘ reset                    └─────────────────────────────────┘ │
 *                               └────────────────────────────────────────────────────────────────┘ nobody does
 *
 * A topic is idle if and only if: (1) no endpoint's slot names it, whatever the state of that slot; (2) nobody traces it;
 * (3) no publisher promised `history`, or its queues hold no message that has not expired. Their other messages were
 * promised to nobody: they are kept while memory and slots are plenty. When no topic is idle, the one without (1) and (2)
 * on which the last message is the oldest forgets what it keeps (reclaim.c), and so becomes idle.
 *
 * Two looks: the retirer makes the word RETIRING and then looks for users; a user claims its endpoint (or sets its tracer
 * bit) and then looks at the word. One of the two sees the other. A user that finds the word RETIRING makes it ACTIVE
 * again, and the retirer's last CAS fails. Another retirer makes it RETIRING by itself, with the same effect. So nobody waits
 * for a retirer, which may be stopped or dead: it keeps the one slot that it has CLAIMED. The word carries its owner, so that
 * the last CAS never meets the RETIRING of another process.
 *
 * A type is unused if and only if: (1) no endpoint's block names it, whatever the state of its slot; (2) no descriptor that is
 * not FREE does, and so no message that lies in a queue or is held. The looks come in this order: a publisher that the first
 * does not see any more has linked its messages, which the second sees. An endpoint names its type in its block, and then
 * looks at the type's word. The offers of a band may go on naming a type that is gone: see topic_reset. So may not the last
 * message of a topic that is FREE, unless somebody held it when that was reset: then it is reset once more, when slots of
 * types are short (reset_free_topics).
 *
 * A topic that is FREE keeps its queues, each with its last message. A process that has the slot CLAIMED resets what
 * belongs to a life (topic_reset): the retirer, and again the next maker, because the retirer may have died in it. The
 * last sequence of each band becomes its `began` and its `origin`: messages that are not newer do not belong to the next topic. So
 * sequences go on, and head, tail and cursor words never repeat; a process that still evicts, sweeps or looks at old
 * messages does to them what it would have done before.
 */

enum { SHARE = 64 }; /* one of so many slots is given back at once, and one more */

/* Is a message of this band there, of this life, and not expired? Walks as a subscriber would. */
static bool has_messages(struct rtmw_region *r, struct band *band, uint64_t now)
{
    uint64_t sequence = band_start(band, band_tail_sequence(r, band)), missed = 0;
    uint32_t index = NIL;
    bool kept = false;
    while (!kept && queue_step(r, band, &index, &sequence, &missed) == STEP_OK)
        kept = !is_expired(&r->descriptors[index], now);
    if (index != NIL) let_go(r, index);
    return kept;
}

static bool keeps_messages(struct rtmw_region *r, struct topic *t)
{
    uint64_t now = monotonic_ns();
    for (uint32_t b = 0; b < BANDS; b++)
        if (has_messages(r, &t->band[b], now)) return true;
    return false;
}

static bool is_used(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    struct topic *t = &r->topics[topic];
    return is_marked(used, topic) || load_seq(&t->tracers[0]) | load_seq(&t->tracers[1]); /* pairs with trace_begin */
}

static bool is_idle(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    struct topic *t = &r->topics[topic];
    return !is_used(r, topic, used) && (!load_seq(&t->history) || !keeps_messages(r, t));
}

static bool begin_to_retire(struct rtmw_region *r, uint64_t *word, uint64_t seen)
{
    return cas64(word, seen, slot_make(slot_generation(seen), 0, r->me, SLOT_RETIRING));
}

static bool is_retiring_by_me(struct rtmw_region *r, uint64_t seen)
{
    return seen == slot_make(slot_generation(seen), 0, r->me, SLOT_RETIRING);
}

/* CLAIMED by me, in another life, so that nobody takes it for half made; 0: it was rescued. */
static uint64_t end_retiring(struct rtmw_region *r, uint64_t *word, uint64_t seen)
{
    uint64_t mine = slot_make(slot_generation(seen) + 1, 0, r->me, SLOT_CLAIMED);
    return cas64(word, seen, mine) ? mine : 0;
}

/* ---- topics ---- */

static bool begin_topic(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    uint64_t *word = &r->topics[topic].word, seen = load_seq(word);
    return slot_is_there(seen) && is_idle(r, topic, used) && begin_to_retire(r, word, seen);
}

/* The state of the topic is dropped at once, by a process that has the slot to itself. */
static void give_back(struct rtmw_region *r, uint32_t topic, uint64_t mine)
{
    topic_reset(r, topic);
    slot_free(&r->topics[topic].word, mine);
}

static bool end_topic(struct rtmw_region *r, uint32_t topic, const struct marks *used)
{
    uint64_t *word = &r->topics[topic].word, seen = load_seq(word);
    if (!is_retiring_by_me(r, seen)) return false;
    if (!is_idle(r, topic, used)) return slot_rescue(word, seen), false;
    uint64_t mine = end_retiring(r, word, seen);
    if (mine) give_back(r, topic, mine);
    return mine != 0;
}

/* Looks at topics from `first` on, at most `count`, and retires some of them; how many it looked at. */
static uint32_t retire_some(struct rtmw_region *r, uint32_t first, uint32_t count, uint32_t *retired)
{
    struct marks used;
    uint32_t topics = r->header->topics, looked = 0, begun = 0;
    mark_used(r, &used);
    for (; looked < count && begun <= topics / SHARE; looked++)
        begun += begin_topic(r, (first + looked) % topics, &used);
    if (!begun) return looked;
    mark_used(r, &used); /* pairs with endpoint_claim */
    for (uint32_t i = 0; i < looked; i++) *retired += end_topic(r, (first + i) % topics, &used);
    return looked;
}

uint32_t retire_topics(struct rtmw_region *r)
{
    uint32_t topics = r->header->topics, looked = 0, retired = 0;
    uint32_t first = load_relaxed(&r->hints->topics_made) % topics; /* the oldest, about */
    while (looked < topics && !retired) looked += retire_some(r, (first + looked) % topics, topics - looked, &retired);
    return retired;
}

/* When something was published last. A hint: descriptors may begin another life meanwhile. */
static uint64_t last_published(struct rtmw_region *r, struct topic *t)
{
    uint64_t last = 0;
    for (uint32_t b = 0; b < BANDS; b++) {
        struct descriptor *d = descriptor_at(r, link_index(load_seq(&t->band[b].tail)));
        uint64_t published = d ? load_relaxed(&d->published_ns) : 0;
        if (published > last) last = published;
    }
    return last;
}

/* Of the topics that nobody uses, the life of the one on which the last message is the oldest; 0: all are used. */
static uint64_t find_oldest(struct rtmw_region *r)
{
    struct marks used;
    uint64_t oldest = 0, when = UINT64_MAX;
    mark_used(r, &used);
    for (uint32_t topic = 0; topic < r->header->topics; topic++) {
        uint64_t life = topic_life(r, topic), published = life ? last_published(r, &r->topics[topic]) : 0;
        if (!life || published >= when || is_used(r, topic, &used)) continue;
        oldest = life;
        when = published;
    }
    return oldest;
}

/* What the topic keeps is forgotten; then it is idle like any other, unless somebody has come to use it. */
bool retire_kept_topic(struct rtmw_region *r)
{
    for (uint32_t in_vain = 0; in_vain < SHARE; in_vain++) {
        uint64_t oldest = find_oldest(r);
        if (!oldest) return false;
        topic_forget(r, oldest, true);
        if (retire_topics(r)) return true;
    }
    return false;
}

/* ---- types ---- */

/* A last message of the topic names a type, though nobody holds it any more. */
static bool has_typed_rest(struct rtmw_region *r, struct topic *t)
{
    for (uint32_t b = 0; b < BANDS; b++) {
        struct descriptor *last = descriptor_at(r, link_index(load_seq(&t->band[b].tail)));
        if (last && load_seq(&last->type) != TYPE_RAW && !descriptor_is_held(last)) return true;
    }
    return false;
}

/* The same steps as of a topic that is retired, with the slot to itself. */
uint32_t reset_free_topics(struct rtmw_region *r)
{
    uint32_t reset = 0;
    for (uint32_t topic = 0; topic < r->header->topics; topic++) {
        uint64_t *word = &r->topics[topic].word, seen = load_seq(word);
        if (slot_state_of(seen) != SLOT_FREE || !has_typed_rest(r, &r->topics[topic])) continue;
        uint64_t mine = end_retiring(r, word, seen);
        if (mine) give_back(r, topic, mine);
        reset += mine != 0;
    }
    return reset;
}

static void mark_type(struct rtmw_region *r, struct marks *used, uint32_t type)
{
    if (type < r->header->types) used->bit[type / 64] |= UINT64_C(1) << type % 64;
}

static void mark_types(struct rtmw_region *r, struct marks *used)
{
    uint32_t publishers = load_seq(&r->hints->publishers_top), subscribers = load_seq(&r->hints->subscribers_top);
    memset(used, 0, sizeof *used);
    for (uint32_t slot = 0; slot < publishers && slot < r->header->publishers; slot++)
        if (slot_state_of(load_seq(&r->publisher_words[slot])) != SLOT_FREE)
            mark_type(r, used, load_seq(&r->publishers[slot].type));
    for (uint32_t slot = 0; slot < subscribers && slot < r->header->subscribers; slot++)
        if (slot_state_of(load_seq(&r->subscriber_words[slot])) != SLOT_FREE)
            mark_type(r, used, load_seq(&r->subscribers[slot].type));
    for (uint32_t i = 0; i < r->header->descriptors; i++)
        if (state_kind(load_seq(&r->descriptors[i].state)) != FREE)
            mark_type(r, used, load_seq(&r->descriptors[i].type));
}

static bool end_type(struct rtmw_region *r, uint32_t type, const struct marks *used)
{
    uint64_t *word = &r->types[type].word, seen = load_seq(word);
    if (!is_retiring_by_me(r, seen)) return false;
    if (is_marked(used, type)) return slot_rescue(word, seen), false;
    uint64_t mine = end_retiring(r, word, seen);
    return mine && slot_free(word, mine);
}

/* All of them at once: there is nothing in a type that is worth keeping. */
uint32_t retire_types(struct rtmw_region *r)
{
    struct marks used;
    uint32_t begun = 0, retired = 0;
    reclaim_passed(r);
    mark_types(r, &used);
    for (uint32_t type = 0; type < r->header->types; type++) {
        uint64_t *word = &r->types[type].word, seen = load_seq(word);
        begun += slot_is_there(seen) && !is_marked(&used, type) && begin_to_retire(r, word, seen);
    }
    if (!begun) return 0;
    mark_types(r, &used); /* pairs with type_stands */
    for (uint32_t type = 0; type < r->header->types; type++) retired += end_type(r, type, &used);
    return retired;
}

/* ---- a new life of a topic ---- */

/* The offers of the next life begin at 0: else a subscriber that has counted before one of them came, as all do that are
 * there before the publisher, takes messages of the last life for unread ones. So these are counted together, as of a
 * further offer. The last one stays, and is nobody's message any more: unless a reader of the last life holds it, it no
 * longer uses its type. */
static void forget_offers(struct rtmw_region *r, struct band *band)
{
    struct descriptor *last = descriptor_at(r, link_index(load_seq(&band->tail)));
    if (!last) return;
    for (uint32_t i = 0; i < OFFERS; i++) store_relaxed(&last->count[i], 0u);
    store_relaxed(&last->offer, (uint8_t)OFFERS);
    if (!descriptor_is_held(last)) store_relaxed(&last->type, (uint16_t)TYPE_RAW);
}

/* All but the last message goes; an evictor that is there at the same time helps. */
static void drop_band(struct rtmw_region *r, struct band *band)
{
    uint64_t last = queue_catch_up(r, band);
    store_relaxed(&band->origin, last);
    store_relaxed(&band->began, last);
    for (uint32_t left = r->header->descriptors; left > 0 && band_head_sequence(band, last) < last; left--)
        queue_evict(r, band, last, STASH);
    forget_offers(r, band);
}

/* Within a life of a topic offers stay, also those of a type that is gone. Another type in its slot then goes on counting
 * where that ended. This does no harm: who takes the new type begins behind all messages of the old one, which were passed
 * before its slot was given back, and counts differences from there. */
void topic_reset(struct rtmw_region *r, uint32_t topic)
{
    struct topic *t = &r->topics[topic];
    uint32_t bands = load_seq(&t->bands);
    store_relaxed(&t->retired_bytes, 0);
    store_relaxed(&t->history, 0u);
    store_relaxed(&t->timely, 0u);
    store_relaxed(&t->reliable, 0u);
    for (uint32_t b = 0; b < BANDS; b++)
        if (bands & (1u << b)) drop_band(r, &t->band[b]);
    for (uint32_t b = 0; b < BANDS; b++) {
        store_relaxed(&t->band[b].offers, 0);
        if (bands & (1u << b)) evictable_mark(r, topic, b); /* messages that history kept may go */
    }
}
