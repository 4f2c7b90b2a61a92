/* Records by what they are called: the dedupe window of ids, its snapshot, and the counts of keys. All of it knows hashes only. */
#include "ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "labels.h"
#include "reader.h"

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

/* ======== the file ======== */

/* The snapshot of the dedupe window, the file `ids`.
 *
 *   0       8         12    16     24      28     32
 *   | magic | version | crc | upto | count | zero | entries, oldest first … |      of a plain log
 *                                                 | floor | entries …     |      version 2, of a replicated log
 */

static const char MAGIC[8] = "RTMWIDS", NAME[] = "ids", UNNAMED[] = "ids.new";

enum { CRC_FROM = 16 };

struct ids_head {
    char magic[8];
    uint32_t version, crc; /* the CRC is of the log's uuid and of what follows it */
    uint64_t upto;
    uint32_t count, zero;
    uint64_t floor; /* of version 2 */
};
_Static_assert(sizeof(struct ids_head) == 40, "as in docs/formats/log-format.md");

static uint32_t version_of(const struct log_folder *folder)
{
    return folder->is_replicated ? LOG_REPLICATED : LOG_VERSION;
}

static size_t head_size(const struct log_folder *folder)
{
    return folder->is_replicated ? sizeof(struct ids_head) : offsetof(struct ids_head, floor);
}

static uint32_t crc_of(const struct log_folder *folder, const struct ids_head *head, const struct id_entry *entries)
{
    uint32_t crc = crc32c(folder->seed, (const uint8_t *)head + CRC_FROM, head_size(folder) - CRC_FROM);
    return crc32c(crc, (const uint8_t *)entries, head->count * sizeof *entries);
}

/* The snapshot, whose entries the caller frees; false: there is none, or it is not whole, or covers what lies above `end`. */
static bool read_snapshot(const struct log_folder *folder, uint64_t end, struct ids_snapshot *snapshot)
{
    const struct log_io *io = folder->io;
    struct id_entry *entries = NULL;
    struct ids_head head;
    const size_t size = head_size(folder);
    int file = io->open(io->disk, folder->folder, NAME, O_RDONLY);
    if (file < 0) return false;
    int64_t all = io->size(io->disk, file), count = io_read_all(io, file, &head, size, 0);
    bool is_ours = count == (int64_t)size && !memcmp(head.magic, MAGIC, sizeof MAGIC) &&
                   head.version == version_of(folder) && head.upto <= end &&
                   all == (int64_t)(size + head.count * sizeof *entries);
    if (is_ours) entries = malloc(head.count * sizeof *entries + 1);
    if (entries) count = io_read_all(io, file, entries, head.count * sizeof *entries, size);
    io->close(io->disk, file);
    bool is_whole =
        entries && count == (int64_t)(head.count * sizeof *entries) && head.crc == crc_of(folder, &head, entries);
    if (!is_whole) return free(entries), false;
    uint64_t floor = folder->is_replicated ? head.floor : head.count ? entries[0].position : head.upto;
    *snapshot = (struct ids_snapshot){.entries = entries, .count = head.count, .upto = head.upto, .floor = floor};
    return true;
}

static int add(struct ids *ids, const struct id_entry *entry, struct log_fault *fault)
{
    if (ids_reserve(ids)) return log_fail(fault, LOG_NO_MEMORY, "read", NAME, ENOMEM);
    ids_add(ids, entry, entry->position);
    return LOG_OK;
}

/* The ids of the records from `from` on. */
static int add_records(const struct log_folder *folder, struct ids *ids, uint64_t from, uint64_t end,
                       struct log_fault *fault)
{
    struct reader r;
    struct reader_record record;
    struct id_batch batch = {0};
    int code;
    reader_open_at(&r, folder, from);
    while ((code = reader_next(&r, end, &record, fault)) == LOG_OK) {
        struct record_parts parts = {record.labels, record.data, record.labels_size, record.data_size, 0};
        if (!id_batch_pass(&batch, &record.head, &parts, folder->uuid)) continue;
        code = add(ids, &batch.entry, fault);
        if (code) break;
    }
    reader_close(&r);
    return code == LOG_AT_END ? LOG_OK : code;
}

/* The process that saved it may have been killed before it synced the folder. Each trim from now on rests on it. */
static int make_name_durable(const struct log_folder *folder, struct log_fault *fault)
{
    int error = folder->io->sync_folder(folder->io->disk, folder->folder);
    return error ? log_fail(fault, LOG_FAILED, "sync of the folder", NAME, -error) : LOG_OK;
}

