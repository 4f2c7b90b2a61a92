/* Upkeep: what the maker does when a spare is ready, for the next writer and for readers. No append waits for it. */
#include <stdlib.h>

#include "../shm/atomics.h"
#include "index.h"
#include "writer.h"

/* Lock held, and held again at the end. LOG_OK, also where the disk is full, LOG_FAILED or LOG_NO_MEMORY. */
static int take_snapshot(struct writer *w, struct log_fault *fault)
{
    uint64_t upto = load_acquire(&w->durable); /* pairs with the flusher's: what is below is on the disk */
    uint32_t count;
    struct id_entry *entries = ids_copy(&w->ids, upto, &count);
    w->snapshot_is_due = false;
    if (!entries) return LOG_OK; /* the next one may find memory */
    pthread_mutex_unlock(&w->lock);
    int code = ids_save(&w->folder, entries, count, upto, fault);
    free(entries);
    pthread_mutex_lock(&w->lock);
    if (code == LOG_OK) w->ids_upto = upto;
    return code == LOG_FULL ? LOG_OK : code;
}

bool trim_is_due(const struct writer *w) { return w->retention_is_due || w->trim_to > w->trimmed; }

/* Where the log may begin, by what was asked for and by the retention. What cannot be found out removes nothing. */
static uint64_t find_start(struct writer *w, uint64_t asked, const struct retention *retention, uint64_t *held)
{
    uint64_t start;
    struct log_fault fault;
    if (retention_find(&w->folder, retention, &start, held, &fault)) return asked;
    return start > asked ? start : asked;
}

/* Ids of what goes are kept in the snapshot; if the disk has no room for it, in memory until it has. */
static int keep_ids(struct writer *w, uint64_t before, struct log_fault *fault)
{
    int code = w->ids.count && w->ids_upto < before ? take_snapshot(w, fault) : LOG_OK;
    w->snapshot_is_due |= w->ids.count && w->ids_upto < before;
    return code;
}

int trim_now(struct writer *w, struct log_fault *fault)
{
    uint64_t asked = w->trim_to, held = 0, start = w->earliest, kept = 0;
    bool by_retention = w->retention_is_due, needs_spare = w->spare_state != SPARE_READY && !w->rolls;
    struct retention retention = w->retention;
    w->retention_is_due = false;
    pthread_mutex_unlock(&w->lock);
    uint64_t before = by_retention ? find_start(w, asked, &retention, &held) : asked;
    pthread_mutex_lock(&w->lock);
    if (before > w->last_base) before = w->last_base;
    int code = before > w->earliest ? keep_ids(w, before, fault) : LOG_OK;
    pthread_mutex_unlock(&w->lock);
    if (!code && before > start) code = trim(&w->folder, before, needs_spare, &start, &kept, fault);
    pthread_mutex_lock(&w->lock);
    w->earliest = start;
    if (by_retention) w->held = held;
    if (kept) w->kept = kept;
    if (!code) w->trimmed = asked;
    writer_wake_room(w);
    return code;
}

/* Lock held, and held again at the end. The index of the next sealed segment. */
static void make_index(struct writer *w)
{
    uint64_t from = w->indexed, last = w->last_base, *bases, end = last;
    size_t count;
    struct log_fault fault;
    pthread_mutex_unlock(&w->lock);
    if (segment_list(&w->folder, &bases, &count, &fault)) count = 0;
    for (size_t n = 0; n + 1 < count; n++) {
        if (bases[n] < from || bases[n + 1] > last) continue;
        end = bases[n + 1];
        index_make(&w->folder, bases[n], end, &w->stopping);
        break;
    }
    free(bases);
    pthread_mutex_lock(&w->lock);
    w->indexed = end;
}

bool upkeep_is_due(const struct writer *w) { return w->snapshot_is_due || w->indexed < w->last_base; }

int upkeep(struct writer *w, struct log_fault *fault)
{
    if (w->snapshot_is_due) return take_snapshot(w, fault);
    make_index(w);
    return LOG_OK;
}
