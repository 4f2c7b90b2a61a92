/* A replica: it takes the batches of a master as they are, is truncated, and takes those of another master. The power is cut, or
 * the process killed, before each call that changes something; what is left is recovered, and that is cut again.
 *
 *   old   | batches up to the branch | of the first master, not final |
 *   new   | batches up to the branch | of the second master, with a higher epoch |
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../rtmw/log/reader.h"
#include "../../../rtmw/log/recover.h"
#include "../../../rtmw/shm/atomics.h"
#include "rig.h"

enum { BATCHES = 40, LARGE = 9000, IMAGE = 1 << 20, CUTS = 6, CUTS_TRUNCATING = 12, ONE_IN = 48 };

/* The bytes of a log from `base` on, and its batches. */
struct image {
    uint8_t *bytes;
    uint64_t base, size;
    uint32_t count;
    struct disk *disk; /* of its master */
    struct batch {
        uint64_t begin, end;
        uint32_t epoch;
        bool has_id;
        struct id_entry id;
    } batches[2 * BATCHES];
};

enum phase { TAKES_OLD, TRUNCATES, TAKES_NEW };

struct told { /* what the life has said and was told so far: each word with release, in this order or a later one */
    uint32_t is_created, phase;
    uint64_t answered;         /* all below it was said to be durable */
    uint64_t commit_to, shown; /* no more is final; readers were shown so much */
    uint64_t trim_to;
};

struct replica {
    struct disk *disk;
    const struct image *old, *new;
    uint64_t branch, seed;
    struct told told;
    struct recovered found; /* by the last recovery */
    int depth;
    bool is_copied; /* it begins with the files of its master */
};

static long cuts, kills, completed, lives, faults, copied;

static uint8_t UUID[16] = "a replicated log";

static struct log_folder folder_on(const struct log_io *io)
{
    struct log_folder folder = {.io = io, .folder = DISK_FOLDER, .is_replicated = true};
    memcpy(folder.uuid, UUID, sizeof UUID);
    folder.seed = record_seed(UUID);
    return folder;
}

static void must(int code, const char *what, const struct log_fault *fault)
{
    if (code) wrong("a replica", what, fault);
}

/* ---- the logs of the masters ---- */

static void note(struct image *i, uint64_t first, uint64_t end, uint32_t epoch, const struct id_batch *id)
{
    if (i->count == sizeof i->batches / sizeof i->batches[0]) abort();
    i->batches[i->count++] = (struct batch){first, end, epoch, id->has_id, id->entry};
}

/* A batch of one to three records, or a fence; some have an id. */
static void append_batch(struct writer *w, struct image *i, uint64_t *seed)
{
    uint8_t data[LARGE], labels[LABELS] = {0, 1, 0, 0, 8, 0, 0, 0};
    uint64_t how = disk_random(seed), tag = disk_random(seed), first, end;
    struct record_parts parts[3] = {0};
    size_t count = how % 4 ? 1 : 2 + how / 4 % 2;
    bool has_id = how / 16 % 3 == 0, is_fence = has_id && count == 1 && how / 64 % 3 == 0;
    struct id_batch id = {0};
    memset(data, (int)tag, sizeof data);
    memcpy(labels + LABEL_HEAD, &tag, sizeof tag);
    if (has_id) parts[0].labels = labels, parts[0].labels_size = 16;
    for (size_t n = 0; n < count; n++) {
        struct record_head head = {.kind = is_fence ? RECORD_FENCE : RECORD_DATA,
                                   .flags = n + 1 < count ? RECORD_MORE : 0};
        parts[n].data = data;
        parts[n].data_size = is_fence ? 0 : disk_random(seed) % (disk_random(seed) % 4 ? 600 : LARGE);
        id_batch_pass(&id, &head, &parts[n], UUID);
    }
    int code = is_fence ? writer_append_fence(w, parts, WRITER_FOREVER, &first, &end)
                        : writer_append(w, parts, count, WRITER_FOREVER, &first, &end);
    must(code, "a master cannot append", &w->fault);
    must(writer_wait(w, end, WRITER_FOREVER), "a master cannot write", &w->fault);
    if (id.has_id != has_id) wrong("a replica", "a batch with an id has none", NULL);
    id.entry.position = first;
    note(i, first, end, w->epoch, &id);
}

