/* The maker: one thread that has the next segment ready before it is needed, so that no append waits for zeros; and, while it
 * has nothing to make, sees to retention, compaction, snapshots and indexes, one step at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/atomics.h"
#include "../shm/futex.h"
#include "folder.h"
#include "maker.h"
#include "reader.h"
#include "segment.h"
#include "writer.h"

static const uint64_t TRY_AGAIN_NS = 1000000000, RETENTION_NS = 60 * UINT64_C(1000000000);

/* Lock held. Is there something to do? */
static bool is_wanted(const struct writer *w)
{
    if (w->rolls) return false; /* the spare is set aside, and the next one comes behind it */
    return w->spare_state != SPARE_READY || segment_capacity(&w->spare) < w->spare_needs;
}

/* Lock held; the spare that is there is too small for what has to be appended. */
static void take_away(struct writer *w)
{
    struct segment small = w->spare;
    w->spare = (struct segment){.file = -1};
    if (w->spare_state == SPARE_READY) w->spare_state = SPARE_NONE;
    if (small.file < 0) return;
    pthread_mutex_unlock(&w->lock);
    spare_discard(&w->folder, small.file);
    pthread_mutex_lock(&w->lock);
}

/* Lock held. The segment behind this size is the smallest that may come next. On a disk that fills, segments become no
 * smaller: without a spare, the rest of the last one is the reserve for what ends work. Once all before the last one is
 * trimmed, little is left to be ended, and an eighth of it is enough to go on. */
static uint64_t least_behind(const struct writer *w)
{
    return w->earliest < w->last_base ? w->newest_size / 2 : w->newest_size / 16;
}

/* Lock held, and held again at the end. LOG_OK, LOG_FULL, LOG_FAILED or LOG_CLOSED. */
static int make(struct writer *w, struct log_fault *fault)
{
    uint64_t behind = w->newest_size, least = least_behind(w), most = w->most, needs = w->spare_needs;
    struct segment made = {.file = -1, .size = spare_size(behind, most, needs)};
    uint64_t kept = w->kept >= made.size ? w->kept : 0;
    w->kept = 0;
    if (kept) made.size = kept;
    pthread_mutex_unlock(&w->lock);
    int code = kept ? spare_refill(&w->folder, made.size, &made.file, &w->stopping, fault)
                    : spare_make(&w->folder, made.size, &made.file, &w->stopping, fault);
    while (code == LOG_FULL && (behind /= 2) >= least) {
        made.size = spare_size(behind, most, needs);
        code = spare_make(&w->folder, made.size, &made.file, &w->stopping, fault);
    }
    pthread_mutex_lock(&w->lock);
    if (code == LOG_OK) {
        w->spare = made;
        w->spare_state = SPARE_READY;
    } else if (code == LOG_FULL) {
        w->spare_state = SPARE_FULL;
        w->lacks = made.size;
        w->spare_needs = 0; /* there may be room for what is smaller: an appender that was refused asks again */
        w->counters.failed_spares++;
    }
    writer_wake_room(w);
    return code;
}

void *writer_make(void *given)
{
    struct writer *w = given;
    struct log_fault fault = {0};
    int code = LOG_OK;
    pthread_mutex_lock(&w->lock);
    while (!load_acquire(&w->stopping) && !load_acquire(&w->failed)) {
        if (trim_is_due(w)) {
            code = trim_now(w, &fault);
            if (code) break;
            continue;
        }
        if (is_wanted(w) && code != LOG_FULL) {
            take_away(w);
            code = make(w, &fault);
            if (code == LOG_FAILED) break;
            continue;
        }
        if (upkeep_is_due(w)) {
            code = upkeep(w, &fault);
            if (code == LOG_FAILED) break;
            continue;
        }
        uint32_t seen = w->chores;
        pthread_mutex_unlock(&w->lock);
        bool is_full = code == LOG_FULL, limits = retention_limits(&w->retention);
        bool looks = limits || w->retention.per_key, rests = w->rest_ns;
        uint64_t rest = rests ? w->rest_ns : is_full ? TRY_AGAIN_NS : looks ? RETENTION_NS : UINT64_C(1) << 62;
        int how = futex_sleep(&w->chores, seen, rest);
        pthread_mutex_lock(&w->lock);
        if (how == ETIMEDOUT && !rests) {
            w->retention_is_due |= limits;
            w->compaction_is_due |= looks && w->retention.per_key;
        }
        w->rest_ns = 0;
        code = LOG_OK;
    }
    pthread_mutex_unlock(&w->lock);
    if (code && code != LOG_FULL && code != LOG_CLOSED) writer_fail(w, &fault);
    return NULL;
}

