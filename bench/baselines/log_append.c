/* Threads that append to a log, each its next record when the last one was answered, without Python:
 * `log_append FOLDER THREADS BYTES WARM_S SECONDS`. A new log in an empty folder. One figure an append that was answered
 * behind WARM_S: how long it took. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "../../rtmw/log/writer.h"
#include "common.h"

enum {
    MOST_THREADS = 256,
    IDLE_NS = 100000000,
    MARK_NS = 10000000,
    SEGMENT_BYTES = 64 << 20,
    FIRST_BYTES = 1 << 20,
    IDS = 1
};

static const struct writer_options OPTIONS = {.most = SEGMENT_BYTES,
                                              .idle_ns = IDLE_NS,
                                              .window = IDS,
                                              .retention = {RETENTION_ALL, RETENTION_ALL, 0},
                                              .ahead = WRITER_BATCH,
                                              .mark_ns = MARK_NS};

struct appender {
    pthread_t self;
    struct writer *writer;
    const char *body;
    size_t size;
    uint64_t begin, end; /* of what counts */
    uint64_t *took;
    size_t count, room;
};

static void keep(struct appender *a, uint64_t took)
{
    if (a->count == a->room) {
        a->room = a->room ? 2 * a->room : 1024;
        a->took = realloc(a->took, a->room * sizeof *a->took);
        if (a->took == NULL) exit(1);
    }
    a->took[a->count++] = took;
}

static void *append(void *given)
{
    struct appender *a = given;
    struct record_parts parts = {.data = a->body, .data_size = a->size};
    for (uint64_t last = now_ns(), now; last < a->end; last = now) {
        uint64_t first, end;
        int code = writer_append(a->writer, &parts, 1, WRITER_FOREVER, &first, &end);
        if (!code) code = writer_wait(a->writer, end, WRITER_FOREVER);
        if (code) exit(1);
        now = now_ns();
        if (now >= a->begin && now < a->end) keep(a, now - last);
    }
    return NULL;
}

static void open_new(struct writer *writer, const char *path)
{
    struct log_fault fault = {0};
    struct log_folder folder = {.io = &log_io_system, .folder = open(path, O_RDONLY | O_DIRECTORY), .uuid = "bench"};
    if (folder.folder < 0) exit(1);
    folder.seed = record_seed(folder.uuid);
    if (log_create(&folder, &(struct log_creation){.segment = FIRST_BYTES, .description = ""}, &fault) ||
        writer_open(writer, &folder, &OPTIONS, &fault))
        exit(1);
}

int main(int argc, char **argv)
{
    static struct writer writer;
    static struct appender appenders[MOST_THREADS];
    struct log_fault fault = {0};
    int threads = argument(argc, argv, 2, 1);
    if (argc != 6 || threads < 1 || threads > MOST_THREADS) return 2;
    size_t size = (size_t)atol(argv[3]);
    char *body = malloc(size);
    if (body == NULL) return 1;
    memset(body, 'r', size);
    open_new(&writer, argv[1]);
    uint64_t begin = now_ns() + (uint64_t)(atof(argv[4]) * 1e9), end = begin + (uint64_t)(atof(argv[5]) * 1e9);
    for (int n = 0; n < threads; n++) {
        appenders[n] = (struct appender){.writer = &writer, .body = body, .size = size, .begin = begin, .end = end};
        if (pthread_create(&appenders[n].self, NULL, append, &appenders[n])) return 1;
    }
    for (int n = 0; n < threads; n++) pthread_join(appenders[n].self, NULL);
    if (writer_close(&writer, &fault)) return 1;
    for (int n = 0; n < threads; n++)
        for (size_t at = 0; at < appenders[n].count; at++) printf("%llu\n", (unsigned long long)appenders[n].took[at]);
    return 0;
}
