/* A writer begins and ends; and what appenders do: into the batch, and asleep until it is durable. To flush: flush.c. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "../shm/atomics.h"
#include "../shm/futex.h"
#include "reader.h"
#include "segment.h"

/* Signals are for Python's main thread. */
static int start_threads(struct writer *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&w->flusher, NULL, writer_flush, w);
    if (!error) {
        error = pthread_create(&w->maker, NULL, writer_make, w);
        if (error) {
            store_release(&w->stopping, 1u);
            pthread_join(w->flusher, NULL);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void close_files(struct writer *w)
{
    compaction_end(&w->compaction);
    segment_close(&w->folder, &w->last);
    if (w->end_file >= 0) w->folder.io->close(w->folder.io->disk, w->end_file);
    if (w->spare.file >= 0 || w->kept) spare_discard(&w->folder, w->spare.file);
}

void writer_free(struct writer *w)
{
    for (int n = 0; n < 2; n++) free(w->batches[n].bytes);
    ids_free(&w->ids);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->end_lock);
}

static void adopt(struct writer *w, const struct recovered *found)
{
    w->last = found->last;
    w->last.reach = w->last.size; /* as the mark of recovery says */
    w->newest_size = found->last.size;
    w->boundary = found->last.base + segment_capacity(&found->last);
    w->next = w->durable = found->end;
    w->committed = w->shown = found->shown;
    w->epoch = w->last_epoch = LOG_EPOCH;
    w->earliest = w->indexed = found->earliest;
    w->last_base = found->last.base;
    w->cut = found->cut;
    w->mark_is_due = false;
}

/* By the records: a master may have had an epoch of which there is none. */
static int find_last_epoch(struct writer *w, struct log_fault *fault)
{
    struct log_epoch *table;
    size_t count;
    int code = log_epochs(&w->folder, w->durable, &table, &count, fault);
    if (!code && count) w->epoch = w->last_epoch = table[count - 1].epoch;
    free(table);
    return code;
}

int writer_open(struct writer *w, const struct log_folder *folder, const struct writer_options *options,
                struct log_fault *fault)
{
    struct recovered found;
    const struct log_io *io = folder->io;
    *w = (struct writer){.folder = *folder,
                         .most = options->most,
                         .idle_ns = options->idle_ns,
                         .ahead = options->ahead,
                         .mark_ns = options->mark_ns,
                         .spare.file = -1};
    w->retention = options->retention;
    w->retention_is_due = retention_limits(&w->retention);
    w->compaction_is_due = w->retention.per_key;
    for (int n = 0; n < WRITER_EVENTFDS; n++) w->eventfds[n] = -1;
    if (folder->is_replicated && w->retention.per_key)
        return log_fail(fault, LOG_REFUSED, "a replicated log is not compacted: its bytes have no gaps", ".", 0);
    int code = log_recover(folder, true, &found, fault);
    if (code) return code;
    adopt(w, &found);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->end_lock, NULL);
    ids_begin(&w->ids, options->window);
    code = ids_load(folder, &w->ids, w->earliest, w->durable, &w->ids_upto, fault);
    if (!code && folder->is_replicated) code = find_last_epoch(w, fault);
    w->end_file = code ? -1 : io->open(io->disk, folder->folder, "end", O_RDWR | O_CREAT);
    if (!code && w->end_file < 0) code = log_fail(fault, LOG_FAILED, "open", "end", -w->end_file);
    int error = code ? 0 : start_threads(w);
    if (error) code = log_fail(fault, LOG_NO_MEMORY, "start of a thread", ".", error);
    if (code) {
        close_files(w);
        writer_free(w);
    }
    return code;
}

/* It follows from the records: what goes wrong here makes the next opening slower, and nothing else. */
static void save_ids(struct writer *w)
{
    struct log_fault fault;
    struct ids_snapshot snapshot;
    if (ids_copy(&w->ids, w->durable, &snapshot)) ids_save(&w->folder, &snapshot, &fault);
    free(snapshot.entries);
}