/* ======== upkeep ======== */

/* Upkeep: what the maker does when a spare is ready, for the next writer and for readers. No append waits for it. */

/* Lock held, and held again at the end. LOG_OK, also where the disk is full, LOG_FAILED or LOG_NO_MEMORY. */
static int take_snapshot(struct writer *w, struct log_fault *fault)
{
    uint64_t upto = load_acquire(&w->durable); /* pairs with the flusher's: what is below is on the disk */
    struct ids_snapshot snapshot;
    w->snapshot_is_due = false;
    if (!ids_copy(&w->ids, upto, &snapshot)) return LOG_OK; /* the next one may find memory */
    pthread_mutex_unlock(&w->lock);
    int code = ids_save(&w->folder, &snapshot, fault);
    free(snapshot.entries);
    pthread_mutex_lock(&w->lock);
    if (code == LOG_OK) w->ids_upto = upto;
    return code == LOG_FULL ? LOG_OK : code;
}

bool trim_is_due(const struct writer *w) { return w->retention_is_due || w->trim_to > w->trimmed; }

/* Where the log may begin, by what was asked for and by the retention. What cannot be found out removes nothing. */
static uint64_t find_start(struct writer *w, uint64_t asked, const struct retention *retention, uint64_t *held)
{
    uint64_t start;
    struct log_fault fault;
    if (retention_find(&w->folder, retention, &start, held, &fault)) return asked;
    return start > asked ? start : asked;
}

/* Ids of what goes are kept in the snapshot; if the disk has no room for it, in memory until it has. */
static int keep_ids(struct writer *w, uint64_t before, struct log_fault *fault)
{
    int code = w->ids.count && w->ids_upto < before ? take_snapshot(w, fault) : LOG_OK;
    w->snapshot_is_due |= w->ids.count && w->ids_upto < before;
    return code;
}

int trim_now(struct writer *w, struct log_fault *fault)
{
    uint64_t asked = w->trim_to, held = 0, start = w->earliest, kept = 0;
    bool by_retention = w->retention_is_due, needs_spare = w->spare_state != SPARE_READY && !w->rolls;
    struct retention retention = w->retention;
    w->retention_is_due = false;
    pthread_mutex_unlock(&w->lock);
    uint64_t before = by_retention ? find_start(w, asked, &retention, &held) : asked;
    pthread_mutex_lock(&w->lock);
    if (before > w->last_base) before = w->last_base;
    int code = before > w->earliest ? keep_ids(w, before, fault) : LOG_OK;
    pthread_mutex_unlock(&w->lock);
    if (!code && before > start) code = trim(&w->folder, before, needs_spare, &start, &kept, fault);
    pthread_mutex_lock(&w->lock);
    w->earliest = start;
    if (by_retention) w->held = held;
    if (kept) w->kept = kept;
    if (!code) w->trimmed = asked;
    writer_wake_room(w);
    return code;
}

/* Lock held, and held again at the end. A roll may come meanwhile: ids of what it seals need not be in the snapshot yet, so
 * that segment is for the next compaction. */
static int begin_compaction(struct writer *w, struct log_fault *fault)
{
    struct compaction_limits limits = {.per_key = w->retention.per_key};
    struct retention retention = w->retention;
    uint64_t kept = w->last_base;
    w->compaction_is_due = false;
    w->compacts = true;
    int code = keep_ids(w, kept, fault);
    if (code || (w->ids.count && w->ids_upto < kept)) return code; /* no room for the snapshot: later */
    pthread_mutex_unlock(&w->lock);
    code = retention_floor(&w->folder, retention.cursors_ns, &limits.floor, fault);
    if (limits.floor > kept) limits.floor = kept;
    if (!code) code = compaction_begin(&w->compaction, &w->folder, &limits, fault);
    pthread_mutex_lock(&w->lock);
    return code;
}