int ids_load(const struct log_folder *folder, struct ids *ids, uint64_t earliest, uint64_t end, uint64_t *upto,
             struct log_fault *fault)
{
    struct ids_snapshot there = {.floor = earliest};
    int code = read_snapshot(folder, end, &there) ? make_name_durable(folder, fault) : LOG_OK;
    bool has_gap = there.upto < earliest && there.entries; /* trimmed, and not in the snapshot */
    ids->floor = has_gap ? earliest : there.floor;
    for (uint32_t n = 0; n < there.count && !code; n++) code = add(ids, &there.entries[n], fault);
    *upto = there.upto;
    free(there.entries);
    return code ? code : add_records(folder, ids, *upto > earliest ? *upto : earliest, end, fault);
}

static int write_all(const struct log_folder *folder, int file, const struct ids_snapshot *snapshot)
{
    struct ids_head head = {.version = version_of(folder), .upto = snapshot->upto, .count = snapshot->count};
    const size_t size = head_size(folder);
    head.floor = snapshot->floor;
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.crc = crc_of(folder, &head, snapshot->entries);
    int error = io_write_all(folder->io, file, &head, size, 0);
    if (!error) error = io_write_all(folder->io, file, snapshot->entries, head.count * sizeof(struct id_entry), size);
    return error ? error : folder->io->sync(folder->io->disk, file);
}

int ids_save(const struct log_folder *folder, const struct ids_snapshot *snapshot, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, UNNAMED, O_RDWR | O_CREAT | O_TRUNC);
    int error = file < 0 ? file : write_all(folder, file, snapshot);
    if (file >= 0) io->close(io->disk, file);
    if (!error) error = io->rename(io->disk, folder->folder, UNNAMED, NAME);
    if (!error) error = io->sync_folder(io->disk, folder->folder);
    if (!error) return LOG_OK;
    if (io_is_full(error)) {
        io->unlink(io->disk, folder->folder, UNNAMED);
        return log_fail(fault, LOG_FULL, "write", UNNAMED, -error);
    }
    return log_fail(fault, LOG_FAILED, "write", UNNAMED, -error);
}

int ids_truncate(const struct log_folder *folder, uint64_t end, struct log_fault *fault)
{
    struct ids_snapshot there;
    if (!read_snapshot(folder, UINT64_MAX, &there)) return LOG_OK;
    int code = LOG_OK;
    if (there.upto > end) {
        while (there.count && there.entries[there.count - 1].position >= end) there.count--;
        there.upto = end;
        if (there.floor > end) there.floor = end;
        code = ids_save(folder, &there, fault);
    }
    free(there.entries);
    return code;
}

/* ======== keys ======== */

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

/* ======== siphash ======== */

enum { WORD = 8, ROUNDS = 2, LAST_ROUNDS = 4 };

struct state {
    uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void turn(struct state *s, int rounds)
{
    for (int n = 0; n < rounds; n++) {
        s->a += s->b;
        s->b = rotate(s->b, 13) ^ s->a;
        s->a = rotate(s->a, 32);
        s->c += s->d;
        s->d = rotate(s->d, 16) ^ s->c;
        s->a += s->d;
        s->d = rotate(s->d, 21) ^ s->a;
        s->c += s->b;
        s->b = rotate(s->b, 17) ^ s->c;
        s->c = rotate(s->c, 32);
    }
}

static void take(struct state *s, uint64_t word)
{
    s->d ^= word;
    turn(s, ROUNDS);
    s->a ^= word;
}

static uint64_t result(const struct state *s) { return s->a ^ s->b ^ s->c ^ s->d; }

struct siphash siphash(const uint8_t key[16], const void *given, size_t size)
{
    const uint8_t *bytes = given;
    uint64_t keys[2], word = 0;
    memcpy(keys, key, sizeof keys);
    struct state s = {
        keys[0] ^ UINT64_C(0x736f6d6570736575),
        keys[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
        keys[0] ^ UINT64_C(0x6c7967656e657261),
        keys[1] ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = size - size % WORD;
    for (size_t at = 0; at < whole; at += WORD) {
        memcpy(&word, bytes + at, WORD);
        take(&s, word);
    }
    word = 0;
    if (size > whole) memcpy(&word, bytes + whole, size - whole);
    take(&s, word | (uint64_t)size << 56);
    struct siphash made;
    s.c ^= 0xee;
    turn(&s, LAST_ROUNDS);
    made.low = result(&s);
    s.b ^= 0xdd;
    turn(&s, LAST_ROUNDS);
    made.high = result(&s);
    return made;
}
