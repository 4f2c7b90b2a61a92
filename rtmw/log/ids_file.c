/* The snapshot of the dedupe window, the file `ids`.
 *
 *   0       8         12    16     24      28     32
 *   | magic | version | crc | upto | count | zero | entries, oldest first … |      of a plain log
 *                                                 | floor | entries …     |      version 2, of a replicated log
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "ids.h"
#include "reader.h"

static const char MAGIC[8] = "RTMWIDS", NAME[] = "ids", UNNAMED[] = "ids.new";

enum { CRC_FROM = 16 };

struct ids_head {
    char magic[8];
    uint32_t version, crc; /* the CRC is of the log's uuid and of what follows it */
    uint64_t upto;
    uint32_t count, zero;
    uint64_t floor; /* of version 2 */
};
_Static_assert(sizeof(struct ids_head) == 40, "as in docs/formats/log-format.md");

static uint32_t version_of(const struct log_folder *folder)
{
    return folder->is_replicated ? LOG_REPLICATED : LOG_VERSION;
}

static size_t head_size(const struct log_folder *folder)
{
    return folder->is_replicated ? sizeof(struct ids_head) : offsetof(struct ids_head, floor);
}

static uint32_t crc_of(const struct log_folder *folder, const struct ids_head *head, const struct id_entry *entries)
{
    uint32_t crc = crc32c(folder->seed, (const uint8_t *)head + CRC_FROM, head_size(folder) - CRC_FROM);
    return crc32c(crc, (const uint8_t *)entries, head->count * sizeof *entries);
}

/* The snapshot, whose entries the caller frees; false: there is none, or it is not whole, or covers what lies above `end`. */
static bool read_snapshot(const struct log_folder *folder, uint64_t end, struct ids_snapshot *snapshot)
{
    const struct log_io *io = folder->io;
    struct id_entry *entries = NULL;
    struct ids_head head;
    const size_t size = head_size(folder);
    int file = io->open(io->disk, folder->folder, NAME, O_RDONLY);
    if (file < 0) return false;
    int64_t all = io->size(io->disk, file), count = io_read_all(io, file, &head, size, 0);
    bool is_ours = count == (int64_t)size && !memcmp(head.magic, MAGIC, sizeof MAGIC) &&
                   head.version == version_of(folder) && head.upto <= end &&
                   all == (int64_t)(size + head.count * sizeof *entries);
    if (is_ours) entries = malloc(head.count * sizeof *entries + 1);
    if (entries) count = io_read_all(io, file, entries, head.count * sizeof *entries, size);
    io->close(io->disk, file);
    bool is_whole =
        entries && count == (int64_t)(head.count * sizeof *entries) && head.crc == crc_of(folder, &head, entries);
    if (!is_whole) return free(entries), false;
    uint64_t floor = folder->is_replicated ? head.floor : head.count ? entries[0].position : head.upto;
    *snapshot = (struct ids_snapshot){.entries = entries, .count = head.count, .upto = head.upto, .floor = floor};
    return true;
}

static int add(struct ids *ids, const struct id_entry *entry, struct log_fault *fault)
{
    if (ids_reserve(ids)) return log_fail(fault, LOG_NO_MEMORY, "read", NAME, ENOMEM);
    ids_add(ids, entry, entry->position);
    return LOG_OK;
}

/* The ids of the records from `from` on. */
static int add_records(const struct log_folder *folder, struct ids *ids, uint64_t from, uint64_t end,
                       struct log_fault *fault)
{
    struct reader r;
    struct reader_record record;
    struct id_batch batch = {0};
    int code;
    reader_open_at(&r, folder, from);
    while ((code = reader_next(&r, end, &record, fault)) == LOG_OK) {
        struct record_parts parts = {record.labels, record.data, record.labels_size, record.data_size, 0};
        if (!id_batch_pass(&batch, &record.head, &parts, folder->uuid)) continue;
        code = add(ids, &batch.entry, fault);
        if (code) break;
    }
    reader_close(&r);
    return code == LOG_AT_END ? LOG_OK : code;
}

/* The process that saved it may have been killed before it synced the folder. Each trim from now on rests on it. */
static int make_name_durable(const struct log_folder *folder, struct log_fault *fault)
{
    int error = folder->io->sync_folder(folder->io->disk, folder->folder);
    return error ? log_fail(fault, LOG_FAILED, "sync of the folder", NAME, -error) : LOG_OK;
}

int ids_load(const struct log_folder *folder, struct ids *ids, uint64_t earliest, uint64_t end, uint64_t *upto,
             struct log_fault *fault)
{
    struct ids_snapshot there = {.floor = earliest};
    int code = read_snapshot(folder, end, &there) ? make_name_durable(folder, fault) : LOG_OK;
    bool has_gap = there.upto < earliest && there.entries; /* trimmed, and not in the snapshot */
    ids->floor = has_gap ? earliest : there.floor;
    for (uint32_t n = 0; n < there.count && !code; n++) code = add(ids, &there.entries[n], fault);
    *upto = there.upto;
    free(there.entries);
    return code ? code : add_records(folder, ids, *upto > earliest ? *upto : earliest, end, fault);
}

static int write_all(const struct log_folder *folder, int file, const struct ids_snapshot *snapshot)
{
    struct ids_head head = {.version = version_of(folder), .upto = snapshot->upto, .count = snapshot->count};
    const size_t size = head_size(folder);
    head.floor = snapshot->floor;
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.crc = crc_of(folder, &head, snapshot->entries);
    int error = io_write_all(folder->io, file, &head, size, 0);
    if (!error) error = io_write_all(folder->io, file, snapshot->entries, head.count * sizeof(struct id_entry), size);
    return error ? error : folder->io->sync(folder->io->disk, file);
}

int ids_save(const struct log_folder *folder, const struct ids_snapshot *snapshot, struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, UNNAMED, O_RDWR | O_CREAT | O_TRUNC);
    int error = file < 0 ? file : write_all(folder, file, snapshot);
    if (file >= 0) io->close(io->disk, file);
    if (!error) error = io->rename(io->disk, folder->folder, UNNAMED, NAME);
    if (!error) error = io->sync_folder(io->disk, folder->folder);
    if (!error) return LOG_OK;
    if (io_is_full(error)) {
        io->unlink(io->disk, folder->folder, UNNAMED);
        return log_fail(fault, LOG_FULL, "write", UNNAMED, -error);
    }
    return log_fail(fault, LOG_FAILED, "write", UNNAMED, -error);
}

int ids_truncate(const struct log_folder *folder, uint64_t end, struct log_fault *fault)
{
    struct ids_snapshot there;
    if (!read_snapshot(folder, UINT64_MAX, &there)) return LOG_OK;
    int code = LOG_OK;
    if (there.upto > end) {
        while (there.count && there.entries[there.count - 1].position >= end) there.count--;
        there.upto = end;
        if (there.floor > end) there.floor = end;
        code = ids_save(folder, &there, fault);
    }
    free(there.entries);
    return code;
}