/* Lock held, and held again at the end. One step. What cannot be read is left as it is; what cannot be written ends the writer. */
static int compact(struct writer *w, struct log_fault *fault)
{
    uint64_t began_ns = writer_now(w), base = w->compaction.phase ? w->compaction.bases.start : 0;
    if (!w->compaction.phase) return begin_compaction(w, fault);
    if (base != w->earliest) { /* a trim has removed what it goes through */
        compaction_end(&w->compaction);
        w->compaction_is_due = true;
        return LOG_OK;
    }
    pthread_mutex_unlock(&w->lock);
    int code = compaction_step(&w->compaction, fault);
    pthread_mutex_lock(&w->lock);
    w->rest_ns = writer_now(w) - began_ns;
    if (code == LOG_OK) return LOG_OK;
    if (w->compaction.removed) w->indexed = w->earliest;
    w->counters.compacted += w->compaction.removed;
    w->counters.failed_compactions += code != LOG_AT_END;
    w->compaction.removed = 0;
    return code;
}

/* Lock held, and held again at the end. The index of the next sealed segment. */
static void make_index(struct writer *w)
{
    uint64_t from = w->indexed, last = w->last_base, *bases, end = last;
    size_t count;
    struct log_fault fault;
    pthread_mutex_unlock(&w->lock);
    if (segment_list(&w->folder, &bases, &count, &fault)) count = 0;
    for (size_t n = 0; n + 1 < count; n++) {
        if (bases[n] < from || bases[n + 1] > last) continue;
        end = bases[n + 1];
        index_make(&w->folder, bases[n], end, &w->stopping);
        break;
    }
    free(bases);
    pthread_mutex_lock(&w->lock);
    w->indexed = end;
}

bool upkeep_is_due(const struct writer *w)
{
    bool compacts = (w->compaction_is_due || w->compaction.phase) && !w->rest_ns;
    return w->snapshot_is_due || w->indexed < w->last_base || compacts;
}

int upkeep(struct writer *w, struct log_fault *fault)
{
    if (w->snapshot_is_due) return take_snapshot(w, fault);
    if (w->indexed < w->last_base) return make_index(w), LOG_OK;
    int code = compact(w, fault);
    w->compacts = w->compaction.phase;
    return code == LOG_FAILED ? code : LOG_OK;
}

/* ======== retention ======== */

static const char CURSOR[] = ".cursor";

struct floor {
    const struct log_folder *folder;
    uint64_t cursors_ns, now_ns, position;
    int code;
    struct log_fault *fault;
};

static void see_cursor(void *argument, const char *name)
{
    struct floor *f = argument;
    uint64_t position, time_ns;
    size_t length = strlen(name), suffix = sizeof CURSOR - 1;
    if (f->code || length <= suffix || strcmp(name + length - suffix, CURSOR)) return;
    int code = cursor_look(f->folder, name, &position, &time_ns, f->fault);
    if (code == LOG_AT_END) return; /* deleted meanwhile */
    f->code = code;
    if (code) return;
    bool is_abandoned = time_ns + f->cursors_ns < f->now_ns;
    if (!is_abandoned && position < f->position) f->position = position;
}

int retention_floor(const struct log_folder *folder, uint64_t cursors_ns, uint64_t *position, struct log_fault *fault)
{
    struct floor f = {folder,     cursors_ns, folder->io->now_ns(folder->io->disk, LOG_CLOCK_WALL),
                      UINT64_MAX, LOG_OK,     fault};
    int error = cursors_ns ? folder->io->list(folder->io->disk, folder->folder, see_cursor, &f) : 0;
    *position = f.position;
    return error ? log_fail(fault, LOG_FAILED, "list", ".", -error) : f.code;
}

struct sealed {
    uint64_t size, sealed_ns;
};

static int look_at(const struct log_folder *folder, uint64_t base, struct sealed *sealed, struct log_fault *fault)
{
    struct segment s;
    struct segment_mark mark;
    int code = segment_open(folder, base, O_RDONLY, &s, fault);
    if (code) return code;
    code = segment_read_mark(folder, &s, &mark, fault);
    if (!code) *sealed = (struct sealed){s.size, mark.time_ns};
    segment_close(folder, &s);
    return code;
}