int writer_close(struct writer *w, struct log_fault *fault)
{
    pthread_mutex_lock(&w->lock);
    store_release(&w->stopping, 1u); /* pairs with the loads of the threads */
    w->work++;
    w->chores++;
    w->room++;
    pthread_mutex_unlock(&w->lock);
    futex_wake(&w->work);
    futex_wake(&w->chores);
    futex_wake(&w->room);
    pthread_join(w->flusher, NULL);
    pthread_join(w->maker, NULL);
    *fault = w->fault;
    int code = load_acquire(&w->failed) ? LOG_FAILED : LOG_OK;
    if (!code && w->ids.count && w->ids_upto < w->durable) save_ids(w);
    close_files(w);
    return code;
}

bool writer_add_eventfd(struct writer *w, int descriptor)
{
    bool is_in = false;
    pthread_mutex_lock(&w->lock);
    for (int n = 0; n < WRITER_EVENTFDS && !is_in; n++) {
        if (w->eventfds[n] >= 0) continue;
        w->eventfds[n] = descriptor;
        is_in = true;
    }
    pthread_mutex_unlock(&w->lock);
    return is_in;
}

void writer_remove_eventfd(struct writer *w, int descriptor)
{
    pthread_mutex_lock(&w->lock);
    for (int n = 0; n < WRITER_EVENTFDS; n++)
        if (w->eventfds[n] == descriptor) w->eventfds[n] = -1;
    pthread_mutex_unlock(&w->lock);
}

/* ======== appending ======== */

/* What appenders do: into the batch, and asleep until it is durable. */

enum { ROOM_AT_FIRST = 64 * 1024 };
enum { WAIT = -1, REPEATED = -2 }; /* of try_append: not now; of find_id: it was appended before */

/* The size of all records, or 0: one of them is longer than a length can say. */
static uint64_t size_of(const struct record_parts *parts, size_t count)
{
    uint64_t size = 0;
    for (size_t n = 0; n < count; n++) {
        uint64_t length = (uint64_t)parts[n].labels_size + parts[n].data_size;
        if (length > UINT32_MAX - 2 * RECORD_HEAD) return 0;
        size += record_size(length);
    }
    return size;
}

/* Lock held. Is there a place for so many bytes in the last segment, or in the next? Without room for another segment, what
 * is left of the last one is the reserve: for `ends` only. */
static int find_place(struct writer *w, uint64_t size, bool ends)
{
    bool fits = w->next + size <= w->boundary;
    if (w->spare_state == SPARE_FULL) return ends && fits ? LOG_OK : LOG_FULL;
    if (fits) return LOG_OK;
    if (w->rolls) return WAIT;
    if (w->spare_state != SPARE_READY || segment_capacity(&w->spare) < size) {
        if (w->spare_needs < size) w->spare_needs = size;
        w->chores++;
        futex_wake(&w->chores);
        return WAIT;
    }
    w->rolls = true;
    w->roll_at = w->next;
    w->boundary = w->next + segment_capacity(&w->spare);
    w->newest_size = w->spare.size;
    return LOG_OK;
}

static bool grow(struct writer_batch *batch, uint64_t needs)
{
    uint64_t room = batch->room ? batch->room : ROOM_AT_FIRST;
    while (room < needs) room *= 2;
    if (room == batch->room) return true;
    uint8_t *larger = realloc(batch->bytes, room);
    if (!larger) return false;
    batch->bytes = larger;
    batch->room = room;
    return true;
}

struct request {
    const struct record_parts *parts;
    size_t count;
    enum record_kind kind;
    bool ends;
    const uint8_t *raw; /* a batch as it is, instead of parts */
    uint64_t position;  /* of it */
    uint32_t epoch;     /* of its last record */
    uint64_t size, data_size;
    const struct id_entry *id; /* NULL: it has none */
};

static void put_raw(struct writer *w, struct writer_batch *batch, const struct request *request)
{
    memcpy(batch->bytes + batch->used, request->raw, request->size);
    batch->used += request->size;
    w->next += request->size;
    w->last_epoch = request->epoch;
    if (w->epoch < w->last_epoch) w->epoch = w->last_epoch;
    w->counters.bytes += request->data_size;
}

