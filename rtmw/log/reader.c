/* Reading: record by record, as raw batches, many as columns, from a time on; and the tables that follow from the records,
 * the indexes of sealed segments and the epochs. See reader.h.
 */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/atomics.h"
#include "../shm/crc32c.h"
#include "folder.h"
#include "labels.h"
#include "recover.h"
#include "utf8.h"

void reader_open(struct reader *r, const struct log_folder *folder, uint64_t position)
{
    *r = (struct reader){.folder = *folder, .segment.file = -1, .position = position};
}

void reader_open_at(struct reader *r, const struct log_folder *folder, uint64_t position)
{
    reader_open(r, folder, position);
    r->has_begun = true;
}

void reader_open_fed(struct reader *r, const struct log_folder *folder, uint64_t position)
{
    reader_open(r, folder, position);
    r->is_fed = true;
}

bool reader_feed(struct reader *r, const void *bytes, size_t size)
{
    return window_feed(&r->window, r->position, bytes, size) == 0;
}

void reader_close(struct reader *r)
{
    segment_close(&r->folder, &r->segment);
    window_free(&r->window);
}

static bool is_cut(const struct reader *r) { return r->may_be_cut && truncate_took(&r->folder, r->position); }

/* Then the files are looked at anew when records have come again. */
static int again(struct reader *r)
{
    segment_close(&r->folder, &r->segment);
    return LOG_AT_END;
}

/* The segment of the position is not there: from there up to the start all was removed, perhaps just now. Behind the start
 * nothing is. */
static int trimmed(struct reader *r, struct log_fault *fault)
{
    struct log_fault other;
    uint64_t start;
    int code = start_read(&r->folder, &start, &other);
    if (is_cut(r)) return again(r);
    if (!code && start <= r->position)
        return log_damaged(fault, "the segment of this position is missing", ".", r->position, r->position);
    fault->from = r->position;
    fault->to = code ? r->position : start;
    return log_fail(fault, LOG_TRIMMED, "the segment was removed", ".", 0);
}

/* A compacted segment says itself where it ends: there begins the next one, or its head is not as it was written. */
static int check_end(struct reader *r, struct log_fault *fault)
{
    struct bases bases;
    struct segment again;
    char name[SEGMENT_NAME];
    int code = r->segment.is_compacted ? start_list(&r->folder, &bases, fault) : LOG_AT_END;
    if (code) return code == LOG_AT_END ? LOG_OK : code;
    size_t n = 0;
    while (n < bases.count && bases.of[n] <= r->segment.base) n++;
    bool is_right = n < bases.count && bases.of[n] == r->segment.end;
    free(bases.of);
    if (is_right) return LOG_OK;
    code = segment_open(&r->folder, r->segment.base, O_RDONLY, &again, fault);
    if (code) return code; /* LOG_TRIMMED: it was removed just now, and perhaps the next one, too */
    segment_close(&r->folder, &again);
    segment_name(r->segment.base, name);
    return log_damaged(fault, "no segment begins where this one ends", name, r->position, r->segment.end);
}

/* Opens the segment in which the position lies. */
static int find_segment(struct reader *r, struct log_fault *fault)
{
    struct bases bases;
    uint64_t base = 0;
    int code = start_list(&r->folder, &bases, fault);
    bool is_there = !code && bases.before < bases.count && bases.of[bases.before] <= r->position;
    for (size_t n = bases.before; n < bases.count; n++)
        if (bases.of[n] <= r->position) base = bases.of[n];
    free(bases.of);
    if (!code && is_there) code = segment_open(&r->folder, base, O_RDONLY, &r->segment, fault);
    window_clear(&r->window);
    r->place = r->behind = base;
    if (!code && is_there) code = check_end(r, fault);
    return code == LOG_TRIMMED || (!code && !is_there) ? trimmed(r, fault) : code;
}

/* The segment that begins here, if there is one: LOG_OK; else LOG_TRIMMED. */
static int next_segment(struct reader *r, struct log_fault *fault)
{
    struct segment next;
    if (r->segment.base >= r->position) return LOG_TRIMMED;
    int code = segment_open(&r->folder, r->position, O_RDONLY, &next, fault);
    if (code) return code;
    segment_close(&r->folder, &r->segment);
    r->segment = next;
    r->place = r->behind = next.base;
    window_clear(&r->window);
    return check_end(r, fault);
}

