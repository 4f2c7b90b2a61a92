/* A compaction begins while a roll goes on: the new segment has its name, and no snapshot of ids covers the one before it. */
#include <stdlib.h>

#include "../../../rtmw/shm/futex.h"
#include "rig.h"

struct roll {
    struct writer *writer;
    struct disk *after; /* as the process leaves it that is killed behind the compaction */
    bool has_begun;
};

static void compact_now(struct writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->compaction_is_due = true;
    w->chores++;
    futex_wake(&w->chores);
    pthread_mutex_unlock(&w->lock);
    await_upkeep(w);
}

/* With the lock of the disk. Whoever flushes stands still, and the maker goes on: it has no call to make before. */
static void overtake(struct disk *d, enum call call, void *argument)
{
    struct roll *roll = argument;
    (void)call;
    if (roll->has_begun || !disk_has_segment(d) || writer_look(roll->writer, &roll->writer->last_base)) return;
    roll->has_begun = true;
    pthread_mutex_unlock(&d->lock);
    compact_now(roll->writer);
    pthread_mutex_lock(&d->lock);
    disk_kill(d, roll->after);
}

/* Records with key and id; the one that begins the second segment is not of the history: the kill was before it. */
static void append_until_roll(struct writer *w, struct history *h, uint64_t seed)
{
    for (;;) {
        struct entry made;
        uint64_t end;
        int code = append_one(w, &seed, &made, &end);
        if (!code) code = writer_wait(w, end, WRITER_FOREVER);
        if (code) wrong("a life without faults", "ended early", NULL);
        if (writer_look(w, &w->last_base)) return;
        h->entries[h->count++] = made;
    }
}

/* Opens the log; with a roll that is overtaken it appends, else it looks at the ids. */
static void open_once(struct life *life, struct roll *roll)
{
    struct log_io io = disk_io(life->disk);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct writer_options options = OPTIONS;
    struct writer *w = calloc(1, sizeof *w);
    if (!w) abort();
    options.retention.per_key = 1;
    int code = begin_log(life, &folder);
    if (!code) code = writer_open(w, &folder, &options, &life->fault);
    if (code) wrong("a life without faults", "cannot begin", &life->fault);
    if (roll) {
        await_upkeep(w);
        roll->writer = w;
        pthread_mutex_lock(&life->disk->lock);
        life->disk->before = overtake;
        life->disk->argument = roll;
        pthread_mutex_unlock(&life->disk->lock);
        append_until_roll(w, life->history, life->seed);
    } else {
        check_ids(life, w);
    }
    if (writer_close(w, &life->fault)) wrong("a life without faults", "ended early", &life->fault);
    writer_free(w);
    free(w);
}

void try_overlap(uint64_t seed)
{
    struct disk disk, after;
    struct history *history = calloc(1, sizeof *history);
    if (!history) abort();
    struct life life = {.disk = &disk, .history = history, .seed = seed};
    struct roll roll = {.after = &after};
    disk_open(&disk, seed);
    open_once(&life, &roll);
    disk_close(&disk);
    life.disk = &after;
    open_once(&life, NULL);
    disk_close(&after);
    free(history);
}
