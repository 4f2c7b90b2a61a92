/* Records by what they are called: ids, of which each is appended once, and keys. */
#ifndef RTMW_LOG_IDS_H
#define RTMW_LOG_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "reader.h"
#include "record.h"
#include "segment.h"

/* ======== siphash ======== */

/* SipHash-2-4 with a result of 128 bits: a keyed hash of short texts, which nobody without the key can make collide.
 *
 * J.-P. Aumasson and D. J. Bernstein, SipHash: a fast short-input PRF, INDOCRYPT 2012. The key is the log's uuid.
 */

/* Two words, which are the 16 bytes of the result in their order. Any thread; it does not block. */
struct siphash {
    uint64_t low, high;
};

struct siphash siphash(const uint8_t key[16], const void *bytes, size_t size);

/* ======== ids ======== */

/* The dedupe window: the ids of the last records that had one, so that an append that is made again is not appended again.
 *
 *   ring   | entry | entry | entry … |    in the order of positions; where the window is full, the oldest gives its place
 *   heads  | newest entry of a bucket |   older ones of the bucket follow by `older`
 *
 * An entry holds hashes and no bytes of the id, so that a long id takes no more memory than a short one. The table is in
 * memory, and follows from the records. Its snapshot, the file `ids`, spares a writer that begins to read all of them, and
 * keeps ids of records that were trimmed. A snapshot holds nothing that is not durable: a power cut would take the record,
 * and the append that is made again would be answered with its position.
 *
 * A batch of several records has one id at most, on its first record, and one entry.
 */

struct id_entry {
    uint64_t low, high; /* SipHash of the kind of the id and its bytes */
    uint64_t content;   /* SipHash, its first half, of labels and data of all its records */
    uint64_t position;
    uint32_t length; /* of the record, from which its end follows; of several: bytes of all of them but for one head */
    uint32_t kind;   /* 0: of records with data; else as the record has it */
};
_Static_assert(sizeof(struct id_entry) == 40, "as in docs/formats/log-format.md");

struct ids {
    struct id_entry *ring;
    uint32_t *older, *heads;
    uint32_t window; /* entries at most */
    uint32_t room;   /* entries that fit into the ring; a power of two, or the window */
    uint32_t mask;   /* buckets less one */
    uint32_t first, count;
    uint64_t floor; /* the ids of all records from this position on are here */
};

/* The entry of a batch in the making: its records are passed one after the other. Begins with zeros. */
struct id_batch {
    struct id_entry entry;
    struct siphash content; /* of the records so far; the key of what follows */
    uint64_t size;
    bool is_inside, has_id;
};
/* The next record; of its head, position, kind and RECORD_MORE count. True: the batch is whole and has an id, and `entry` is its
 * entry. The labels are as pack_labels makes them. */
bool id_batch_pass(struct id_batch *batch, const struct record_head *head, const struct record_parts *parts,
                   const uint8_t uuid[16]);
/* The entry of the id of these labels, but for position and content; false: they have none. */
bool id_of_labels(const void *labels, size_t size, const uint8_t uuid[16], struct id_entry *entry);
static inline uint64_t id_entry_end(const struct id_entry *entry)
{
    return entry->position + record_size(entry->length);
}

void ids_begin(struct ids *ids, uint32_t window);
void ids_free(struct ids *ids);
/* The entry with this id, or NULL; valid until the next ids_add. */
const struct id_entry *ids_find(const struct ids *ids, const struct id_entry *id);
/* Room for one more: 0, or -ENOMEM and nothing is changed. Idempotent. */
int ids_reserve(struct ids *ids);
/* ids_reserve has said 0. Positions, which replace that of the entry, ascend from call to call. */
void ids_add(struct ids *ids, const struct id_entry *entry, uint64_t position);

/* Fills the table from the snapshot, if it is whole, and from the records behind it up to `end`. `*upto`: what the
 * snapshot has covered, which is durable then. `floor` follows: in a plain log as if the window had been full. LOG_DAMAGED: a record in between is spoiled; LOG_FAILED, LOG_NO_MEMORY. */
int ids_load(const struct log_folder *folder, struct ids *ids, uint64_t earliest, uint64_t end, uint64_t *upto,
             struct log_fault *fault);
struct ids_snapshot {
    struct id_entry *entries; /* of records below `upto`, oldest first; the owner frees it */
    uint32_t count;
    uint64_t upto, floor;
};
/* A copy of what lies below `upto`, for ids_save; false: no memory. */
bool ids_copy(const struct ids *ids, uint64_t upto, struct ids_snapshot *snapshot);
/* The snapshot, of what is durable. Written beside the old one, synced, put in its place, the folder synced. LOG_FULL: the
 * old one stays; LOG_FAILED, LOG_NO_MEMORY. */
int ids_save(const struct log_folder *folder, const struct ids_snapshot *snapshot, struct log_fault *fault);
/* Of the snapshot, if there is one, only what lies below `end` stays. As ids_save. Idempotent. */
int ids_truncate(const struct log_folder *folder, uint64_t end, struct log_fault *fault);

/* ======== keys ======== */

/* How often each key occurs: a table of hashes for a compaction, of bounded size.
 *
 * A key is its kind and bytes, as 128 bits of SipHash with the log's uuid as the secret: two keys of a log do not meet in
 * practice, and a long key takes no more memory than a short one. (Kafka's log cleaner does the same, with MD5.)
 */

enum { KEYS_MOST = 1 << 19 }; /* in a table of 24 MiB */

struct key_count {
    uint64_t low, high;   /* 0 and 0: empty */
    uint32_t total, seen; /* records with the key; those that were passed by now */
};

struct keys {
    struct key_count *slots;
    uint32_t slot_count, count;
};

/* The hash of a record's key; false: it has none. */
bool key_of(const struct reader_record *record, const uint8_t uuid[16], struct key_count *key);
/* The count of this key, or NULL. Valid until the next keys_add. */
struct key_count *keys_find(const struct keys *keys, const struct key_count *key);
/* The same; where there is none, a new one of 0. NULL: KEYS_MOST are in the table, or there is no memory. */
struct key_count *keys_add(struct keys *keys, const struct key_count *key);
void keys_free(struct keys *keys);

#endif
