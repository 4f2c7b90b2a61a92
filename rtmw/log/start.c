#include "start.h"

#include <errno.h>
#include <fcntl.h>

#include "index.h"
#include "marks.h"

static const char NAME[] = "start";

int start_make(const struct log_folder *folder, uint64_t start, struct log_fault *fault)
{
    return marks_make(folder, NAME, MARKS_START, start, 0, fault);
}

void start_unmake(const struct log_folder *folder) { folder->io->unlink(folder->io->disk, folder->folder, NAME); }

int start_read(const struct log_folder *folder, uint64_t *start, struct log_fault *fault)
{
    struct segment_mark mark;
    int code = marks_read(folder, NAME, MARKS_START, &mark, fault);
    *start = code ? 0 : mark.durable;
    return code == LOG_AT_END ? LOG_OK : code;
}

int start_write(const struct log_folder *folder, uint64_t start, struct log_fault *fault)
{
    int code = marks_change(folder, NAME, MARKS_START, start, 0, fault);
    return code == LOG_AT_END ? marks_make(folder, NAME, MARKS_START, start, 0, fault) : code;
}

int start_list(const struct log_folder *folder, struct bases *bases, struct log_fault *fault)
{
    *bases = (struct bases){0};
    int code = start_read(folder, &bases->start, fault);
    if (!code) code = segment_list(folder, &bases->of, &bases->count, fault);
    while (!code && bases->before < bases->count && bases->of[bases->before] < bases->start) bases->before++;
    return code;
}

int start_remove(const struct log_folder *folder, uint64_t base)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    index_name(base, name);
    int error = io->unlink(io->disk, folder->folder, name);
    if (error && error != -ENOENT) return error;
    segment_name(base, name);
    error = io->unlink(io->disk, folder->folder, name);
    return error == -ENOENT ? 0 : error;
}
