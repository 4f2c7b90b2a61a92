/* Lives of a log on a disk in memory. `rig cuts|faults|rot|replica|power SEED AMOUNT`. */
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../rtmw/shm/atomics.h"

enum { SMALL = 40, MEDIUM = 600, ONE_IN_HELD = 6, PATIENCE_S = 900 };

void wrong(const char *when, const char *what, const struct log_fault *fault)
{
    fprintf(stderr, "WRONG %s: %s", when, what);
    if (fault && fault->what)
        fprintf(stderr, " (%s, %s, %s, %llu to %llu)", fault->file, fault->what, strerror(fault->error),
                (unsigned long long)fault->from, (unsigned long long)fault->to);
    fputc('\n', stderr);
    _exit(1);
}

void look_at_history(const struct history *from, struct history *to)
{
    to->answered = load_acquire(&from->answered); /* before the count: what was answered has been handed in */
    to->trimmed = load_acquire(&from->trimmed);
    to->committed = load_acquire(&from->committed);
    to->commit_to = load_acquire(&from->commit_to);
    to->per_key = load_acquire(&from->per_key);
    to->trim_to = load_acquire(&from->trim_to); /* behind the other one: it is raised before */
    to->is_created = load_acquire(&from->is_created);
    to->count = load_acquire(&from->count);
    memcpy(to->entries, from->entries, to->count * sizeof to->entries[0]);
}

void copy_history(const struct history *from, uint32_t count, struct history *to)
{
    memset(to, 0, sizeof *to);
    memcpy(to->entries, from->entries, count * sizeof to->entries[0]);
    to->count = count;
    to->is_created = from->is_created;
    to->trimmed = from->trimmed;
    to->trim_to = from->trim_to;
    to->committed = from->committed;
    to->commit_to = from->commit_to;
    to->per_key = from->per_key;
}

uint32_t first_from(const struct history *h, uint64_t position)
{
    uint32_t n = 0;
    while (n < h->count && h->entries[n].lsn < position) n++;
    return n;
}

size_t data_of(uint64_t tag, uint8_t data[LARGEST])
{
    uint64_t seed = tag, how = disk_random(&seed) % 8;
    size_t size = how < 3   ? SMALL
                  : how < 5 ? MEDIUM
                  : how < 7 ? disk_random(&seed) % LARGEST
                            : 0; /* many of one size */
    uint8_t fill = (uint8_t)disk_random(&seed);
    memset(data, how == 4 ? 0 : fill, size); /* some are of zeros */
    if (size >= sizeof tag) memcpy(data, &tag, sizeof tag);
    return size;
}

size_t labels_of(uint64_t tag, uint8_t labels[LABELS])
{
    static const uint8_t key[LABELS] = {2, 0, 3, 0, 0, 0, 0, 0, 'k', 'e', 'y'},
                         both[LABELS] = {2, 1, 3, 0, 8, 0, 0, 0, 'k', 'e', 'y'};
    memcpy(labels, tag % 4 ? both : key, LABELS);
    labels[10] = (uint8_t)('0' + key_number(tag));
    if (tag % 4 == 1) memcpy(labels + 11, &tag, sizeof tag);
    return tag % 4 == 0 ? 16 : tag % 4 == 1 ? LABELS : 0;
}

/* ---- append ---- */

struct appender {
    struct life *life;
    struct writer *writer;
    pthread_mutex_t *turn; /* positions are known before the log hands them out: one appender at a time */
    uint64_t *next, seed;
    bool is_first;
    int code;
};

static void hand_in(struct history *h, uint64_t lsn, uint64_t tag, bool more)
{
    if (h->count == ENTRIES) abort();
    h->entries[h->count] = (struct entry){lsn, tag, more};
    store_release(&h->count, h->count + 1); /* pairs with look_at_history */
}

static void raise_word(uint64_t *word, uint64_t value)
{
    for (uint64_t seen = load_seq(word); seen < value && !cas64(word, seen, value);) seen = load_seq(word);
}

static void answer(struct history *h, uint64_t end) { raise_word(&h->answered, end); }

/* Of the first appender only: a cursor has one holder. */
static int commit_some(struct appender *a)
{
    struct history *h = a->life->history;
    struct log_fault fault = {0};
    uint64_t position = load_acquire(&h->answered), was, time_ns;
    if (position < h->commit_to) return LOG_OK;
    raise_word(&h->commit_to, position);
    int code = cursor_look(&a->writer->folder, CURSOR, &was, &time_ns, &fault);
    if (code == LOG_AT_END)
        code = marks_make(&a->writer->folder, CURSOR, MARKS_CURSOR, position, 0, &fault);
    else if (code == LOG_OK)
        code = a->life->holds_cursor ? cursor_commit(&a->writer->folder, CURSOR, position, &fault)
                                     : cursor_take(&a->writer->folder, CURSOR, position, &fault);
    a->life->holds_cursor |= code == LOG_OK;
    if (code == LOG_OK) raise_word(&h->committed, position);
    if (code) a->life->fault = fault;
    return code;
}