static bool ends_batch(const struct image *i, uint64_t position)
{
    uint32_t n = 0;
    while (n < i->count && i->batches[n].end < position) n++;
    return n < i->count && i->batches[n].end == position;
}

static void read_image(const struct log_folder *folder, struct image *i, uint64_t end)
{
    struct reader r;
    struct log_fault fault = {0};
    reader_open_at(&r, folder, i->base);
    while (i->base + i->size < end) {
        struct raw_run run = {.to = i->bytes + i->size, .room = 20000};
        int code = reader_raw(&r, end, &run, &fault);
        if (!code && run.needs) run.room = run.needs, code = reader_raw(&r, end, &run, &fault);
        must(code, "raw batches cannot be read", &fault);
        i->size += run.size;
        if (i->count && !ends_batch(i, r.position)) wrong("a replica", "raw batches end within one", NULL);
    }
    if (r.position != end || i->base + i->size != end) wrong("a replica", "raw batches end elsewhere", NULL);
    reader_close(&r);
}

/* The log of a master that begins with what `before` has up to `branch`. */
static void make_image(struct image *i, const struct image *before, uint64_t branch, uint32_t epoch, uint64_t seed)
{
    struct disk *d = malloc(sizeof *d);
    struct writer *w = calloc(1, sizeof *w);
    if (!d || !w || !(i->bytes = malloc(IMAGE))) abort();
    disk_open(d, seed);
    struct log_io io = disk_io(d);
    struct log_folder folder = folder_on(&io);
    struct log_fault fault = {0};
    struct log_creation creation = {SEGMENT, i->base, "type", 4, 0};
    must(log_create(&folder, &creation, &fault), "a master has no log", &fault);
    must(writer_open(w, &folder, &OPTIONS, &fault), "a master cannot open its log", &fault);
    struct writer_raw raw = {.bytes = before ? before->bytes : NULL,
                             .size = before ? branch - i->base : 0,
                             .epoch = epoch};
    must(writer_append_raw(w, &raw, WRITER_FOREVER, &fault), "a master cannot begin as another one", &fault);
    for (uint32_t n = 0; before && before->batches[n].begin < branch; n++) i->batches[i->count++] = before->batches[n];
    for (int n = 0; n < BATCHES; n++) {
        if (!n || disk_random(&seed) % 12 == 0) {
            if (!writer_set_epoch(w, epoch)) wrong("a replica", "a master cannot have its epoch", NULL);
            epoch += 1 + n % 3;
        }
        append_batch(w, i, &seed);
    }
    must(writer_close(w, &fault), "a master cannot close its log", &fault);
    read_image(&folder, i, i->batches[i->count - 1].end);
    writer_free(w);
    free(w);
    i->disk = d;
}

/* ---- the look ---- */

static void check_bytes(const struct log_folder *folder, const struct image *i, uint64_t from, uint64_t end)
{
    struct image found = {.base = from, .bytes = malloc(IMAGE)};
    if (!found.bytes) abort();
    if (end > from) read_image(folder, &found, end);
    if (end > i->base + i->size || memcmp(found.bytes, i->bytes + (from - i->base), end - from))
        wrong("after a cut", "other bytes are there than those of the master", NULL);
    if (end != i->base && !ends_batch(i, end)) wrong("after a cut", "half a batch is there", NULL);
    free(found.bytes);
}

static void check_epochs(const struct log_folder *folder, const struct image *i, uint64_t from, uint64_t end)
{
    struct log_epoch *table;
    struct log_fault fault = {0};
    size_t count, at = 0;
    must(log_epochs(folder, end, &table, &count, &fault), "the epochs cannot be read", &fault);
    for (uint32_t n = 0; n < i->count && i->batches[n].begin < end; n++) {
        const struct batch *b = &i->batches[n];
        if (b->begin < from || (at && table[at - 1].epoch == b->epoch)) continue;
        if (at == count || table[at].epoch != b->epoch || table[at].start != b->begin)
            wrong("after a cut", "the table of epochs is another one", NULL);
        at++;
    }
    if (at != count) wrong("after a cut", "the table of epochs has too many", NULL);
    free(table);
}