/* No record begins at the position: which of the reasons is it? LOG_OK: it was truncated, and has come again meanwhile. */
static int explain(struct reader *r, uint64_t limit, struct log_fault *fault)
{
    char name[SEGMENT_NAME];
    uint64_t lsn = r->segment.base, size;
    const uint8_t *record;
    struct segment other;
    segment_name(r->segment.base, name);
    if (is_cut(r)) return again(r);
    if (segment_open(&r->folder, r->segment.base, O_RDONLY, &other, fault) == LOG_TRIMMED) return trimmed(r, fault);
    segment_close(&r->folder, &other);
    window_clear(&r->window);
    int found = 1;
    if (r->has_begun && !r->segment.is_compacted &&
        window_record(&r->window, &r->folder, &r->segment, r->position, limit, &record, &size) > 0)
        return LOG_OK;
    while (!r->has_begun && !r->segment.is_compacted && lsn < r->position && found > 0) {
        found = window_record(&r->window, &r->folder, &r->segment, lsn, limit, &record, &size);
        if (found > 0) lsn += size;
    }
    if (!r->has_begun && !r->segment.is_compacted && found >= 0 && lsn != r->position) {
        fault->from = r->position;
        fault->to = lsn;
        return log_fail(fault, LOG_NO_RECORD, "no record begins there", name, 0);
    }
    return log_damaged(fault, "no valid record is there, and there was one", name, r->position, limit);
}

/* In a compacted segment: the first record that is not before the position, which becomes its own; 0: none is left, and the
 * position is that of the next segment, or no valid one lies there. */
static int find_kept(struct reader *r, const uint8_t **bytes, uint64_t *size)
{
    uint64_t last = segment_last_place(&r->segment);
    while (r->place < last) {
        struct record_head head;
        int found = window_record(&r->window, &r->folder, &r->segment, r->place, last, bytes, size);
        if (found <= 0) return found;
        memcpy(&head, *bytes, sizeof head);
        if (head.lsn < r->behind) return 0; /* moved before one that was appended earlier: readers never step back */
        r->behind = head.lsn + *size;
        if (head.lsn >= r->position) return r->position = head.lsn, 1;
        r->place += *size;
    }
    r->position = r->segment.end;
    return 0;
}

static int find_record(struct reader *r, uint64_t limit, const uint8_t **bytes, uint64_t *size)
{
    if (r->segment.is_compacted) return find_kept(r, bytes, size);
    return window_record(&r->window, &r->folder, &r->segment, r->position, limit, bytes, size);
}

/* The record at the position, or behind what compaction has removed there; LOG_AT_END: it is not below the limit. */
static int look(struct reader *r, uint64_t limit, const uint8_t **bytes, uint64_t *size, struct log_fault *fault)
{
    for (;;) {
        int found = find_record(r, limit, bytes, size), code;
        if (found < 0) return log_fail(fault, found == -ENOMEM ? LOG_NO_MEMORY : LOG_FAILED, "read", "segment", -found);
        bool is_spoiled = !found && r->segment.is_compacted && r->place < segment_last_place(&r->segment);
        if (r->position >= limit && !is_spoiled) return LOG_AT_END;
        if (found) return LOG_OK;
        code = is_spoiled ? LOG_TRIMMED : next_segment(r, fault);
        if (code == LOG_TRIMMED) code = explain(r, limit, fault);
        if (code) return code;
    }
}

int reader_find(struct reader *r, uint64_t limit, struct reader_record *record, struct log_fault *fault)
{
    const uint8_t *bytes;
    uint64_t size, fed = r->window.at + r->window.filled;
    if (r->position >= limit || (r->is_fed && r->position >= fed)) return LOG_AT_END;
    if (r->is_fed) return log_damaged(fault, "the bytes that came are no valid record", "memory", r->position, fed);
    int code = r->segment.file < 0 ? find_segment(r, fault) : LOG_OK;
    if (!code) code = look(r, limit, &bytes, &size, fault);
    return code ? code : reader_pass(r, bytes, size, record, fault);
}

