/* Files of segments, and the spare that becomes the next one: see segment.h. */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/atomics.h"
#include "../shm/crc32c.h"
#include "record.h"

static const char HEAD_MAGIC[8] = "RTMWSEG", MARK_MAGIC[8] = "RTMWMARK";
static const char SUFFIX[] = ".seg";

enum { DIGITS = 20, CRC_OF_HEAD_FROM = 16, CRC_OF_MARK_FROM = 12 };

void segment_name(uint64_t base, char name[SEGMENT_NAME])
{
    snprintf(name, SEGMENT_NAME, "%0*" PRIu64 "%s", DIGITS, base, SUFFIX);
}

void index_name(uint64_t base, char name[SEGMENT_NAME])
{
    snprintf(name, SEGMENT_NAME, "%0*" PRIu64 ".idx", DIGITS, base);
}

bool segment_base(const char *name, uint64_t *base)
{
    char again[SEGMENT_NAME];
    *base = strtoull(name, NULL, 10);
    segment_name(*base, again);
    return strcmp(name, again) == 0;
}

struct names {
    uint64_t *list;
    size_t count, room;
    bool is_short; /* of memory */
};

static void see_name(void *argument, const char *name)
{
    struct names *bases = argument;
    uint64_t base;
    if (!segment_base(name, &base) || bases->is_short) return;
    if (bases->count == bases->room) {
        size_t room = bases->room ? 2 * bases->room : 64;
        uint64_t *larger = realloc(bases->list, room * sizeof *larger);
        bases->is_short = !larger;
        if (!larger) return;
        bases->list = larger;
        bases->room = room;
    }
    bases->list[bases->count++] = base;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int segment_list(const struct log_folder *folder, uint64_t **bases, size_t *count, struct log_fault *fault)
{
    struct names found = {0};
    int error = folder->io->list(folder->io->disk, folder->folder, see_name, &found);
    *bases = found.list;
    *count = found.count;
    if (error) return log_fail(fault, LOG_FAILED, "list", ".", -error);
    if (found.is_short) return log_fail(fault, LOG_NO_MEMORY, "list", ".", ENOMEM);
    if (found.count) qsort(found.list, found.count, sizeof *found.list, ascending);
    return LOG_OK;
}

static uint32_t head_crc(const uint8_t *block)
{
    return crc32c(0, block + CRC_OF_HEAD_FROM, SEGMENT_BLOCK - CRC_OF_HEAD_FROM);
}

static uint32_t mark_crc(const struct segment_mark *mark, uint32_t seed)
{
    return crc32c(seed, (const uint8_t *)mark + CRC_OF_MARK_FROM, sizeof *mark - CRC_OF_MARK_FROM);
}

static struct segment_mark make_mark(const struct log_folder *folder, uint64_t base, uint64_t number, uint64_t durable)
{
    struct segment_mark mark = {.base = base, .number = number, .durable = durable};
    memcpy(mark.magic, MARK_MAGIC, sizeof mark.magic);
    mark.time_ns = folder->io->now_ns(folder->io->disk, LOG_CLOCK_WALL);
    return mark;
}

/* Head and marks, but for their magic, uuid and CRCs. */
static int write_blocks(const struct log_folder *folder, int file, struct segment_head head, struct segment_mark mark)
{
    uint8_t blocks[SEGMENT_DATA] = {0};
    memcpy(head.magic, HEAD_MAGIC, sizeof head.magic);
    memcpy(head.uuid, folder->uuid, sizeof head.uuid);
    memcpy(blocks, &head, sizeof head);
    head.crc = head_crc(blocks);
    memcpy(blocks, &head, sizeof head);
    mark.crc = mark_crc(&mark, folder->seed);
    for (int slot = 1; slot <= 2; slot++) memcpy(blocks + (ptrdiff_t)slot * SEGMENT_BLOCK, &mark, sizeof mark);
    return io_write_all(folder->io, file, blocks, sizeof blocks, 0);
}

int segment_begin(const struct log_folder *folder, const struct segment *s, uint32_t epoch)
{
    struct segment_head head = {.version = LOG_VERSION, .base = s->base, .size = s->size, .epoch = epoch};
    struct segment_mark mark = make_mark(folder, s->base, 0, s->base);
    head.created_ns = mark.time_ns;
    return write_blocks(folder, s->file, head, mark);
}

int segment_begin_compacted(const struct log_folder *folder, const struct segment *s, uint64_t sealed_ns)
{
    struct segment_head head = {.version = SEGMENT_COMPACTED, .base = s->base, .size = s->size, .epoch = LOG_EPOCH};
    struct segment_mark mark = make_mark(folder, s->base, 0, s->end);
    head.created_ns = s->created_ns;
    head.end = s->end;
    head.bytes = s->bytes;
    head.records = s->records;
    mark.flags = MARK_SEALED;
    mark.time_ns = sealed_ns;
    return write_blocks(folder, s->file, head, mark);
}

static int check_head(const struct log_folder *folder, const uint8_t *block, struct segment *s, const char *name,
                      struct log_fault *fault)
{
    struct segment_head head;
    memcpy(&head, block, sizeof head);
    bool is_ours = memcmp(head.magic, HEAD_MAGIC, sizeof head.magic) == 0;
    s->is_compacted = head.version == SEGMENT_COMPACTED;
    if (is_ours && head.version != LOG_VERSION && !s->is_compacted) {
        fault->from = head.version;
        return log_fail(fault, LOG_VERSION_OTHER, "of another version of the format", name, 0);
    }
    if (!is_ours || head.crc != head_crc(block))
        return log_damaged(fault, "the head of the segment is not as it was written", name, s->base, s->base);
    if (memcmp(head.uuid, folder->uuid, sizeof head.uuid))
        return log_damaged(fault, "the segment is of another log", name, s->base, s->base);
    if (head.base != s->base)
        return log_damaged(fault, "the file has the name of another segment", name, s->base, s->base);
    int64_t size = folder->io->size(folder->io->disk, s->file);
    if (size < 0) return log_fail(fault, LOG_FAILED, "fstat", name, (int)-size);
    uint64_t least = s->is_compacted ? head.bytes : 1;
    if (head.size < SEGMENT_DATA || head.size - SEGMENT_DATA < least || (uint64_t)size < head.size)
        return log_damaged(fault, "the file is shorter than it was made", name, s->base, s->base);
    if (s->is_compacted && (head.end <= head.base || head.end - head.base < head.bytes))
        return log_damaged(fault, "the segment ends before its records do, says its head", name, s->base, s->base);
    s->size = head.size;
    s->created_ns = head.created_ns;
    s->end = head.end;
    s->bytes = head.bytes;
    s->records = head.records;
    return LOG_OK;
}

int segment_open(const struct log_folder *folder, uint64_t base, int flags, struct segment *s, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    uint8_t block[SEGMENT_BLOCK];
    segment_name(base, name);
    *s = (struct segment){.base = base, .file = io->open(io->disk, folder->folder, name, flags)};
    if (s->file == -ENOENT) return log_fail(fault, LOG_TRIMMED, "open", name, ENOENT);
    if (s->file < 0) return log_fail(fault, LOG_FAILED, "open", name, -s->file);
    int64_t count = io_read_all(io, s->file, block, sizeof block, 0);
    int code = LOG_OK;
    if (count < 0) code = log_fail(fault, LOG_FAILED, "read", name, (int)-count);
    if (count >= 0 && count < SEGMENT_BLOCK) code = log_damaged(fault, "the file has no head", name, base, base);
    if (!code) code = check_head(folder, block, s, name, fault);
    if (code) segment_close(folder, s);
    return code;
}

void segment_close(const struct log_folder *folder, struct segment *s)
{
    if (s->file >= 0) folder->io->close(folder->io->disk, s->file);
    s->file = -1;
}

int segment_read_mark(const struct log_folder *folder, struct segment *s, struct segment_mark *newest,
                      struct log_fault *fault)
{
    char name[SEGMENT_NAME];
    bool found = false;
    segment_name(s->base, name);
    for (int slot = 1; slot <= 2; slot++) {
        struct segment_mark mark;
        int64_t count = io_read_all(folder->io, s->file, &mark, sizeof mark, (uint64_t)slot * SEGMENT_BLOCK);
        if (count < 0) return log_fail(fault, LOG_FAILED, "read", name, (int)-count);
        if (count < (int64_t)sizeof mark || memcmp(mark.magic, MARK_MAGIC, sizeof mark.magic)) continue;
        if (mark.crc != mark_crc(&mark, folder->seed) || mark.base != s->base) continue;
        if (!found || mark.number > newest->number) *newest = mark;
        found = true;
    }
    if (!found) return log_damaged(fault, "both watermarks of the segment are spoiled", name, s->base, s->base);
    s->mark = newest->number;
    return LOG_OK;
}

int segment_write_mark(const struct log_folder *folder, struct segment *s, uint64_t durable, uint32_t flags)
{
    struct segment_mark mark = make_mark(folder, s->base, ++s->mark, durable);
    mark.flags = flags;
    mark.crc = mark_crc(&mark, folder->seed);
    uint64_t slot = 1 + s->mark % 2;
    return io_write_all(folder->io, s->file, &mark, sizeof mark, slot * SEGMENT_BLOCK);
}

/* ======== spares ======== */

static const char SPARE[] = "spare";
enum { STEP = 256 * 1024 };

/* 0, -errno, or 1: stopped. */
static int fill(const struct log_folder *folder, int file, uint64_t size, const uint32_t *stop)
{
    static const uint8_t zeros[STEP];
    int error = 0;
    for (uint64_t at = 0; at < size && !error; at += STEP) {
        if (stop && load_acquire(stop)) return 1;
        error = io_write_all(folder->io, file, zeros, size - at < STEP ? size - at : STEP, at);
    }
    return error ? error : folder->io->sync(folder->io->disk, file);
}

static int make(const struct log_folder *folder, uint64_t size, int *file, const uint32_t *stop,
                struct log_fault *fault, bool is_new)
{
    const struct log_io *io = folder->io;
    *file = io->open(io->disk, folder->folder, SPARE, is_new ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR);
    int error = *file < 0 ? *file : 0;
    if (!error && is_new) error = io->allocate(io->disk, *file, size); /* refused at once where there is no room */
    if (!error) error = fill(folder, *file, size, stop);
    if (!error) return LOG_OK;
    spare_discard(folder, *file);
    *file = -1;
    if (error > 0) return LOG_CLOSED;
    return log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "write", SPARE, -error);
}

