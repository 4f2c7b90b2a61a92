/* A process is killed while it closes the log, behind the rename of its snapshot of ids. The next one trims what the snapshot
 * covers, and then the power is cut. */
#include <stdlib.h>
#include <string.h>

#include "../../../rtmw/shm/atomics.h"
#include "rig.h"

struct closing {
    struct writer *writer;
    struct disk *killed; /* as the process leaves it */
    bool has_saved;
};

static bool has_renamed_ids(const struct disk *d)
{
    for (int n = 0; n < d->rename_count; n++)
        if (!strcmp(d->renames[n].name, "ids")) return true;
    return false;
}

/* With the lock of the disk. The log closes while its second segment begins: the maker then takes no snapshot of the first. */
static void kill_behind_rename(struct disk *d, enum call call, void *argument)
{
    struct closing *closing = argument;
    if (disk_has_segment(d)) store_release(&closing->writer->stopping, 1u);
    if (closing->has_saved || call != CALL_SYNC_FOLDER || !has_renamed_ids(d)) return;
    closing->has_saved = true;
    disk_kill(d, closing->killed);
}

static struct writer *begin(struct life *life)
{
    static struct log_io io; /* the writer keeps its address */
    io = disk_io(life->disk);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct writer *w = calloc(1, sizeof *w);
    if (!w) abort();
    int code = begin_log(life, &folder);
    if (!code) code = writer_open(w, &folder, &OPTIONS, &life->fault);
    if (code) wrong("a life without faults", "cannot begin", &life->fault);
    return w;
}

static void end(struct life *life, struct writer *w)
{
    if (writer_close(w, &life->fault)) wrong("a life without faults", "ended early", &life->fault);
    writer_free(w);
    free(w);
}

static void append_until_stopped(struct writer *w, struct history *h, uint64_t seed)
{
    for (int code = LOG_OK; !code;) {
        struct entry made;
        uint64_t end;
        if (append_one(w, &seed, &made, &end)) return;
        h->entries[h->count++] = made;
        code = writer_wait(w, end, WRITER_FOREVER);
    }
}

static void append_and_close(struct life *life, struct disk *killed)
{
    struct writer *w = begin(life);
    struct closing closing = {w, killed, false};
    await_upkeep(w);
    pthread_mutex_lock(&life->disk->lock);
    life->disk->argument = &closing;
    life->disk->before = kill_behind_rename;
    pthread_mutex_unlock(&life->disk->lock);
    append_until_stopped(w, life->history, life->seed);
    end(life, w);
    if (!closing.has_saved) wrong("a log that closes", "its snapshot of ids was not saved", NULL);
}

static void trim_and_cut(struct life *life, struct disk *cut)
{
    static const enum fate lost[DISK_PENDING];
    static const bool forgotten[DISK_NAMES];
    struct writer *w = begin(life);
    uint64_t start = 0;
    if (writer_trim(w, writer_look(w, &w->last_base), &start) || !start) wrong("a trim", "nothing was trimmed", NULL);
    pthread_mutex_lock(&life->disk->lock);
    disk_cut(life->disk, lost, forgotten, life->seed, cut);
    pthread_mutex_unlock(&life->disk->lock);
    end(life, w);
}

void try_unsynced(uint64_t seed)
{
    struct disk disk, killed, cut;
    struct history *history = calloc(1, sizeof *history);
    if (!history) abort();
    struct life life = {.disk = &disk, .history = history, .seed = seed};
    disk_open(&disk, seed);
    append_and_close(&life, &killed);
    disk_close(&disk);
    life.disk = &killed;
    trim_and_cut(&life, &cut);
    disk_close(&killed);
    life.disk = &cut;
    struct writer *w = begin(&life);
    check_ids(&life, w);
    end(&life, w);
    disk_close(&cut);
    free(history);
}
