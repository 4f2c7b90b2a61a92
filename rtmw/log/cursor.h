/* A cursor: up to where a named reader has come. A file of two marks, `<name>.cursor`, made by marks_make.
 *
 * The process that makes, commits or removes it holds its lock (cursor.py). A commit is durable when it was answered; one
 * that was not is there or not, and the reader gets the records behind the last one again.
 */
#ifndef RTMW_LOG_CURSOR_H
#define RTMW_LOG_CURSOR_H

#include "marks.h"

/* Its position, and when it was written. LOG_AT_END: there is none. LOG_DAMAGED, LOG_FAILED. */
int cursor_look(const struct log_folder *folder, const char *name, uint64_t *position, uint64_t *time_ns,
                struct log_fault *fault);
/* The first commit of who has just taken it: durable with its name, which whoever made it may not have got so far. */
int cursor_take(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault);
int cursor_commit(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault);
int cursor_remove(const struct log_folder *folder, const char *name, struct log_fault *fault);

#endif