static void put_parts(struct writer *w, struct writer_batch *batch, const struct request *request)
{
    const struct record_parts *parts = request->parts;
    size_t count = request->count;
    struct record_head head = {.epoch = w->epoch, .kind = (uint8_t)request->kind};
    w->last_epoch = w->epoch;
    uint64_t now = w->folder.io->now_ns(w->folder.io->disk, LOG_CLOCK_WALL);
    for (size_t n = 0; n < count; n++) {
        head.lsn = w->next;
        head.time_ns = parts[n].time_ns ? parts[n].time_ns : now;
        head.flags = (parts[n].labels_size ? RECORD_LABELS : 0) | (n + 1 < count ? RECORD_MORE : 0);
        record_put(batch->bytes + batch->used, &head, &parts[n], w->folder.seed);
        uint64_t size = record_size((uint64_t)parts[n].labels_size + parts[n].data_size);
        batch->used += size;
        w->next += size;
        w->counters.bytes += parts[n].data_size;
    }
}

static void put(struct writer *w, struct writer_batch *batch, const struct request *request)
{
    (request->raw ? put_raw : put_parts)(w, batch, request);
    batch->records += request->count;
    w->counters.records += request->count;
}

/* Lock held. Has a batch this id already? LOG_OK: none; REPEATED, LOG_ID_TAKEN: with its positions. */
static int find_id(struct writer *w, const struct request *request, uint64_t *first, uint64_t *end)
{
    const struct id_entry *id = request->id, *there = id && !request->raw ? ids_find(&w->ids, id) : NULL;
    if (!there) return LOG_OK;
    *first = there->position;
    *end = id_entry_end(there);
    if (there->content != id->content || there->length != id->length || there->kind != id->kind) return LOG_ID_TAKEN;
    w->counters.repeated++;
    return REPEATED;
}

/* Lock held. */
static int try_append(struct writer *w, const struct request *request)
{
    uint64_t size = request->size;
    struct writer_batch *batch = &w->batches[w->filling];
    if (load_relaxed(&w->failed)) return LOG_FAILED;
    if (load_relaxed(&w->stopping)) return LOG_CLOSED;
    if (request->raw && request->position != w->next) return LOG_REFUSED;
    if (batch->used && batch->used + size > WRITER_BATCH) return WAIT;
    if (w->writes_ahead && batch->used + size > batch->room) return WAIT; /* to grow would move it */
    if (!grow(batch, batch->used + size) || (request->id && ids_reserve(&w->ids))) return LOG_NO_MEMORY;
    int code = find_place(w, size, request->ends);
    if (code) return code;
    if (!batch->used) {
        batch->first = w->next;
        batch->oldest_ns = writer_now(w);
    }
    const uint64_t position = w->next;
    put(w, batch, request);
    if (request->id) ids_add(&w->ids, request->id, position);
    return LOG_OK;
}

/* Sleeps until the word changes; LOG_OK: look again. */
static int sleep_on(struct writer *w, uint32_t *word, uint32_t seen, uint64_t deadline)
{
    uint64_t left = UINT64_C(1) << 62;
    if (deadline != WRITER_FOREVER) {
        uint64_t now = writer_now(w);
        if (now >= deadline) return LOG_TIMEOUT;
        left = deadline - now;
    }
    int how = futex_sleep(word, seen, left);
    return how == EINTR ? LOG_INTERRUPTED : LOG_OK;
}

/* Lock held. True: the caller has to wake the flusher, with the lock or without. */
static bool wakes_flusher(struct writer *w)
{
    if (!w->flusher_sleeps || w->flushes) return false; /* an appender that flushes wakes it at the end */
    w->flusher_sleeps = false;
    store_release(&w->work, w->work + 1); /* pairs with futex_sleep of the flusher, which looks at it again */
    return true;
}

/* Lock held. What is in the batch goes to the disk. True: the caller has to wake the flusher. */
static bool starts(struct writer *w)
{
    if (w->is_due || !w->batches[w->filling].used) return false;
    w->is_due = true;
    return wakes_flusher(w);
}

/* Lock held. A record was put into the batch, or found no room there. A flusher that sleeps without a mark to write looks
 * at nothing by itself: the first record makes it look after `idle_ns`. True: the caller has to wake it. */
static bool has_put(struct writer *w, int code, bool was_empty)
{
    if (code == WAIT) return starts(w);
    return code == LOG_OK && was_empty && !w->flusher_is_timed && wakes_flusher(w);
}

void writer_start(struct writer *w, uint64_t awaited)
{
    pthread_mutex_lock(&w->lock);
    if (awaited > w->awaited) w->awaited = awaited;
    bool wakes = starts(w);
    pthread_mutex_unlock(&w->lock);
    if (wakes) futex_wake(&w->work);
}

