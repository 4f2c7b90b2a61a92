/* What a folder says of its log besides the segments: where it begins, up to where it is durable, how far a truncation has
 * come, and how far its cursors have. Each of these files is small, whole or known not to be, and changed so that a power cut
 * at any point leaves the old or the new one.
 */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "segment.h"

/* ======== files of two marks ======== */

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

/* ======== where it begins ======== */

static const char START_FILE[] = "start";

int start_make(const struct log_folder *folder, uint64_t start, struct log_fault *fault)
{
    return marks_make(folder, START_FILE, MARKS_START, start, 0, fault);
}

void start_unmake(const struct log_folder *folder) { folder->io->unlink(folder->io->disk, folder->folder, START_FILE); }

int start_read(const struct log_folder *folder, uint64_t *start, struct log_fault *fault)
{
    struct segment_mark mark;
    int code = marks_read(folder, START_FILE, MARKS_START, &mark, fault);
    *start = code ? 0 : mark.durable;
    return code == LOG_AT_END ? LOG_OK : code;
}

int start_write(const struct log_folder *folder, uint64_t start, struct log_fault *fault)
{
    int code = marks_change(folder, START_FILE, MARKS_START, start, 0, fault);
    return code == LOG_AT_END ? marks_make(folder, START_FILE, MARKS_START, start, 0, fault) : code;
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

/* ======== where it ends ======== */

/* The file `end`: up to where records are durable, for readers, who see it in the page cache as soon as it is written.
 *
 *   0     4      8     16        24
 *   | crc | zero | end | time_ns |
 *
 * It is written behind each sync, and never synced itself: after a power cut it says less than was durable, or nothing,
 * but never more. So it is a lower bound for recovery, too, as a watermark is: where only the process of a plain log has died,
 * it is exact.
 */

static const char END_FILE[] = "end";
enum { END_CRC_FROM = 4 };

struct end {
    uint32_t crc, zero;
    uint64_t end, time_ns;
};
_Static_assert(sizeof(struct end) == 24, "as in docs/formats/log-format.md");

static uint32_t crc_of(const struct end *end, uint32_t seed)
{
    return crc32c(seed, (const uint8_t *)end + END_CRC_FROM, sizeof *end - END_CRC_FROM);
}

int end_write(const struct log_folder *folder, int file, uint64_t durable)
{
    struct end end = {.end = durable, .time_ns = folder->io->now_ns(folder->io->disk, LOG_CLOCK_WALL)};
    end.crc = crc_of(&end, folder->seed);
    return io_write_all(folder->io, file, &end, sizeof end, 0);
}

bool end_read(const struct log_folder *folder, uint64_t *durable)
{
    const struct log_io *io = folder->io;
    struct end end;
    int file = io->open(io->disk, folder->folder, END_FILE, O_RDONLY);
    if (file < 0) return false;
    bool is_whole = false;
    for (int tries = 0; tries < 16 && !is_whole; tries++) { /* a read may meet a write in the middle */
        int64_t count = io_read_all(io, file, &end, sizeof end, 0);
        is_whole = count == (int64_t)sizeof end && end.crc == crc_of(&end, folder->seed);
    }
    io->close(io->disk, file);
    *durable = end.end;
    return is_whole;
}

/* What `truncated` says of it, which recover.c writes. */

/* `end` is lowered before `truncated` says that nothing is to be done: so it is read behind it. */
bool truncate_took(const struct log_folder *folder, uint64_t position)
{
    struct segment_mark mark;
    struct log_fault fault;
    uint64_t told;
    if (marks_read(folder, TRUNCATED_FILE, MARKS_TRUNCATED, &mark, &fault)) return false;
    if (mark.flags & TRUNCATION_BEGUN) return mark.durable <= position;
    return mark.number > TRUNCATION_MADE && end_read(folder, &told) && told <= position;
}

void truncate_limit(const struct log_folder *folder, uint64_t *end)
{
    struct segment_mark mark;
    struct log_fault fault;
    if (!marks_read(folder, TRUNCATED_FILE, MARKS_TRUNCATED, &mark, &fault) && mark.flags & TRUNCATION_BEGUN &&
        mark.durable < *end)
        *end = mark.durable;
}

int log_bounds(const struct log_folder *folder, uint64_t *earliest, uint64_t *end, struct log_fault *fault)
{
    struct bases bases;
    struct segment last;
    struct segment_mark mark;
    int code = start_list(folder, &bases, fault);
    if (!code && bases.before == bases.count) code = log_damaged(fault, "there is no segment", ".", 0, 0);
    if (!code) *earliest = bases.start;
    bool is_told = !code && end_read(folder, end);
    if (!code && folder->is_replicated && is_told) truncate_limit(folder, end);
    if (!code && folder->is_replicated && (!is_told || *end < bases.start)) *end = bases.start;
    if (!code && !is_told && !folder->is_replicated) {
        code = segment_open(folder, bases.of[bases.count - 1], O_RDONLY, &last, fault);
        if (!code) {
            code = segment_read_mark(folder, &last, &mark, fault);
            segment_close(folder, &last);
        }
        if (!code) *end = mark.durable;
    }
    free(bases.of);
    return code;
}

/* ======== cursors ======== */

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
