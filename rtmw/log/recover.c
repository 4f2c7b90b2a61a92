/* What of a log is there: after its writer ended, after its master said that less of it holds, and in a segment that is
 * spoiled. See recover.h. And how it comes into being: the file `log`, which says that there is one, comes last.
 */
#include "recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "folder.h"
#include "ids.h"
#include "reader.h"
#include "record.h"
#include "segment.h"

enum { STEP = 256 * 1024 };

int recover_scan(const struct log_folder *folder, const struct segment *s, uint64_t limit, uint64_t *end,
                 struct log_fault *fault)
{
    struct window window = {0};
    uint64_t lsn = s->base, size;
    const uint8_t *record;
    char name[SEGMENT_NAME];
    int found;
    *end = s->base;
    while ((found = window_record(&window, folder, s, lsn, limit, &record, &size)) > 0) {
        struct record_head head;
        memcpy(&head, record, sizeof head);
        lsn += size;
        if (!(head.flags & RECORD_MORE)) *end = lsn;
    }
    window_free(&window);
    segment_name(s->base, name);
    return found < 0 ? log_fail(fault, found == -ENOMEM ? LOG_NO_MEMORY : LOG_FAILED, "read", name, -found) : LOG_OK;
}

/* A segment that is not the last one ends where the next one begins. `*sealed`: its mark says so. */
static int check_inner(const struct log_folder *folder, uint64_t base, uint64_t next, bool *sealed,
                       struct log_fault *fault)
{
    struct segment s;
    struct segment_mark mark;
    char name[SEGMENT_NAME];
    uint64_t end = 0;
    int code = segment_open(folder, base, O_RDONLY, &s, fault);
    if (code) return code;
    segment_name(base, name);
    code = segment_read_mark(folder, &s, &mark, fault);
    *sealed = !code && mark.flags & MARK_SEALED;
    if (*sealed) end = mark.durable;
    if (!code && !*sealed) code = recover_scan(folder, &s, segment_last_place(&s), &end, fault);
    if (!code && end < next) code = log_damaged(fault, "records or segments are missing", name, end, next);
    if (!code && end > next) code = log_damaged(fault, "the next segment begins before this one ends", name, next, end);
    segment_close(folder, &s);
    return code;
}

