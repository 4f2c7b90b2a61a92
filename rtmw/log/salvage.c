/* Records of a segment that is damaged: what is valid is found, wherever it lies. Nothing is trusted but each record's CRC. */
#include <errno.h>
#include <fcntl.h>

#include "reader.h"

static int open_any(struct reader *r, uint64_t base, struct log_fault *fault)
{
    const struct log_io *io = r->folder.io;
    char name[SEGMENT_NAME];
    if (r->segment.file >= 0 && r->segment.base == base) return LOG_OK;
    segment_close(&r->folder, &r->segment);
    window_clear(&r->window);
    segment_name(base, name);
    int file = io->open(io->disk, r->folder.folder, name, O_RDONLY);
    if (file == -ENOENT) return log_fail(fault, LOG_TRIMMED, "open", name, ENOENT);
    if (file < 0) return log_fail(fault, LOG_FAILED, "open", name, -file);
    int64_t size = io->size(io->disk, file);
    r->segment =
        (struct segment){.file = file, .base = base, .size = size > SEGMENT_DATA ? (uint64_t)size : SEGMENT_DATA};
    return size < 0 ? log_fail(fault, LOG_FAILED, "fstat", name, (int)-size) : LOG_OK;
}

int reader_scan(struct reader *r, uint64_t base, uint64_t from, struct reader_record *record, struct log_fault *fault)
{
    const uint8_t *bytes;
    uint64_t size;
    int code = open_any(r, base, fault);
    if (code) return code;
    uint64_t end = base + segment_capacity(&r->segment);
    for (uint64_t lsn = from > base ? from : base; lsn < end; lsn += RECORD_ALIGN) {
        int found = window_record(&r->window, &r->folder, &r->segment, lsn, end, &bytes, &size);
        if (found < 0) return log_fail(fault, found == -ENOMEM ? LOG_NO_MEMORY : LOG_FAILED, "read", "segment", -found);
        if (found && reader_split(bytes, size, record) == LOG_OK) return LOG_OK;
    }
    return LOG_AT_END;
}
