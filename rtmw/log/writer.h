/* The writer of a log: group commit.
 *
 *   appenders ─ under `lock` ─► the batch being filled          two batches take turns: while the flusher writes and syncs
 *   flusher   ─ swaps, writes, syncs once ─► `durable`          one, the other is filled. There is no delay to tune: a batch
 *   maker     ─ the next segment, ahead ─► `spare`              holds what came while the one before it was synced
 *
 * An appender puts its records into the batch, at the position `next`. That begins no sync: the batch goes to the disk when
 * somebody waits for one of its records, when it is asked for (writer_start), when it is full, and at the latest after
 * `idle_ns`. Appenders that wait sleep on `turn` of the batch, and the flusher wakes all of them with one call. Positions
 * are given out without gaps; in which segment a record will lie is decided when it is appended, so that a record that
 * was accepted never meets a full disk: `boundary` is the position up to which there is room, in the last segment or in
 * the spare that has been set aside for the roll at `roll_at`.
 *
 * A call of the system that fails ends the writer for good: no write and no sync is tried again, since nobody can know
 * what of it reached the disk (for PostgreSQL this was found in 2018: https://wiki.postgresql.org/wiki/Fsync_Errors).
 */
#ifndef RTMW_LOG_WRITER_H
#define RTMW_LOG_WRITER_H

#include <pthread.h>

#include "ids.h"
#include "maker.h"
#include "record.h"
#include "recover.h"

enum { WRITER_BATCH = 4 << 20, WRITER_EVENTFDS = 8 };
#define WRITER_FOREVER UINT64_MAX

struct writer_batch {
    uint8_t *bytes;
    uint64_t used, room;
    uint64_t written;   /* of these, what is in the file ahead of its sync */
    uint64_t first;     /* position of its first byte */
    uint64_t records;   /* in it */
    uint64_t oldest_ns; /* monotonic clock, when its first record came */
    uint32_t turn;      /* futex: another value when what was in it is durable, or has failed */
};

enum spare_state {
    SPARE_NONE, /* the maker is at it */
    SPARE_READY,
    SPARE_FULL, /* the disk had no room; the maker tries again each second */
};

struct writer_counters {
    uint64_t records, bytes, batches, syncs, largest_batch, rolls, refused, failed_spares, repeated;
    uint32_t ids;  /* that are remembered */
    uint64_t held; /* bytes that the retention would remove but for cursors */
    uint64_t compacted,
        failed_compactions; /* bytes that compaction removed; what was given up for a fault or for room */
};

/* Each group says who owns its fields: which lock is held to touch them, and who writes them. */
struct writer {
    /* ---- No lock: writer_open writes them, and nobody afterwards. ---- */
    struct log_folder folder;
    uint64_t most;    /* bytes of a segment's file at most */
    uint64_t idle_ns; /* with nothing to do for so long the flusher writes a mark, or what nobody waits for */
    uint64_t ahead;   /* see struct writer_options, as for the next one */
    uint64_t mark_ns;
    struct retention retention;
    uint64_t cut; /* bytes that recovery has cut off */
    int end_file;
    pthread_t flusher, maker;

    /* Nothing else is taken under it, and no call of the system made but futex_wake and a write to an eventfd. */
    pthread_mutex_t lock;

    /* ---- `lock`; appenders fill; whoever flushes swaps, and then has the other batch for itself, without the lock. ---- */
    struct writer_batch batches[2];
    uint32_t filling;                /* which of them is being filled */
    uint32_t epoch;                  /* of the records that are made here; not below the next one */
    uint32_t last_epoch;             /* of the last record, which epochs never fall behind */
    uint64_t next;                   /* next - batches[filling].used is where that begins */
    struct ids ids;                  /* of records that were taken, durable or not */
    bool is_due;                     /* the batch being filled goes to the disk as soon as the flusher comes to it */
    struct writer_counters counters; /* each by who does what it counts */

    /* ---- `lock`; those who wait. ---- */
    uint32_t room_waiters;
    bool room_is_awaited; /* somebody found none since it was told of last; it may be an event loop, with an eventfd */
    uint64_t awaited;     /* event loops wait until all below it is durable; 0: none ever did */
    int eventfds[WRITER_EVENTFDS]; /* -1: none */

    /* ---- `lock`; the segment that comes next. The maker makes it, an appender sets it aside, whoever flushes rolls. ---- */
    uint64_t boundary; /* up to which there is room for records */
    bool rolls;        /* the spare is set aside: the segment ends at roll_at, and the spare begins there */
    uint64_t roll_at;
    enum spare_state spare_state;
    struct segment spare;
    uint64_t spare_needs; /* bytes of records that have to fit into the next segment */
    uint64_t lacks;       /* SPARE_FULL: bytes of the smallest segment for which the disk had no room */
    uint64_t newest_size; /* of the last segment, or of the one it rolls to */
    uint64_t last_base;   /* where the last segment begins */

