#include "spare.h"

#include <errno.h>
#include <fcntl.h>

#include "../shm/atomics.h"

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