static void check_window(const struct log_folder *folder, const struct replica *r, const struct image *i, uint64_t from,
                         uint64_t end)
{
    struct ids ids;
    struct log_fault fault = {0};
    uint64_t upto;
    ids_begin(&ids, 4 * BATCHES);
    must(ids_load(folder, &ids, from, end, &upto, &fault), "the ids cannot be read", &fault);
    if (ids.floor != i->base) wrong("after a cut", "the window of ids does not know that it is complete", NULL);
    for (uint32_t n = 0; n < i->count; n++) {
        const struct batch *b = &i->batches[n];
        const struct id_entry *known = b->has_id ? ids_find(&ids, &b->id) : NULL;
        bool is_there = b->end <= end;
        if (b->has_id && is_there && (!known || memcmp(known, &b->id, sizeof b->id)))
            wrong("after a cut", "the id of a batch is not known, or of another one", NULL);
        if (known && !is_there) wrong("after a cut", "the id of a batch that is not there is known", NULL);
    }
    for (uint32_t n = 0; i == r->new && n < r->old->count; n++)
        if (r->old->batches[n].has_id && r->old->batches[n].begin >= r->branch &&
            ids_find(&ids, &r->old->batches[n].id))
            wrong("after a cut", "the id of a batch that was truncated is known", NULL);
    ids_free(&ids);
}

/* Is a truncation to be completed? */
static bool is_pending(const struct log_folder *folder)
{
    struct segment_mark mark;
    struct log_fault fault;
    return !marks_read(folder, "truncated", MARKS_TRUNCATED, &mark, &fault) && mark.flags;
}

static void watch(struct replica *r, void (*act)(struct replica *));

static void recover(struct replica *r)
{
    struct log_io io = disk_io(r->disk);
    struct log_folder folder = folder_on(&io);
    struct log_fault fault = {0};
    must(log_recover(&folder, r->seed % 2, &r->found, &fault), "is refused", &fault);
    segment_close(&folder, &r->found.last);
}

static void check_replica(struct replica *r, bool was_killed)
{
    struct log_io io = disk_io(r->disk);
    struct log_folder folder = folder_on(&io);
    struct log_fault fault = {0};
    void *description;
    uint32_t size;
    int code = log_identify(&folder, &description, &size, &fault);
    if (code == LOG_NO_LOG && !r->told.is_created) return;
    must(code, "has no identity", &fault);
    if (!folder.is_replicated) wrong("after a cut", "the log is plain", NULL);
    free(description);
    bool pends = is_pending(&folder);
    completed += pends;
    uint64_t told = 0, earliest, shown;
    bool is_told = end_read(&folder, &told);
    if (pends && r->depth < 2)
        watch(r, recover);
    else
        recover(r);
    const struct recovered found = r->found;
    const struct image *i = r->told.phase == TAKES_NEW ? r->new : r->old;
    bool is_cut = r->told.phase == TRUNCATES && found.end == r->branch;
    if (pends && found.end != r->branch) wrong("after a cut", "the truncation is not completed", NULL);
    if (!is_cut && found.end < r->told.answered) wrong("after a cut", "what was answered is lost", NULL);
    if (found.earliest > (r->told.trim_to > i->base ? r->told.trim_to : i->base))
        wrong("after a cut", "too much is trimmed", NULL);
    must(log_bounds(&folder, &earliest, &shown, &fault), "has no bounds", &fault);
    uint64_t most = r->told.commit_to > earliest ? r->told.commit_to : earliest;
    if (shown > found.end || shown > most) wrong("after a cut", "readers are shown what is not final", NULL);
    if (!is_told && shown > earliest) wrong("after a cut", "readers are shown what nobody has said to be final", NULL);
    if (was_killed && shown < (r->told.shown < found.end ? r->told.shown : found.end))
        wrong("after a kill", "readers are shown less than before", NULL);
    check_bytes(&folder, i, earliest, found.end);
    check_epochs(&folder, i, earliest, found.end);
    check_window(&folder, r, i, earliest, found.end);
}

