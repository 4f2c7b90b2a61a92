#include "compact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "marks.h"

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
