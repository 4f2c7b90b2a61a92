/* The flusher: one thread that swaps the batches, writes one, marks, syncs once, and wakes who waited. */
#include <errno.h>
#include <string.h>

#include "../shm/atomics.h"
#include "../shm/futex.h"
#include "spare.h"
#include "writer.h"

/* Any thread, without the lock. The first fault counts. Everybody who waits is told. */
void writer_fail(struct writer *w, const struct log_fault *fault)
{
    pthread_mutex_lock(&w->lock);
    if (!load_relaxed(&w->failed)) {
        w->fault = *fault;
        store_release(&w->failed, 1u); /* pairs with writer_wait and writer_close */
    }
    for (int n = 0; n < 2; n++) {
        w->batches[n].turn++;
        futex_wake(&w->batches[n].turn);
    }
    w->room++;
    futex_wake(&w->room);
    w->chores++;
    futex_wake(&w->chores);
    writer_ring(w);
    pthread_mutex_unlock(&w->lock);
}

void writer_wake_room(struct writer *w)
{
    store_release(&w->room, w->room + 1);
    if (w->room_waiters) futex_wake(&w->room);
    writer_ring(w);
}

static int fail_with(struct writer *w, struct log_fault *fault, const char *what, int error)
{
    char name[SEGMENT_NAME];
    segment_name(w->last.base, name);
    return log_fail(fault, LOG_FAILED, what, name, -error);
}

/* The spare becomes the segment that begins at `base`, and the last one is sealed. */
static int roll(struct writer *w, uint64_t base, struct log_fault *fault)
{
    const struct log_io *io = w->folder.io;
    struct segment next = w->spare;
    int code = spare_name(&w->folder, &next, base, fault);
    if (code) return code;
    int error = segment_write_mark(&w->folder, &w->last, base, MARK_SEALED);
    if (!error) error = io->sync(io->disk, w->last.file);
    if (error) return fail_with(w, fault, "seal", error);
    segment_close(&w->folder, &w->last);
    w->last = next;
    pthread_mutex_lock(&w->lock);
    w->spare = (struct segment){.file = -1};
    w->spare_state = SPARE_NONE;
    w->spare_needs = 0;
    w->snapshot_is_due = true;
    w->last_base = base;
    w->retention_is_due = retention_limits(&w->retention);
    w->compaction_is_due = w->retention.per_key;
    w->rolls = false;
    w->counters.rolls++;
    w->counters.syncs += 2;
    w->chores++;
    futex_wake(&w->chores);
    writer_wake_room(w);
    pthread_mutex_unlock(&w->lock);
    return LOG_OK;
}

/* All below `end` is durable: readers are told. */
static int publish(struct writer *w, uint64_t end, struct log_fault *fault)
{
    store_release(&w->durable, end); /* pairs with writer_wait */
    int error = end_publish(&w->folder, w->end_file, end);
    return error ? log_fail(fault, LOG_FAILED, "write", "end", -error) : LOG_OK;
}

/* Records of one segment: written, with the mark for those before them, and synced. */
static int commit(struct writer *w, const uint8_t *bytes, uint64_t lsn, uint64_t size, struct log_fault *fault)
{
    const struct log_io *io = w->folder.io;
    int error = io_write_all(io, w->last.file, bytes, size, segment_offset(&w->last, lsn));
    if (error) return fail_with(w, fault, "write", error);
    error = segment_write_mark(&w->folder, &w->last, lsn, 0);
    if (error) return fail_with(w, fault, "write of the mark", error);
    error = io->sync(io->disk, w->last.file);
    if (error) return fail_with(w, fault, "fdatasync", error);
    return publish(w, lsn + size, fault);
}

/* Where records that begin at `lsn` have to end in any case: at the roll, if one is before `end`. */
static uint64_t end_of_segment(struct writer *w, uint64_t lsn, uint64_t end, bool *rolls_here)
{
    pthread_mutex_lock(&w->lock);
    bool is_inside = w->rolls && w->roll_at >= lsn && w->roll_at < end;
    *rolls_here = is_inside && w->roll_at == lsn;
    if (is_inside && !*rolls_here) end = w->roll_at;
    pthread_mutex_unlock(&w->lock);
    return end;
}

