/* The epochs of a log: each master of a replicated log writes its records under a number of its own, higher than all before.
 *
 * The table follows from the records and lies nowhere: the first record of each segment says where to look. An epoch of which
 * there is no record has no entry; neither heads of segments nor files are trusted for it.
 */
#ifndef RTMW_LOG_EPOCHS_H
#define RTMW_LOG_EPOCHS_H

#include "log.h"

struct log_epoch {
    uint32_t epoch;
    uint64_t start; /* position of its first record; it ends where the next one starts, or the log ends */
};

/* Of the records below `end`, which are durable, ascending; the caller frees the table. LOG_DAMAGED, LOG_FAILED, LOG_TRIMMED,
 * LOG_NO_MEMORY. */
int log_epochs(const struct log_folder *folder, uint64_t end, struct log_epoch **table, size_t *count,
               struct log_fault *fault);

#endif