static int find_among(const struct log_folder *folder, const struct retention *r, const struct bases *bases,
                      uint64_t *start, uint64_t *held, struct log_fault *fault)
{
    uint64_t total = 0, floor, now = folder->io->now_ns(folder->io->disk, LOG_CLOCK_WALL);
    struct sealed *all = calloc(bases->count + 1, sizeof *all);
    int code = all ? retention_floor(folder, r->cursors_ns, &floor, fault) : LOG_NO_MEMORY;
    for (size_t n = bases->before; n < bases->count && !code; n++) {
        code = look_at(folder, bases->of[n], &all[n], fault);
        total += all[n].size;
    }
    for (size_t n = bases->before; n + 1 < bases->count && !code; n++) {
        bool is_old = r->age_ns != RETENTION_ALL && all[n].sealed_ns + r->age_ns < now;
        if (!is_old && total <= r->bytes) break;
        total -= all[n].size;
        if (floor < bases->of[n + 1]) *held += all[n].size;
        if (!*held) *start = bases->of[n + 1];
    }
    free(all);
    return code;
}

int retention_find(const struct log_folder *folder, const struct retention *r, uint64_t *start, uint64_t *held,
                   struct log_fault *fault)
{
    struct bases bases;
    int code = start_list(folder, &bases, fault);
    *start = bases.start;
    *held = 0;
    if (!code && retention_limits(r)) code = find_among(folder, r, &bases, start, held, fault);
    free(bases.of);
    return code;
}

/* The newest segment before the start becomes the spare; 0: none could. */
static uint64_t keep(const struct log_folder *folder, uint64_t base)
{
    struct segment s;
    struct log_fault fault;
    char name[SEGMENT_NAME];
    segment_name(base, name);
    if (segment_open(folder, base, O_RDONLY, &s, &fault)) return 0;
    segment_close(folder, &s);
    return folder->io->rename(folder->io->disk, folder->folder, name, "spare") ? 0 : s.size;
}

static int remove_before(const struct log_folder *folder, const struct bases *bases, bool keeps_one, uint64_t *kept,
                         struct log_fault *fault)
{
    size_t last = 0;
    for (size_t n = 0; n < bases->count && bases->of[n] < bases->start; n++) last = n;
    for (size_t n = 0; n < bases->count && bases->of[n] < bases->start; n++) {
        if (keeps_one && n == last) *kept = keep(folder, bases->of[n]);
        int error = start_remove(folder, bases->of[n]);
        if (error) return log_fail(fault, LOG_FAILED, "unlink", "segment", -error);
    }
    return LOG_OK;
}

int trim(const struct log_folder *folder, uint64_t before, bool keeps_one, uint64_t *start, uint64_t *kept,
         struct log_fault *fault)
{
    struct bases bases;
    int code = start_list(folder, &bases, fault);
    uint64_t was = bases.start;
    *kept = 0;
    for (size_t n = bases.before; n < bases.count && !code; n++)
        if (bases.of[n] <= before) bases.start = bases.of[n];
    if (!code && bases.start > was) {
        code = start_write(folder, bases.start, fault);
        if (!code) code = remove_before(folder, &bases, keeps_one, kept, fault);
    }
    *start = bases.start;
    free(bases.of);
    return code;
}

/* ======== compaction ======== */

static const char NAME[] = "compact.new", MARKS[] = "compacted";

enum { STEP = 1 << 20, BUFFER = 256 * 1024, BITS = 8 };

uint64_t compacted_upto(const struct log_folder *folder, uint32_t per_key)
{
    struct segment_mark mark;
    struct log_fault fault;
    if (marks_read(folder, MARKS, MARKS_COMPACTED, &mark, &fault)) return 0;
    return mark.flags && mark.flags <= per_key ? mark.durable : 0;
}

