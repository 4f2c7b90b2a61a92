/* Where a log begins: position 0, until its first segments are trimmed.
 *
 * The file `start` says so, durably, before a segment that lies before it is removed or used for another one. So a segment
 * that is missing behind the start is damage, and one that is there before it was to be removed.
 */
#ifndef RTMW_LOG_START_H
#define RTMW_LOG_START_H

#include "segment.h"

int start_make(const struct log_folder *folder, uint64_t start, struct log_fault *fault);
/* Away with it, of a log that did not come into being. */
void start_unmake(const struct log_folder *folder);
/* 0, where there is no such file. LOG_DAMAGED, LOG_FAILED. */
int start_read(const struct log_folder *folder, uint64_t *start, struct log_fault *fault);
/* Durable on LOG_OK. LOG_FULL: only in a log that was made before there was such a file. */
int start_write(const struct log_folder *folder, uint64_t start, struct log_fault *fault);
/* The segments of a log. The caller calls free(of) in any case. */
struct bases {
    uint64_t *of;         /* ascending */
    size_t count, before; /* the first ones lie before the start: they were to be removed */
    uint64_t start;
};
int start_list(const struct log_folder *folder, struct bases *bases, struct log_fault *fault);
/* Away with a segment before the start, and with its index. 0 or -errno. Idempotent. */
int start_remove(const struct log_folder *folder, uint64_t base);

#endif
