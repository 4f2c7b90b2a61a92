#include "truncate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "ids.h"
#include "index.h"
#include "marks.h"
#include "recover.h"
#include "start.h"

static const char NAME[] = "truncated";

enum { IS_BEGUN = 1, MADE = 2 }; /* flag of its marks; number of the newer one of those that it is made with */

int truncate_make(const struct log_folder *folder, struct log_fault *fault)
{
    return marks_make(folder, NAME, MARKS_TRUNCATED, 0, 0, fault);
}

void truncate_unmake(const struct log_folder *folder) { folder->io->unlink(folder->io->disk, folder->folder, NAME); }

static int say(const struct log_folder *folder, uint64_t position, uint32_t flags, struct log_fault *fault)
{
    int code = marks_change(folder, NAME, MARKS_TRUNCATED, position, flags, fault);
    return code == LOG_AT_END ? log_damaged(fault, "the file is missing", NAME, position, position) : code;
}

/* Readers of other processes may have it open, and may have read up to `told` there: they meet zeros, and not what follows. */
static int remove_segment(const struct log_folder *folder, uint64_t base, uint64_t told, struct log_fault *fault)
{
    struct segment s;
    uint64_t cut = 0;
    int code = told > base ? segment_open(folder, base, O_RDWR, &s, fault) : LOG_TRIMMED;
    int error = code ? 0 : recover_zero(folder, &s, base, s.size, &cut);
    if (!code) segment_close(folder, &s);
    if (!error) error = start_remove(folder, base);
    return error ? log_fail(fault, LOG_FAILED, "unlink", "segment", -error) : LOG_OK;
}

/* The segment of `base` ends at `to`. */
static int cut_segment(const struct log_folder *folder, uint64_t base, uint64_t to, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    struct segment s;
    struct segment_mark mark;
    char name[SEGMENT_NAME];
    uint64_t cut = 0;
    index_name(base, name); /* of a sealed segment: it says where records are that go */
    int error = io->unlink(io->disk, folder->folder, name);
    if (error && error != -ENOENT) return log_fail(fault, LOG_FAILED, "unlink", name, -error);
    segment_name(base, name);
    int code = segment_open(folder, base, O_RDWR, &s, fault);
    if (code) return code;
    code = segment_read_mark(folder, &s, &mark, fault);
    error = code ? 0 : recover_zero(folder, &s, to, segment_reach(&s, mark.flags), &cut);
    if (!code && !error) error = segment_write_mark(folder, &s, to, MARK_CLEAN);
    if (!code && !error) error = io->sync(io->disk, s.file);
    segment_close(folder, &s);
    return error ? log_fail(fault, LOG_FAILED, "truncate", name, -error) : code;
}

static int lower_end(const struct log_folder *folder, uint64_t end, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, "end", O_RDWR | O_CREAT);
    int error = file < 0 ? file : end_write(folder, file, end);
    if (!error) error = io->sync(io->disk, file);
    if (file >= 0) io->close(io->disk, file);
    if (!error) error = io->sync_folder(io->disk, folder->folder);
    return error ? log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "write", "end", -error) : LOG_OK;
}

/* Steps 2 to 6. */
static int complete(const struct log_folder *folder, uint64_t to, struct log_fault *fault)
{
    struct bases bases;
    uint64_t told;
    int code = start_list(folder, &bases, fault);
    if (!end_read(folder, &told)) told = code ? 0 : bases.start;
    size_t kept = bases.before;
    if (!code && (kept == bases.count || bases.of[kept] > to))
        code = log_damaged(fault, "the segment to be truncated is missing", ".", to, to);
    while (!code && kept + 1 < bases.count && bases.of[kept + 1] <= to) kept++;
    for (size_t n = bases.count; n-- > kept + 1 && !code;) code = remove_segment(folder, bases.of[n], told, fault);
    if (!code) code = ids_truncate(folder, to, fault);
    if (!code) code = cut_segment(folder, bases.of[kept], to, fault);
    if (!code) code = lower_end(folder, told < to ? told : to, fault);
    if (!code) code = say(folder, 0, 0, fault);
    free(bases.of);
    return code;
}

/* What the newest mark says need not be on the disk, if its writer was killed, or its sync has failed: it is written once more.
 * Else a power cut would bring back a truncation that is over, below new records, or take one away that is half done. */
int truncate_complete(const struct log_folder *folder, struct log_fault *fault)
{
    struct segment_mark mark;
    int code = marks_read(folder, NAME, MARKS_TRUNCATED, &mark, fault);
    if (code) return code == LOG_AT_END ? LOG_OK : code;
    if (mark.number > MADE) code = say(folder, mark.durable, mark.flags, fault);
    return code || !(mark.flags & IS_BEGUN) ? code : complete(folder, mark.durable, fault);
}

/* `end` is lowered before `truncated` says that nothing is to be done: so it is read behind it. */
bool truncate_took(const struct log_folder *folder, uint64_t position)
{
    struct segment_mark mark;
    struct log_fault fault;
    uint64_t told;
    if (marks_read(folder, NAME, MARKS_TRUNCATED, &mark, &fault)) return false;
    if (mark.flags & IS_BEGUN) return mark.durable <= position;
    return mark.number > MADE && end_read(folder, &told) && told <= position;
}

void truncate_limit(const struct log_folder *folder, uint64_t *end)
{
    struct segment_mark mark;
    struct log_fault fault;
    if (!marks_read(folder, NAME, MARKS_TRUNCATED, &mark, &fault) && mark.flags & IS_BEGUN && mark.durable < *end)
        *end = mark.durable;
}

/* Does a batch end at `to`, or the log begin there? */
static int check_bound(const struct log_folder *folder, uint64_t to, struct log_fault *fault)
{
    struct bases bases;
    struct segment s;
    uint64_t base = 0, end;
    int code = start_list(folder, &bases, fault);
    for (size_t n = bases.before; n < bases.count && !code; n++)
        if (bases.of[n] <= to) base = bases.of[n];
    free(bases.of);
    if (!code) code = segment_open(folder, base, O_RDONLY, &s, fault);
    if (code) return code;
    code = recover_scan(folder, &s, to, &end, fault);
    segment_close(folder, &s);
    fault->from = to;
    fault->to = end;
    if (!code && end != to) code = log_fail(fault, LOG_REFUSED, "no batch ends where the log is to end", ".", 0);
    return code;
}

int log_truncate(const struct log_folder *folder, uint64_t to, struct log_fault *fault)
{
    struct recovered found;
    int code = log_recover(folder, false, &found, fault);
    if (code) return code;
    segment_close(folder, &found.last);
    fault->from = to;
    fault->to = found.end;
    if (!folder->is_replicated || to < found.earliest || to > found.end)
        return log_fail(fault, LOG_REFUSED, "the log is plain, or does not reach there", ".", 0);
    code = check_bound(folder, to, fault);
    if (!code && to < found.end) code = say(folder, to, IS_BEGUN, fault);
    return code || to == found.end ? code : complete(folder, to, fault);
}