static int say_compacted(struct compaction *c, struct log_fault *fault)
{
    const struct log_io *io = c->folder.io;
    int error = c->removed ? io->sync_folder(io->disk, c->folder.folder) : 0;
    if (error) return log_fail(fault, LOG_FAILED, "fsync of the folder", NAME, -error);
    int code = marks_change(&c->folder, MARKS, MARKS_COMPACTED, c->upto, c->per_key, fault);
    if (code == LOG_AT_END || code == LOG_DAMAGED)
        return marks_make(&c->folder, MARKS, MARKS_COMPACTED, c->upto, c->per_key, fault);
    return code;
}

void compaction_end(struct compaction *c)
{
    if (c->phase == COMPACTION_NONE) return;
    reader_close(&c->reader);
    segment_close(&c->folder, &c->copy);
    keys_free(&c->keys);
    free(c->goes);
    free(c->buffer);
    free(c->bases.of);
    *c = (struct compaction){.copy.file = -1};
}

/* ---- begin ---- */

/* Bytes of records of the sealed segments that are clean, and of the new ones. */
static int weigh(const struct compaction *c, uint64_t *clean, uint64_t *new, struct log_fault *fault)
{
    const struct bases *b = &c->bases;
    for (size_t n = b->before; n + 1 < b->count && b->of[n] < c->upto; n++) {
        struct segment s;
        int code = segment_open(&c->folder, b->of[n], O_RDONLY, &s, fault);
        if (code) return code;
        segment_close(&c->folder, &s);
        uint64_t end = b->of[n + 1], size = s.is_compacted ? s.bytes : end - s.base;
        uint64_t last = end < c->upto ? end : c->upto, from = c->clean > s.base ? c->clean : s.base;
        uint64_t fresh = from < last ? last - from : 0;
        *new += fresh < size ? fresh : size;
        *clean += fresh < size ? size - fresh : 0;
    }
    return LOG_OK;
}

static void read_from(struct compaction *c, uint64_t position, enum compaction_phase phase)
{
    reader_close(&c->reader);
    reader_open_at(&c->reader, &c->folder, position);
    c->phase = phase;
}

int compaction_begin(struct compaction *c, const struct log_folder *folder, const struct compaction_limits *limits,
                     struct log_fault *fault)
{
    uint64_t clean = 0, new = 0;
    *c = (struct compaction){.folder = *folder, .per_key = limits->per_key, .copy.file = -1};
    int code = start_list(folder, &c->bases, fault);
    uint64_t last = !code && c->bases.count ? c->bases.of[c->bases.count - 1] : 0;
    c->upto = limits->floor < last ? limits->floor : last;
    c->clean = compacted_upto(folder, c->per_key);
    if (c->clean < c->bases.start) c->clean = c->bases.start;
    if (!code && c->clean < c->upto) code = weigh(c, &clean, &new, fault);
    if (!code && new && new >= clean) {
        c->at = c->bases.before;
        reader_open(&c->reader, folder, c->clean);
        read_from(c, c->clean, COMPACTION_NEW);
        return LOG_OK;
    }
    free(c->bases.of);
    *c = (struct compaction){.copy.file = -1};
    return code;
}

/* ---- count ---- */

/* The next record below `limit`, with its key, if a step has not read enough. LOG_TIMEOUT: it has. */
static int next(struct compaction *c, uint64_t limit, uint64_t *read, struct reader_record *record,
                struct log_fault *fault)
{
    if (*read >= STEP) return LOG_TIMEOUT;
    int code = reader_next(&c->reader, limit, record, fault);
    if (!code) *read += record->end - record->head.lsn;
    return code;
}

static int count_new(struct compaction *c, struct log_fault *fault)
{
    struct reader_record record;
    struct key_count key, *there;
    uint64_t read = 0;
    int code;
    while ((code = next(c, c->upto, &read, &record, fault)) == LOG_OK) {
        if (!key_of(&record, c->folder.uuid, &key)) continue;
        there = keys_add(&c->keys, &key);
        if (!there) { /* the table is full: the rest is for the next compaction */
            c->upto = record.head.lsn;
            code = c->keys.count ? LOG_AT_END : LOG_NO_MEMORY;
            break;
        }
        there->total++;
    }
    if (code == LOG_AT_END) read_from(c, c->bases.start, COMPACTION_OLD);
    return code;
}