int reader_raw(struct reader *r, uint64_t limit, struct raw_run *run, struct log_fault *fault)
{
    struct reader_record record;
    const uint64_t begin = r->position;
    size_t used = 0;
    int code = LOG_AT_END;
    run->size = run->needs = 0;
    while (!run->needs && (used < run->room || !run->size)) {
        code = reader_next(r, limit, &record, fault);
        if (!code && record.head.lsn != begin + used)
            code = log_fail(fault, LOG_REFUSED, "compaction has removed records", ".", 0);
        if (code) break;
        size_t at = used;
        used += record.end - record.head.lsn;
        if (used <= run->room) memcpy(run->to + at, record.labels - RECORD_HEAD, used - at);
        if (record.head.flags & RECORD_MORE) continue;
        if (used <= run->room)
            run->size = used;
        else if (!run->size)
            run->needs = used;
    }
    r->position =
        begin + run->size; /* a batch lies in one segment: so does this position, or the next one begins there */
    return run->size || run->needs ? LOG_OK : code;
}

void reader_back(struct reader *r, const struct reader_record *record)
{
    r->position = r->behind = record->head.lsn;
    r->place -= record->end - record->head.lsn;
}

static bool is_known(unsigned kind, const uint8_t *label, size_t size)
{
    return kind <= LABEL_NUMBER && size <= LABEL_LONGEST && (kind != LABEL_TEXT || utf8_is_valid(label, size));
}

bool reader_knows(const struct label_head *head, const uint8_t *labels)
{
    const uint8_t *key = labels + LABEL_HEAD;
    return is_known(head->key_kind, key, head->key_size) &&
           (is_known(head->id_kind, key + head->key_size, head->id_size) ||
            (head->id_kind == LABEL_AUTOMATIC && head->id_size == LABEL_PRODUCER + sizeof(uint64_t)));
}

int reader_damaged(const struct reader *r, uint64_t size, struct log_fault *fault)
{
    return log_damaged(fault, "a key or an id is none", "segment", r->position, r->position + size);
}

/* ======== windows ======== */

enum { WINDOW_BYTES = 1 << 20 };

static int make_room(struct window *w, size_t size)
{
    size_t room = size > WINDOW_BYTES ? size : WINDOW_BYTES;
    if (w->room >= room) return 0;
    uint8_t *larger = realloc(w->bytes, room);
    if (!larger) return -ENOMEM;
    w->bytes = larger;
    w->room = room;
    return 0;
}

/* Reads from `lsn` on, at least `size` bytes if there are so many below `until`. 0 or -errno. */
static int fill(struct window *w, const struct log_folder *folder, const struct segment *s, uint64_t lsn, uint64_t size,
                uint64_t until)
{
    int error = make_room(w, size);
    if (error) return error;
    uint64_t wanted = until - lsn < w->room ? until - lsn : w->room;
    int64_t count = io_read_all(folder->io, s->file, w->bytes, wanted, segment_offset(s, lsn));
    w->at = lsn;
    w->filled = count < 0 ? 0 : (uint64_t)count;
    return count < 0 ? (int)count : 0;
}

/* Compaction moves records to the front only, and none is of a later segment. */
static bool is_in_order(const struct segment *s, uint64_t place, const uint8_t *record, uint64_t size)
{
    struct record_head head;
    memcpy(&head, record, sizeof head);
    return !s->is_compacted || (head.lsn >= place && head.lsn <= s->end && size <= s->end - head.lsn);
}

int window_record(struct window *w, const struct log_folder *folder, const struct segment *s, uint64_t lsn,
                  uint64_t until, const uint8_t **record, uint64_t *size)
{
    uint64_t last = segment_last_place(s), position = s->is_compacted ? RECORD_ANY : lsn;
    if (until > last || s->is_compacted) until = last;
    if (lsn < s->base || lsn >= until) return 0;
    for (int fills = 0;; fills++) { /* one for the head, one for all of a long record */
        bool is_inside = lsn >= w->at && lsn < w->at + w->filled;
        uint64_t there = is_inside ? w->at + w->filled - lsn : 0, needs;
        *record = is_inside ? w->bytes + (lsn - w->at) : NULL;
        *size = record_check(*record, there, until - lsn, position, folder->seed, &needs);
        if (*size) return is_in_order(s, lsn, *record, *size);
        if (!needs || fills == 2) return 0;
        int error = fill(w, folder, s, lsn, needs, until);
        if (error) return error;
    }
}