/* A request whose size and id are known. */
static int take(struct writer *w, const struct request *request, uint64_t deadline, uint64_t *first, uint64_t *end)
{
    if (!request->size || request->size > w->most - SEGMENT_DATA) return LOG_TOO_LARGE;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        bool was_empty = !w->batches[w->filling].used;
        int code = find_id(w, request, first, end);
        if (code == LOG_OK) {
            *first = w->next;
            code = try_append(w, request);
            *end = w->next;
        }
        uint32_t seen = load_relaxed(&w->room);
        bool wakes = has_put(w, code, was_empty);
        if (code == WAIT) {
            w->room_waiters++;
            w->room_is_awaited = true;
        }
        if (code == LOG_FULL) w->counters.refused += request->count;
        pthread_mutex_unlock(&w->lock);
        if (wakes) futex_wake(&w->work);
        if (code != WAIT) return code == REPEATED ? LOG_OK : code;
        code = sleep_on(w, &w->room, seen, deadline);
        pthread_mutex_lock(&w->lock);
        w->room_waiters--;
        pthread_mutex_unlock(&w->lock);
        if (code) return code;
    }
}

static int append(struct writer *w, struct request *request, uint64_t deadline, uint64_t *first, uint64_t *end)
{
    request->size = size_of(request->parts, request->count);
    struct record_head head = {.kind = (uint8_t)request->kind, .flags = RECORD_MORE};
    struct id_batch id;
    id.is_inside = false;
    for (size_t n = 0; request->parts->labels_size && n < request->count; n++) {
        if (n + 1 == request->count) head.flags = 0;
        if (id_batch_pass(&id, &head, &request->parts[n], w->folder.uuid)) request->id = &id.entry;
    }
    int code = take(w, request, deadline, first, end);
    request->id = NULL;
    return code;
}

int writer_append(struct writer *w, const struct record_parts *parts, size_t count, uint64_t deadline, uint64_t *first,
                  uint64_t *end)
{
    struct request request = {.parts = parts, .count = count, .kind = RECORD_DATA};
    return append(w, &request, deadline, first, end);
}

int writer_append_end(struct writer *w, const struct record_parts *parts, size_t count, uint64_t deadline,
                      uint64_t *first, uint64_t *end)
{
    struct request request = {.parts = parts, .count = count, .kind = RECORD_DATA, .ends = true};
    return append(w, &request, deadline, first, end);
}

int writer_append_fence(struct writer *w, const struct record_parts *parts, uint64_t deadline, uint64_t *first,
                        uint64_t *end)
{
    struct request request = {.parts = parts, .count = 1, .kind = RECORD_FENCE, .ends = true};
    return append(w, &request, deadline, first, end);
}

/* All that is left of the raw bytes: NULL, or what is wrong with the record from `fault->from` to `fault->to`. */
static const char *check_raw(const struct writer *w, const struct writer_raw *raw, uint32_t epoch, uint64_t next,
                             struct log_fault *fault)
{
    struct reader_record record = {0};
    for (uint64_t at = raw->taken, size, needs; at < raw->size; at += size, next += size) {
        const uint8_t *bytes = raw->bytes + at;
        uint64_t left = raw->size - at;
        bool is_inside = record.head.flags & RECORD_MORE;
        fault->from = fault->to = next;
        size = record_check(bytes, left, left, RECORD_ANY, w->folder.seed, &needs);
        if (!size) return "a record is not whole, or not as it was written";
        if (reader_split(bytes, size, &record)) return "a key or an id is none";
        fault->to = record.end;
        if (record.head.lsn != next) return "they begin at another position than the next one";
        if (record.head.epoch < epoch) return "an epoch is lower than the one before it";
        if (record.head.epoch > raw->epoch) return "an epoch is higher than the master's";
        if (is_inside && record.head.epoch > epoch) return "an epoch begins within a batch";
        epoch = record.head.epoch;
    }
    return record.head.flags & RECORD_MORE ? "the last batch is not whole" : NULL;
}

