#include "marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int marks_make(const struct log_folder *folder, const char *name, uint64_t base, uint64_t number, uint32_t flags,
               struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    static const uint8_t zeros[SEGMENT_DATA];
    char unnamed[MARKS_NAME + 4];
    snprintf(unnamed, sizeof unnamed, "%s.new", name);
    struct segment file = {.base = base,
                           .file = io->open(io->disk, folder->folder, unnamed, O_RDWR | O_CREAT | O_TRUNC)};
    int error = file.file < 0 ? file.file : io_write_all(io, file.file, zeros, sizeof zeros, 0);
    for (int slot = 0; slot < 2 && !error; slot++) error = segment_write_mark(folder, &file, number, flags);
    if (!error) error = io->sync(io->disk, file.file);
    segment_close(folder, &file);
    if (!error) error = io->rename(io->disk, folder->folder, unnamed, name);
    if (!error) error = io->sync_folder(io->disk, folder->folder);
    if (error && io_is_full(error)) {
        io->unlink(io->disk, folder->folder, unnamed);
        fault->from = SEGMENT_DATA;
    }
    return error ? log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "write", name, -error) : LOG_OK;
}

static int open_marks(const struct log_folder *folder, const char *name, uint64_t base, int flags, struct segment *file,
                      struct segment_mark *newest, struct log_fault *fault)
{
    *file = (struct segment){.base = base, .file = folder->io->open(folder->io->disk, folder->folder, name, flags)};
    if (file->file == -ENOENT) return LOG_AT_END;
    if (file->file < 0) return log_fail(fault, LOG_FAILED, "open", name, -file->file);
    int code = segment_read_mark(folder, file, newest, fault);
    if (code == LOG_DAMAGED) code = log_damaged(fault, "both marks of the file are spoiled", name, 0, 0);
    if (code) segment_close(folder, file);
    return code;
}

int marks_read(const struct log_folder *folder, const char *name, uint64_t base, struct segment_mark *newest,
               struct log_fault *fault)
{
    struct segment file;
    int code = open_marks(folder, name, base, O_RDONLY, &file, newest, fault);
    if (!code) segment_close(folder, &file);
    return code;
}

int marks_change(const struct log_folder *folder, const char *name, uint64_t base, uint64_t number, uint32_t flags,
                 struct log_fault *fault)
{
    struct segment file;
    struct segment_mark newest;
    int code = open_marks(folder, name, base, O_RDWR, &file, &newest, fault);
    if (code) return code;
    int error = segment_write_mark(folder, &file, number, flags);
    if (!error) error = folder->io->sync(folder->io->disk, file.file);
    segment_close(folder, &file);
    return error ? log_fail(fault, LOG_FAILED, "write", name, -error) : LOG_OK;
}