int window_feed(struct window *w, uint64_t from, const void *bytes, size_t size)
{
    uint64_t end = w->at + w->filled, left = w->filled && from < end ? end - from : 0;
    int error = make_room(w, left + size);
    if (error) return error;
    memmove(w->bytes, w->bytes + (w->filled - left), left);
    if (size) memcpy(w->bytes + left, bytes, size);
    w->at = from;
    w->filled = left + size;
    return 0;
}

void window_free(struct window *w)
{
    free(w->bytes);
    *w = (struct window){0};
}

/* ======== seeking a time ======== */

/* A reader goes to a time: by the indexes of the sealed segments, and by the records where there is none. */

static void go_to(struct reader *r, uint64_t position)
{
    if (position <= r->position) return;
    segment_close(&r->folder, &r->segment);
    window_clear(&r->window);
    r->position = position;
    r->has_begun = true;
}

/* Passes over what the index of this segment, which ends at `end`, says to be of earlier times. */
static void skip(struct reader *r, uint64_t base, uint64_t end, uint64_t time_ns)
{
    struct index index;
    if (!index_read(&r->folder, base, &index)) return;
    const struct index_stretch *found = index_find(&index, r->position, time_ns);
    go_to(r, found ? found->position : end);
    index_free(&index);
}

/* To the first record below `until` of this time or later; LOG_AT_END: there is none. */
static int read_up_to(struct reader *r, uint64_t time_ns, uint64_t until, struct log_fault *fault)
{
    struct reader_record record;
    int code;
    while ((code = reader_next(r, until, &record, fault)) == LOG_OK)
        if (record.head.time_ns >= time_ns) {
            reader_back(r, &record);
            return LOG_OK;
        }
    return code;
}

int reader_seek_time(struct reader *r, uint64_t time_ns, uint64_t limit, struct log_fault *fault)
{
    struct bases bases;
    int code = start_list(&r->folder, &bases, fault);
    if (!code) code = LOG_AT_END;
    for (size_t n = bases.before; n < bases.count && code == LOG_AT_END; n++) {
        bool is_last = n + 1 == bases.count;
        uint64_t end = !is_last && bases.of[n + 1] < limit ? bases.of[n + 1] : limit;
        if (end <= r->position) continue;
        if (!is_last) skip(r, bases.of[n], end, time_ns);
        code = read_up_to(r, time_ns, end, fault);
    }
    free(bases.of);
    return code;
}

/* ======== indexes ======== */

static const char MAGIC[8] = "RTMWIDX";

enum { CRC_FROM = 16, DIGITS = 20, ROOM_AT_FIRST = 64 };

static uint32_t crc_of(const struct index *index, uint32_t seed)
{
    uint32_t crc = crc32c(seed, (const uint8_t *)&index->head + CRC_FROM, sizeof index->head - CRC_FROM);
    return crc32c(crc, (const uint8_t *)index->stretches, index->head.count * sizeof *index->stretches);
}

static bool begin_stretch(struct index *index, uint64_t position)
{
    uint32_t n = index->head.count;
    if (n == 0 || (n >= ROOM_AT_FIRST && !(n & (n - 1)))) { /* full: it grows by doubling */
        size_t room = n ? 2 * (size_t)n : ROOM_AT_FIRST;
        struct index_stretch *larger = realloc(index->stretches, room * sizeof *larger);
        if (!larger) return false;
        index->stretches = larger;
    }
    index->stretches[n] = (struct index_stretch){.position = position};
    index->head.count++;
    return true;
}

static bool add(struct index *index, const struct record_head *record)
{
    struct index_head *head = &index->head;
    bool is_first = !head->count;
    if (is_first || record->lsn - index->stretches[head->count - 1].position >= INDEX_STRETCH)
        if (!begin_stretch(index, record->lsn)) return false;
    struct index_stretch *last = &index->stretches[head->count - 1];
    if (record->time_ns > last->latest_ns) last->latest_ns = record->time_ns;
    if (record->time_ns > head->latest_ns) head->latest_ns = record->time_ns;
    if (is_first || record->time_ns < head->earliest_ns) head->earliest_ns = record->time_ns;
    head->records++;
    return true;
}