static int seal(const struct log_folder *folder, uint64_t base, uint64_t end, struct log_fault *fault)
{
    struct segment s;
    struct segment_mark mark;
    char name[SEGMENT_NAME];
    int code = segment_open(folder, base, O_RDWR, &s, fault);
    if (code) return code;
    segment_name(base, name);
    code = segment_read_mark(folder, &s, &mark, fault);
    int error = code ? 0 : segment_write_mark(folder, &s, end, MARK_SEALED);
    if (!code && !error) error = folder->io->sync(folder->io->disk, s.file);
    if (error) code = log_fail(fault, LOG_FAILED, "write of the mark", name, -error);
    segment_close(folder, &s);
    return code;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

int recover_zero(const struct log_folder *folder, const struct segment *s, uint64_t from, uint64_t reach, uint64_t *cut)
{
    static const uint8_t zeros[STEP];
    uint8_t *there = malloc(STEP);
    int error = there ? 0 : -ENOMEM;
    for (uint64_t at = segment_offset(s, from); at < reach && !error;) {
        size_t size = STEP - at % STEP < reach - at ? STEP - at % STEP : reach - at;
        int64_t count = io_read_all(folder->io, s->file, there, size, at);
        if (count > 0)
            for (size_t n = 0; n < (size_t)count; n += SEGMENT_BLOCK)
                *cut += is_zero(there + n, (size_t)count - n < SEGMENT_BLOCK ? (size_t)count - n : SEGMENT_BLOCK)
                            ? 0
                            : SEGMENT_BLOCK;
        error = count < 0 ? (int)count : io_write_all(folder->io, s->file, zeros, size, at);
        at += size;
    }
    free(there);
    return error;
}

/* The same bytes once more, from `from` to `to`. 0 or -errno. */
static int write_again(const struct log_folder *folder, const struct segment *s, uint64_t from, uint64_t to)
{
    uint8_t *bytes = from < to ? malloc(STEP) : NULL;
    int error = from < to && !bytes ? -ENOMEM : 0;
    for (uint64_t lsn = from; lsn < to && !error; lsn += STEP) {
        size_t size = to - lsn < STEP ? to - lsn : STEP;
        int64_t count = io_read_all(folder->io, s->file, bytes, size, segment_offset(s, lsn));
        error =
            count < 0 ? (int)count : io_write_all(folder->io, s->file, bytes, (size_t)count, segment_offset(s, lsn));
    }
    free(bytes);
    return error;
}

/* Steps 1 to 3: the end of the last segment becomes durable, and nothing is left behind it. */
static int make_end_durable(const struct log_folder *folder, struct recovered *found, const struct segment_mark *mark,
                            bool to_write, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    struct segment *s = &found->last;
    char name[SEGMENT_NAME];
    segment_name(s->base, name);
    bool is_clean = mark->flags & MARK_CLEAN && mark->durable == found->end;
    int error = 0;
    if (is_clean && !to_write) return LOG_OK;
    if (!is_clean) {
        error = recover_zero(folder, s, found->end, segment_reach(s, mark->flags), &found->cut);
        if (!error) error = write_again(folder, s, mark->durable, found->end);
        if (!error) error = io->sync_folder(io->disk, folder->folder);
        if (!error) error = io->sync(io->disk, s->file);
    }
    if (!error) error = segment_write_mark(folder, s, found->end, to_write ? 0 : MARK_CLEAN);
    if (!error) error = io->sync(io->disk, s->file);
    return error ? log_fail(fault, LOG_FAILED, "write of the tail", name, -error) : LOG_OK;
}

static int recover_last(const struct log_folder *folder, bool to_write, struct recovered *found,
                        struct log_fault *fault)
{
    struct segment_mark mark;
    uint64_t told;
    char name[SEGMENT_NAME];
    segment_name(found->last.base, name);
    int code = segment_read_mark(folder, &found->last, &mark, fault);
    if (code) return code;
    if (mark.flags & MARK_SEALED)
        return log_damaged(fault, "the segment behind it is missing", name, mark.durable, mark.durable);
    code = recover_scan(folder, &found->last, segment_last_place(&found->last), &found->end, fault);
    if (code) return code;
    uint64_t least = mark.durable;
    if (end_read(folder, &told) && told > least) least = told;
    if (found->end < least)
        return log_damaged(fault, "no valid record is there, and there was one", name, found->end, least);
    return make_end_durable(folder, found, &mark, to_write, fault);
}

static int tell_readers(const struct log_folder *folder, struct recovered *found, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    uint64_t told;
    bool is_told = end_read(folder, &told);
    found->shown = found->end;
    if (folder->is_replicated) found->shown = is_told && told > found->earliest ? told : found->earliest;
    if (is_told && told == found->shown) return LOG_OK;
    int file = io->open(io->disk, folder->folder, "end", O_RDWR | O_CREAT);
    int error = file < 0 ? file : end_write(folder, file, found->shown);
    if (file >= 0) io->close(io->disk, file);
    fault->from = SEGMENT_BLOCK; /* what a full disk lacks */
    return error ? log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "write", "end", -error) : LOG_OK;
}

static int recover(const struct log_folder *folder, const uint64_t *bases, size_t count, bool to_write,
                   struct recovered *found, struct log_fault *fault)
{
    bool *sealed = calloc(count, sizeof *sealed);
    int code = sealed ? LOG_OK : log_fail(fault, LOG_NO_MEMORY, "recover", ".", ENOMEM);
    for (size_t n = 0; n + 1 < count && !code; n++)
        code = check_inner(folder, bases[n], bases[n + 1], &sealed[n], fault);
    if (!code) code = segment_open(folder, bases[count - 1], O_RDWR, &found->last, fault);
    if (!code) code = recover_last(folder, to_write, found, fault);
    for (size_t n = 0; n + 1 < count && !code; n++)
        if (!sealed[n]) code = seal(folder, bases[n], bases[n + 1], fault);
    if (!code) code = tell_readers(folder, found, fault);
    free(sealed);
    return code;
}

