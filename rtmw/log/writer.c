/* A writer begins and ends. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "../shm/atomics.h"
#include "../shm/futex.h"
#include "epochs.h"
#include "spare.h"

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

void writer_ring(struct writer *w)
{
    for (int n = 0; n < WRITER_EVENTFDS; n++)
        if (w->eventfds[n] >= 0) eventfd_write(w->eventfds[n], 1);
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
