#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../shm/clock.h"
#include "log.h"

enum { ALL_MAY = 0666 };

#define UNINTERRUPTED(result, call) \
    do (result) = (call);           \
    while ((result) < 0 && errno == EINTR)

static int system_open(void *disk, int folder, const char *name, int flags)
{
    int file;
    (void)disk;
    UNINTERRUPTED(file, openat(folder, name, flags | O_CLOEXEC, ALL_MAY));
    return file < 0 ? -errno : file;
}

static int system_close(void *disk, int file)
{
    (void)disk;
    return close(file) < 0 && errno != EINTR ? -errno : 0; /* after EINTR, too, Linux has closed it */
}

static int64_t system_read(void *disk, int file, void *to, size_t size, uint64_t at)
{
    ssize_t count;
    (void)disk;
    UNINTERRUPTED(count, pread(file, to, size, (off_t)at));
    return count < 0 ? -errno : count;
}

static int64_t system_write(void *disk, int file, const void *from, size_t size, uint64_t at)
{
    ssize_t count;
    (void)disk;
    UNINTERRUPTED(count, pwrite(file, from, size, (off_t)at));
    return count < 0 ? -errno : count;
}

static int system_allocate(void *disk, int file, uint64_t size)
{
    int code;
    (void)disk;
    UNINTERRUPTED(code, fallocate(file, 0, 0, (off_t)size));
    return code < 0 && errno != EOPNOTSUPP && errno != ENOSYS ? -errno : 0;
}

static void system_begin_sync(void *disk, int file, uint64_t at, uint64_t size)
{
    (void)disk;
    (void)!sync_file_range(file, (off_t)at, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static int system_sync(void *disk, int file)
{
    (void)disk;
    return fdatasync(file) < 0 ? -errno : 0;
}

static int system_sync_folder(void *disk, int folder)
{
    (void)disk;
    return fsync(folder) < 0 ? -errno : 0;
}

static int system_rename(void *disk, int folder, const char *from, const char *to)
{
    (void)disk;
    return renameat(folder, from, folder, to) < 0 ? -errno : 0;
}

static int system_unlink(void *disk, int folder, const char *name)
{
    (void)disk;
    return unlinkat(folder, name, 0) < 0 ? -errno : 0;
}

static int system_list(void *disk, int folder, log_see_name *see, void *argument)
{
    (void)disk;
    int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* with a place in the folder of its own */
    DIR *names = own < 0 ? NULL : fdopendir(own);
    int error = names ? 0 : errno;
    if (!names && own >= 0) close(own);
    if (!names) return -error;
    for (struct dirent *entry = (errno = 0, readdir(names)); entry; entry = (errno = 0, readdir(names)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) see(argument, entry->d_name);
    error = errno;
    closedir(names);
    return -error;
}

static int64_t system_size(void *disk, int file)
{
    struct stat about;
    (void)disk;
    return fstat(file, &about) < 0 ? -errno : about.st_size;
}

static uint64_t system_now_ns(void *disk, enum log_clock clock)
{
    (void)disk;
    return clock_ns(clock == LOG_CLOCK_WALL ? CLOCK_REALTIME : CLOCK_MONOTONIC);
}

const struct log_io log_io_system = {
    .open = system_open,
    .close = system_close,
    .read = system_read,
    .write = system_write,
    .allocate = system_allocate,
    .begin_sync = system_begin_sync,
    .sync = system_sync,
    .sync_folder = system_sync_folder,
    .rename = system_rename,
    .unlink = system_unlink,
    .list = system_list,
    .size = system_size,
    .now_ns = system_now_ns,
};

int io_write_all(const struct log_io *io, int file, const void *from, size_t size, uint64_t at)
{
    const uint8_t *bytes = from;
    while (size) {
        int64_t count = io->write(io->disk, file, bytes, size, at);
        if (count <= 0) return count ? (int)count : -ENOSPC; /* a disk that takes nothing, and does not say why */
        bytes += count;
        at += (uint64_t)count;
        size -= (size_t)count;
    }
    return 0;
}

int64_t io_read_all(const struct log_io *io, int file, void *to, size_t size, uint64_t at)
{
    size_t filled = 0;
    while (filled < size) {
        int64_t count = io->read(io->disk, file, (uint8_t *)to + filled, size - filled, at + filled);
        if (count < 0) return count;
        if (!count) break;
        filled += (size_t)count;
    }
    return (int64_t)filled;
}

bool io_is_full(int error) { return error == -ENOSPC || error == -EDQUOT; }

int log_fail(struct log_fault *fault, int code, const char *what, const char *file, int error)
{
    fault->error = error;
    fault->what = what;
    strncpy(fault->file, file, sizeof fault->file - 1);
    fault->file[sizeof fault->file - 1] = 0;
    return code;
}

int log_damaged(struct log_fault *fault, const char *what, const char *file, uint64_t from, uint64_t to)
{
    fault->from = from;
    fault->to = to;
    return log_fail(fault, LOG_DAMAGED, what, file, 0);
}