/* What a trim has left when it was interrupted. It may have been killed before its start was durable. */
static int remove_trimmed(const struct log_folder *folder, const struct bases *bases, struct log_fault *fault)
{
    int code = bases->before ? start_write(folder, bases->start, fault) : LOG_OK;
    if (code) return code;
    for (size_t n = 0; n < bases->before; n++) {
        int error = start_remove(folder, bases->of[n]);
        char name[SEGMENT_NAME];
        segment_name(bases->of[n], name);
        if (error) return log_fail(fault, LOG_FAILED, "unlink", name, -error);
    }
    return LOG_OK;
}

int log_recover(const struct log_folder *folder, bool to_write, struct recovered *found, struct log_fault *fault)
{
    struct bases bases;
    *found = (struct recovered){.last.file = -1};
    int code = folder->is_replicated ? truncate_complete(folder, fault) : LOG_OK;
    if (code) return code;
    code = start_list(folder, &bases, fault);
    const uint64_t *first = bases.of + bases.before;
    size_t count = bases.count - bases.before;
    if (!code && !count) code = log_damaged(fault, "there is no segment", ".", bases.start, bases.start);
    if (!code && *first != bases.start)
        code = log_damaged(fault, "the first segments are missing", ".", bases.start, *first);
    found->earliest = bases.start;
    if (!code) code = recover(folder, first, count, to_write, found, fault);
    if (!code) code = remove_trimmed(folder, &bases, fault);
    if (!code) spare_discard(folder, -1);
    if (!code) folder->io->unlink(folder->io->disk, folder->folder, "compact.new");
    if (code && found->last.file >= 0) segment_close(folder, &found->last);
    free(bases.of);
    return code;
}

/* ======== salvage ======== */

/* Records of a segment that is damaged: what is valid is found, wherever it lies. Nothing is trusted but each record's CRC. */

/* With a head that is spoiled: as one that is compacted, of which nobody knows how much it holds. Any record is valid there
 * that was not moved behind its own position. */
static int open_spoiled(struct reader *r, uint64_t base, struct log_fault *fault)
{
    const struct log_io *io = r->folder.io;
    char name[SEGMENT_NAME];
    segment_name(base, name);
    int file = io->open(io->disk, r->folder.folder, name, O_RDONLY);
    if (file == -ENOENT) return log_fail(fault, LOG_TRIMMED, "open", name, ENOENT);
    if (file < 0) return log_fail(fault, LOG_FAILED, "open", name, -file);
    int64_t size = io->size(io->disk, file);
    r->segment = (struct segment){.file = file, .base = base, .size = (uint64_t)size, .is_compacted = true};
    r->segment.end = UINT64_MAX;
    if (size > SEGMENT_DATA) r->segment.bytes = (uint64_t)size - SEGMENT_DATA;
    return size < 0 ? log_fail(fault, LOG_FAILED, "fstat", name, (int)-size) : LOG_OK;
}

static int open_any(struct reader *r, uint64_t base, struct log_fault *fault)
{
    if (r->segment.file >= 0 && r->segment.base == base) return LOG_OK;
    segment_close(&r->folder, &r->segment);
    window_clear(&r->window);
    r->place = r->scanned = base;
    int code = segment_open(&r->folder, base, O_RDONLY, &r->segment, fault);
    return code == LOG_DAMAGED || code == LOG_VERSION_OTHER ? open_spoiled(r, base, fault) : code;
}

int reader_scan(struct reader *r, uint64_t base, uint64_t from, struct reader_record *record, struct log_fault *fault)
{
    const uint8_t *bytes;
    uint64_t size;
    int code = open_any(r, base, fault);
    if (code) return code;
    uint64_t last = segment_last_place(&r->segment);
    if (!r->segment.is_compacted)
        r->place = from > base ? from : base;
    else if (r->scanned != from)
        r->place = base;
    r->is_whole = true;
    while (r->place < last) {
        int found = window_record(&r->window, &r->folder, &r->segment, r->place, last, &bytes, &size);
        if (found < 0) return log_fail(fault, found == -ENOMEM ? LOG_NO_MEMORY : LOG_FAILED, "read", "segment", -found);
        bool is_right = found && reader_split(bytes, size, record) == LOG_OK;
        if (!is_right) r->is_whole = false;
        r->place += is_right ? size : RECORD_ALIGN;
        r->scanned = is_right ? record->end : r->scanned;
        if (is_right && record->head.lsn >= from) return LOG_OK;
    }
    return LOG_AT_END;
}

