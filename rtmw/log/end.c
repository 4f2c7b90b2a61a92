/* The file `end`: up to where records are durable, for readers, who see it in the page cache as soon as it is written.
 *
 *   0     4      8     16        24
 *   | crc | zero | end | time_ns |
 *
 * It is written behind each sync, and never synced itself: after a power cut it says less than was durable, or nothing,
 * but never more. So it is a lower bound for recovery, too, as a watermark is: where only the process of a plain log has died,
 * it is exact.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/crc32c.h"
#include "start.h"
#include "truncate.h"

static const char NAME[] = "end";
enum { CRC_FROM = 4 };

struct end {
    uint32_t crc, zero;
    uint64_t end, time_ns;
};
_Static_assert(sizeof(struct end) == 24, "as in docs/formats/log-format.md");

static uint32_t crc_of(const struct end *end, uint32_t seed)
{
    return crc32c(seed, (const uint8_t *)end + CRC_FROM, sizeof *end - CRC_FROM);
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
    int file = io->open(io->disk, folder->folder, NAME, O_RDONLY);
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
