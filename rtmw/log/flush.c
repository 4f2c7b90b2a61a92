/* To flush: to swap the batches, write one, mark if that is due, sync once, and wake who waited. One thread does it, the
 * flusher; or an appender that is alone (writer.c). */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "../shm/atomics.h"
#include "../shm/futex.h"
#include "segment.h"
#include "writer.h"

void writer_ring(struct writer *w)
{
    for (int n = 0; n < WRITER_EVENTFDS; n++)
        if (w->eventfds[n] >= 0) eventfd_write(w->eventfds[n], 1);
}

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
    if (w->room_is_awaited) writer_ring(w);
    w->room_is_awaited = false;
}

static int fail_with(struct writer *w, struct log_fault *fault, const char *what, int error)
{
    char name[SEGMENT_NAME];
    segment_name(w->last.base, name);
    return log_fail(fault, LOG_FAILED, what, name, -error);
}

/* The spare becomes the segment that begins at `base`, with a record of this epoch, and the last one is sealed. */
static int roll(struct writer *w, uint64_t base, uint32_t epoch, struct log_fault *fault)
{
    const struct log_io *io = w->folder.io;
    struct segment next = w->spare;
    next.base = base;
    int code = spare_name(&w->folder, &next, epoch, fault);
    if (code) return code;
    int error = segment_write_mark(&w->folder, &w->last, base, MARK_SEALED);
    if (!error) error = io->sync(io->disk, w->last.file);
    if (error) return fail_with(w, fault, "seal", error);
    segment_close(&w->folder, &w->last);
    w->last = next;
    w->mark_from_ns = 0;
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
static int tell_readers(struct writer *w, uint64_t end, struct log_fault *fault)
{
    store_release(&w->durable, end); /* pairs with writer_wait */
    if (w->folder.is_replicated) return writer_show(w, 0, fault);
    int error = end_write(&w->folder, w->end_file, end);
    return error ? log_fail(fault, LOG_FAILED, "write", "end", -error) : LOG_OK;
}

int writer_show(struct writer *w, uint64_t committed, struct log_fault *fault)
{
    pthread_mutex_lock(&w->end_lock);
    if (committed > w->committed) w->committed = committed;
    uint64_t durable = load_acquire(&w->durable), end = durable < w->committed ? durable : w->committed;
    int error = end > w->shown ? end_write(&w->folder, w->end_file, end) : 0;
    if (!error && end > w->shown) w->shown = end;
    pthread_mutex_unlock(&w->end_lock);
    return error ? log_fail(fault, LOG_FAILED, "write", "end", -error) : LOG_OK;
}

int writer_commit(struct writer *w, uint64_t committed)
{
    struct log_fault fault = {0};
    int code = writer_show(w, committed, &fault);
    if (code) writer_fail(w, &fault);
    return code;
}

/* Of a mark that goes with records up to this offset: so far that the next batch needs no mark of its own before it. */
static uint64_t next_reach(const struct writer *w, uint64_t offset)
{
    return w->ahead ? (offset / w->ahead + 2) * w->ahead : w->last.size;
}

/* A mark with a longer reach, durable before the records that need it. */
static int extend_reach(struct writer *w, uint64_t lsn, uint64_t reach, struct log_fault *fault)
{
    int error = segment_write_mark(&w->folder, &w->last, lsn, segment_reach_flags(&w->last, reach));
    if (!error) error = w->folder.io->sync(w->folder.io->disk, w->last.file);
    return error ? fail_with(w, fault, "write of the mark", error) : LOG_OK;
}

/* Does the batch that ends at this offset take a mark along? A mark lies in another block than the records: a disk that has
 * one request after the other needs up to half as long again for a sync with both. So a mark is written: (1) where none is
 * newer than `mark_ns`, or of this segment; (2) where the next batch could end behind the reach. */
static bool takes_mark(const struct writer *w, uint64_t end)
{
    bool needs_reach = w->last.reach < w->last.size && end + w->ahead > w->last.reach;
    return needs_reach || writer_now(w) >= w->mark_from_ns;
}

/* Records of one segment: written, perhaps with the mark for those before them, and synced. */
static int commit(struct writer *w, const uint8_t *bytes, uint64_t lsn, uint64_t size, uint64_t written,
                  struct log_fault *fault)
{
    const struct log_io *io = w->folder.io;
    uint64_t offset = segment_offset(&w->last, lsn), reach = next_reach(w, offset + size);
    if (offset + size > w->last.reach && extend_reach(w, lsn, reach, fault)) return LOG_FAILED;
    bool marks = takes_mark(w, offset + size);
    int error = io_write_all(io, w->last.file, bytes + written, size - written, offset + written);
    if (error) return fail_with(w, fault, "write", error);
    if (marks) error = segment_write_mark(&w->folder, &w->last, lsn, segment_reach_flags(&w->last, reach));
    if (error) return fail_with(w, fault, "write of the mark", error);
    error = io->sync(io->disk, w->last.file);
    if (error) return fail_with(w, fault, "fdatasync", error);
    if (marks) {
        w->last.reach = reach < w->last.size ? reach : w->last.size;
        w->mark_from_ns = writer_now(w) + w->mark_ns;
    }
    return tell_readers(w, lsn + size, fault);
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
            struct record_head first;
            memcpy(&first, batch->bytes + (lsn - batch->first), sizeof first);
            code = roll(w, lsn, first.epoch, fault);
        } else {
            uint64_t written = lsn == batch->first ? batch->written : 0;
            code = commit(w, batch->bytes + (lsn - batch->first), lsn, stop - lsn, written, fault);
            lsn = stop;
        }
    }
    return code;
}