/* ======== truncation ======== */

int truncate_make(const struct log_folder *folder, struct log_fault *fault)
{
    return marks_make(folder, TRUNCATED_FILE, MARKS_TRUNCATED, 0, 0, fault);
}

void truncate_unmake(const struct log_folder *folder)
{
    folder->io->unlink(folder->io->disk, folder->folder, TRUNCATED_FILE);
}

static int say(const struct log_folder *folder, uint64_t position, uint32_t flags, struct log_fault *fault)
{
    int code = marks_change(folder, TRUNCATED_FILE, MARKS_TRUNCATED, position, flags, fault);
    return code == LOG_AT_END ? log_damaged(fault, "the file is missing", TRUNCATED_FILE, position, position) : code;
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
    int code = marks_read(folder, TRUNCATED_FILE, MARKS_TRUNCATED, &mark, fault);
    if (code) return code == LOG_AT_END ? LOG_OK : code;
    if (mark.number > TRUNCATION_MADE) code = say(folder, mark.durable, mark.flags, fault);
    return code || !(mark.flags & TRUNCATION_BEGUN) ? code : complete(folder, mark.durable, fault);
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
    if (!code && to < found.end) code = say(folder, to, TRUNCATION_BEGUN, fault);
    return code || to == found.end ? code : complete(folder, to, fault);
}

/* ======== the log itself ======== */

/* A log comes into being, and says which one it is.
 *
 *   0       8         12    16     32           40      44            48
 *   | magic | version | crc | uuid | created_ns | epoch | description | its bytes … |
 *
 * The first segment is made before the file `log`: where that file is, both are durable. A folder with segments and
 * without that file is one in which somebody was killed before that, or one that has lost it.
 */

static const char MAGIC[8] = "RTMWLOG", LOG_FILE[] = "log", UNNAMED[] = "log.new";

enum { LOG_CRC_FROM = 16, DESCRIPTION_MOST = 1 << 16 };

struct identity {
    char magic[8];
    uint32_t version, crc;
    uint8_t uuid[16];
    uint64_t created_ns;
    uint32_t epoch, description;
};
_Static_assert(sizeof(struct identity) == 48, "as in docs/formats/log-format.md");

static const char LOST[] = "segments are there, and the file `log` is missing";

/* Is there something where records begin? 1, 0 or -errno. */
static int64_t first_byte(const struct log_folder *folder, const char *name)
{
    uint8_t first[RECORD_HEAD] = {0}, any = 0;
    int file = folder->io->open(folder->io->disk, folder->folder, name, O_RDONLY);
    int64_t count = file < 0 ? file : io_read_all(folder->io, file, first, sizeof first, SEGMENT_DATA);
    if (file >= 0) folder->io->close(folder->io->disk, file);
    for (size_t n = 0; n < sizeof first; n++) any |= first[n];
    return count < 0 ? count : any != 0;
}

/* Nothing of what lies in the folder may be somebody's records, but for copied segments: LOG_OK, and the empty ones are gone. */
static int clear_unfinished(const struct log_folder *folder, const struct log_creation *creation,
                            struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    uint64_t *bases;
    size_t count;
    char name[SEGMENT_NAME];
    int code = segment_list(folder, &bases, &count, fault);
    uint64_t base = code || !count ? 0 : bases[count - 1];
    size_t copied = 0;
    while (!code && creation->copied && copied < count && bases[copied] < creation->base) copied++;
    count -= copied;
    free(bases);
    if (code || !count) return code;
    if (count > 1 || (base && !folder->is_replicated)) return log_damaged(fault, LOST, LOG_FILE, 0, base);
    segment_name(base, name);
    int64_t got = first_byte(folder, name);
    if (got > 0) return log_damaged(fault, LOST, LOG_FILE, base, base);
    int error = got < 0 ? (int)got : io->unlink(io->disk, folder->folder, name);
    return error ? log_fail(fault, LOG_FAILED, "unlink", name, -error) : LOG_OK;
}

