/* The power is cut, or the process killed, before each call that changes something; and again in what follows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum {
    DEEPEST = 2,
    ONE_IN = 64,
    ONE_IN_DEEP = 256,
    ONE_IN_LEFT = 3,
    MOST_STATES = 24,
    MOST_STATES_DEEP = 6,
    MOST_STATES_FIRST = 150, /* of the first calls, in which a log that was closed is opened and written to again */
    FIRST_CALLS = 16,

    APPENDS = 24,
    APPENDS_DEEP = 3
};

struct watch {
    const struct history *history;
    int depth;
    uint64_t seed;
    long calls; /* of this life so far */
};

static long states, kills, lives, rolls,
    compacted; /* the lives of one rig wait for each other: their counters need no lock */

static void watch_life(struct life *life, int depth);

static void live_on(struct disk *disk, const struct history *seen, uint32_t count, int depth, uint64_t seed)
{
    struct history own;
    copy_history(seen, count, &own);
    own.answered = seen->answered;
    struct life life = {.disk = disk, .history = &own, .seed = seed, .appends = APPENDS_DEEP, .threads = 1};
    life.lost = seen->entries + count;
    life.lost_count = seen->count - count;
    watch_life(&life, depth + 1);
}

/* What is left in the air where a process is killed: a name, or the start, of which the next life makes use. */
enum air { NOTHING_HANGS, A_NAME_HANGS, THE_START_HANGS };

/* A disk after a cut is looked at, in a copy. Now and then it is lived on: more often where a record lies that must not come
 * back, and surely where something hangs in the air; a name does so often, so for names the first life has to do. */
static void go_on(struct disk *disk, const struct history *seen, int depth, enum air air, uint64_t *seed)
{
    struct disk *copy = malloc(sizeof *copy);
    if (!copy) abort();
    disk_kill(disk, copy);
    uint64_t how = disk_random(seed);
    uint32_t count = check(copy, seen, how % 2, "after a cut");
    disk_close(copy);
    free(copy);
    how /= 2;
    bool is_deep = depth ? how % ONE_IN_DEEP == 0 : air == A_NAME_HANGS || how % ONE_IN == 0;
    is_deep |= air == THE_START_HANGS;
    if (!is_deep && how % ONE_IN_LEFT == 0) is_deep = has_leftovers(disk, seen, count);
    if (is_deep && depth < DEEPEST) live_on(disk, seen, count, depth, disk_random(seed));
    disk_close(disk);
}

/* The next one of all fates; false: that was the last. */
static bool next_fates(enum fate *writes, int count, bool *renames, int rename_count)
{
    for (int n = 0; n < count; n++) {
        writes[n] = (enum fate)((writes[n] + 1) % 3);
        if (writes[n]) return true;
    }
    for (int n = 0; n < rename_count; n++) {
        renames[n] = !renames[n];
        if (renames[n]) return true;
    }
    return false;
}

static void cut_once(const struct disk *d, const struct history *seen, const enum fate *writes, const bool *renames,
                     struct watch *w)
{
    struct disk *after = malloc(sizeof *after);
    if (!after) abort();
    disk_cut(d, writes, renames, disk_random(&w->seed), after);
    states++;
    go_on(after, seen, w->depth, NOTHING_HANGS, &w->seed);
    free(after);
}

static void cut_all_ways(const struct disk *d, const struct history *seen, struct watch *w)
{
    enum fate writes[DISK_PENDING] = {0};
    bool renames[DISK_NAMES] = {0};
    double all = 1;
    int most = w->depth ? MOST_STATES_DEEP : w->calls++ < FIRST_CALLS ? MOST_STATES_FIRST : MOST_STATES;
    for (int n = 0; n < d->write_count && all <= most; n++) all *= 3;
    for (int n = 0; n < d->rename_count && all <= most; n++) all *= 2;
    if (all <= most) {
        do cut_once(d, seen, writes, renames, w);
        while (next_fates(writes, d->write_count, renames, d->rename_count));
        return;
    }
    for (int state = 0; state < most; state++) {
        uint64_t bias = disk_random(&w->seed) % 4; /* some cuts lose little, some much */
        for (int n = 0; n < d->write_count; n++) {
            uint64_t chance = disk_random(&w->seed);
            writes[n] = chance % 4 < bias ? FATE_KEPT : (enum fate)(chance / 4 % 3);
        }
        for (int n = 0; n < d->rename_count; n++) renames[n] = state && disk_random(&w->seed) % 3;
        cut_once(d, seen, writes, renames, w);
    }
}

/* Before each call, with the lock of the disk. */
static void interrupt(struct disk *d, enum call call, void *argument)
{
    struct watch *w = argument;
    struct history *seen = malloc(sizeof *seen);
    struct disk *after = malloc(sizeof *after);
    if (!seen || !after) abort();
    look_at_history(w->history, seen);
    disk_kill(d, after);
    kills++;
    bool start_hangs = call == CALL_SYNC && disk_is_dirty(after, "start");
    enum air air = start_hangs ? THE_START_HANGS : call == CALL_SYNC_FOLDER ? A_NAME_HANGS : NOTHING_HANGS;
    go_on(after, seen, w->depth, air, &w->seed);
    free(after);
    cut_all_ways(d, seen, w);
    free(seen);
}

static void watch_life(struct life *life, int depth)
{
    struct watch watch = {life->history, depth, life->seed, 0};
    struct disk *disk = life->disk;
    disk->before = interrupt;
    disk->argument = &watch;
    lives++;
    int code = live(life);
    if (code) wrong("a life without faults", "ended early", &life->fault);
    rolls += (long)life->rolls;
    compacted += (long)life->compacted;
    interrupt(disk, CALL_READ, &watch); /* and at the end */
    disk->before = NULL;
    struct history last;
    look_at_history(life->history, &last);
    if (check(disk, &last, false, "at the end of a life") != last.count)
        wrong("at the end of a life", "records are missing", NULL);
}

void try_cuts(uint64_t seed, long rounds)
{
    try_overlap(seed);
    try_unsynced(seed);
    for (long round = 0; round < rounds; round++) {
        struct disk disk;
        struct history *history = calloc(1, sizeof *history);
        if (!history) abort();
        struct life life = {
            .disk = &disk, .history = history, .seed = seed + (uint64_t)round, .appends = 2, .threads = 1};
        disk_open(&disk, life.seed);
        if (round % 2 && live(&life))
            wrong("a life without faults", "ended early", &life.fault); /* a log that was closed */
        life.threads = 1 + (int)(round / 2 % 3);
        life.appends = APPENDS / life.threads;
        watch_life(&life, 0);
        disk_close(&disk);
        free(history);
    }
    printf(
        "%ld power cuts and %ld kills in %ld lives with %ld rolls and %ld bytes compacted: all that was answered was "
        "there, and nothing else\n",
        states, kills, lives, rolls, compacted);
}
