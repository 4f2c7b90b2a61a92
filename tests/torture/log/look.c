/* The look at what is left on a disk, beside what was handed in and answered. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

/* As many records of its key follow as compaction leaves. */
static bool is_superseded(const struct history *h, uint32_t n, uint64_t end)
{
    uint32_t newer = 0;
    for (uint32_t m = n + 1; m < h->count && h->entries[m].lsn < end; m++)
        newer += has_key(h->entries[m].tag) && key_number(h->entries[m].tag) == key_number(h->entries[n].tag);
    return h->per_key && has_key(h->entries[n].tag) && newer >= h->per_key;
}

uint32_t pass_compacted(const struct history *h, uint32_t n, uint64_t lsn, uint64_t end)
{
    while (n < h->count && h->entries[n].lsn < lsn && is_superseded(h, n, end)) n++;
    return n;
}

static void find_salvaged(const struct history *h, const struct reader_record *record, const char *when)
{
    uint8_t data[LARGEST];
    uint32_t n = first_from(h, record->head.lsn);
    if (n == h->count || h->entries[n].lsn != record->head.lsn)
        wrong(when, "salvage finds what was not appended", NULL);
    if (record->data_size != data_of(h->entries[n].tag, data) || memcmp(record->data, data, record->data_size))
        wrong(when, "salvage finds other data than was appended", NULL);
}

uint32_t salvage_all(const struct log_folder *folder, const struct history *h, uint64_t from, uint64_t end,
                     const char *when)
{
    struct bases bases;
    struct log_fault fault = {0};
    struct reader_record record;
    uint32_t count = 0;
    int code = start_list(folder, &bases, &fault);
    for (size_t n = bases.before; n < bases.count && !code; n++) {
        struct reader r;
        uint64_t position = bases.of[n];
        reader_open(&r, folder, position);
        while (!(code = reader_scan(&r, bases.of[n], position, &record, &fault)) && record.head.lsn < end) {
            find_salvaged(h, &record, when);
            count += record.head.lsn >= from;
            position = record.end;
        }
        reader_close(&r);
        if (code == LOG_AT_END) code = LOG_OK;
    }
    free(bases.of);
    return count;
}

static uint32_t compare(const struct log_folder *folder, const struct history *h, uint64_t from, uint64_t end,
                        const char *when)
{
    struct reader r;
    struct reader_record record;
    struct log_fault fault = {0};
    uint8_t data[LARGEST];
    uint32_t n = first_from(h, from), found = 0;
    uint64_t clean = h->per_key ? compacted_upto(folder, h->per_key) : 0;
    int code;
    reader_open(&r, folder, from);
    for (; (code = reader_next(&r, end, &record, &fault)) == LOG_OK; n++, found++) {
        n = pass_compacted(h, n, record.head.lsn, end);
        if (n < h->count && h->entries[n].lsn < clean && is_superseded(h, n, clean))
            wrong(when, "a record is there although compaction has said that it is gone", &fault);
        if (n == h->count) wrong(when, "a record that was never appended", &fault);
        size_t size = data_of(h->entries[n].tag, data);
        if (record.head.lsn != h->entries[n].lsn) wrong(when, "a record at another position", &fault);
        if (record.data_size != size || memcmp(record.data, data, size))
            wrong(when, "another record than was appended", &fault);
    }
    if (code != LOG_AT_END || r.position != end) wrong(when, "the records cannot be read", &fault);
    reader_close(&r);
    n = pass_compacted(h, n, end, end);
    if (n % 2 && salvage_all(folder, h, from, end, when) != found) wrong(when, "salvage finds fewer records", NULL);
    return n;
}

uint32_t check(struct disk *disk, const struct history *h, bool to_write, const char *when)
{
    struct log_io io = disk_io(disk);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct log_fault fault = {0};
    struct recovered found;
    void *description;
    uint32_t size;
    int code = log_identify(&folder, &description, &size, &fault);
    if (code == LOG_NO_LOG && !h->is_created) return 0;
    if (code) wrong(when, "the log has no identity", &fault);
    if (size != 4 || memcmp(description, "type", 4)) wrong(when, "the type is another one", &fault);
    free(description);
    code = log_recover(&folder, to_write, &found, &fault);
    if (code) wrong(when, "the log is refused", &fault);
    uint64_t shown;
    if (!end_read(&folder, &shown) || shown != found.end) wrong(when, "readers are told another end", NULL);
    segment_close(&folder, &found.last);
    if (found.end < h->answered) wrong(when, "a record that was answered is lost", &fault);
    uint64_t cursor = 0, time_ns;
    code = cursor_look(&folder, CURSOR, &cursor, &time_ns, &fault);
    if (code && code != LOG_AT_END) wrong(when, "the cursor cannot be read", &fault);
    if (cursor < h->committed) wrong(when, "what was committed is lost", NULL);
    if (cursor > h->commit_to) wrong(when, "the cursor stands where nobody committed", NULL);
    if (found.earliest > h->trim_to) wrong(when, "more is trimmed than was asked for", NULL);
    if (found.earliest < h->trimmed) wrong(when, "what was trimmed is there again", NULL);
    uint32_t count = compare(&folder, h, found.earliest, found.end, when);
    if (count && h->entries[count - 1].more) wrong(when, "half a batch is there", &fault);
    return count;
}

static bool is_whole(struct disk *disk, uint64_t lsn, uint32_t seed)
{
    for (int n = 0; n < disk->cache.count; n++) {
        uint64_t base, needs;
        if (!segment_base(disk->cache.list[n].text, &base) || base > lsn) continue;
        const struct content *c = disk_content(disk, disk->cache.list[n].text);
        uint64_t at = SEGMENT_DATA + lsn - base;
        if (at < c->size && record_check(c->bytes + at, c->size - at, c->size - at, lsn, seed, &needs)) return true;
    }
    return false;
}

bool has_leftovers(struct disk *disk, const struct history *history, uint32_t count)
{
    struct log_io io = disk_io(disk);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct log_fault fault;
    void *description;
    uint32_t size;
    if (log_identify(&folder, &description, &size, &fault)) return false;
    free(description);
    for (uint32_t n = count + 1; n < history->count; n++)
        if (is_whole(disk, history->entries[n].lsn, folder.seed)) return true;
    return false;
}