/* A copied segment is sealed and whole, and durable from now on. `*end`: where it ends. */
static int check_segment(const struct log_folder *folder, uint64_t base, uint64_t *end, struct log_fault *fault)
{
    struct segment s;
    struct segment_mark mark;
    char name[SEGMENT_NAME];
    segment_name(base, name);
    int code = segment_open(folder, base, O_RDWR, &s, fault);
    if (code) return code;
    code = segment_read_mark(folder, &s, &mark, fault);
    if (!code && (!(mark.flags & MARK_SEALED) || s.is_compacted))
        code = log_damaged(fault, "the copied segment is not sealed, or compacted", name, base, base);
    if (!code) code = recover_scan(folder, &s, mark.durable, end, fault);
    if (!code && *end != mark.durable)
        code = log_damaged(fault, "no valid record is there in the copied segment", name, *end, mark.durable);
    int error = code ? 0 : folder->io->sync(folder->io->disk, s.file);
    segment_close(folder, &s);
    return error ? log_fail(fault, LOG_FAILED, "sync", name, -error) : code;
}

/* The copied segments follow each other from the start up to the base. */
static int check_segments(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault)
{
    uint64_t *bases, at = creation->base - creation->copied;
    size_t count;
    int code = segment_list(folder, &bases, &count, fault);
    for (size_t n = 0; n < count && !code && at < creation->base; n++) {
        if (bases[n] != at) break;
        code = check_segment(folder, at, &at, fault);
    }
    free(bases);
    if (code || at == creation->base) return code;
    return log_damaged(fault, "copied segments are missing, or do not follow each other", ".", at, creation->base);
}

/* Epochs never fall. The start of the log is known. */
static int check_epochs(const struct log_folder *folder, uint64_t end, struct log_fault *fault)
{
    struct log_epoch *table;
    size_t count;
    int code = log_epochs(folder, end, &table, &count, fault);
    for (size_t n = 1; n < count && !code; n++)
        if (table[n].epoch < table[n - 1].epoch)
            code = log_damaged(fault, "an epoch is lower than the one before", ".", table[n].start, end);
    free(table);
    return code;
}

static int check_creation(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault)
{
    fault->from = fault->to = creation->base;
    if (creation->base % RECORD_ALIGN || creation->copied > creation->base)
        return log_fail(fault, LOG_REFUSED, "no log can begin there", LOG_FILE, 0);
    if (creation->copied && !folder->is_replicated)
        return log_fail(fault, LOG_REFUSED, "only a replicated log is made from copied segments", LOG_FILE, 0);
    return creation->copied ? check_segments(folder, creation, fault) : LOG_OK;
}

static int first_segment(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault)
{
    struct segment first = {.file = -1, .size = creation->segment, .base = creation->base};
    int code = spare_make(folder, first.size, &first.file, NULL, fault);
    if (!code) code = spare_name(folder, &first, LOG_EPOCH, fault);
    if (!code || first.file >= 0) segment_close(folder, &first);
    return code;
}

static int write_identity(const struct log_folder *folder, int file, const void *description, uint32_t size)
{
    uint32_t version = folder->is_replicated ? LOG_REPLICATED : LOG_VERSION;
    struct identity identity = {.version = version, .epoch = LOG_EPOCH, .description = size};
    uint8_t *bytes = malloc(sizeof identity + size);
    if (!bytes) return -ENOMEM;
    memcpy(identity.magic, MAGIC, sizeof identity.magic);
    memcpy(identity.uuid, folder->uuid, sizeof identity.uuid);
    identity.created_ns = folder->io->now_ns(folder->io->disk, LOG_CLOCK_WALL);
    memcpy(bytes + sizeof identity, description, size);
    memcpy(bytes, &identity, sizeof identity);
    identity.crc = crc32c(0, bytes + LOG_CRC_FROM, sizeof identity + size - LOG_CRC_FROM);
    memcpy(bytes, &identity, sizeof identity);
    int error = io_write_all(folder->io, file, bytes, sizeof identity + size, 0);
    free(bytes);
    return error;
}

