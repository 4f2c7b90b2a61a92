/* Records of a segment that is damaged: what is valid is found, wherever it lies. Nothing is trusted but each record's CRC. */
#include <errno.h>
#include <fcntl.h>

#include "reader.h"

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
