/* The index of a sealed segment, the file `<base>.idx`: the latest time of each stretch of it, to find a time by.
 *
 * It follows from the records, and is not synced: a reader that finds none, or one that is not whole, reads the records.
 * The wall clock may be set back, so a stretch says its latest time and not its first one: the first record of a time or
 * later lies in the first stretch whose latest time is not earlier.
 */
#ifndef RTMW_LOG_INDEX_H
#define RTMW_LOG_INDEX_H

#include "segment.h"

enum { INDEX_STRETCH = 64 * 1024 }; /* bytes of a stretch at least; it ends with a record */

struct index_head {
    char magic[8];
    uint32_t version, crc; /* the CRC is of the log's uuid and of all that follows it */
    uint64_t base, end;    /* of the segment's records */
    uint64_t records;
    uint64_t earliest_ns, latest_ns; /* of all of them */
    uint32_t count, zero;            /* of stretches */
};
_Static_assert(sizeof(struct index_head) == 64, "as in docs/formats/log-format.md");

struct index_stretch {
    uint64_t position, latest_ns;
};
_Static_assert(sizeof(struct index_stretch) == 16, "as in docs/formats/log-format.md");

struct index {
    struct index_head head;
    struct index_stretch *stretches;
};

void index_name(uint64_t base, char name[SEGMENT_NAME]);
/* Makes the index of a segment that ends at `end`, unless it has a whole one. `stop`: ends it early when it is not 0 any
 * more. What fails is left out: the segment has no index then. It reads the whole segment. */
void index_make(const struct log_folder *folder, uint64_t base, uint64_t end, const uint32_t *stop);
/* false: there is no whole one. On true the caller calls index_free. */
bool index_read(const struct log_folder *folder, uint64_t base, struct index *index);
void index_free(struct index *index);
/* The first stretch behind or at `from` that has a record of this time or later; NULL: none has. */
const struct index_stretch *index_find(const struct index *index, uint64_t from, uint64_t time_ns);

#endif