static int trim_some(struct appender *a)
{
    struct history *h = a->life->history;
    uint64_t start, before = disk_random(&a->seed) % (load_acquire(&h->answered) + 1);
    raise_word(&h->trim_to, before);
    int code = writer_trim(a->writer, before, &start);
    if (code == LOG_OK) raise_word(&h->trimmed, start);
    return code;
}

/* Of a record that is as long as one that a cut took, if there is one; else of any. */
static uint64_t next_tag(struct appender *a)
{
    struct life *life = a->life;
    uint64_t tag = disk_random(&a->seed);
    if (!life->lost_count) return tag;
    uint8_t data[LARGEST];
    uint64_t wanted = life->lost->tag;
    size_t size = data_of(wanted, data);
    for (int n = 0; n < 100 && (data_of(tag, data) != size || tag % 4 != wanted % 4); n++) tag = disk_random(&a->seed);
    life->lost++;
    life->lost_count--;
    return tag;
}

static int append(struct appender *a, size_t count)
{
    uint8_t data[3][LARGEST], labels[3][LABELS];
    struct record_parts parts[3] = {0};
    uint64_t first, end, tags[3];
    for (size_t n = 0; n < count; n++) {
        tags[n] = next_tag(a);
        if (count > 1 && tags[n] % 4 == 1) tags[n]++; /* records of a batch have no ids */
        parts[n] = (struct record_parts){.data = data[n], .data_size = data_of(tags[n], data[n])};
        parts[n].labels = labels[n];
        parts[n].labels_size = labels_of(tags[n], labels[n]);
    }
    pthread_mutex_lock(a->turn);
    uint64_t lsn = *a->next;
    uint32_t before = a->life->history->count;
    for (size_t n = 0; n < count; n++) {
        hand_in(a->life->history, lsn, tags[n], n + 1 < count);
        lsn += record_size(parts[n].labels_size + parts[n].data_size);
    }
    int code = writer_append(a->writer, parts, count, WRITER_FOREVER, &first, &end);
    if (code == LOG_OK && (first != *a->next || end != lsn))
        wrong("append", "another position than the next one", NULL);
    if (code == LOG_OK)
        *a->next = end;
    else
        store_release(&a->life->history->count, before);
    pthread_mutex_unlock(a->turn);
    bool is_held = disk_random(&a->seed) % ONE_IN_HELD == 0; /* it goes with the next one, or when the log is closed */
    if (code == LOG_OK && disk_random(&a->seed) % 2) writer_write_ahead(a->writer);
    if (code == LOG_OK && is_held && disk_random(&a->seed) % 2) writer_start(a->writer, 0);
    if (code == LOG_OK && !is_held) code = writer_wait(a->writer, end, WRITER_FOREVER);
    if (code == LOG_OK && !is_held) answer(a->life->history, end);
    return code;
}

static void *run_appender(void *given)
{
    struct appender *a = given;
    for (int n = 0; n < a->life->appends && a->code == LOG_OK; n++) {
        size_t more = n == 0 ? 2 : disk_random(&a->seed) % 4 == 0 ? disk_random(&a->seed) % 3 : 0;
        a->code = append(a, a->life->lost_count ? 1 : 1 + more);
        if (!a->code && !a->life->keeps_all && disk_random(&a->seed) % 8 == 0) a->code = trim_some(a);
        if (!a->code && a->is_first && disk_random(&a->seed) % 6 == 0) a->code = commit_some(a);
        if (disk_random(&a->seed) % 8 == 0) usleep(2 * IDLE_NS / 1000); /* so that the flusher has a rest */
    }
    return NULL;
}

static int append_all(struct life *life, struct writer *w)
{
    pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct appender appenders[4];
    pthread_t threads[4];
    uint64_t next = w->next;
    int code = LOG_OK;
    for (int n = 0; n < life->threads; n++) {
        uint64_t seed = life->seed + (uint64_t)n + ((uint64_t)life->history->count << 32); /* no tag comes twice */
        appenders[n] = (struct appender){life, w, &turn, &next, seed, n == 0, LOG_OK};
        if (pthread_create(&threads[n], NULL, run_appender, &appenders[n])) abort();
    }
    for (int n = 0; n < life->threads; n++) {
        pthread_join(threads[n], NULL);
        if (appenders[n].code) code = appenders[n].code;
    }
    return code;
}

/* ---- a life ---- */

int begin_log(struct life *life, struct log_folder *folder)
{
    void *description;
    uint32_t size;
    int code = log_identify(folder, &description, &size, &life->fault);
    if (code == LOG_OK) free(description);
    if (code != LOG_NO_LOG) return code;
    if (load_relaxed(&life->history->is_created)) return LOG_NO_LOG;
    for (int n = 0; n < 16; n++) folder->uuid[n] = (uint8_t)disk_random(&life->seed);
    folder->seed = record_seed(folder->uuid);
    code = log_create(folder, &CREATION, &life->fault);
    if (!code) store_release(&life->history->is_created, 1u);
    return code;
}

