/* Each call fails once: with EIO, with ENOSPC, or by writing half. And from some call on, each: the disk is full. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../rtmw/shm/atomics.h"
#include "rig.h"

enum { APPENDS = 24, AGAIN = 3, CUTS = 6, BEFORE = 60, TRIES = 20, RECOVERIES = 400 };

static long faults, failed, full, cuts;

static void cut_some(struct disk *d, const struct history *h, uint64_t *seed)
{
    for (int n = 0; n < CUTS; n++) {
        enum fate writes[DISK_PENDING];
        bool renames[DISK_NAMES];
        struct disk *after = malloc(sizeof *after);
        if (!after) abort();
        for (int i = 0; i < d->write_count; i++) writes[i] = n ? (enum fate)(disk_random(seed) % 3) : FATE_LOST;
        for (int i = 0; i < d->rename_count; i++) renames[i] = n && disk_random(seed) % 2;
        disk_cut(d, writes, renames, disk_random(seed), after);
        check(after, h, n % 2, "cut after a fault");
        cuts++;
        disk_close(after);
        free(after);
    }
}

/* A second life on the same disk, in the same boot: the page cache shows what it showed. Then the power goes. */
static void live_again(struct disk *d, const struct history *h, const struct history *before, uint64_t *seed)
{
    struct disk *copy = malloc(sizeof *copy);
    struct history *own = malloc(sizeof *own);
    if (!copy || !own) abort();
    disk_kill(d, copy);
    copy_history(h, check(copy, h, false, "opened after a fault"), own);
    disk_close(copy);
    own->answered = h->answered;
    struct life life = {.disk = d, .history = own, .seed = disk_random(seed), .appends = AGAIN, .threads = 1};
    const struct history *longer = h->count > own->count ? h : before;
    if (longer->count > own->count)
        life.lost = longer->entries + own->count, life.lost_count = longer->count - own->count;
    if (life.lost_count)
        life.appends = 1 + (int)(disk_random(seed) % AGAIN); /* fewer than would cover what lies there */
    int code = live(&life);
    if (code) wrong("the life after a fault", "ended early", &life.fault);
    cut_some(d, own, seed);
    free(copy);
    free(own);
}

static uint32_t found_in(const struct disk *d, const struct history *h)
{
    struct disk *copy = malloc(sizeof *copy);
    if (!copy) abort();
    disk_kill(d, copy);
    uint32_t count = check(copy, h, false, "before a fault");
    disk_close(copy);
    free(copy);
    return count;
}

struct moment {
    const struct history *history;
    struct disk *disk;
    struct history *seen;
    long calls;
    uint64_t seed;
};

/* Keeps the disk as a power cut leaves it before a certain call. */
static void keep(struct disk *d, enum call call, void *argument)
{
    struct moment *m = argument;
    enum fate writes[DISK_PENDING];
    bool renames[DISK_NAMES];
    (void)call;
    if (m->calls-- != 0) return;
    for (int i = 0; i < d->rename_count; i++) renames[i] = true;
    look_at_history(m->history, m->seen);
    for (int tries = 0;; tries++) { /* one with a record that must not come back, if there is such a cut */
        for (int i = 0; i < d->write_count; i++) writes[i] = (enum fate)(disk_random(&m->seed) % 3);
        disk_cut(d, writes, renames, disk_random(&m->seed), m->disk);
        if (tries == TRIES || has_leftovers(m->disk, m->seen, found_in(m->disk, m->seen))) return;
        disk_close(m->disk);
    }
}

/* A disk after a power cut. `seen`: what was there before it. */
static void begin_cut(struct disk *d, struct history *h, struct history *seen, uint64_t seed)
{
    struct disk *before = malloc(sizeof *before);
    struct history *own = calloc(1, sizeof *own);
    if (!before || !own) abort();
    struct moment moment = {own, d, seen, (long)(disk_random(&seed) % BEFORE), seed};
    disk_open(before, seed);
    before->before = keep;
    before->argument = &moment;
    struct life life = {.disk = before, .history = own, .seed = seed, .appends = AGAIN, .threads = 3};
    if (live(&life)) wrong("a life without faults", "ended early", &life.fault);
    if (moment.calls >= 0) moment.calls = 0, keep(before, CALL_READ, &moment);
    copy_history(seen, found_in(d, seen), h);
    h->answered = seen->answered;
    disk_close(before);
    free(before);
    free(own);
}

/* What the life with the fault begins with: an empty disk, or one after a power cut. */
static void begin(struct disk *d, struct history *h, struct history *before, uint64_t seed, bool has_to_be_cut)
{
    if (!has_to_be_cut && seed % 3 == 0) return disk_open(d, seed);
    begin_cut(d, h, before, seed);
    for (int tries = 0; has_to_be_cut && tries < TRIES && !has_leftovers(d, before, h->count); tries++) {
        disk_close(d);
        begin_cut(d, h, before, disk_random(&seed));
    }
}

