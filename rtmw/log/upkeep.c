/* Upkeep: what the maker does when a spare is ready, for the next writer and for readers. No append waits for it. */
#include <stdlib.h>

#include "../shm/atomics.h"
#include "index.h"
#include "writer.h"

/* Lock held, and held again at the end. LOG_OK, also where the disk is full, LOG_FAILED or LOG_NO_MEMORY. */
static int take_snapshot(struct writer *w, struct log_fault *fault)
{
    uint64_t upto = load_acquire(&w->durable); /* pairs with the flusher's: what is below is on the disk */
    struct ids_snapshot snapshot;
    w->snapshot_is_due = false;
    if (!ids_copy(&w->ids, upto, &snapshot)) return LOG_OK; /* the next one may find memory */
    pthread_mutex_unlock(&w->lock);
    int code = ids_save(&w->folder, &snapshot, fault);
    free(snapshot.entries);
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

/* Lock held, and held again at the end. A roll may come meanwhile: ids of what it seals need not be in the snapshot yet, so
 * that segment is for the next compaction. */
static int begin_compaction(struct writer *w, struct log_fault *fault)
{
    struct compaction_limits limits = {.per_key = w->retention.per_key};
    struct retention retention = w->retention;
    uint64_t kept = w->last_base;
    w->compaction_is_due = false;
    w->compacts = true;
    int code = keep_ids(w, kept, fault);
    if (code || (w->ids.count && w->ids_upto < kept)) return code; /* no room for the snapshot: later */
    pthread_mutex_unlock(&w->lock);
    code = retention_floor(&w->folder, retention.cursors_ns, &limits.floor, fault);
    if (limits.floor > kept) limits.floor = kept;
    if (!code) code = compaction_begin(&w->compaction, &w->folder, &limits, fault);
    pthread_mutex_lock(&w->lock);
    return code;
}

/* Lock held, and held again at the end. One step. What cannot be read is left as it is; what cannot be written ends the writer. */
static int compact(struct writer *w, struct log_fault *fault)
{
    uint64_t began_ns = writer_now(w), base = w->compaction.phase ? w->compaction.bases.start : 0;
    if (!w->compaction.phase) return begin_compaction(w, fault);
    if (base != w->earliest) { /* a trim has removed what it goes through */
        compaction_end(&w->compaction);
        w->compaction_is_due = true;
        return LOG_OK;
    }
    pthread_mutex_unlock(&w->lock);
    int code = compaction_step(&w->compaction, fault);
    pthread_mutex_lock(&w->lock);
    w->rest_ns = writer_now(w) - began_ns;
    if (code == LOG_OK) return LOG_OK;
    if (w->compaction.removed) w->indexed = w->earliest;
    w->counters.compacted += w->compaction.removed;
    w->counters.failed_compactions += code != LOG_AT_END;
    w->compaction.removed = 0;
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

bool upkeep_is_due(const struct writer *w)
{
    bool compacts = (w->compaction_is_due || w->compaction.phase) && !w->rest_ns;
    return w->snapshot_is_due || w->indexed < w->last_base || compacts;
}

int upkeep(struct writer *w, struct log_fault *fault)
{
    if (w->snapshot_is_due) return take_snapshot(w, fault);
    if (w->indexed < w->last_base) return make_index(w), LOG_OK;
    int code = compact(w, fault);
    w->compacts = w->compaction.phase;
    return code == LOG_FAILED ? code : LOG_OK;
}
