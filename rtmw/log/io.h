/* The one seam between the log and the system: each call that touches the disk, and the clocks, go through this table.
 *
 * Tests put an in-process disk behind it that cuts the power, fails and tears (tests/torture/log). Every function returns
 * what the system call of its name returns, or -errno; none is tried again behind the seam, except where a signal
 * interrupted it before it did anything (EINTR). They may block, and are called from any thread.
 */
#ifndef RTMW_LOG_IO_H
#define RTMW_LOG_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void log_see_name(void *argument, const char *name);

enum log_clock { LOG_CLOCK_WALL, LOG_CLOCK_MONOTONIC };

struct log_io {
    void *disk; /* first argument of each function */
    int (*open)(void *disk, int folder, const char *name,
                int flags);             /* of open(2); a new file has mode 0666 less umask */
    int (*close)(void *disk, int file); /* of a file of `open` */
    int64_t (*read)(void *disk, int file, void *to, size_t size, uint64_t at);
    int64_t (*write)(void *disk, int file, const void *from, size_t size, uint64_t at); /* may be short */
    int (*allocate)(void *disk, int file, uint64_t size); /* fallocate: is there so much room? */
    void (*begin_sync)(void *disk, int file, uint64_t at,
                       uint64_t size);          /* the disk may begin with these bytes; whatever fails, `sync` says */
    int (*sync)(void *disk, int file);          /* fdatasync */
    int (*sync_folder)(void *disk, int folder); /* fsync */
    int (*rename)(void *disk, int folder, const char *from, const char *to);
    int (*unlink)(void *disk, int folder, const char *name);
    int (*list)(void *disk, int folder, log_see_name *see, void *argument); /* all names but . and .. */
    int64_t (*size)(void *disk, int file);
    uint64_t (*now_ns)(void *disk, enum log_clock clock);
};

/* The system itself. */
extern const struct log_io log_io_system;

/* All of it, in as many calls as short writes take: 0, or -errno. A write that failed is not tried again. */
int io_write_all(const struct log_io *io, int file, const void *from, size_t size, uint64_t at);
/* As much as there is: less than `size` only at the end of the file. Or -errno. */
int64_t io_read_all(const struct log_io *io, int file, void *to, size_t size, uint64_t at);
/* Does this -errno say that the disk, or what this user may have of it, is full? */
bool io_is_full(int error);

#endif
