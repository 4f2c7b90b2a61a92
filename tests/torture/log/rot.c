/* One bit is turned at each byte of a log that was closed: the right records, or a refusal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { APPENDS = 24 };

static long right, refused, told;

/* Reads all of it. LOG_OK: exactly what was appended. */
static int look(struct disk *d, const struct history *h)
{
    struct log_io io = disk_io(d);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct log_fault fault = {0};
    struct recovered found;
    void *description;
    uint32_t size;
    int code = log_identify(&folder, &description, &size, &fault);
    if (code) return code;
    free(description);
    code = log_recover(&folder, false, &found, &fault);
    if (code) return code;
    segment_close(&folder, &found.last);
    if (found.end != h->answered) wrong("a turned bit", "what was answered is cut off", NULL);
    struct reader r;
    struct reader_record record;
    uint32_t n = first_from(h, found.earliest);
    uint8_t data[LARGEST];
    if (found.earliest > h->trim_to || found.earliest < h->trimmed) wrong("a turned bit", "another start", NULL);
    reader_open(&r, &folder, found.earliest);
    for (; (code = reader_next(&r, found.end, &record, &fault)) == LOG_OK; n++) {
        n = pass_compacted(h, n, record.head.lsn, found.end);
        size_t wanted = n < h->count ? data_of(h->entries[n].tag, data) : 0;
        if (n >= h->count || record.head.lsn != h->entries[n].lsn || record.data_size != wanted ||
            memcmp(record.data, data, wanted))
            wrong("a turned bit", "a record that was not appended", &fault);
    }
    reader_close(&r);
    salvage_all(&folder, h, found.earliest, found.end, "a turned bit");
    if (code != LOG_AT_END) return told++, code;
    n = pass_compacted(h, n, found.end, found.end);
    return n == h->count ? LOG_OK : LOG_DAMAGED;
}

static void turn_each(struct disk *disk, const struct history *h, const char *name, long every, uint64_t seed)
{
    for (size_t at = 0; at < disk_content(disk, name)->size; at += at % 4096 < 64 ? 1 : (size_t)every) {
        struct disk *copy = malloc(sizeof *copy);
        if (!copy) abort();
        disk_kill(disk, copy);
        disk_content(copy, name)->bytes[at] ^= (uint8_t)(1 << disk_random(&seed) % 8);
        int code = look(copy, h);
        if (code != LOG_OK && code != LOG_DAMAGED && code != LOG_VERSION_OTHER)
            wrong("a turned bit", "another answer", NULL);
        right += code == LOG_OK;
        refused += code != LOG_OK;
        disk_close(copy);
        free(copy);
    }
}

/* The log that a power cut leaves after it was closed: without what was never synced. */
static void turn_after_cut(const struct disk *disk, const struct history *h, long every, uint64_t seed)
{
    static const enum fate none[DISK_PENDING];
    static const bool neither[DISK_NAMES];
    struct disk *cut = malloc(sizeof *cut);
    if (!cut) abort();
    disk_cut(disk, none, neither, seed, cut);
    for (int n = 0; n < cut->cache.count; n++) turn_each(cut, h, cut->cache.list[n].text, every, seed);
    disk_close(cut);
    free(cut);
}

/* The bits of one log, whole and after a power cut. */
static void turn_log(bool keeps_all, long every, uint64_t seed)
{
    struct disk *disk = malloc(sizeof *disk);
    struct history *h = calloc(1, sizeof *h);
    if (!disk || !h) abort();
    disk_open(disk, seed);
    struct life life = {
        .disk = disk, .history = h, .seed = seed, .appends = APPENDS, .threads = 2, .keeps_all = keeps_all};
    int code = live(&life);
    if (code) wrong("a life without faults", "ended early", &life.fault);
    for (int n = 0; n < disk->cache.count; n++) turn_each(disk, h, disk->cache.list[n].text, every, seed);
    turn_after_cut(disk, h, every, seed);
    disk_close(disk);
    free(disk);
    free(h);
}

/* Recovery reads the last segment, and only a reader those before it: a log that was trimmed may have none of them. */
void try_rot(uint64_t seed, long every)
{
    turn_log(false, every, seed);
    turn_log(true, every, seed);
    printf("%ld turned bits: %ld times the right records, %ld refusals (%ld by the reader)\n", right + refused, right,
           refused, told);
}