/* false: the life made fewer calls than `at`. */
static bool fail_once(uint64_t seed, long at, int error, bool reads, bool in_recovery)
{
    struct disk *d = malloc(sizeof *d);
    struct history *h = calloc(1, sizeof *h), *before = calloc(1, sizeof *before);
    if (!d || !h || !before) abort();
    begin(d, h, before, seed, in_recovery);
    d->fail_at = d->calls + at;
    d->fail_with = error;
    d->reads_count = reads;
    struct life life = {.disk = d, .history = h, .seed = seed, .appends = APPENDS, .threads = 1};
    if (before->count > h->count) life.lost = before->entries + h->count, life.lost_count = before->count - h->count;
    int code = live(&life);
    bool was_reached = d->calls >= d->fail_at;
    faults += was_reached;
    failed += code == LOG_FAILED;
    full += code == LOG_FULL;
    if (code && code != LOG_FAILED && code != LOG_FULL)
        wrong("a life with a fault", "ended otherwise than by it", &life.fault);
    if (code && !error) wrong("a short write", "is not gone on with", &life.fault);
    if (d->has_failed && d->again)
        wrong("after a fault", "a write or sync of the same file is tried again", &life.fault);
    d->fail_at = 0;
    d->has_failed = false;
    d->reads_count = false;
    cut_some(d, h, &seed);
    live_again(d, h, before, &seed);
    disk_close(d);
    free(d);
    free(h);
    free(before);
    return was_reached;
}

/* The disk is full from its `at`th call on, for what makes files longer; later there is room again. */
static void fill_up(uint64_t seed, long at)
{
    struct disk *d = malloc(sizeof *d);
    struct history *h = calloc(1, sizeof *h);
    struct log_fault fault = {0};
    struct log_io io = disk_io(d);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct writer *w = calloc(1, sizeof *w);
    uint8_t data[5000] = {1};
    struct record_parts parts = {.data = data, .data_size = sizeof data};
    uint64_t first, end;
    if (!d || !h || !w) abort();
    disk_open(d, seed);
    if (log_create(&folder, &CREATION, &fault) || writer_open(w, &folder, &OPTIONS, &fault))
        wrong("a full disk", "no log to begin with", &fault);
    while (pthread_mutex_lock(&w->lock), w->spare_state != SPARE_READY) pthread_mutex_unlock(&w->lock), usleep(100);
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_lock(&d->lock);
    d->fail_at = d->calls + at;
    d->fails_from_there = true;
    d->fail_with = ENOSPC;
    d->only_allocate = true;
    pthread_mutex_unlock(&d->lock);
    int code = LOG_OK, accepted = 0;
    while (code == LOG_OK && accepted < 200) {
        for (bool has_tried = false; !has_tried; usleep(100)) { /* the maker has tried: however slow it is */
            pthread_mutex_lock(&w->lock);
            has_tried = w->rolls || w->spare_state != SPARE_NONE;
            pthread_mutex_unlock(&w->lock);
        }
        code = writer_append(w, &parts, 1, WRITER_FOREVER, &first, &end);
        if (code == LOG_OK && writer_wait(w, end, WRITER_FOREVER))
            wrong("a full disk", "an accepted record failed", &w->fault);
        accepted += code == LOG_OK;
    }
    if (code != LOG_FULL) wrong("a full disk", "is not told", &w->fault);
    uint64_t room = w->boundary - w->next;
    if (room < SEGMENT / 2) wrong("a full disk", "is told later than a segment early", NULL);
    struct record_parts fence = {.labels = (const uint8_t[16]){[1] = 1, [4] = 8}, .labels_size = 16};
    if (writer_append_fence(w, &fence, WRITER_FOREVER, &first, &end)) wrong("a full disk", "has no fence", &w->fault);
    pthread_mutex_lock(&d->lock);
    d->fail_at = 0;
    pthread_mutex_unlock(&d->lock);
    for (int tries = 0; code == LOG_FULL && tries < 500; tries++) {
        usleep(10000);
        code = writer_append(w, &parts, 1, WRITER_FOREVER, &first, &end);
    }
    if (code || writer_wait(w, end, WRITER_FOREVER)) wrong("room again", "is not found", &w->fault);
    if (writer_close(w, &fault)) wrong("room again", "the log does not close", &fault);
    writer_free(w);
    free(w);
    disk_close(d);
    free(d);
    free(h);
}

void try_faults(uint64_t seed, long every)
{
    static const int errors[] = {EIO, ENOSPC, 0};
    for (size_t n = 0; n < sizeof errors / sizeof errors[0]; n++)
        for (long at = 1; fail_once(seed + (uint64_t)at, at, errors[n], false, false); at += every) {}
    for (long at = 1; fail_once(seed + (uint64_t)at, at, EIO, true, false); at += every) {}
    for (long n = 0; n < RECOVERIES / every; n++) fail_once(~seed + (uint64_t)n, 2 + n % 4, EIO, false, true);
    fill_up(seed, 1);
    printf("%ld faults (%ld failed, %ld full), %ld power cuts after them: all that was answered was there\n", faults,
           failed, full, cuts);
}
