#include "index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/atomics.h"
#include "../shm/crc32c.h"
#include "reader.h"

static const char MAGIC[8] = "RTMWIDX";

enum { CRC_FROM = 16, DIGITS = 20, ROOM_AT_FIRST = 64 };

void index_name(uint64_t base, char name[SEGMENT_NAME])
{
    snprintf(name, SEGMENT_NAME, "%0*" PRIu64 ".idx", DIGITS, base);
}

static uint32_t crc_of(const struct index *index, uint32_t seed)
{
    uint32_t crc = crc32c(seed, (const uint8_t *)&index->head + CRC_FROM, sizeof index->head - CRC_FROM);
    return crc32c(crc, (const uint8_t *)index->stretches, index->head.count * sizeof *index->stretches);
}

static bool begin_stretch(struct index *index, uint64_t position)
{
    uint32_t n = index->head.count;
    if (n == 0 || (n >= ROOM_AT_FIRST && !(n & (n - 1)))) { /* full: it grows by doubling */
        size_t room = n ? 2 * (size_t)n : ROOM_AT_FIRST;
        struct index_stretch *larger = realloc(index->stretches, room * sizeof *larger);
        if (!larger) return false;
        index->stretches = larger;
    }
    index->stretches[n] = (struct index_stretch){.position = position};
    index->head.count++;
    return true;
}

static bool add(struct index *index, const struct record_head *record)
{
    struct index_head *head = &index->head;
    bool is_first = !head->count;
    if (is_first || record->lsn - index->stretches[head->count - 1].position >= INDEX_STRETCH)
        if (!begin_stretch(index, record->lsn)) return false;
    struct index_stretch *last = &index->stretches[head->count - 1];
    if (record->time_ns > last->latest_ns) last->latest_ns = record->time_ns;
    if (record->time_ns > head->latest_ns) head->latest_ns = record->time_ns;
    if (is_first || record->time_ns < head->earliest_ns) head->earliest_ns = record->time_ns;
    head->records++;
    return true;
}

static bool gather(const struct log_folder *folder, struct index *index, const uint32_t *stop)
{
    struct reader r;
    struct reader_record record;
    struct log_fault fault;
    int code = LOG_OK;
    bool goes_on = true;
    reader_open(&r, folder, index->head.base);
    while (goes_on && (code = reader_next(&r, index->head.end, &record, &fault)) == LOG_OK)
        goes_on = add(index, &record.head) && !load_acquire(stop);
    reader_close(&r);
    return goes_on && code == LOG_AT_END;
}

static void write_index(const struct log_folder *folder, struct index *index)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    index_name(index->head.base, name);
    memcpy(index->head.magic, MAGIC, sizeof MAGIC);
    index->head.version = LOG_VERSION;
    index->head.crc = crc_of(index, folder->seed);
    int file = io->open(io->disk, folder->folder, name, O_RDWR | O_CREAT | O_TRUNC);
    if (file < 0) return;
    size_t size = index->head.count * sizeof *index->stretches;
    int error = io_write_all(io, file, &index->head, sizeof index->head, 0);
    if (!error) error = io_write_all(io, file, index->stretches, size, sizeof index->head);
    io->close(io->disk, file);
    if (error) io->unlink(io->disk, folder->folder, name);
}

void index_make(const struct log_folder *folder, uint64_t base, uint64_t end, const uint32_t *stop)
{
    struct index index = {0};
    if (index_read(folder, base, &index)) return index_free(&index);
    index = (struct index){.head = {.base = base, .end = end}};
    if (gather(folder, &index, stop) && index.head.count) write_index(folder, &index);
    index_free(&index);
}

static bool is_of(const struct index_head *head, uint64_t base, int64_t size)
{
    return !memcmp(head->magic, MAGIC, sizeof MAGIC) && head->version == LOG_VERSION && head->base == base &&
           head->count && size == (int64_t)(sizeof *head + head->count * sizeof(struct index_stretch));
}

bool index_read(const struct log_folder *folder, uint64_t base, struct index *index)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    *index = (struct index){0};
    index_name(base, name);
    int file = io->open(io->disk, folder->folder, name, O_RDONLY);
    if (file < 0) return false;
    bool is_whole = io_read_all(io, file, &index->head, sizeof index->head, 0) == (int64_t)sizeof index->head &&
                    is_of(&index->head, base, io->size(io->disk, file));
    size_t size = is_whole ? index->head.count * sizeof *index->stretches : 0;
    index->stretches = is_whole ? malloc(size) : NULL;
    is_whole = index->stretches && io_read_all(io, file, index->stretches, size, sizeof index->head) == (int64_t)size &&
               index->head.crc == crc_of(index, folder->seed);
    io->close(io->disk, file);
    if (!is_whole) index_free(index);
    return is_whole;
}

void index_free(struct index *index)
{
    free(index->stretches);
    index->stretches = NULL;
}

const struct index_stretch *index_find(const struct index *index, uint64_t from, uint64_t time_ns)
{
    for (uint32_t n = 0; n < index->head.count; n++) {
        uint64_t end = n + 1 < index->head.count ? index->stretches[n + 1].position : index->head.end;
        if (end > from && index->stretches[n].latest_ns >= time_ns) return &index->stretches[n];
    }
    return NULL;
}