/* Nobody came for a while, or ever will again. */
static int write_idle_mark(struct writer *w, uint32_t flags, struct log_fault *fault)
{
    flags |= segment_reach_flags(&w->last, w->last.reach);
    int error = segment_write_mark(&w->folder, &w->last, load_relaxed(&w->durable), flags);
    if (!error) error = w->folder.io->sync(w->folder.io->disk, w->last.file);
    w->mark_is_due = false;
    return error ? fail_with(w, fault, "write of the mark", error) : LOG_OK;
}

/* Lock held. What was in it is durable. */
static void finish(struct writer *w, struct writer_batch *batch)
{
    w->counters.batches++;
    w->counters.syncs++;
    if (batch->records > w->counters.largest_batch) w->counters.largest_batch = batch->records;
    batch->used = batch->records = batch->written = 0;
    batch->turn++;
    w->mark_is_due = true;
    w->flushed_ns = writer_now(w);
    if (w->awaited > batch->first) writer_ring(w); /* all below that was durable before */
}

int writer_flush_batch(struct writer *w)
{
    struct log_fault fault = {0};
    struct writer_batch *batch = &w->batches[w->filling];
    w->filling = !w->filling;
    w->is_due = false;
    w->flushes = true;
    writer_wake_room(w);
    pthread_mutex_unlock(&w->lock);
    int code = flush_batch(w, batch, &fault);
    if (code) writer_fail(w, &fault);
    pthread_mutex_lock(&w->lock);
    if (!code) finish(w, batch);
    w->flushes = false;
    pthread_mutex_unlock(&w->lock);
    futex_wake(&batch->turn); /* many may be asleep there, and the next ones need the lock */
    pthread_mutex_lock(&w->lock);
    return code;
}

int writer_write_batch_ahead(struct writer *w)
{
    const struct log_io *io = w->folder.io;
    struct log_fault fault = {0};
    struct writer_batch *batch = &w->batches[w->filling];
    uint64_t size = batch->used - batch->written, offset = segment_offset(&w->last, batch->first + batch->written);
    if (w->rolls || !size || offset + size > w->last.reach) return LOG_OK;
    w->flushes = w->writes_ahead = true;
    pthread_mutex_unlock(&w->lock);
    int error = io_write_all(io, w->last.file, batch->bytes + batch->written, size, offset);
    if (!error) io->begin_sync(io->disk, w->last.file, offset, size);
    int code = error ? fail_with(w, &fault, "write", error) : LOG_OK;
    if (code) writer_fail(w, &fault);
    pthread_mutex_lock(&w->lock);
    batch->written += size;
    w->flushes = w->writes_ahead = false;
    writer_wake_room(w);
    return code;
}

/* Lock held. */
static bool has_work(const struct writer *w)
{
    bool is_asked = w->is_due && w->batches[w->filling].used;
    return !w->flushes && (is_asked || load_acquire(&w->stopping) || load_acquire(&w->failed));
}

bool writer_needs_flusher(const struct writer *w)
{
    return w->flusher_sleeps && (has_work(w) || (!w->flusher_is_timed && w->mark_is_due));
}

/* Lock held. For how long there is nothing to do if nobody asks for anything; 0: now there is. */
static uint64_t time_left(const struct writer *w)
{
    const struct writer_batch *batch = &w->batches[w->filling];
    if (!batch->used && !w->mark_is_due) return UINT64_C(1) << 62;
    uint64_t end = (batch->used ? batch->oldest_ns : w->flushed_ns) + w->idle_ns, now = writer_now(w);
    return end > now ? end - now : 0;
}

/* Lock held, and held again at the end. */
static void sleep_for_work(struct writer *w, uint64_t time_ns)
{
    uint32_t seen = w->work;
    w->flusher_is_timed = w->mark_is_due || w->batches[w->filling].used;
    w->flusher_sleeps = true;
    pthread_mutex_unlock(&w->lock);
    futex_sleep(&w->work, seen, time_ns);
    pthread_mutex_lock(&w->lock);
    w->flusher_sleeps = false;
}

/* Lock held, and held again at the end. Until there is a batch to flush, or the writer ends. */
static int wait_for_work(struct writer *w, struct log_fault *fault)
{
    while (!has_work(w)) {
        uint64_t left = time_left(w);
        if (left || w->flushes) {
            sleep_for_work(w, left ? left : w->idle_ns);
            continue;
        }
        w->is_due = w->batches[w->filling].used; /* nobody has waited for it for so long */
        if (w->is_due) continue;
        pthread_mutex_unlock(&w->lock);
        int code = write_idle_mark(w, 0, fault);
        pthread_mutex_lock(&w->lock);
        if (code) return code;
        w->counters.syncs++;
    }
    return LOG_OK;
}

void *writer_flush(void *given)
{
    struct writer *w = given;
    struct log_fault fault = {0};
    int code = LOG_OK;
    pthread_mutex_lock(&w->lock);
    while (!(code = wait_for_work(w, &fault)) && w->batches[w->filling].used && !load_acquire(&w->failed))
        writer_flush_batch(w);
    bool has_failed = load_acquire(&w->failed);
    pthread_mutex_unlock(&w->lock);
    if (!code && !has_failed) code = write_idle_mark(w, MARK_CLEAN, &fault);
    if (code) writer_fail(w, &fault);
    return NULL;
}
