/* The small files of a folder: see folder.c. Its first one, `log`, and `end` are declared in log.h. */
#ifndef RTMW_LOG_FOLDER_H
#define RTMW_LOG_FOLDER_H

#include "segment.h"

/* ======== files of two marks ======== */

/* A file of two marks: one number that survives power cuts, and is changed without a need for room on the disk.
 *
 *   0          4 KiB      8 KiB      12 KiB
 *   | zeros    | mark 0   | mark 1   |           the marks are those of a segment (segment.h), with a base that says of what
 *
 * Written in turn, so that a torn write spoils one of them at most. `start` says where the log begins, `<name>.cursor` up to
 * where a reader has come, `compacted` up to where, and to how many records a key (its flags), `truncated` up to where a
 * replicated log is being truncated (flags 1).
 */

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

/* ======== where it begins ======== */

/* Where a log begins: position 0, until its first segments are trimmed.
 *
 * The file `start` says so, durably, before a segment that lies before it is removed or used for another one. So a segment
 * that is missing behind the start is damage, and one that is there before it was to be removed.
 */

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

/* ======== truncated ======== */

/* The file `truncated`, and its marks: recover.h says what they mean. */
#define TRUNCATED_FILE "truncated"
enum {
    TRUNCATION_BEGUN = 1, /* flag of its marks */
    TRUNCATION_MADE = 2,  /* number of the newer one of those that it is made with */
};
/* For readers that find no record at a position where there was one: true, it was truncated, or is being, and will come again. */
bool truncate_took(const struct log_folder *folder, uint64_t position);
/* For log_bounds: readers may read up to `*end`, and not beyond where a truncation has begun. */
void truncate_limit(const struct log_folder *folder, uint64_t *end);

/* ======== cursors ======== */

/* A cursor: up to where a named reader has come. A file of two marks, `<name>.cursor`, made by marks_make.
 *
 * The process that makes, commits or removes it holds its lock (folder.py). A commit is durable when it was answered; one
 * that was not is there or not, and the reader gets the records behind the last one again.
 */

/* Its position, and when it was written. LOG_AT_END: there is none. LOG_DAMAGED, LOG_FAILED. */
int cursor_look(const struct log_folder *folder, const char *name, uint64_t *position, uint64_t *time_ns,
                struct log_fault *fault);
/* The first commit of who has just taken it: durable with its name, which whoever made it may not have got so far. */
int cursor_take(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault);
int cursor_commit(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault);
int cursor_remove(const struct log_folder *folder, const char *name, struct log_fault *fault);

#endif