/* ---- a life ---- */

static void raise_word(uint64_t *word, uint64_t value)
{
    if (*word < value) store_release(word, value); /* pairs with look */
}

static void look(const struct told *from, struct told *to)
{
    to->shown = load_acquire(&from->shown);
    to->answered = load_acquire(&from->answered);
    to->phase = load_acquire(&from->phase);
    to->is_created = load_acquire(&from->is_created);
    to->commit_to = load_acquire(&from->commit_to);
    to->trim_to = load_acquire(&from->trim_to);
}

static uint64_t bound_at(const struct image *i, uint64_t most, uint64_t *seed)
{
    uint64_t bound = i->base;
    for (uint32_t n = 0; n < i->count && i->batches[n].end <= most; n++)
        if (disk_random(seed) % 3) bound = i->batches[n].end;
    return bound;
}

/* What is below the branch is final, and in the end, all that the second master has. In some lives more is said to be, so that a
 * truncation lowers the file `end`. */
static void commit_some(struct replica *r, struct writer *w, const struct image *i)
{
    uint64_t most = r->told.phase == TAKES_NEW || r->branch % 3 == 0 ? i->base + i->size : r->branch,
             to = bound_at(i, most, &r->seed);
    raise_word(&r->told.commit_to, to);
    must(writer_commit(w, to), "cannot be told what is final", &w->fault);
    pthread_mutex_lock(&w->end_lock);
    uint64_t shown = w->shown;
    pthread_mutex_unlock(&w->end_lock);
    if (shown > i->base && shown > r->told.commit_to) wrong("a replica", "shows more than is final", NULL);
    raise_word(&r->told.shown, shown);
}

static void trim_some(struct replica *r, struct writer *w)
{
    uint64_t start, to = bound_at(r->old, r->branch < w->durable ? r->branch : w->durable, &r->seed);
    raise_word(&r->told.trim_to, to);
    must(writer_trim(w, to, &start), "cannot be trimmed", &w->fault);
}

static void copy_file(const struct log_io *from, const struct log_io *to, const char *name)
{
    int there = from->open(from->disk, DISK_FOLDER, name, O_RDONLY);
    int here = to->open(to->disk, DISK_FOLDER, name, O_RDWR | O_CREAT);
    int64_t size = from->size(from->disk, there);
    uint8_t *bytes = malloc((size_t)size);
    if (!bytes || io_read_all(from, there, bytes, (size_t)size, 0) != size ||
        io_write_all(to, here, bytes, (size_t)size, 0))
        wrong("a replica", "a file of its master cannot be copied", NULL);
    from->close(from->disk, there);
    to->close(to->disk, here);
    free(bytes);
}

/* The sealed segments of a master and its ids; what there is of an earlier try is written again. Gives where they end. */
static uint64_t copy_files(const struct log_io *to, const struct image *i)
{
    struct log_io from = disk_io(i->disk);
    struct log_folder folder = folder_on(&from);
    struct log_fault fault = {0};
    uint64_t *bases;
    size_t count;
    char name[SEGMENT_NAME];
    must(segment_list(&folder, &bases, &count, &fault), "a master cannot be listed", &fault);
    uint64_t end = bases[count - 1];
    for (size_t n = 0; n + 1 < count; n++) {
        segment_name(bases[n], name);
        copy_file(&from, to, name);
    }
    if (count > 1) copy_file(&from, to, "ids");
    free(bases);
    return end;
}

static void make_log(const struct replica *r, const struct log_folder *folder, const struct image *i)
{
    struct log_fault fault = {0};
    struct log_creation creation = {SEGMENT, i->base, "type", 4, 0};
    if (r->is_copied) {
        creation.base = copy_files(folder->io, i);
        creation.copied = creation.base - i->base;
        copied += creation.copied != 0;
    }
    must(log_create(folder, &creation, &fault), "cannot be made", &fault);
}