/* The next batch of raw bytes that were checked. */
static struct request raw_request(const struct writer *w, const struct writer_raw *raw, struct id_batch *id)
{
    struct request request = {.raw = raw->bytes + raw->taken};
    struct reader_record record;
    do {
        const uint8_t *bytes = request.raw + request.size;
        memcpy(&record.head, bytes, sizeof record.head);
        reader_split(bytes, record_size(record.head.length), &record);
        struct record_parts parts = {record.labels, record.data, record.labels_size, record.data_size, 0};
        if (id_batch_pass(id, &record.head, &parts, w->folder.uuid)) request.id = &id->entry;
        request.epoch = record.head.epoch;
        request.data_size += record.data_size;
        request.size += record.end - record.head.lsn;
        request.count++;
    } while (record.head.flags & RECORD_MORE);
    request.position = record.end - request.size;
    return request;
}

int writer_append_raw(struct writer *w, struct writer_raw *raw, uint64_t deadline, struct log_fault *fault)
{
    pthread_mutex_lock(&w->lock);
    uint64_t next = w->next, first, end;
    uint32_t epoch = w->last_epoch;
    pthread_mutex_unlock(&w->lock);
    const char *wrong = check_raw(w, raw, epoch, next, fault);
    int code = wrong ? log_fail(fault, LOG_REFUSED, wrong, "raw bytes", 0) : LOG_OK;
    while (raw->taken < raw->size && !code) {
        struct id_batch id = {0};
        struct request request = raw_request(w, raw, &id);
        code = take(w, &request, deadline, &first, &end);
        if (code == LOG_REFUSED) log_fail(fault, code, "another append came between", "raw bytes", 0);
        if (!code) raw->taken += request.size;
    }
    return code;
}

bool writer_set_epoch(struct writer *w, uint32_t epoch)
{
    pthread_mutex_lock(&w->lock);
    bool rises = epoch >= w->last_epoch;
    if (rises) w->epoch = epoch;
    pthread_mutex_unlock(&w->lock);
    return rises;
}

uint32_t writer_last_epoch(struct writer *w)
{
    pthread_mutex_lock(&w->lock);
    uint32_t epoch = w->last_epoch;
    pthread_mutex_unlock(&w->lock);
    return epoch;
}

uint64_t writer_look(struct writer *w, const uint64_t *word)
{
    pthread_mutex_lock(&w->lock);
    uint64_t value = *word;
    pthread_mutex_unlock(&w->lock);
    return value;
}

bool writer_find_id(struct writer *w, const void *labels, size_t size, struct id_entry *found, uint64_t *floor)
{
    struct id_entry id;
    bool has_id = id_of_labels(labels, size, w->folder.uuid, &id);
    pthread_mutex_lock(&w->lock);
    const struct id_entry *there = has_id ? ids_find(&w->ids, &id) : NULL;
    if (there) *found = *there;
    *floor = w->ids.floor;
    pthread_mutex_unlock(&w->lock);
    return there;
}

/* Lock held, and given back. The appender does what the flusher would have to be woken for: that spares two switches of
 * threads, which take as long as the wait for a fast disk. Without signals, as the flusher: a file system may let one of
 * them end a sync. */