static bool gather(const struct log_folder *folder, struct index *index, const uint32_t *stop)
{
    struct reader r;
    struct reader_record record;
    struct log_fault fault;
    int code = LOG_OK;
    bool goes_on = true;
    reader_open(&r, folder, index->head.base);
    while (goes_on && (code = reader_next(&r, index->head.end, &record, &fault)) == LOG_OK)
        goes_on = add(index, &record.head) && !load_acquire(stop);
    reader_close(&r);
    return goes_on && code == LOG_AT_END;
}

static void write_index(const struct log_folder *folder, struct index *index)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    index_name(index->head.base, name);
    memcpy(index->head.magic, MAGIC, sizeof MAGIC);
    index->head.version = LOG_VERSION;
    index->head.crc = crc_of(index, folder->seed);
    int file = io->open(io->disk, folder->folder, name, O_RDWR | O_CREAT | O_TRUNC);
    if (file < 0) return;
    size_t size = index->head.count * sizeof *index->stretches;
    int error = io_write_all(io, file, &index->head, sizeof index->head, 0);
    if (!error) error = io_write_all(io, file, index->stretches, size, sizeof index->head);
    io->close(io->disk, file);
    if (error) io->unlink(io->disk, folder->folder, name);
}

void index_make(const struct log_folder *folder, uint64_t base, uint64_t end, const uint32_t *stop)
{
    struct index index = {0};
    if (index_read(folder, base, &index)) return index_free(&index);
    index = (struct index){.head = {.base = base, .end = end}};
    if (gather(folder, &index, stop) && index.head.count) write_index(folder, &index);
    index_free(&index);
}

static bool is_of(const struct index_head *head, uint64_t base, int64_t size)
{
    return !memcmp(head->magic, MAGIC, sizeof MAGIC) && head->version == LOG_VERSION && head->base == base &&
           head->count && size == (int64_t)(sizeof *head + head->count * sizeof(struct index_stretch));
}

bool index_read(const struct log_folder *folder, uint64_t base, struct index *index)
{
    const struct log_io *io = folder->io;
    char name[SEGMENT_NAME];
    *index = (struct index){0};
    index_name(base, name);
    int file = io->open(io->disk, folder->folder, name, O_RDONLY);
    if (file < 0) return false;
    bool is_whole = io_read_all(io, file, &index->head, sizeof index->head, 0) == (int64_t)sizeof index->head &&
                    is_of(&index->head, base, io->size(io->disk, file));
    size_t size = is_whole ? index->head.count * sizeof *index->stretches : 0;
    index->stretches = is_whole ? malloc(size) : NULL;
    is_whole = index->stretches && io_read_all(io, file, index->stretches, size, sizeof index->head) == (int64_t)size &&
               index->head.crc == crc_of(index, folder->seed);
    io->close(io->disk, file);
    if (!is_whole) index_free(index);
    return is_whole;
}

void index_free(struct index *index)
{
    free(index->stretches);
    index->stretches = NULL;
}

const struct index_stretch *index_find(const struct index *index, uint64_t from, uint64_t time_ns)
{
    for (uint32_t n = 0; n < index->head.count; n++) {
        uint64_t end = n + 1 < index->head.count ? index->stretches[n + 1].position : index->head.end;
        if (end > from && index->stretches[n].latest_ns >= time_ns) return &index->stretches[n];
    }
    return NULL;
}

/* ======== runs ======== */

static bool is_wanted(const struct run *run, uint64_t time_ns)
{
    return run->start_ns <= time_ns && time_ns < run->end_ns;
}

static void append_none(struct run_texts *texts, size_t row)
{
    if (!texts->text) return;
    texts->is_there[row] = 0;
    texts->ends[row] = (int32_t)texts->size;
}

/* False: no room. */
static bool append_labels(struct run *run, const struct reader_record *record)
{
    struct label_head head;
    if (!record->labels_size) {
        append_none(&run->keys, run->count);
        append_none(&run->ids, run->count);
        return true;
    }
    memcpy(&head, record->labels, sizeof head);
    const uint8_t *key = record->labels + LABEL_HEAD, *id = key + head.key_size;
    return (!run->keys.text || run_append_label(&run->keys, run->count, head.key_kind, key, head.key_size)) &&
           (!run->ids.text || run_append_label(&run->ids, run->count, head.id_kind, id, head.id_size));
}