    /* ---- `lock`; who flushes. The flusher writes them, or an appender that does it instead while the flusher sleeps. ---- */
    bool flushes;          /* somebody has a batch, and the last segment */
    bool writes_ahead;     /* and it is the batch being filled, which must not be moved */
    bool flusher_sleeps;   /* and no wake-up is on its way: who wakes it says so */
    bool flusher_is_timed; /* its sleep has a timeout */
    bool mark_is_due;      /* the newest mark is behind `durable`, or not clean; the flusher clears it, unlocked */
    uint64_t flushed_ns;   /* monotonic clock, when the last batch was durable */

    /* ---- `lock`; what the maker has to do. A roll makes it due, or somebody asks for a trim; the maker does it. ---- */
    bool snapshot_is_due, retention_is_due, compaction_is_due;
    uint64_t trim_to;  /* somebody wants the log to begin at the segment of this position */
    uint64_t trimmed;  /* the last trim_to that was done */
    uint64_t earliest; /* where the log begins */
    uint64_t ids_upto; /* what the snapshot of ids covers */
    uint64_t kept;     /* size of the file `spare` that a trim has left, unfilled; 0: none */
    uint64_t held;     /* bytes that the retention would remove but for cursors */
    uint64_t indexed;  /* sealed segments below this position have an index, as far as it could be made */
    bool compacts;     /* it is at a compaction */

    /* ---- No lock: the maker alone. ---- */
    struct compaction compaction;
    uint64_t rest_ns; /* it waits so long before the next step: half of the time is left to others */

    /* ---- Words that threads sleep on; changed under `lock`. ---- */
    uint32_t work;   /* the flusher: a batch is due, or `stopping` */
    uint32_t room;   /* appenders: a batch was swapped, a spare made, or nothing will be any more */
    uint32_t chores; /* the maker */

    /* ---- How it ends; written under `lock`, the words read by any thread with acquire. ---- */
    struct log_fault fault; /* of the call that failed; written once, before `failed` */
    uint32_t failed;        /* whoever failed, once */
    uint32_t stopping;      /* writer_close */

    /* ---- Whoever flushes, without a lock. Nobody else does while `flushes`, or while the flusher is awake. ---- */
    uint64_t durable; /* stored with release, and read by any thread with acquire */
    struct segment last;
    uint64_t mark_from_ns; /* monotonic clock: a batch from then on takes a mark along */

    /* ---- `end_lock`, under which the file `end` of a replicated log is written, and nothing taken. ---- */
    pthread_mutex_t end_lock;
    uint64_t committed; /* all below it is final: the master has said so */
    uint64_t shown;     /* what the file says: the lower one of this and `durable` */
};

struct raw_run;

struct writer_options {
    uint64_t most;    /* bytes of a segment's file at most */
    uint64_t idle_ns; /* see struct writer */
    uint32_t window;  /* ids that are remembered, 1 or more */
    struct retention retention;
    uint64_t ahead;   /* bytes that the reach of a mark goes beyond its batch, a multiple of SEGMENT_BLOCK; 0: all */
    uint64_t mark_ns; /* a batch takes a mark along if the newest one is so old; 0: each batch does */
};

/* Recovers, and starts the threads. The lock of the folder is held, `folder` stays open until writer_close. */
int writer_open(struct writer *w, const struct log_folder *folder, const struct writer_options *options,
                struct log_fault *fault);
/* Writes what was appended, marks the log as clean, ends the threads. LOG_FAILED, with its fault, where the writer had failed.
 * Once. Others may still be inside of the functions below: they are told, and the memory stays until writer_free. */
int writer_close(struct writer *w, struct log_fault *fault);
void writer_free(struct writer *w); /* closed, and nobody is inside */

/* Any thread. `deadline`: of the monotonic clock of the seam. */

/* Takes records, all of one batch, all or none of which will be durable. `*first`, `*end`: their positions. It waits for room
 * only, and begins no sync. A batch of several may have an id on its first record, and on no other. A batch with an id that is
 * in the dedupe window is not taken again: the positions are those of the batch that has it, which need not be durable yet;
 * LOG_ID_TAKEN, with its positions: its content is another one, or it is a fence. LOG_TIMEOUT, LOG_INTERRUPTED, LOG_FULL, LOG_TOO_LARGE, LOG_FAILED, LOG_CLOSED,
 * LOG_NO_MEMORY: nothing was taken. */
int writer_append(struct writer *w, const struct record_parts *parts, size_t count, uint64_t deadline, uint64_t *first,
                  uint64_t *end);
/* The same for records that end work which was begun: they may also use the reserve, which is what is left of the last
 * segment when the disk has no room for another one. LOG_FULL: the reserve has no room for them either. */
int writer_append_end(struct writer *w, const struct record_parts *parts, size_t count, uint64_t deadline,
                      uint64_t *first, uint64_t *end);
/* A fence: a record that has an id, and data never; it may use the reserve. `parts`: labels without a key. LOG_ID_TAKEN: a
 * record with data has it. */
int writer_append_fence(struct writer *w, const struct record_parts *parts, uint64_t deadline, uint64_t *first,
                        uint64_t *end);