int spare_make(const struct log_folder *folder, uint64_t size, int *file, const uint32_t *stop, struct log_fault *fault)
{
    return make(folder, size, file, stop, fault, true);
}

int spare_refill(const struct log_folder *folder, uint64_t size, int *file, const uint32_t *stop,
                 struct log_fault *fault)
{
    return make(folder, size, file, stop, fault, false);
}

int spare_name(const struct log_folder *folder, struct segment *spare, uint32_t epoch, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    segment_name(spare->base, name);
    int error = segment_begin(folder, spare, epoch);
    if (error) return log_fail(fault, LOG_FAILED, "write", SPARE, -error);
    error = io->sync(io->disk, spare->file);
    if (error) return log_fail(fault, LOG_FAILED, "fdatasync", SPARE, -error);
    error = io->rename(io->disk, folder->folder, SPARE, name);
    if (error) return log_fail(fault, LOG_FAILED, "rename", name, -error);
    error = io->sync_folder(io->disk, folder->folder);
    if (error) return log_fail(fault, LOG_FAILED, "fsync of the folder", name, -error);
    spare->reach = spare->size;
    spare->mark = 0;
    return LOG_OK;
}

void spare_discard(const struct log_folder *folder, int file)
{
    if (file >= 0) folder->io->close(folder->io->disk, file);
    folder->io->unlink(folder->io->disk, folder->folder, SPARE);
}

uint64_t spare_size(uint64_t size, uint64_t most, uint64_t needs)
{
    uint64_t next = 2 * size < most ? 2 * size : most, least = needs + SEGMENT_DATA;
    if (next < least) next = least;
    return (next + SEGMENT_BLOCK - 1) & ~(uint64_t)(SEGMENT_BLOCK - 1);
}
