/* Recovery: what of a log is there after its writer ended, in whatever way. The lock is held.
 *
 * A log is as it should be if and only if: (1) there is a segment, and the heads of all are whole and of this log; (2) each
 * segment but the last ends where the next one begins: by its sealed mark, or else by its records; (3) the last one is
 * not sealed; (4) its records are valid from its base to its watermark at least. What is not so is damage: LOG_DAMAGED.
 *
 * In the last segment the records end where no valid one follows, or where the last batch is not whole. Where its newest
 * mark is clean and says that end, nothing is to be done but, for a writer, to write one that is not. Else:
 *   1. All behind the end, up to the reach of the mark, is overwritten with zeros, whatever a read shows there: it may be the
 *      rest of a batch, and would be valid again behind new records of the same sizes.
 *   2. What lies between watermark and end is written once more: after a sync that failed, the system holds pages for
 *      clean that are not on the disk, and the next sync would not write them.
 *   3. Folder and file are synced; only then a mark says so, and is synced too; then segments that were not sealed are.
 *   4. Only then readers are told of the end. Not those of a replicated log: what is durable there need not be final.
 * A truncation that was begun is completed first: see below.
 * A death or a cut inside of it leaves a disk of which recovery makes the same. tests/log/recovery_model.py has tried it.
 */
#ifndef RTMW_LOG_RECOVER_H
#define RTMW_LOG_RECOVER_H

#include "log.h"
#include "segment.h"

struct recovered {
    struct segment last; /* open for writing; its newest mark says `end` */
    uint64_t earliest, end;
    uint64_t shown; /* what the file `end` says: the end; in a replicated log no more than it said before */
    uint64_t cut;   /* bytes behind the end that were not zero: what was not finished */
};

/* On LOG_OK the caller closes `last`. `to_write`: a writer follows, so the mark is not clean. */
int log_recover(const struct log_folder *folder, bool to_write, struct recovered *found, struct log_fault *fault);

/* The end of the whole batches of a segment, from its base on, that end at or below `limit`. */
int recover_scan(const struct log_folder *folder, const struct segment *s, uint64_t limit, uint64_t *end,
                 struct log_fault *fault);
/* Zeros from the position `from` up to the offset `reach`, whatever a read shows there; not synced. `*cut`: bytes of the blocks
 * that had something else. 0 or -errno. */
int recover_zero(const struct log_folder *folder, const struct segment *s, uint64_t from, uint64_t reach,
                 uint64_t *cut);

/* ======== truncation ======== */

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

/* The log ends at `to`, durably. The lock is held, and there is no writer. LOG_REFUSED: no batch ends there, and nothing was
 * changed. LOG_FULL, LOG_FAILED: it does, or the next recovery sees to it. LOG_DAMAGED, LOG_NO_MEMORY. */
int log_truncate(const struct log_folder *folder, uint64_t to, struct log_fault *fault);
/* For log_recover. LOG_OK, too, where nothing was begun. */
int truncate_complete(const struct log_folder *folder, struct log_fault *fault);
/* For log_create. */
int truncate_make(const struct log_folder *folder, struct log_fault *fault);
void truncate_unmake(const struct log_folder *folder);

#endif
