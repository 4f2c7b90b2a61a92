/* A file of two marks: one number that survives power cuts, and is changed without a need for room on the disk.
 *
 *   0          4 KiB      8 KiB      12 KiB
 *   | zeros    | mark 0   | mark 1   |           the marks are those of a segment (segment.h), with a base that says of what
 *
 * Written in turn, so that a torn write spoils one of them at most. `start` says where the log begins, `<name>.cursor` up to
 * where a reader has come, `compacted` up to where, and to how many records a key (its flags), `truncated` up to where a
 * replicated log is being truncated (flags 1).
 */
#ifndef RTMW_LOG_MARKS_H
#define RTMW_LOG_MARKS_H

#include "segment.h"

#define MARKS_START     UINT64_MAX
#define MARKS_CURSOR    (UINT64_MAX - 1)
#define MARKS_COMPACTED (UINT64_MAX - 2)
#define MARKS_TRUNCATED (UINT64_MAX - 3)
enum { MARKS_NAME = 256 };

/* The file with this number; it is there after a power cut. Another file of this name is replaced. LOG_FULL, LOG_FAILED. */
int marks_make(const struct log_folder *folder, const char *name, uint64_t base, uint64_t number, uint32_t flags,
               struct log_fault *fault);
/* The newest mark. LOG_AT_END: there is no such file. LOG_DAMAGED: neither mark is valid. LOG_FAILED. */
int marks_read(const struct log_folder *folder, const char *name, uint64_t base, struct segment_mark *newest,
               struct log_fault *fault);
/* Another number; it is durable on LOG_OK. LOG_FAILED: one or the other is. Else as marks_read. */
int marks_change(const struct log_folder *folder, const char *name, uint64_t base, uint64_t number, uint32_t flags,
                 struct log_fault *fault);

#endif
