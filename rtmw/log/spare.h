/* A spare: the file of the next segment, made ahead.
 *
 * It is filled with zeros and synced, because a write into blocks that a file already has needs no change of the file
 * system's own books at the sync: that is faster than a write that extends a file, and cannot meet a full disk.
 */
#ifndef RTMW_LOG_SPARE_H
#define RTMW_LOG_SPARE_H

#include "segment.h"

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