/* Whole batches as another writer of a log with this uuid has made them (reader_raw). */
struct writer_raw {
    const uint8_t *bytes;
    uint64_t size;
    uint32_t epoch; /* of the master that sent them: none of theirs is higher */
    uint64_t
        taken; /* the result: so many bytes of them, whole batches, were taken; the next call goes on behind them */
};
/* Takes them, as they are, at the position `next`, and notes their ids. All of them are looked at first: LOG_REFUSED, with the
 * reason in `fault`: they are no whole valid batches with epochs that do not fall, or begin elsewhere, and nothing was taken.
 * Else as writer_append. Of a replicated log; one thread at a time, and no other append meanwhile. */
int writer_append_raw(struct writer *w, struct writer_raw *raw, uint64_t deadline, struct log_fault *fault);
/* Records are made with this epoch from now on. False: there are records of a higher one, and nothing is changed. */
bool writer_set_epoch(struct writer *w, uint32_t epoch);
uint32_t writer_last_epoch(struct writer *w); /* of the last record */
/* The entry with the id of these labels: false: none is in the window. `*floor`: of all records from there on, ids are known. */
bool writer_find_id(struct writer *w, const void *labels, size_t size, struct id_entry *found, uint64_t *floor);
/* flush.c. All below `committed` is final, also what is not durable here yet: readers are shown what is both. Of a replicated
 * log. A write into the page cache, and no sync. A position that is lower than one before changes nothing. LOG_FAILED. */
int writer_commit(struct writer *w, uint64_t committed);

/* The same bytes as reader_raw gives, of what is not durable yet and so is in memory. LOG_AT_END: nothing of it is there. */
int writer_tail(struct writer *w, uint64_t position, struct raw_run *run);

/* What was taken goes to the disk now, and not when somebody waits for it. Does not block; of no effect where it is on its way
 * already, or the writer ends. `awaited`: an event loop waits until all below it is durable; 0: none does. */
void writer_start(struct writer *w, uint64_t awaited);
/* The caller flushes what was taken, as long as that takes. false: there is nothing; or another thread is at it, or has been
 * asked to; or the writer ends. Whether it is durable then, `durable` says. */
bool writer_try_flush(struct writer *w);
/* What was taken is written, and the disk begins with it, so the sync that follows has less to wait for. Of no effect where
 * writer_try_flush says false, or where a new segment or a mark is due before. */
void writer_write_ahead(struct writer *w);
/* Waits until all below `end` is durable, and sees to it that it is on its way. LOG_FAILED: it may be, or not. LOG_TIMEOUT,
 * LOG_INTERRUPTED: not yet. */
int writer_wait(struct writer *w, uint64_t end, uint64_t deadline);
/* The log begins with the segment in which `before` lies, durably; `*start`: where that is. Whoever reads before it is told.
 * LOG_FAILED: it does, or not. LOG_CLOSED, LOG_INTERRUPTED. */
int writer_trim(struct writer *w, uint64_t before, uint64_t *start);
/* The same soon, by the maker, which may have a spare to fill first. Does not block; if it fails, the writer has failed. */
void writer_ask_trim(struct writer *w, uint64_t before);
/* A number of the writer that changes under the lock, as it is now: `next`, `last_base`, or `newest_size`. */
uint64_t writer_look(struct writer *w, const uint64_t *word);
void writer_counters(struct writer *w, struct writer_counters *counters, uint64_t *queued, uint64_t *queued_bytes,
                     uint64_t *oldest_ns);
/* An eventfd that is written to when more is durable and an event loop waits for some of it (writer_start), when the writer has
 * failed, or when there is room. false: there are too many. */
bool writer_add_eventfd(struct writer *w, int descriptor);
void writer_remove_eventfd(struct writer *w, int descriptor);

/* Of the threads among each other. */
void *writer_flush(void *writer); /* flush.c */
/* flush.c. Lock held, and held again at the end; nobody flushes, and the batch that is filled has something. LOG_OK, LOG_FAILED. */
int writer_flush_batch(struct writer *w);
/* The same of a write without its sync, of what the batch has by now; LOG_OK, too, where that is more than a write. */
int writer_write_batch_ahead(struct writer *w);
/* flush.c, as writer_commit, which is told of the fault. */
int writer_show(struct writer *w, uint64_t committed, struct log_fault *fault);
/* flush.c. Lock held. Has the flusher something to do, and sleeps? */
bool writer_needs_flusher(const struct writer *w);
void *writer_make(void *writer);          /* maker.c */
bool trim_is_due(const struct writer *w); /* maker.c, as the next one */
int trim_now(struct writer *w, struct log_fault *fault);
/* maker.c, of the maker. Lock held, and held again at the end. One piece of work; LOG_OK or LOG_FAILED. */
bool upkeep_is_due(const struct writer *w);
int upkeep(struct writer *w, struct log_fault *fault);
void writer_fail(struct writer *w, const struct log_fault *fault);
void writer_wake_room(struct writer *w); /* lock held */
void writer_ring(struct writer *w);      /* lock held */
static inline uint64_t writer_now(const struct writer *w)
{
    return w->folder.io->now_ns(w->folder.io->disk, LOG_CLOCK_MONOTONIC);
}

#endif
