/* Group commit, and nothing else: threads that write into one file, each its next bytes when the last ones are on the disk.
 * One more thread writes and syncs what has come, again and again; a thread that comes during a sync waits for the next one.
 * No log that works so can do better. `group_commit FILE THREADS BYTES WARM_S SECONDS`; figures as of log_append.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "common.h"
#include "futex.h"

enum { MOST_THREADS = 256, FILLED = 64 << 20, MOST_FIGURES = 1 << 18 };

struct batch {
    char *bytes;
    size_t used;
    uint32_t turn; /* futex: another value when it is on the disk */
};

static struct {
    pthread_mutex_t lock;
    struct batch batches[2];
    uint32_t filling; /* which of them */
    uint32_t work;    /* futex of the flusher: another value when there is something */
    bool sleeps, ends;
    size_t size;
    char *body;
    uint64_t begin, end; /* of what counts */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct thread {
    pthread_t self;
    uint64_t *took;
    size_t count;
};

static void append(void)
{
    pthread_mutex_lock(&all.lock);
    struct batch *batch = &all.batches[all.filling];
    memcpy(batch->bytes + batch->used, all.body, all.size);
    batch->used += all.size;
    uint32_t seen = batch->turn;
    bool wakes = all.sleeps;
    all.sleeps = false;
    if (wakes) store_release(&all.work, all.work + 1);
    pthread_mutex_unlock(&all.lock);
    if (wakes) futex_wake(&all.work);
    while (load_acquire(&batch->turn) == seen) futex_sleep(&batch->turn, seen, UINT64_C(1) << 62);
}

static void *append_all(void *given)
{
    struct thread *t = given;
    for (uint64_t last = now_ns(), now; last < all.end && t->count < MOST_FIGURES; last = now) {
        append();
        now = now_ns();
        if (now >= all.begin && now < all.end) t->took[t->count++] = now - last;
    }
    return NULL;
}

/* Lock held, and held again at the end. */
static void flush(int file, off_t at)
{
    struct batch *batch = &all.batches[all.filling];
    all.filling = !all.filling;
    pthread_mutex_unlock(&all.lock);
    if (pwrite(file, batch->bytes, batch->used, at) != (ssize_t)batch->used || fdatasync(file)) exit(1);
    pthread_mutex_lock(&all.lock);
    batch->used = 0;
    store_release(&batch->turn, batch->turn + 1);
    pthread_mutex_unlock(&all.lock);
    futex_wake(&batch->turn);
    pthread_mutex_lock(&all.lock);
}

static void *flush_all(void *given)
{
    int file = *(int *)given;
    off_t at = 0;
    pthread_mutex_lock(&all.lock);
    while (!all.ends) {
        size_t used = all.batches[all.filling].used;
        if (used) {
            if (at + (off_t)used > FILLED) at = 0;
            flush(file, at);
            at += (off_t)used;
            continue;
        }
        uint32_t seen = all.work;
        all.sleeps = true;
        pthread_mutex_unlock(&all.lock);
        futex_sleep(&all.work, seen, UINT64_C(1) << 62);
        pthread_mutex_lock(&all.lock);
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct thread threads[MOST_THREADS];
    pthread_t flusher;
    int count = argument(argc, argv, 2, 1);
    if (argc != 6 || count < 1 || count > MOST_THREADS) return 2;
    all.size = (size_t)atol(argv[3]);
    all.body = malloc(all.size);
    if (all.body == NULL) return 1;
    memset(all.body, 'r', all.size);
    int file = filled(argv[1], FILLED);
    for (int n = 0; n < 2; n++) all.batches[n].bytes = malloc(all.size * MOST_THREADS);
    all.begin = now_ns() + (uint64_t)(atof(argv[4]) * 1e9);
    all.end = all.begin + (uint64_t)(atof(argv[5]) * 1e9);
    if (pthread_create(&flusher, NULL, flush_all, &file)) return 1;
    for (int n = 0; n < count; n++) {
        threads[n].took = malloc(MOST_FIGURES * sizeof *threads[n].took);
        if (pthread_create(&threads[n].self, NULL, append_all, &threads[n])) return 1;
    }
    for (int n = 0; n < count; n++) pthread_join(threads[n].self, NULL);
    pthread_mutex_lock(&all.lock);
    all.ends = true;
    store_release(&all.work, all.work + 1);
    pthread_mutex_unlock(&all.lock);
    futex_wake(&all.work);
    pthread_join(flusher, NULL);
    for (int n = 0; n < count; n++)
        for (size_t at = 0; at < threads[n].count; at++) printf("%llu\n", (unsigned long long)threads[n].took[at]);
    return 0;
}
