/* What a folder says of its log besides the segments: which log it is, where it begins, up to where it is durable, and how far
 * its cursors have come. Each of these files is small, whole or known not to be, and changed so that a power cut at any point
 * leaves the old or the new one. And how a log comes into being: the file `log`, which says that there is one, comes last.
 */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "ids.h"
#include "reader.h"
#include "recover.h"
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
