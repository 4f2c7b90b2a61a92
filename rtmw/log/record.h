/* A record: 32 bytes, then what it carries, then zeros up to a multiple of eight. Each byte: docs/formats/log-format.md.
 *
 *   0        4      8          16      20     21      22     24           32
 *   | length | crc | lsn      | epoch | kind | flags | zero | time_ns    | labels? | data … | zeros |
 *
 * A record is valid if and only if: (1) `lsn` is the position at which it lies, so that what a file held before it was
 * used for this segment is not; (2) it ends within its segment; (3) `zero` is 0, and `kind` is not; (4) the CRC-32C over
 * the log's uuid, `length`, and everything from `lsn` to the last zero is `crc`.
 */
#ifndef RTMW_LOG_RECORD_H
#define RTMW_LOG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RECORD_HEAD = 32, RECORD_ALIGN = 8 };

enum record_kind {
    RECORD_DATA = 1,
    RECORD_FENCE = 2, /* has an id and no data: no record with data will ever have this id. Readers pass over it */
};
enum record_flags {
    RECORD_LABELS = 1, /* the data begin with key and id */
    RECORD_MORE = 2,   /* the next record belongs to the same batch: all of a batch is there, or nothing */
};

struct record_head {
    uint32_t length; /* of labels and data */
    uint32_t crc;
    uint64_t lsn;
    uint32_t epoch;
    uint8_t kind, flags;
    uint16_t zero;
    uint64_t time_ns; /* wall clock, when it was appended */
};
_Static_assert(sizeof(struct record_head) == RECORD_HEAD, "as in docs/formats/log-format.md");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files of the log are little endian");

/* What a record is made of. `labels`: a multiple of eight bytes, or none. */
struct record_parts {
    const void *labels, *data;
    size_t labels_size, data_size;
    uint64_t time_ns; /* when it was appended, for a copy; 0: now */
};

/* Bytes of a record with so much behind its head. */
static inline uint64_t record_size(uint64_t length)
{
    return (RECORD_HEAD + length + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
}

/* Makes the record at `to`, which has room for record_size; `head` says all but length and crc. */
void record_put(void *to, const struct record_head *head, const struct record_parts *parts, uint32_t seed);
#define RECORD_ANY UINT64_MAX /* a position: whichever the record says */

/* Is the CRC of these bytes, a record, what it says? */
bool record_is_intact(const uint8_t *bytes, uint64_t size, uint32_t seed);

/* The size of the valid record of position `lsn` at `bytes`, of which so many are there; 0: there is none.
 * `*needs`: if more bytes than `available` have to be looked at to say so, how many; else 0. At most `limit`. */
static inline uint64_t record_check(const void *bytes, uint64_t available, uint64_t limit, uint64_t lsn, uint32_t seed,
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
    return record_is_intact(bytes, size, seed) ? size : 0;
}
/* With what the CRCs of a log begin: the CRC of its uuid. */
uint32_t record_seed(const uint8_t uuid[16]);

#endif
