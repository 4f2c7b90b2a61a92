/* A segment: a file that holds the records of a range of positions.
 *
 *   0              4 KiB           8 KiB           12 KiB
 *   | head         | mark 0        | mark 1        | records, one behind the other … | zeros, or what was there before |
 *
 * Head: which log, which first position, how large; written and synced before the segment gets its name, and never again.
 * Marks: two slots, written in turn, each in a block of its own, so that a torn write spoils one of them at most. A mark
 * says up to where the records were durable when it was written; the newest valid one is the watermark. The flusher
 * writes one with a batch, for the batches before, if the newest one is 10 ms old; and when it has nothing else to do, for
 * all.
 * A sealed mark says that the segment ends there, and that the next one is durable.
 *
 * A sealed segment may be compacted (maker.h): another file, in its place, with some of its records. They lie one behind
 * the other, in the order of their positions, which they keep; so the place of a record does not follow from its position,
 * and a gap between two positions is what compaction removed. The head is of version 2 and says how many bytes of
 * records there are: fewer that are valid are damage.
 */
#ifndef RTMW_LOG_SEGMENT_H
#define RTMW_LOG_SEGMENT_H

#include "log.h"

enum {
    SEGMENT_BLOCK = 4096,
    SEGMENT_DATA = 3 * SEGMENT_BLOCK, /* where the records begin */
    SEGMENT_LEAST = 64 * 1024,
    SEGMENT_NAME = 32,     /* bytes of a name, with its zero */
    SEGMENT_COMPACTED = 2, /* version of its head */
};

struct segment_head {
    char magic[8];
    uint32_t version, crc; /* the CRC is of the rest of the block */
    uint8_t uuid[16];
    uint64_t base, size; /* its first position; bytes of the file */
    uint64_t created_ns;
    uint32_t epoch, zero;
    uint64_t end, bytes, records; /* of version 2: where the next segment begins; what is in this one. Else 0 */
};
_Static_assert(sizeof(struct segment_head) == 88, "as in docs/formats/log-format.md");

enum mark_flags {
    MARK_SEALED = 1, /* the segment ends there */
    MARK_CLEAN = 2,  /* nothing was written behind it: its writer has closed the log, or recovery has cleaned up */
    MARK_REACH = 8,  /* from this bit on: its reach in blocks, see segment_reach; 0: the end of the file */
};

struct segment_mark {
    char magic[8];
    uint32_t crc, flags; /* the CRC is of the log's uuid and of what follows it */
    uint64_t base, number, durable, time_ns;
};
_Static_assert(sizeof(struct segment_mark) == 48, "as in docs/formats/log-format.md");

struct segment {
    int file; /* -1: none */
    uint64_t base, size;
    uint64_t mark; /* number of the newest mark */
    uint64_t
        reach; /* of one that is written: the newest durable mark says that nothing lies at this offset or behind */
    uint64_t created_ns;
    bool is_compacted;
    uint64_t end, bytes, records; /* of one that is compacted */
};

static inline uint64_t segment_capacity(const struct segment *s) { return s->size - SEGMENT_DATA; }
/* The offset of a place: of a position, or, in a compacted segment, of the position that a record would have without gaps. */
static inline uint64_t segment_offset(const struct segment *s, uint64_t place)
{
    return SEGMENT_DATA + (place - s->base);
}
/* Behind the last place at which a record may lie. */
static inline uint64_t segment_last_place(const struct segment *s)
{
    return s->base + (s->is_compacted ? s->bytes : segment_capacity(s));
}

void segment_name(uint64_t base, char name[SEGMENT_NAME]);
/* Of the index of a sealed segment. */
void index_name(uint64_t base, char name[SEGMENT_NAME]);
bool segment_base(const char *name, uint64_t *base); /* false: this is not the name of a segment */

/* The first positions of all segments, ascending; the caller frees them. LOG_FAILED, LOG_NO_MEMORY. */
int segment_list(const struct log_folder *folder, uint64_t **bases, size_t *count, struct log_fault *fault);

/* Head and both marks of a segment that has no name yet: `segment` says file, base and size; `epoch` is that of its first
 * record, if that is written. Not synced. 0 or -errno. */
int segment_begin(const struct log_folder *folder, const struct segment *segment, uint32_t epoch);
/* The same of one that is compacted and has all its records: `segment` says of which; sealed at `sealed_ns`. */
int segment_begin_compacted(const struct log_folder *folder, const struct segment *segment, uint64_t sealed_ns);
/* Opens the segment of this base and looks at its head; flags of open(2). A code, and `fault`. */
int segment_open(const struct log_folder *folder, uint64_t base, int flags, struct segment *segment,
                 struct log_fault *fault);
void segment_close(const struct log_folder *folder, struct segment *segment);

/* The newest valid mark, LOG_DAMAGED where none is valid. Sets segment->mark. */
int segment_read_mark(const struct log_folder *folder, struct segment *segment, struct segment_mark *mark,
                      struct log_fault *fault);
/* The reach of a mark is an offset in the file at which, and behind which, nothing was ever written but zeros: recovery has
 * nothing to remove there. A record that ends behind it is written only when a mark with a longer one is durable. */
static inline uint64_t segment_reach(const struct segment *s, uint32_t flags)
{
    uint64_t reach = (uint64_t)(flags >> MARK_REACH) * SEGMENT_BLOCK;
    return reach && reach < s->size ? reach : s->size;
}
static inline uint32_t segment_reach_flags(const struct segment *s, uint64_t reach)
{
    return reach < s->size ? (uint32_t)(reach / SEGMENT_BLOCK) << MARK_REACH : 0;
}
/* The next mark, into the slot of the older one; not synced. 0 or -errno. */
int segment_write_mark(const struct log_folder *folder, struct segment *segment, uint64_t durable, uint32_t flags);

/* ======== spares ======== */

/* A spare: the file of the next segment, made ahead.
 *
 * It is filled with zeros and synced, because a write into blocks that a file already has needs no change of the file
 * system's own books at the sync: that is faster than a write that extends a file, and cannot meet a full disk.
 */

/* Makes the file `spare` of so many bytes, and leaves it open. LOG_FULL: the disk has no room; nothing is left behind then.
 * `stop`: ends it early when it is not 0 any more (LOG_CLOSED); NULL: never. */
int spare_make(const struct log_folder *folder, uint64_t size, int *file, const uint32_t *stop,
               struct log_fault *fault);
/* The same with the file `spare` that a trim has left, whose blocks the disk has given already: it is filled with zeros in
 * place. No LOG_FULL. Zeros and not what it held: a record's data may look like a record of a later position. */
int spare_refill(const struct log_folder *folder, uint64_t size, int *file, const uint32_t *stop,
                 struct log_fault *fault);
/* It becomes a segment, durable with its name. `spare` has file, size and base, and gets the rest; `epoch`: of its first
 * record. */
int spare_name(const struct log_folder *folder, struct segment *spare, uint32_t epoch, struct log_fault *fault);
/* Away with it: it was not used. `file`: its descriptor, or -1. */
void spare_discard(const struct log_folder *folder, int file);
/* Bytes of the segment behind one of `size` bytes: twice as many, `most` at most; but `needs` fit in any case. */
uint64_t spare_size(uint64_t size, uint64_t most, uint64_t needs);

enum { SEGMENT_FIRST = 1 << 20 };

#endif
