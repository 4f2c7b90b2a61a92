/* A window of a segment in memory: records are looked at in it, and it is filled by reads of a MiB.
 *
 * It never holds bytes at or above `until`: these may still be written. Files are read, not mapped: a file that somebody
 * cuts makes a read short, and ends no process. One thread at a time.
 */
#ifndef RTMW_LOG_WINDOW_H
#define RTMW_LOG_WINDOW_H

#include "record.h"
#include "segment.h"

struct window {
    uint8_t *bytes;
    size_t room;
    uint64_t at, filled; /* position of its first byte; bytes that are there */
};

/* The record at the place `lsn` of a segment, below `until`: 1, 0 where no valid one is, or -errno. Of a compacted segment all
 * is durable, and `until` does not count.
 * `*record` points into the window, until the next call. */
int window_record(struct window *w, const struct log_folder *folder, const struct segment *s, uint64_t lsn,
                  uint64_t until, const uint8_t **record, uint64_t *size);
/* The size of the record at `lsn`, below `until`, of a segment that is not compacted, if all of it lies in the window, as most
 * do; 0: window_record has to look. */
static inline uint64_t window_look(const struct window *w, uint64_t lsn, uint64_t until, uint32_t seed,
                                   const uint8_t **record)
{
    if (lsn < w->at || lsn - w->at >= w->filled || lsn >= until) return 0;
    uint64_t there = w->at + w->filled - lsn, needs;
    if (there > until - lsn) there = until - lsn;
    *record = w->bytes + (lsn - w->at);
    return record_check(*record, there, there, lsn, seed, &needs);
}
/* Forget what was read: it may have been written since. */
static inline void window_clear(struct window *w) { w->filled = 0; }
/* For a window without a file: bytes that follow on those that are in it; what lies before `from` goes. 0 or -ENOMEM. */
int window_feed(struct window *w, uint64_t from, const void *bytes, size_t size);
void window_free(struct window *w);

#endif