static int make_identity(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, UNNAMED, O_RDWR | O_CREAT | O_TRUNC);
    if (file < 0) return log_fail(fault, LOG_FAILED, "open", UNNAMED, -file);
    int error = write_identity(folder, file, creation->description, creation->size);
    if (!error) error = io->sync(io->disk, file);
    io->close(io->disk, file);
    if (!error) error = io->rename(io->disk, folder->folder, UNNAMED, LOG_FILE);
    if (!error && (error = io->sync_folder(io->disk, folder->folder)))
        io->unlink(io->disk, folder->folder, LOG_FILE); /* nobody knows whether the name is on the disk */
    return error ? log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "create", LOG_FILE, -error) : LOG_OK;
}

/* A full disk: the folder is as it was, without a log, and the fault says how much a new one needs. The segment stays where the
 * name `log` may still be on the disk: an empty log, or one that is made anew. */
static int give_up(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    io->unlink(io->disk, folder->folder, UNNAMED);
    if (!io->sync_folder(io->disk, folder->folder)) {
        start_unmake(folder);
        truncate_unmake(folder);
        start_remove(folder, creation->base);
    }
    fault->from = creation->segment + SEGMENT_DATA + 2 * SEGMENT_BLOCK; /* `start`; `log` and `end` */
    return log_fail(fault, LOG_FULL, "create", LOG_FILE, fault->error);
}

int log_create(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault)
{
    int code = check_creation(folder, creation, fault);
    if (!code) code = clear_unfinished(folder, creation, fault);
    if (!code) code = first_segment(folder, creation, fault);
    if (!code) code = start_make(folder, creation->base - creation->copied, fault);
    if (!code && creation->copied) code = check_epochs(folder, creation->base, fault);
    if (!code && creation->copied) code = ids_truncate(folder, creation->base, fault);
    if (!code && folder->is_replicated) code = truncate_make(folder, fault);
    if (!code) code = make_identity(folder, creation, fault);
    return code == LOG_FULL ? give_up(folder, creation, fault) : code;
}

static int check_identity(struct log_folder *folder, const uint8_t *bytes, int64_t count, struct log_fault *fault)
{
    struct identity identity;
    if (count < (int64_t)sizeof identity) return log_damaged(fault, "the file is cut short", LOG_FILE, 0, 0);
    memcpy(&identity, bytes, sizeof identity);
    bool is_ours = memcmp(identity.magic, MAGIC, sizeof MAGIC) == 0;
    folder->is_replicated = identity.version == LOG_REPLICATED;
    if (is_ours && identity.version != LOG_VERSION && !folder->is_replicated) {
        fault->from = identity.version;
        return log_fail(fault, LOG_VERSION_OTHER, "of another version of the format", LOG_FILE, 0);
    }
    if (!is_ours || (uint64_t)count != sizeof identity + identity.description ||
        identity.crc != crc32c(0, bytes + LOG_CRC_FROM, (size_t)count - LOG_CRC_FROM))
        return log_damaged(fault, "the file is not as it was written", LOG_FILE, 0, 0);
    memcpy(folder->uuid, identity.uuid, sizeof folder->uuid);
    folder->seed = record_seed(folder->uuid);
    return LOG_OK;
}

int log_identify(struct log_folder *folder, void **description, uint32_t *size, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, LOG_FILE, O_RDONLY);
    if (file == -ENOENT) return log_fail(fault, LOG_NO_LOG, "open", LOG_FILE, ENOENT);
    if (file < 0) return log_fail(fault, LOG_FAILED, "open", LOG_FILE, -file);
    uint8_t *bytes = malloc(DESCRIPTION_MOST);
    int64_t count = bytes ? io_read_all(io, file, bytes, DESCRIPTION_MOST, 0) : -ENOMEM;
    io->close(io->disk, file);
    int code = count < 0 ? log_fail(fault, bytes ? LOG_FAILED : LOG_NO_MEMORY, "read", LOG_FILE, (int)-count)
                         : check_identity(folder, bytes, count, fault);
    if (!code) {
        *size = (uint32_t)((size_t)count - sizeof(struct identity));
        memmove(bytes, bytes + sizeof(struct identity), *size);
        *description = bytes;
    } else {
        free(bytes);
    }
    return code;
}