static int flush_batch(struct writer *w, const struct writer_batch *batch, struct log_fault *fault)
{
    uint64_t lsn = batch->first, end = batch->first + batch->used;
    int code = LOG_OK;
    while (lsn < end && !code) {
        bool rolls_here;
        uint64_t stop = end_of_segment(w, lsn, end, &rolls_here);
        if (rolls_here) {
            code = roll(w, lsn, fault);
        } else {
            code = commit(w, batch->bytes + (lsn - batch->first), lsn, stop - lsn, fault);
            lsn = stop;
        }
    }
    return code;
}

/* Nobody came for a while, or ever will again. */
static int write_idle_mark(struct writer *w, uint32_t flags, struct log_fault *fault)
{
    int error = segment_write_mark(&w->folder, &w->last, load_relaxed(&w->durable), flags);
    if (!error) error = w->folder.io->sync(w->folder.io->disk, w->last.file);
    w->mark_is_due = false;
    return error ? fail_with(w, fault, "write of the mark", error) : LOG_OK;
}

/* Lock held. */
static bool has_work(const struct writer *w) { return w->is_due && w->batches[w->filling].used; }

/* Lock held, and held again at the end. false: time passed and nobody asked for anything. */
static bool sleep_for_work(struct writer *w)
{
    uint32_t seen = w->work;
    bool looks_again = w->mark_is_due || w->batches[w->filling].used;
    w->flusher_sleeps = true;
    pthread_mutex_unlock(&w->lock);
    int how = futex_sleep(&w->work, seen, looks_again ? w->idle_ns : UINT64_C(1) << 62);
    pthread_mutex_lock(&w->lock);
    w->flusher_sleeps = false;
    return how != ETIMEDOUT;
}

/* Lock held. The batch that was filled; NULL: the end. */
static struct writer_batch *next_batch(struct writer *w, struct log_fault *fault, int *code)
{
    while (!has_work(w) && !load_acquire(&w->stopping) && !load_acquire(&w->failed)) {
        if (sleep_for_work(w)) continue;
        w->is_due = w->batches[w->filling].used; /* nobody has waited for it for so long */
        if (w->is_due) continue;
        pthread_mutex_unlock(&w->lock);
        *code = write_idle_mark(w, 0, fault);
        pthread_mutex_lock(&w->lock);
        if (*code) return NULL;
        w->counters.syncs++;
    }
    struct writer_batch *batch = &w->batches[w->filling];
    if (!batch->used || load_acquire(&w->failed)) return NULL;
    w->filling = !w->filling;
    w->is_due = false;
    writer_wake_room(w);
    return batch;
}

/* Lock held. What was in it is durable. */
static void finish(struct writer *w, struct writer_batch *batch)
{
    w->counters.batches++;
    w->counters.syncs++;
    if (batch->records > w->counters.largest_batch) w->counters.largest_batch = batch->records;
    batch->used = batch->records = 0;
    batch->turn++;
    writer_ring(w);
}

void *writer_flush(void *given)
{
    struct writer *w = given;
    struct log_fault fault = {0};
    int code = LOG_OK;
    pthread_mutex_lock(&w->lock);
    for (struct writer_batch *batch; (batch = next_batch(w, &fault, &code)) && !code;) {
        pthread_mutex_unlock(&w->lock);
        code = flush_batch(w, batch, &fault);
        w->mark_is_due = true;
        pthread_mutex_lock(&w->lock);
        if (code) break;
        finish(w, batch);
        pthread_mutex_unlock(&w->lock);
        futex_wake(&batch->turn);
        pthread_mutex_lock(&w->lock);
    }
    bool has_failed = load_acquire(&w->failed);
    pthread_mutex_unlock(&w->lock);
    if (!code && !has_failed) code = write_idle_mark(w, MARK_CLEAN, &fault);
    if (code) writer_fail(w, &fault);
    return NULL;
}