void check_ids(const struct life *life, const struct writer *w)
{
    const struct history *h = life->history;
    uint8_t data[LARGEST], labels[LABELS];
    const struct record_head head = {.kind = RECORD_DATA};
    for (uint32_t n = 0; n < h->count + life->lost_count; n++) {
        const struct entry *entry = n < h->count ? &h->entries[n] : &life->lost[n - h->count];
        struct record_parts parts = {labels, data, labels_of(entry->tag, labels), data_of(entry->tag, data), 0};
        struct id_batch id = {0};
        if (!id_batch_pass(&id, &head, &parts, w->folder.uuid)) continue;
        const struct id_entry *known = ids_find(&w->ids, &id.entry);
        if (n < h->count && (!known || known->position != entry->lsn || known->content != id.entry.content))
            wrong("a new life", "the id of a record is not known, or of another one", NULL);
        if (n >= h->count && known) wrong("a new life", "the id of a record that a cut took is known", NULL);
    }
}

int append_one(struct writer *w, uint64_t *seed, struct entry *made, uint64_t *end)
{
    uint8_t data[LARGEST], labels[LABELS];
    *made = (struct entry){.tag = (disk_random(seed) & ~UINT64_C(3)) | 1};
    struct record_parts parts = {labels, data, labels_of(made->tag, labels), data_of(made->tag, data), 0};
    return writer_append(w, &parts, 1, WRITER_FOREVER, &made->lsn, end);
}

bool disk_has_segment(const struct disk *disk)
{
    uint64_t base;
    for (int n = 0; n < disk->cache.count; n++)
        if (segment_base(disk->cache.list[n].text, &base) && base) return true;
    return false;
}

void await_upkeep(struct writer *w)
{
    for (bool busy = true; busy; usleep(100)) {
        pthread_mutex_lock(&w->lock);
        busy = !w->failed && (w->compaction_is_due || w->compacts || w->snapshot_is_due);
        pthread_mutex_unlock(&w->lock);
    }
}

/* Anew for each life: how long all of them take says nothing, where a machine is busy and a sanitizer slow. */
static void begin_patience(void)
{
    const char *seconds = getenv("PATIENCE_S");
    alarm(seconds ? (unsigned)atoi(seconds) : PATIENCE_S);
}

int live(struct life *life)
{
    begin_patience();
    struct log_io io = disk_io(life->disk);
    struct log_folder folder = {.io = &io, .folder = DISK_FOLDER};
    struct writer *w = calloc(1, sizeof *w);
    if (!w) abort();
    int code = begin_log(life, &folder);
    struct writer_options options = OPTIONS;
    options.mark_ns = life->seed / 4 % 2 ? UINT64_MAX / 2 : 0; /* for ever, or with each batch */
    if (life->seed % 3 == 0) {
        options.retention.bytes = 2 * SEGMENT;
        raise_word(&life->history->trim_to, UINT64_MAX);
    }
    if (life->seed % 2 && life->history->per_key != 1) {
        options.retention.per_key = 1 + life->seed / 2 % 2;
        store_release(&life->history->per_key, options.retention.per_key);
    } else if (life->seed % 2) {
        options.retention.per_key = 1;
    }
    if (!code) code = writer_open(w, &folder, &options, &life->fault);
    if (!code) {
        check_ids(life, w);
        store_release(&life->history->is_created, 1u); /* one of before may not have been answered */
        answer(life->history, w->durable);             /* readers see it */
        code = append_all(life, w);
        if (!code) await_upkeep(w);
        life->compacted = w->counters.compacted;
        int closed = writer_close(w, &life->fault);
        if (!code) code = closed;
        life->rolls = w->counters.rolls;
        writer_free(w);
    }
    free(w);
    return code;
}

static void give_up(int signal)
{
    static const char text[] = "WRONG in all: it goes on for ever\n";
    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

int main(int count, char **words)
{
    signal(SIGALRM, give_up);
    begin_patience();
    uint64_t seed = count > 2 ? strtoull(words[2], NULL, 10) : 1;
    long amount = count > 3 ? strtol(words[3], NULL, 10) : 1;
    if (count > 1 && !strcmp(words[1], "cuts")) return try_cuts(seed, amount), 0;
    if (count > 1 && !strcmp(words[1], "faults")) return try_faults(seed, amount), 0;
    if (count > 1 && !strcmp(words[1], "rot")) return try_rot(seed, amount), 0;
    if (count > 1 && !strcmp(words[1], "replica")) return try_replica(seed, amount), 0;
    if (count > 1 && !strcmp(words[1], "power")) return try_power(seed, amount), 0;
    if (count > 3 && !strcmp(words[1], "program")) return try_program(seed, amount, words + 4), 0;
    fprintf(stderr,
            "rig cuts SEED ROUNDS | faults SEED EVERY | rot SEED EVERY | replica SEED ROUNDS | power SEED CUTS | "
            "program SEED CUTS COMMAND...\n");
    return 2;
}
