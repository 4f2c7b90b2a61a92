/* A segment: a file that holds the records of a range of positions.
 *
 *   0              4 KiB           8 KiB           12 KiB
 *   | head         | mark 0        | mark 1        | records, one behind the other … | zeros, or what was there before |
 *
 * Head: which log, which first position, how large; written and synced before the segment gets its name, and never again.
 * Marks: two slots, written in turn, each in a block of its own, so that a torn write spoils one of them at most. A mark
 * says up to where the records were durable when it was written; the newest valid one is the watermark. The flusher
 * writes one with each batch, for the batches before, and when it has nothing else to do, for all.
 * A sealed mark says that the segment ends there, and that the next one is durable.
 */
#ifndef RTMW_LOG_SEGMENT_H
#define RTMW_LOG_SEGMENT_H

#include "log.h"

enum {
    SEGMENT_BLOCK = 4096,
    SEGMENT_DATA = 3 * SEGMENT_BLOCK, /* where the records begin */
    SEGMENT_LEAST = 64 * 1024,
    SEGMENT_NAME = 32, /* bytes of a name, with its zero */
};

struct segment_head {
    char magic[8];
    uint32_t version, crc; /* the CRC is of the rest of the block */
    uint8_t uuid[16];
    uint64_t base, size; /* its first position; bytes of the file */
    uint64_t created_ns;
    uint32_t epoch, zero;
};
_Static_assert(sizeof(struct segment_head) == 64, "as in docs/log-format.md");

enum mark_flags {
    MARK_SEALED = 1, /* the segment ends there */
    MARK_CLEAN = 2,  /* nothing was written behind it: its writer has closed the log, or recovery has cleaned up */
};

struct segment_mark {
    char magic[8];
    uint32_t crc, flags; /* the CRC is of the log's uuid and of what follows it */
    uint64_t base, number, durable, time_ns;
};
_Static_assert(sizeof(struct segment_mark) == 48, "as in docs/log-format.md");

struct segment {
    int file; /* -1: none */
    uint64_t base, size;
    uint64_t mark; /* number of the newest mark */
};

static inline uint64_t segment_capacity(const struct segment *s) { return s->size - SEGMENT_DATA; }
static inline uint64_t segment_offset(const struct segment *s, uint64_t lsn) { return SEGMENT_DATA + (lsn - s->base); }

void segment_name(uint64_t base, char name[SEGMENT_NAME]);
bool segment_base(const char *name, uint64_t *base); /* false: this is not the name of a segment */

/* The first positions of all segments, ascending; the caller frees them. LOG_FAILED, LOG_NO_MEMORY. */
int segment_list(const struct log_folder *folder, uint64_t **bases, size_t *count, struct log_fault *fault);

/* Head and both marks of a segment that has no name yet; not synced. 0 or -errno. */
int segment_begin(const struct log_folder *folder, int file, uint64_t base, uint64_t size);
/* Opens the segment of this base and looks at its head; flags of open(2). A code, and `fault`. */
int segment_open(const struct log_folder *folder, uint64_t base, int flags, struct segment *segment,
                 struct log_fault *fault);
void segment_close(const struct log_folder *folder, struct segment *segment);

/* The newest valid mark, LOG_DAMAGED where none is valid. Sets segment->mark. */
int segment_read_mark(const struct log_folder *folder, struct segment *segment, struct segment_mark *mark,
                      struct log_fault *fault);
/* The next mark, into the slot of the older one; not synced. 0 or -errno. */
int segment_write_mark(const struct log_folder *folder, struct segment *segment, uint64_t durable, uint32_t flags);

#endif
