/* Truncation: a replicated log gives up its records from a position on, which the log of its new master does not have.
 *
 *   1. The file `truncated` names the position, durably. From now on recovery completes what is begun.
 *   2. Segments behind the position go, with their indexes; the last one first.
 *   3. Ids of records from the position on leave the snapshot.
 *   4. In the segment of the position, all behind it becomes zeros, up to the reach of its mark, and a mark without a seal says
 *      that it ends there. Without the zeros, an old record would be valid again behind new ones of the same sizes; without
 *      the mark, the old one would say that records are missing.
 *   5. The file `end` says no more than the position, durably: recovery takes it for what was durable once.
 *   6. The folder is synced, and only then `truncated` says that nothing is to be done.
 *
 * Each step does the same when it is done again. `truncated` is made with the log: a full disk can be truncated, but for the
 * room that the snapshot of ids takes.
 */
#ifndef RTMW_LOG_TRUNCATE_H
#define RTMW_LOG_TRUNCATE_H

#include "log.h"

/* The log ends at `to`, durably. The lock is held, and there is no writer. LOG_REFUSED: no batch ends there, and nothing was
 * changed. LOG_FULL, LOG_FAILED: it does, or the next recovery sees to it. LOG_DAMAGED, LOG_NO_MEMORY. */
int log_truncate(const struct log_folder *folder, uint64_t to, struct log_fault *fault);
/* For log_recover. LOG_OK, too, where nothing was begun. */
int truncate_complete(const struct log_folder *folder, struct log_fault *fault);
/* For readers that find no record at a position where there was one: true, it was truncated, or is being, and will come again. */
bool truncate_took(const struct log_folder *folder, uint64_t position);
/* For log_bounds: readers may read up to `*end`, and not beyond where a truncation has begun. */
void truncate_limit(const struct log_folder *folder, uint64_t *end);
/* For log_create. */
int truncate_make(const struct log_folder *folder, struct log_fault *fault);
void truncate_unmake(const struct log_folder *folder);

#endif
