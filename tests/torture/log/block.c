#include "block.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../rtmw/shm/atomics.h"
#include "disk.h"

enum { ONE_IN_TORN = 3, SUPERBLOCK = BLOCK_PAGE };

struct block_disk *block_new(int *file)
{
    size_t size = sizeof(struct block_disk) + BLOCK_ARENA;
    *file = memfd_create("disk", 0);
    if (*file < 0 || ftruncate(*file, (off_t)size) < 0) return NULL;
    void *disk = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *file, 0);
    return disk == MAP_FAILED ? NULL : disk;
}

void block_begin(struct block_disk *disk, const uint8_t *content)
{
    memcpy(disk->content, content, BLOCK_BYTES);
    disk->used = disk->answered = 0;
    store_release(&disk->count, 0);
}

bool block_write(struct block_disk *disk, uint64_t at, const void *bytes, uint32_t size)
{
    uint64_t count = disk->count;
    if (count == BLOCK_EVENTS || disk->used + size > BLOCK_ARENA || at + size > BLOCK_BYTES) return false;
    memcpy(disk->content + at, bytes, size);
    memcpy(disk->arena + disk->used, bytes, size);
    disk->events[count] = (struct block_event){.size = size, .at = at, .bytes = disk->used};
    disk->used += size;
    store_release(&disk->count, count + 1); /* pairs with the appenders, who note the count when they are answered */
    return true;
}

bool block_flush(struct block_disk *disk, uint64_t covers)
{
    uint64_t count = disk->count;
    if (count == BLOCK_EVENTS) return false;
    disk->events[count] = (struct block_event){.is_flush = true, .covers = covers};
    store_release(&disk->count, count + 1); /* as in block_write */
    return true;
}

static void flush(struct block_cut *cut, uint64_t covers)
{
    for (; cut->flushed < covers; cut->flushed++) {
        const struct block_event *e = &cut->disk->events[cut->flushed];
        if (!e->is_flush) memcpy(cut->stable + e->at, cut->disk->arena + e->bytes, e->size);
    }
}

void block_cut_begin(struct block_cut *cut, const struct block_disk *disk, uint8_t *stable)
{
    *cut = (struct block_cut){.disk = disk, .stable = stable};
}

void block_cut_move(struct block_cut *cut, uint64_t event)
{
    for (; cut->event < event; cut->event++)
        if (cut->disk->events[cut->event].is_flush) flush(cut, cut->disk->events[cut->event].covers);
}

/* The superblock of ext4 is one unit to ext4, which writes it in place: it stays whole. */
static void tear(const struct block_disk *disk, const struct block_event *e, uint64_t *seed, uint8_t *content)
{
    uint32_t unit = disk_random(seed) % 2 ? BLOCK_SECTOR : BLOCK_PAGE;
    for (uint32_t from = 0; from < e->size; from += unit) {
        uint32_t size = e->size - from < unit ? e->size - from : unit;
        if (e->at + from >= SUPERBLOCK && disk_random(seed) % 2)
            memcpy(content + e->at + from, disk->arena + e->bytes + from, size);
    }
}

void block_cut_take(const struct block_cut *cut, uint64_t *seed, uint8_t *content)
{
    uint64_t bias = disk_random(seed) % 5; /* some cuts lose all that they may, some nothing */
    memcpy(content, cut->stable, BLOCK_BYTES);
    for (uint64_t n = cut->flushed; n < cut->event; n++) {
        const struct block_event *e = &cut->disk->events[n];
        if (e->is_flush) continue;
        if (disk_random(seed) % 4 < bias)
            memcpy(content + e->at, cut->disk->arena + e->bytes, e->size);
        else if (bias && disk_random(seed) % ONE_IN_TORN == 0)
            tear(cut->disk, e, seed, content);
    }
}
