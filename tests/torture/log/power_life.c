/* A life of the log on the file system: created or recovered, then appended to by several threads at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../rtmw/log/writer.h"
#include "../../../rtmw/shm/atomics.h"
#include "power.h"
#include "rig.h"

enum { REST_NS = 2000000, BATCH = 3, ONE_IN_BATCH = 3, APPENDS_LEAST = 30, APPENDS_MORE = 60, IDS = 1024 };

struct thread {
    pthread_t self;
    const struct power_life *life;
    struct writer *writer;
    uint32_t number, appends;
    uint64_t seed;
    int code;
};

uint32_t power_data(uint32_t life, uint32_t thread, uint32_t number, uint8_t data[POWER_LARGEST])
{
    uint64_t seed = (uint64_t)life << 40 | (uint64_t)thread << 32 | number, how = disk_random(&seed) % 8;
    uint64_t more = disk_random(&seed) % (how < 5 ? 200 : how < 7 ? 2000 : POWER_LARGEST - sizeof(struct origin));
    struct origin origin = {life, thread, number, (uint32_t)(sizeof origin + more)};
    memset(data, (int)disk_random(&seed), origin.size);
    memcpy(data, &origin, sizeof origin);
    return origin.size;
}

uint64_t power_tag(const struct origin *o)
{
    uint64_t seed = (uint64_t)o->life << 40 | (uint64_t)o->thread << 32 | o->number;
    return disk_random(&seed) & ~UINT64_C(1);
}

/* Records that are appended at once: noted before, and again when they are answered. */
static int append(struct thread *t, uint32_t count)
{
    uint8_t data[BATCH][POWER_LARGEST], labels[BATCH][LABELS];
    struct record_parts parts[BATCH] = {0};
    struct block_disk *disk = t->life->disk;
    uint32_t *noted = &t->life->notes->count[t->number], first = *noted;
    struct note *notes = &t->life->notes->of[t->number][first];
    uint64_t position, end;
    for (uint32_t n = 0; n < count; n++) {
        struct origin origin = {.life = t->life->number, .thread = t->number, .number = first + n};
        parts[n].data = data[n];
        parts[n].data_size = power_data(t->life->number, t->number, first + n, data[n]);
        parts[n].labels = labels[n];
        parts[n].labels_size = labels_of(power_tag(&origin), labels[n]);
        notes[n] = (struct note){.more = n + 1 < count, .begun = load_acquire(&disk->count)};
    }
    store_release(noted, first + count);
    int code = writer_append(t->writer, parts, count, WRITER_FOREVER, &position, &end);
    if (!code) code = writer_wait(t->writer, end, WRITER_FOREVER);
    uint64_t answered = load_acquire(&disk->count); /* pairs with block_write: what it rests on is below */
    for (uint32_t n = 0; n < count && !code; n++) {
        notes[n].position = position;
        notes[n].answered = answered;
        position += record_size(parts[n].labels_size + parts[n].data_size);
    }
    return code;
}

static void *append_all(void *given)
{
    struct thread *t = given;
    for (uint32_t n = 0; n < t->appends && !t->code; n++)
        t->code = append(t, disk_random(&t->seed) % ONE_IN_BATCH ? 1 : BATCH);
    return NULL;
}

static void leave(const char *what, int code, const struct log_fault *fault) __attribute__((noreturn));
static void leave(const char *what, int code, const struct log_fault *fault)
{
    fprintf(stderr, "WRONG in a life without faults: %s gave %d (%s of %s: %s)\n", what, code,
            fault->what ? fault->what : "nothing", fault->file, strerror(fault->error));
    _exit(1);
}

static void open_or_create(const struct log_folder *given, struct log_folder *folder, const struct power_life *life)
{
    struct log_fault fault = {0};
    void *description = NULL;
    uint32_t size;
    *folder = *given;
    int code = log_identify(folder, &description, &size, &fault);
    if (code == LOG_NO_LOG) {
        for (size_t n = 0; n < sizeof folder->uuid; n++) folder->uuid[n] = (uint8_t)(n + 1);
        folder->seed = record_seed(folder->uuid);
        code = log_create(folder, &(struct log_creation){POWER_SEGMENT, 0, "type", 4, 0}, &fault);
        if (!code) life->notes->created = load_acquire(&life->disk->count);
    }
    free(description);
    if (code) leave("log_create", code, &fault);
}

static void append_by_threads(const struct power_life *life, struct writer *writer, uint64_t *seed)
{
    struct thread threads[POWER_THREADS];
    uint32_t appends = APPENDS_LEAST + (uint32_t)(disk_random(seed) % APPENDS_MORE);
    for (uint32_t n = 0; n < POWER_THREADS; n++) {
        threads[n] = (struct thread){.life = life, .writer = writer, .number = n, .appends = appends};
        threads[n].seed = disk_random(seed);
        if (pthread_create(&threads[n].self, NULL, append_all, &threads[n])) abort();
    }
    for (uint32_t n = 0; n < POWER_THREADS; n++) {
        pthread_join(threads[n].self, NULL);
        if (threads[n].code) leave("append", threads[n].code, &writer->fault);
    }
}

void power_live(const struct power_life *life)
{
    static struct writer writer;
    struct log_fault fault = {0};
    struct log_folder folder, given = {.io = &log_io_system, .folder = open(".", O_RDONLY | O_DIRECTORY)};
    struct writer_options options = {.most = POWER_SEGMENT, .idle_ns = REST_NS, .window = IDS};
    uint64_t seed = life->seed;
    options.retention = (struct retention){RETENTION_ALL, RETENTION_ALL, 0, life->per_key};
    options.ahead = 2 * SEGMENT_BLOCK;
    open_or_create(&given, &folder, life);
    int code = writer_open(&writer, &folder, &options, &fault);
    if (code) leave("writer_open", code, &fault);
    append_by_threads(life, &writer, &seed);
    await_upkeep(&writer);
    life->notes->compacted = writer.counters.compacted;
    if (disk_random(&seed) % 2) code = writer_close(&writer, &fault); /* else it is as if it was killed */
    if (code) leave("writer_close", code, &fault);
    _exit(0);
}
