/* How often each key occurs: a table of hashes for a compaction, of bounded size.
 *
 * A key is its kind and bytes, as 128 bits of SipHash with the log's uuid as the secret: two keys of a log do not meet in
 * practice, and a long key takes no more memory than a short one. (Kafka's log cleaner does the same, with MD5.)
 */
#ifndef RTMW_LOG_KEYS_H
#define RTMW_LOG_KEYS_H

#include "reader.h"

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
