#include "cursor.h"

#include <errno.h>

int cursor_look(const struct log_folder *folder, const char *name, uint64_t *position, uint64_t *time_ns,
                struct log_fault *fault)
{
    struct segment_mark mark;
    int code = marks_read(folder, name, MARKS_CURSOR, &mark, fault);
    if (code) return code;
    *position = mark.durable;
    *time_ns = mark.time_ns;
    return LOG_OK;
}

int cursor_commit(const struct log_folder *folder, const char *name, uint64_t position, struct log_fault *fault)
{
    int code = marks_change(folder, name, MARKS_CURSOR, position, 0, fault);
    return code == LOG_AT_END ? log_fail(fault, LOG_FAILED, "open", name, ENOENT) : code;
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
