/* A log comes into being, and says which one it is.
 *
 *   0       8         12    16     32           40      44            48
 *   | magic | version | crc | uuid | created_ns | epoch | description | its bytes … |
 *
 * The first segment is made before the file `log`: where that file is, both are durable. A folder with segments and
 * without that file is one in which somebody was killed before that, or one that has lost it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "epochs.h"
#include "ids.h"
#include "recover.h"
#include "spare.h"
#include "start.h"
#include "truncate.h"
#include "window.h"

static const char MAGIC[8] = "RTMWLOG", NAME[] = "log", UNNAMED[] = "log.new";

enum { CRC_FROM = 16, DESCRIPTION_MOST = 1 << 16 };

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
    if (count > 1 || (base && !folder->is_replicated)) return log_damaged(fault, LOST, NAME, 0, base);
    segment_name(base, name);
    int64_t got = first_byte(folder, name);
    if (got > 0) return log_damaged(fault, LOST, NAME, base, base);
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
        return log_fail(fault, LOG_REFUSED, "no log can begin there", NAME, 0);
    if (creation->copied && !folder->is_replicated)
        return log_fail(fault, LOG_REFUSED, "only a replicated log is made from copied segments", NAME, 0);
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
    identity.crc = crc32c(0, bytes + CRC_FROM, sizeof identity + size - CRC_FROM);
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
    if (!error) error = io->rename(io->disk, folder->folder, UNNAMED, NAME);
    if (!error && (error = io->sync_folder(io->disk, folder->folder)))
        io->unlink(io->disk, folder->folder, NAME); /* nobody knows whether the name is on the disk */
    return error ? log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "create", NAME, -error) : LOG_OK;
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
    return log_fail(fault, LOG_FULL, "create", NAME, fault->error);
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
    if (count < (int64_t)sizeof identity) return log_damaged(fault, "the file is cut short", NAME, 0, 0);
    memcpy(&identity, bytes, sizeof identity);
    bool is_ours = memcmp(identity.magic, MAGIC, sizeof MAGIC) == 0;
    folder->is_replicated = identity.version == LOG_REPLICATED;
    if (is_ours && identity.version != LOG_VERSION && !folder->is_replicated) {
        fault->from = identity.version;
        return log_fail(fault, LOG_VERSION_OTHER, "of another version of the format", NAME, 0);
    }
    if (!is_ours || (uint64_t)count != sizeof identity + identity.description ||
        identity.crc != crc32c(0, bytes + CRC_FROM, (size_t)count - CRC_FROM))
        return log_damaged(fault, "the file is not as it was written", NAME, 0, 0);
    memcpy(folder->uuid, identity.uuid, sizeof folder->uuid);
    folder->seed = record_seed(folder->uuid);
    return LOG_OK;
}

int log_identify(struct log_folder *folder, void **description, uint32_t *size, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, NAME, O_RDONLY);
    if (file == -ENOENT) return log_fail(fault, LOG_NO_LOG, "open", NAME, ENOENT);
    if (file < 0) return log_fail(fault, LOG_FAILED, "open", NAME, -file);
    uint8_t *bytes = malloc(DESCRIPTION_MOST);
    int64_t count = bytes ? io_read_all(io, file, bytes, DESCRIPTION_MOST, 0) : -ENOMEM;
    io->close(io->disk, file);
    int code = count < 0 ? log_fail(fault, bytes ? LOG_FAILED : LOG_NO_MEMORY, "read", NAME, (int)-count)
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
