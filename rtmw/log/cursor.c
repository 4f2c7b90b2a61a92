#include "cursor.h"

#include <errno.h>
#include <fcntl.h>

int cursor_look(const struct log_folder *folder, const char *name, uint64_t *position, uint64_t *time_ns,
                struct log_fault *fault)
{
    struct segment file;
    struct segment_mark mark;
    int code = marks_open(folder, name, MARKS_CURSOR, O_RDONLY, &file, &mark, fault);
    if (code) return code;
    segment_close(folder, &file);
    *position = mark.durable;
    *time_ns = mark.time_ns;
    return LOG_OK;
}

int cursor_commit(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault)
{
    struct segment file;
    struct segment_mark mark;
    int code = marks_open(folder, name, MARKS_CURSOR, O_RDWR, &file, &mark, fault);
    if (code == LOG_AT_END) return log_fail(fault, LOG_FAILED, "open", name, ENOENT);
    if (code) return code;
    code = marks_write(folder, &file, name, position, 0, fault);
    segment_close(folder, &file);
    return code;
}

int cursor_take(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault)
{
    int error = folder->io->sync_folder(folder->io->disk, folder->folder);
    if (error) return log_fail(fault, LOG_FAILED, "fsync of the folder", name, -error);
    return cursor_commit(folder, name, position, fault);
}

int cursor_remove(const struct log_folder *folder, const char *name, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int error = io->unlink(io->disk, folder->folder, name);
    if (!error) error = io->sync_folder(io->disk, folder->folder);
    return error ? log_fail(fault, LOG_FAILED, "unlink", name, -error) : LOG_OK;
}