static void flush_here(struct writer *w, int (*flush)(struct writer *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    flush(w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bool wakes = writer_needs_flusher(w) && wakes_flusher(w);
    pthread_mutex_unlock(&w->lock);
    if (wakes) futex_wake(&w->work);
}

/* Lock held. Nobody else is at it, or has been asked to. The caller has all the time that the disk takes. */
static bool may_flush_here(const struct writer *w)
{
    return w->flusher_sleeps && !w->flushes && !w->is_due && !load_relaxed(&w->stopping) && !load_relaxed(&w->failed);
}

static bool try_here(struct writer *w, int (*flush)(struct writer *))
{
    pthread_mutex_lock(&w->lock);
    bool may = w->batches[w->filling].used && may_flush_here(w);
    if (may)
        flush_here(w, flush);
    else
        pthread_mutex_unlock(&w->lock);
    return may;
}

bool writer_try_flush(struct writer *w) { return try_here(w, writer_flush_batch); }

void writer_write_ahead(struct writer *w) { try_here(w, writer_write_batch_ahead); }

int writer_wait(struct writer *w, uint64_t end, uint64_t deadline)
{
    while (load_acquire(&w->durable) < end) { /* pairs with the flusher's store: what is below is on the disk */
        pthread_mutex_lock(&w->lock);
        struct writer_batch *filling = &w->batches[w->filling];
        bool is_filling = filling->used && end > filling->first;
        if (is_filling && deadline == WRITER_FOREVER && may_flush_here(w)) {
            flush_here(w, writer_flush_batch);
            continue;
        }
        struct writer_batch *batch = is_filling ? filling : &w->batches[!w->filling];
        uint32_t seen = batch->turn;
        bool is_durable = load_acquire(&w->durable) >= end, has_failed = load_acquire(&w->failed);
        bool wakes = is_filling && starts(w);
        pthread_mutex_unlock(&w->lock);
        if (wakes) futex_wake(&w->work);
        if (is_durable) return LOG_OK;
        if (has_failed) return LOG_FAILED;
        int code = sleep_on(w, &batch->turn, seen, deadline);
        if (code) return load_acquire(&w->durable) >= end ? LOG_OK : code;
    }
    return LOG_OK;
}

/* Whole batches of these bytes, as far as they have room. */
static int copy_tail(const uint8_t *bytes, size_t size, struct raw_run *run)
{
    struct record_head head;
    if (size <= run->room) run->size = size;
    for (size_t at = 0; run->size < size && !run->needs && (at < run->room || !run->size);) {
        memcpy(&head, bytes + at, sizeof head);
        at += record_size(head.length);
        if (head.flags & RECORD_MORE) continue;
        if (at <= run->room)
            run->size = at;
        else if (!run->size)
            run->needs = at;
    }
    memcpy(run->to, bytes, run->size);
    return LOG_OK;
}

int writer_tail(struct writer *w, uint64_t position, struct raw_run *run)
{
    int code = LOG_AT_END;
    run->size = run->needs = 0;
    pthread_mutex_lock(&w->lock);
    for (int n = 0; n < 2 && code; n++) {
        const struct writer_batch *batch = &w->batches[n];
        if (batch->used && position >= batch->first && position < batch->first + batch->used)
            code = copy_tail(batch->bytes + (position - batch->first), batch->first + batch->used - position, run);
    }
    pthread_mutex_unlock(&w->lock);
    return code;
}

/* Lock held. Where the log is to begin: no later than with the last segment. */
static uint64_t ask_trim(struct writer *w, uint64_t before)
{
    if (before > w->last_base) before = w->last_base;
    if (w->trim_to < before) {
        w->trim_to = before;
        w->chores++;
        futex_wake(&w->chores);
    }
    return before;
}

void writer_ask_trim(struct writer *w, uint64_t before)
{
    pthread_mutex_lock(&w->lock);
    ask_trim(w, before);
    pthread_mutex_unlock(&w->lock);
}

int writer_trim(struct writer *w, uint64_t before, uint64_t *start)
{
    for (;;) {
        pthread_mutex_lock(&w->lock);
        before = ask_trim(w, before);
        bool is_done = w->trimmed >= before, has_failed = load_relaxed(&w->failed), closes = load_relaxed(&w->stopping);
        uint32_t seen = load_relaxed(&w->room);
        *start = w->earliest;
        w->room_waiters += !is_done;
        pthread_mutex_unlock(&w->lock);
        if (is_done) return LOG_OK;
        int code = has_failed ? LOG_FAILED : closes ? LOG_CLOSED : sleep_on(w, &w->room, seen, WRITER_FOREVER);
        pthread_mutex_lock(&w->lock);
        w->room_waiters--;
        pthread_mutex_unlock(&w->lock);
        if (code) return code;
    }
}

void writer_counters(struct writer *w, struct writer_counters *counters, uint64_t *queued, uint64_t *queued_bytes,
                     uint64_t *oldest_ns)
{
    uint64_t now = writer_now(w), oldest = now;
    pthread_mutex_lock(&w->lock);
    *counters = w->counters;
    counters->ids = w->ids.count;
    counters->held = w->held;
    *queued = *queued_bytes = 0;
    for (int n = 0; n < 2; n++) {
        const struct writer_batch *batch = &w->batches[n];
        *queued += batch->records;
        *queued_bytes += batch->used;
        if (batch->used && batch->oldest_ns < oldest) oldest = batch->oldest_ns;
    }
    pthread_mutex_unlock(&w->lock);
    *oldest_ns = now - oldest;
}
