#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "../shm/utf8.h"
#include "start.h"
#include "truncate.h"

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