static bool append_data(struct run *run, const struct reader_record *record)
{
    if (!run->data) return true;
    if (record->data_size > run->data_room - run->data_size) {
        if (!run->count) run->needs = record->data_size;
        return false;
    }
    memcpy(run->data + run->data_size, record->data, record->data_size);
    run->place[run->count] = (int64_t)run->data_size;
    run->size[run->count] = (int64_t)record->data_size;
    run->data_size += record->data_size;
    return true;
}

/* What a record appended in part stays behind `count` and the sizes of texts, and is written over by the next one. */
static bool append(struct run *run, const struct reader_record *record)
{
    const size_t keys = run->keys.size, ids = run->ids.size;
    if (run->count == run->room || !append_labels(run, record) || !append_data(run, record)) {
        run->keys.size = keys;
        run->ids.size = ids;
        return false;
    }
    run->position[run->count] = record->head.lsn;
    run->time_ns[run->count] = record->head.time_ns;
    run->epoch[run->count] = record->head.epoch;
    run->count++;
    return true;
}

int run_read(struct reader *r, uint64_t limit, struct run *run, struct log_fault *fault)
{
    struct reader_record record;
    int code;
    while ((code = reader_next(r, limit, &record, fault)) == LOG_OK) {
        if (record.head.kind == RECORD_FENCE) continue;
        if (record.head.kind != RECORD_DATA && run->count) {
            reader_back(r, &record); /* it stands alone */
            return LOG_OK;
        }
        if (record.head.kind != RECORD_DATA) {
            run->other_kind = record.head.kind;
            run->other_position = record.head.lsn;
            return LOG_OK;
        }
        if (!is_wanted(run, record.head.time_ns) || append(run, &record)) continue;
        reader_back(r, &record);
        return LOG_OK;
    }
    return code;
}

/* ======== labels of runs ======== */

/* Keys and ids as text, as Python's str() shows numbers, and hex() bytes. */

enum { GROUP = 9, LIMBS = LABEL_LONGEST / 4 };

static const uint32_t BILLION = 1000000000; /* what GROUP digits say at most, and one */

static size_t put_hexadecimal(const uint8_t *label, size_t size, uint8_t *to)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        to[2 * i] = (uint8_t)digits[label[i] >> 4];
        to[2 * i + 1] = (uint8_t)digits[label[i] & 15];
    }
    return 2 * size;
}