static int count_old(struct compaction *c, struct log_fault *fault)
{
    struct reader_record record;
    struct key_count key, *there;
    uint64_t read = 0;
    int code;
    while ((code = next(c, c->clean, &read, &record, fault)) == LOG_OK) {
        there = key_of(&record, c->folder.uuid, &key) ? keys_find(&c->keys, &key) : NULL;
        if (there) there->total++;
    }
    if (code == LOG_AT_END) read_from(c, c->bases.of[c->at], COMPACTION_CHOICE);
    return code;
}

/* ---- choose ---- */

static bool add_choice(struct compaction *c, bool goes)
{
    size_t at = c->number / BITS;
    if (at == c->goes_room) {
        size_t room = c->goes_room ? 2 * c->goes_room : STEP / BITS;
        uint8_t *larger = realloc(c->goes, room);
        if (!larger) return false;
        c->goes = larger;
        c->goes_room = room;
    }
    if (c->number % BITS == 0) c->goes[at] = 0;
    c->goes[at] |= (uint8_t)(goes << c->number % BITS);
    c->number++;
    return true;
}

static bool must_go(struct compaction *c, const struct reader_record *record)
{
    struct key_count key, *there;
    if (record->head.lsn >= c->upto || record->head.kind != RECORD_DATA) return false;
    there = key_of(record, c->folder.uuid, &key) ? keys_find(&c->keys, &key) : NULL;
    return there && there->total - ++there->seen >= c->per_key;
}

static int next_segment(struct compaction *c, struct log_fault *fault)
{
    c->at++;
    c->number = c->going = 0;
    bool is_last = c->at + 1 >= c->bases.count || c->bases.of[c->at] >= c->upto;
    if (!is_last) return read_from(c, c->bases.of[c->at], COMPACTION_CHOICE), LOG_OK;
    int code = say_compacted(c, fault);
    return code == LOG_OK ? LOG_AT_END : code;
}

static int begin_copy(struct compaction *c, struct log_fault *fault)
{
    const struct log_io *io = c->folder.io;
    struct segment_mark mark;
    struct segment old;
    uint64_t base = c->bases.of[c->at];
    int code = segment_open(&c->folder, base, O_RDONLY, &old, fault);
    if (code) return code;
    code = segment_read_mark(&c->folder, &old, &mark, fault);
    segment_close(&c->folder, &old);
    if (code) return code;
    c->sealed_ns = mark.time_ns;
    c->copy = (struct segment){.base = base, .end = c->bases.of[c->at + 1], .created_ns = old.created_ns};
    c->copy.bytes = (old.is_compacted ? old.bytes : c->copy.end - base) - c->going;
    c->copy.size = (SEGMENT_DATA + c->copy.bytes + SEGMENT_BLOCK - 1) & ~(uint64_t)(SEGMENT_BLOCK - 1);
    c->copied = c->unsynced = c->buffered = 0;
    c->copy.file = io->open(io->disk, c->folder.folder, NAME, O_RDWR | O_CREAT | O_TRUNC);
    int error = c->copy.file < 0 ? c->copy.file : io->allocate(io->disk, c->copy.file, c->copy.size);
    if (error) return log_fail(fault, io_is_full(error) ? LOG_FULL : LOG_FAILED, "fallocate", NAME, -error);
    c->number = 0;
    read_from(c, base, COMPACTION_COPY);
    return LOG_OK;
}

static int choose(struct compaction *c, struct log_fault *fault)
{
    struct reader_record record;
    uint64_t read = 0;
    int code;
    while ((code = next(c, c->bases.of[c->at + 1], &read, &record, fault)) == LOG_OK) {
        bool goes = must_go(c, &record);
        if (goes) c->going += record.end - record.head.lsn;
        if (!add_choice(c, goes)) return log_fail(fault, LOG_NO_MEMORY, "compaction", NAME, ENOMEM);
    }
    if (code != LOG_AT_END) return code;
    return c->going ? begin_copy(c, fault) : next_segment(c, fault);
}

/* ---- copy ---- */

static int failed(const char *what, int error, struct log_fault *fault)
{
    int code = io_is_full(error) ? LOG_FULL : error == -ENOMEM ? LOG_NO_MEMORY : LOG_FAILED;
    return log_fail(fault, code, what, NAME, -error);
}