static void take_all(struct replica *r, const struct image *i)
{
    struct log_io io = disk_io(r->disk);
    struct log_folder folder = folder_on(&io);
    struct log_fault fault = {0};
    struct writer *w = calloc(1, sizeof *w);
    void *description;
    uint32_t size, n = 0;
    if (!w) abort();
    if (log_identify(&folder, &description, &size, &fault) == LOG_OK)
        free(description);
    else
        make_log(r, &folder, i);
    store_release(&r->told.is_created, 1u);
    must(writer_open(w, &folder, &OPTIONS, &fault), "cannot be opened", &fault);
    raise_word(&r->told.answered, w->durable);
    while (n < i->count && i->batches[n].begin < w->next) n++;
    while (n < i->count) {
        uint32_t more = 1 + (uint32_t)(disk_random(&r->seed) % 5);
        uint32_t last = n + more < i->count ? n + more - 1 : i->count - 1;
        uint64_t from = i->batches[n].begin, end = i->batches[last].end;
        struct writer_raw raw = {.bytes = i->bytes + (from - i->base), .size = end - from, .epoch = UINT32_MAX};
        must(writer_append_raw(w, &raw, WRITER_FOREVER, &fault), "does not take the batches of its master", &fault);
        if (disk_random(&r->seed) % 4) must(writer_wait(w, end, WRITER_FOREVER), "cannot write", &w->fault);
        raise_word(&r->told.answered, w->durable);
        if (disk_random(&r->seed) % 3 == 0) commit_some(r, w, i);
        if (disk_random(&r->seed) % 16 == 0) trim_some(r, w);
        n = last + 1;
    }
    must(writer_wait(w, w->next, WRITER_FOREVER), "cannot write", &w->fault);
    raise_word(&r->told.answered, w->next);
    commit_some(r, w, i);
    must(writer_close(w, &fault), "cannot be closed", &fault);
    writer_free(w);
    free(w);
}

static void truncate_to_branch(struct replica *r)
{
    struct log_io io = disk_io(r->disk);
    struct log_folder folder = folder_on(&io);
    struct log_fault fault = {0};
    must(log_truncate(&folder, r->branch, &fault), "cannot be truncated", &fault);
}

static void fail_truncation(const struct replica *r, long at);

static void live_as_replica(struct replica *r)
{
    lives++;
    if (r->told.phase == TAKES_OLD) {
        take_all(r, r->old);
        if (r->told.shown > r->branch) store_release(&r->told.shown, r->branch);
        store_release(&r->told.phase, (uint32_t)TRUNCATES);
    }
    if (r->told.phase == TRUNCATES) {
        if (!r->depth) fail_truncation(r, 1);
        truncate_to_branch(r);
        r->told.answered = r->branch;
        store_release(&r->told.phase, (uint32_t)TAKES_NEW);
    }
    take_all(r, r->new);
}

/* ---- cuts ---- */

struct sight {
    struct replica *replica;
    uint64_t seed;
};

static void go_on(struct disk *d, struct sight *s, const struct told *told, bool was_killed)
{
    const struct replica *r = s->replica; /* whose thread goes on */
    struct replica next = {.disk = d, .old = r->old, .new = r->new, .branch = r->branch, .told = *told};
    next.is_copied = r->is_copied;
    if (!was_killed) next.told.shown = 0; /* the file `end` is not synced */
    next.depth = r->depth + 1;
    next.seed = disk_random(&s->seed);
    struct disk *copy = malloc(sizeof *copy);
    if (!copy) abort();
    disk_kill(d, copy);
    next.disk = copy;
    check_replica(&next, was_killed);
    disk_close(copy);
    free(copy);
    next.disk = d;
    if (r->depth == 0 && next.seed % ONE_IN == 0) {
        next.depth = 2;
        live_as_replica(&next);
        check_replica(&next, true);
    }
    disk_close(d);
}

