/* The snapshot of the dedupe window, the file `ids`.
 *
 *   0       8         12    16     24      28     32
 *   | magic | version | crc | upto | count | zero | entries, oldest first … |
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
};
_Static_assert(sizeof(struct ids_head) == 32, "as in docs/log-format.md");

static uint32_t crc_of(const struct ids_head *head, const struct id_entry *entries, uint32_t seed)
{
    uint32_t crc = crc32c(seed, (const uint8_t *)head + CRC_FROM, sizeof *head - CRC_FROM);
    return crc32c(crc, (const uint8_t *)entries, head->count * sizeof *entries);
}

/* Head and entries, which the caller frees; NULL: there is no snapshot, or it is not whole, or of what is not there. */
static struct id_entry *read_snapshot(const struct log_folder *folder, uint64_t end, struct ids_head *head)
{
    const struct log_io *io = folder->io;
    struct id_entry *entries = NULL;
    int file = io->open(io->disk, folder->folder, NAME, O_RDONLY);
    if (file < 0) return NULL;
    int64_t size = io->size(io->disk, file), count = io_read_all(io, file, head, sizeof *head, 0);
    bool is_ours = count == (int64_t)sizeof *head && !memcmp(head->magic, MAGIC, sizeof MAGIC) &&
                   head->version == LOG_VERSION && head->upto <= end &&
                   size == (int64_t)(sizeof *head + head->count * sizeof *entries);
    if (is_ours) entries = malloc(head->count * sizeof *entries + 1);
    if (entries) count = io_read_all(io, file, entries, head->count * sizeof *entries, sizeof *head);
    io->close(io->disk, file);
    bool is_whole = entries && count == (int64_t)(head->count * sizeof *entries) &&
                    head->crc == crc_of(head, entries, folder->seed);
    if (is_whole) return entries;
    free(entries);
    return NULL;
}

static int add(struct ids *ids, const struct id_entry *entry, struct log_fault *fault)
{
    if (ids_reserve(ids)) return log_fail(fault, LOG_NO_MEMORY, "read", NAME, ENOMEM);
    ids_add(ids, entry);
    return LOG_OK;
}

/* The ids of the records from `from` on. */
static int add_records(const struct log_folder *folder, struct ids *ids, uint64_t from, uint64_t end,
                       struct log_fault *fault)
{
    struct reader r;
    struct reader_record record;
    struct id_entry entry;
    int code;
    reader_open_at(&r, folder, from);
    while ((code = reader_next(&r, end, &record, fault)) == LOG_OK) {
        struct record_parts parts = {record.labels, record.data, record.labels_size, record.data_size, 0};
        if (!id_entry_of(&parts, folder->uuid, &entry)) continue;
        entry.position = record.head.lsn;
        code = add(ids, &entry, fault);
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
    struct ids_head head;
    struct id_entry *entries = read_snapshot(folder, end, &head);
    int code = entries ? make_name_durable(folder, fault) : LOG_OK;
    for (uint32_t n = 0; entries && n < head.count && !code; n++) code = add(ids, &entries[n], fault);
    *upto = entries ? head.upto : 0;
    free(entries);
    return code ? code : add_records(folder, ids, *upto > earliest ? *upto : earliest, end, fault);
}

static int write_all(const struct log_folder *folder, int file, const struct id_entry *entries, uint32_t count,
                     uint64_t upto)
{
    struct ids_head head = {.version = LOG_VERSION, .upto = upto, .count = count};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.crc = crc_of(&head, entries, folder->seed);
    int error = io_write_all(folder->io, file, &head, sizeof head, 0);
    if (!error) error = io_write_all(folder->io, file, entries, count * sizeof *entries, sizeof head);
    return error ? error : folder->io->sync(folder->io->disk, file);
}

int ids_save(const struct log_folder *folder, const struct id_entry *entries, uint32_t count, uint64_t upto,
             struct log_fault *fault)
{
    const struct log_io *io = folder->io;
    int file = io->open(io->disk, folder->folder, UNNAMED, O_RDWR | O_CREAT | O_TRUNC);
    int error = file < 0 ? file : write_all(folder, file, entries, count, upto);
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