/* What is gathered goes into the copy. 0 or -errno. */
static int write_out(struct compaction *c, const uint8_t *bytes, size_t size)
{
    int error = size ? io_write_all(c->folder.io, c->copy.file, bytes, size, SEGMENT_DATA + c->copied) : 0;
    c->copied += size;
    c->unsynced += size;
    return error;
}

/* Head, marks and zeros up to a whole block; then the copy is the segment. */
static int finish_copy(struct compaction *c, struct log_fault *fault)
{
    static const uint8_t zeros[SEGMENT_BLOCK];
    const struct log_io *io = c->folder.io;
    char name[SEGMENT_NAME], index[SEGMENT_NAME];
    int error = write_out(c, c->buffer, c->buffered);
    uint64_t end = SEGMENT_DATA + c->copied;
    segment_name(c->copy.base, name);
    index_name(c->copy.base, index);
    if (c->copied != c->copy.bytes)
        return log_damaged(fault, "other bytes than before", name, c->copy.base, c->copy.end);
    if (!error && end < c->copy.size) error = io_write_all(io, c->copy.file, zeros, c->copy.size - end, end);
    if (!error) error = segment_begin_compacted(&c->folder, &c->copy, c->sealed_ns);
    if (error) return failed("write", error, fault);
    error = io->sync(io->disk, c->copy.file);
    if (error) return failed("fdatasync", error, fault);
    segment_close(&c->folder, &c->copy);
    error = io->unlink(io->disk, c->folder.folder, index); /* made anew: it says how many records there are */
    if (error && error != -ENOENT) return failed("unlink", error, fault);
    error = io->rename(io->disk, c->folder.folder, NAME, name);
    if (error) return failed("rename", error, fault);
    c->removed += c->going;
    return next_segment(c, fault);
}

static int put(struct compaction *c, const uint8_t *record, size_t size)
{
    if (!c->buffer && !(c->buffer = malloc(BUFFER))) return -ENOMEM;
    int error = 0;
    if (c->buffered + size > BUFFER) {
        error = write_out(c, c->buffer, c->buffered);
        c->buffered = 0;
    }
    c->copy.records++;
    if (size > BUFFER) return error ? error : write_out(c, record, size);
    memcpy(c->buffer + c->buffered, record, size);
    c->buffered += size;
    return error;
}

static int copy(struct compaction *c, struct log_fault *fault)
{
    const struct log_io *io = c->folder.io;
    struct reader_record record;
    uint64_t read = 0;
    int code, error;
    while ((code = next(c, c->copy.end, &read, &record, fault)) == LOG_OK) {
        bool goes = c->goes[c->number / BITS] >> c->number % BITS & 1;
        uint64_t size = record.end - record.head.lsn;
        c->number++;
        if (goes) continue;
        error = put(c, record.labels - RECORD_HEAD, size);
        if (error) return failed("write", error, fault);
    }
    if (code == LOG_AT_END) return finish_copy(c, fault);
    if (code != LOG_TIMEOUT || c->unsynced < STEP) return code;
    c->unsynced = 0; /* in small pieces: the flusher's sync has to wait for no more */
    error = io->sync(io->disk, c->copy.file);
    return error ? failed("fdatasync", error, fault) : LOG_OK;
}

int compaction_step(struct compaction *c, struct log_fault *fault)
{
    static int (*const steps[])(struct compaction *, struct log_fault *) = {[COMPACTION_NEW] = count_new,
                                                                            [COMPACTION_OLD] = count_old,
                                                                            [COMPACTION_CHOICE] = choose,
                                                                            [COMPACTION_COPY] = copy};
    enum compaction_phase phase = c->phase;
    int code = steps[phase](c, fault);
    bool goes_on = code == LOG_TIMEOUT || (code == LOG_AT_END && phase <= COMPACTION_OLD);
    if (code == LOG_OK || goes_on) return LOG_OK;
    if (code == LOG_FULL) c->folder.io->unlink(c->folder.io->disk, c->folder.folder, NAME);
    uint64_t removed = c->removed;
    compaction_end(c);
    c->removed = removed;
    return code;
}