/* The magnitude of a number of two's complement, the lowest limb first; gives how many limbs there are. */
static size_t magnitude_of(const uint8_t *label, size_t size, bool is_negative, uint32_t *limbs)
{
    size_t count = (size + 3) / 4;
    memset(limbs, is_negative ? 0xFF : 0, 4 * count);
    memcpy(limbs, label, size);
    uint64_t carry = is_negative;
    for (size_t i = 0; is_negative && i < count; i++) {
        carry += (uint32_t)~limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return count;
}

/* Divides by a billion; gives the remainder. */
static uint32_t divide(uint32_t *limbs, size_t count)
{
    uint64_t rest = 0;
    for (size_t i = count; i-- > 0;) {
        rest = rest << 32 | limbs[i];
        limbs[i] = (uint32_t)(rest / BILLION);
        rest %= BILLION;
    }
    return (uint32_t)rest;
}

/* From the last digit to the first; so many that `to` has room for run_text_room. */
static size_t put_number(const uint8_t *label, size_t size, uint8_t *to)
{
    uint32_t limbs[LIMBS];
    bool is_negative = size && label[size - 1] & 0x80;
    size_t count = magnitude_of(label, size, is_negative, limbs), length = 0;
    do {
        uint32_t group = divide(limbs, count);
        while (count && !limbs[count - 1]) count--;
        for (int i = 0; i < GROUP && (count || group || !i); i++, group /= 10)
            to[length++] = (uint8_t)('0' + group % 10);
    } while (count);
    while (length > 1 && to[length - 1] == '0') length--;
    if (is_negative) to[length++] = '-';
    for (size_t i = 0; i < length / 2; i++) {
        uint8_t first = to[i];
        to[i] = to[length - 1 - i];
        to[length - 1 - i] = first;
    }
    return length;
}

/* Bytes of text that a label of so many bytes becomes at most: two hexadecimal digits, or 2.41 decimal ones, for each. */
static size_t text_room(size_t size) { return 3 * size + GROUP + 1; }

bool run_append_label(struct run_texts *texts, size_t row, unsigned kind, const uint8_t *label, size_t size)
{
    if (text_room(size) > texts->room - texts->size) return false;
    uint8_t *to = texts->text + texts->size;
    if (kind == LABEL_BYTES) texts->size += put_hexadecimal(label, size, to);
    if (kind == LABEL_NUMBER) texts->size += put_number(label, size, to);
    if (kind == LABEL_TEXT) texts->size += size;
    if (kind == LABEL_TEXT) memcpy(to, label, size);
    texts->is_there[row] = kind != LABEL_NONE && kind != LABEL_AUTOMATIC;
    texts->ends[row] = (int32_t)texts->size;
    return true;
}

/* ======== epochs ======== */

enum { NEAR = 64 * 1024 }; /* most first records end there: no more is read for them */

struct epochs {
    struct log_folder folder;
    uint64_t end;
    struct log_epoch *table;
    size_t count, room;
};

static int note(struct epochs *e, uint32_t epoch, uint64_t position, struct log_fault *fault)
{
    if (e->count && e->table[e->count - 1].epoch == epoch) return LOG_OK;
    if (e->count == e->room) {
        size_t room = e->room ? 2 * e->room : 16;
        struct log_epoch *larger = realloc(e->table, room * sizeof *larger);
        if (!larger) return log_fail(fault, LOG_NO_MEMORY, "epochs", ".", ENOMEM);
        e->table = larger;
        e->room = room;
    }
    e->table[e->count++] = (struct log_epoch){.epoch = epoch, .start = position};
    return LOG_OK;
}

static int epoch_at(const struct epochs *e, uint64_t position, uint32_t *epoch, struct log_fault *fault)
{
    uint64_t limit = e->end - position > NEAR ? position + NEAR : e->end;
    for (;; limit = e->end) {
        struct reader r;
        struct reader_record record;
        reader_open_at(&r, &e->folder, position);
        int code = reader_next(&r, limit, &record, fault);
        reader_close(&r);
        if (!code) *epoch = record.head.epoch;
        if (!code || limit == e->end) return code;
    }
}

static int scan(struct epochs *e, uint64_t from, uint64_t until, struct log_fault *fault)
{
    struct reader r;
    struct reader_record record;
    int code;
    reader_open_at(&r, &e->folder, from);
    while ((code = reader_next(&r, until, &record, fault)) == LOG_OK) {
        code = note(e, record.head.epoch, record.head.lsn, fault);
        if (code) break;
    }
    reader_close(&r);
    return code == LOG_AT_END ? LOG_OK : code;
}

/* Epochs never fall, so a segment is gone through only if the next one begins with another epoch, or there is none. */
static int gather_epochs(struct epochs *e, const struct bases *bases, struct log_fault *fault)
{
    int code = LOG_OK;
    for (size_t n = bases->before; n < bases->count && bases->of[n] < e->end && !code; n++) {
        bool is_last = n + 1 == bases->count || bases->of[n + 1] >= e->end;
        uint64_t base = bases->of[n], until = is_last ? e->end : bases->of[n + 1];
        uint32_t first = 0, next = 0;
        code = epoch_at(e, base, &first, fault);
        if (!code && !is_last) code = epoch_at(e, until, &next, fault);
        bool changes = is_last || next != first;
        if (!code) code = changes ? scan(e, base, until, fault) : note(e, first, base, fault);
    }
    return code;
}

int log_epochs(const struct log_folder *folder, uint64_t end, struct log_epoch **table, size_t *count,
               struct log_fault *fault)
{
    struct bases bases;
    struct epochs e = {.folder = *folder, .end = end};
    int code = start_list(folder, &bases, fault);
    if (!code) code = gather_epochs(&e, &bases, fault);
    free(bases.of);
    *table = e.table;
    *count = e.count;
    return code;
}