static void interrupt(struct disk *d, enum call call, void *argument)
{
    struct sight *s = argument;
    struct disk *after = malloc(sizeof *after);
    struct told told;
    (void)call;
    if (!after) abort();
    look(&s->replica->told, &told);
    disk_kill(d, after);
    kills++;
    go_on(after, s, &told, true);
    int most = told.phase == TRUNCATES && !s->replica->depth ? CUTS_TRUNCATING : CUTS;
    for (int n = 0; n < most; n++) {
        enum fate writes[DISK_PENDING];
        bool renames[DISK_NAMES];
        uint64_t bias = disk_random(&s->seed) % 4;
        for (int i = 0; i < d->write_count; i++)
            writes[i] = disk_random(&s->seed) % 4 < bias ? FATE_KEPT : (enum fate)(disk_random(&s->seed) % 3);
        for (int i = 0; i < d->rename_count; i++) renames[i] = disk_random(&s->seed) % 3 < bias;
        disk_cut(d, writes, renames, disk_random(&s->seed), after);
        cuts++;
        go_on(after, s, &told, false);
    }
    free(after);
}

static void watch(struct replica *r, void (*act)(struct replica *))
{
    struct sight sight = {r, r->seed};
    r->disk->before = interrupt;
    r->disk->argument = &sight;
    act(r);
    interrupt(r->disk, CALL_READ, &sight);
    r->disk->before = NULL;
}

/* One call of a truncation fails. The next recovery, in the same boot, completes it, also on the disk. */
static void fail_truncation(const struct replica *r, long at)
{
    for (bool was_reached = true; was_reached; at++) {
        struct disk *d = malloc(sizeof *d);
        struct replica own = *r;
        if (!d) abort();
        disk_kill(r->disk, d);
        own.disk = d;
        d->fail_at = d->calls + at;
        d->fail_with = EIO;
        struct log_io io = disk_io(d);
        struct log_folder folder = folder_on(&io);
        struct log_fault fault = {0};
        int code = log_truncate(&folder, r->branch, &fault);
        was_reached = d->calls >= d->fail_at;
        if (was_reached && code && code != LOG_FAILED)
            wrong("a truncation with a fault", "ends otherwise than by it", &fault);
        faults += was_reached;
        d->fail_at = 0;
        struct sight sight = {&own, r->seed + (uint64_t)at};
        interrupt(d, CALL_READ, &sight); /* before the recovery, and behind it */
        recover(&own);
        if (!code) own.told.answered = r->branch, own.told.phase = TAKES_NEW;
        interrupt(d, CALL_READ, &sight);
        disk_close(d);
        free(d);
    }
}

void try_replica(uint64_t seed, long rounds)
{
    for (long round = 0; round < rounds; round++, seed++) {
        struct image *old = calloc(1, sizeof *old), *new = calloc(1, sizeof *new);
        struct disk *d = malloc(sizeof *d);
        uint64_t random = seed;
        if (!old || !new || !d) abort();
        old->base = new->base = seed % 2 * 8 * (disk_random(&random) % 10000);
        make_image(old, NULL, 0, 1 + (uint32_t)(seed % 5), seed);
        uint64_t branch = old->batches[disk_random(&random) % old->count].begin;
        make_image(new, old, branch, old->batches[old->count - 1].epoch + 1, ~seed);
        struct replica r = {.disk = d, .old = old, .new = new, .branch = branch, .seed = seed};
        r.is_copied = seed % 3 == 0;
        disk_open(d, seed);
        watch(&r, live_as_replica);
        check_replica(&r, true);
        if (r.found.end != new->base + new->size) wrong("at the end of a life", "records are missing", NULL);
        struct disk *disks[] = {d, old->disk, new->disk};
        for (int n = 0; n < 3; n++) disk_close(disks[n]), free(disks[n]);
        free(old->bytes);
        free(new->bytes);
        free(old);
        free(new);
    }
    printf("%ld power cuts and %ld kills in %ld lives of a replica, %ld of which began with a copy, %ld truncations "
           "completed by recovery, %ld that failed: all that was answered was there, and readers were shown what is "
           "final\n",
           cuts, kills, lives, copied, completed, faults);
}
