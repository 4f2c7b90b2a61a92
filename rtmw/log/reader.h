/* Reading a log: windows of segments, readers, indexes by time, runs of records as columns, epochs. */
#ifndef RTMW_LOG_READER_H
#define RTMW_LOG_READER_H

#include "labels.h"
#include "log.h"
#include "record.h"
#include "segment.h"

/* ======== windows ======== */

/* A window of a segment in memory: records are looked at in it, and it is filled by reads of a MiB.
 *
 * It never holds bytes at or above `until`: these may still be written. Files are read, not mapped: a file that somebody
 * cuts makes a read short, and ends no process. One thread at a time.
 */

struct window {
    uint8_t *bytes;
    size_t room;
    uint64_t at, filled; /* position of its first byte; bytes that are there */
};

/* The record at the place `lsn` of a segment, below `until`: 1, 0 where no valid one is, or -errno. Of a compacted segment all
 * is durable, and `until` does not count.
 * `*record` points into the window, until the next call. */
int window_record(struct window *w, const struct log_folder *folder, const struct segment *s, uint64_t lsn,
                  uint64_t until, const uint8_t **record, uint64_t *size);
/* The size of the record at `lsn`, below `until`, of a segment that is not compacted, if all of it lies in the window, as most
 * do; 0: window_record has to look. */
static inline uint64_t window_look(const struct window *w, uint64_t lsn, uint64_t until, uint32_t seed,
                                   const uint8_t **record)
{
    if (lsn < w->at || lsn - w->at >= w->filled || lsn >= until) return 0;
    uint64_t there = w->at + w->filled - lsn, needs;
    if (there > until - lsn) there = until - lsn;
    *record = w->bytes + (lsn - w->at);
    return record_check(*record, there, there, lsn, seed, &needs);
}
/* Forget what was read: it may have been written since. */
static inline void window_clear(struct window *w) { w->filled = 0; }
/* For a window without a file: bytes that follow on those that are in it; what lies before `from` goes. 0 or -ENOMEM. */
int window_feed(struct window *w, uint64_t from, const void *bytes, size_t size);
void window_free(struct window *w);

/* ======== readers ======== */

/* A reader: goes through the records of a log, in this process or in any other, and needs no lock.
 *
 * It passes over what compaction has removed, also where it is opened there. It looks at nothing above what is durable. A
 * segment that is recycled or removed while a reader is in it shows no valid record any more: LOG_TRIMMED. One thread at
 * a time.
 */

struct reader {
    struct log_folder folder;
    struct segment segment;
    struct window window;
    uint64_t position; /* of the next record, or of what compaction has removed before it */
    uint64_t place;    /* in a compacted segment: of a record that is not behind `position` */
    uint64_t behind;   /* likewise: where the record before `place` ends; no record there begins before it */
    uint64_t scanned;  /* reader_scan: behind which position `place` lies */
    bool is_whole;     /* reader_scan has passed nothing but whole records */
    bool has_begun;    /* a record was found: `position` is where one begins */
    bool
        may_be_cut; /* by a truncation: there is nothing meanwhile, and that is no damage. Not of the log's own service */
    bool is_fed;    /* records come by reader_feed, and no file is read */
};

struct reader_record {
    struct record_head head;
    const uint8_t *labels, *data; /* in the window, until the next call */
    size_t labels_size, data_size;
    uint64_t end; /* where the next record begins */
};

void reader_open(struct reader *r, const struct log_folder *folder, uint64_t position);
/* At a position that a file of the log says: that no record begins there is damage, and nobody's mistake. */
void reader_open_at(struct reader *r, const struct log_folder *folder, uint64_t position);
void reader_close(struct reader *r);
/* A reader of bytes that somebody else has read (reader_raw), from this position on; uuid and seed of `folder` count. */
void reader_open_fed(struct reader *r, const struct log_folder *folder, uint64_t position);
/* Copies the bytes of the next records, which follow on those of the call before; false: no memory. LOG_AT_END of reader_next
 * then says, too, that more has to be fed. */
bool reader_feed(struct reader *r, const void *bytes, size_t size);
/* The record that was given last is the next one again. */
void reader_back(struct reader *r, const struct reader_record *record);
/* Goes to the first record, by position, below `limit` that was appended at this time or later, also where the clock
 * was set back in between; LOG_AT_END: to `limit`. */
int reader_seek_time(struct reader *r, uint64_t time_ns, uint64_t limit, struct log_fault *fault);

/* Are key and id of kinds that there are, no longer than they may be, and text of UTF-8 where they are text? */
bool reader_knows(const struct label_head *head, const uint8_t *labels);

/* Takes a valid record of so many bytes apart; LOG_DAMAGED: its labels are none, or longer than it. */
static inline int reader_split(const uint8_t *bytes, uint64_t size, struct reader_record *record)
{
    memcpy(&record->head, bytes, sizeof record->head);
    record->labels = bytes + RECORD_HEAD;
    record->labels_size = 0;
    if (record->head.flags & RECORD_LABELS) {
        struct label_head labels;
        if (!label_head_of(record->labels, record->head.length, &labels)) return LOG_DAMAGED;
        if (!reader_knows(&labels, record->labels)) return LOG_DAMAGED;
        record->labels_size = labels_size_of(&labels);
    }
    record->data = record->labels + record->labels_size;
    record->data_size = record->head.length - record->labels_size;
    record->end = record->head.lsn + size;
    return LOG_OK;
}

/* LOG_DAMAGED: the labels of the record at the position, which has `size` bytes, are none. */
int reader_damaged(const struct reader *r, uint64_t size, struct log_fault *fault);

/* Takes the record at the position apart, and goes on behind it. */
static inline int reader_pass(struct reader *r, const uint8_t *bytes, uint64_t size, struct reader_record *record,
                              struct log_fault *fault)
{
    if (reader_split(bytes, size, record)) return reader_damaged(r, size, fault);
    r->position += size;
    r->place += size;
    r->has_begun = true;
    return LOG_OK;
}

/* reader_next, wherever the record lies. */
int reader_find(struct reader *r, uint64_t limit, struct reader_record *record, struct log_fault *fault);

/* The next record below `limit`, which is durable; LOG_AT_END: there is none. LOG_NO_RECORD: the reader was opened at a
 * position at which no record begins. LOG_DAMAGED, LOG_TRIMMED, LOG_FAILED, LOG_NO_MEMORY. */
static inline int reader_next(struct reader *r, uint64_t limit, struct reader_record *record, struct log_fault *fault)
{
    const uint8_t *bytes;
    uint64_t size = r->segment.is_compacted ? 0 : window_look(&r->window, r->position, limit, r->folder.seed, &bytes);
    return size ? reader_pass(r, bytes, size, record, fault) : reader_find(r, limit, record, fault);
}

/* Whole batches as they lie in the log, for writer_append_raw or reader_feed. */
struct raw_run {
    uint8_t *to; /* the caller's memory, of `room` bytes */
    size_t room;
    size_t size;  /* the result: so many bytes, one batch at least */
    size_t needs; /* or size is 0, and the next batch has so many bytes: the call is to be made again with more room */
};
/* From the position on, where a batch begins, up to `limit`; the reader stands behind them. LOG_AT_END: no whole batch lies
 * below `limit`. LOG_REFUSED: compaction has removed records there. Else as reader_next. */
int reader_raw(struct reader *r, uint64_t limit, struct raw_run *run, struct log_fault *fault);

/* recover.c: the first valid record at or behind `from` in the segment of this base, whatever lies before it, and whatever
 * its head and marks say; LOG_AT_END: none follows. `is_whole`: there is nothing between it, or the end of the segment, and
 * the last one below `from`; so where positions are missing, compaction has removed them. Such a reader does nothing else. */
int reader_scan(struct reader *r, uint64_t base, uint64_t from, struct reader_record *record, struct log_fault *fault);

/* ======== indexes ======== */

/* The index of a sealed segment, the file `<base>.idx`: the latest time of each stretch of it, to find a time by.
 *
 * It follows from the records, and is not synced: a reader that finds none, or one that is not whole, reads the records.
 * The wall clock may be set back, so a stretch says its latest time and not its first one: the first record of a time or
 * later lies in the first stretch whose latest time is not earlier.
 */

enum { INDEX_STRETCH = 64 * 1024 }; /* bytes of a stretch at least; it ends with a record */

struct index_head {
    char magic[8];
    uint32_t version, crc; /* the CRC is of the log's uuid and of all that follows it */
    uint64_t base, end;    /* of the segment's records */
    uint64_t records;
    uint64_t earliest_ns, latest_ns; /* of all of them */
    uint32_t count, zero;            /* of stretches */
};
_Static_assert(sizeof(struct index_head) == 64, "as in docs/formats/log-format.md");

struct index_stretch {
    uint64_t position, latest_ns;
};
_Static_assert(sizeof(struct index_stretch) == 16, "as in docs/formats/log-format.md");

struct index {
    struct index_head head;
    struct index_stretch *stretches;
};

/* Makes the index of a segment that ends at `end`, unless it has a whole one. `stop`: ends it early when it is not 0 any
 * more. What fails is left out: the segment has no index then. It reads the whole segment. */
void index_make(const struct log_folder *folder, uint64_t base, uint64_t end, const uint32_t *stop);
/* false: there is no whole one. On true the caller calls index_free. */
bool index_read(const struct log_folder *folder, uint64_t base, struct index *index);
void index_free(struct index *index);
/* The first stretch behind or at `from` that has a record of this time or later; NULL: none has. */
const struct index_stretch *index_find(const struct index *index, uint64_t from, uint64_t time_ns);

/* ======== runs ======== */

/* A run: records of a log as columns, many in one call. Nothing is allocated here, and no object stands for a record.
 *
 * The caller gives the memory. A run ends before a record for which there is no room, and the reader stands there.
 * reader.h says which threads may call, and when.
 */

/* Keys or ids, as text: numbers in digits, bytes in hexadecimal digits. */
struct run_texts {
    uint8_t *text; /* NULL: nobody wants them */
    size_t room, size;
    int32_t *ends;     /* where the text of each record ends */
    uint8_t *is_there; /* 1, or 0 for a record without */
};

struct run {
    size_t room, count; /* records */
    uint64_t *position, *time_ns;
    uint32_t *epoch;
    uint8_t *data; /* of all records, one behind the other; NULL: nobody wants them */
    size_t data_room, data_size;
    int64_t *place, *size; /* of the data of each record, in `data` */
    struct run_texts keys, ids;
    size_t needs; /* bytes of data, if the run has no record because the next one has more than there is room */
    uint64_t other_position;   /* of the record, alone, whose kind is not RECORD_DATA */
    unsigned other_kind;       /* 0: there was none */
    uint64_t start_ns, end_ns; /* only records with start_ns <= time < end_ns; each is looked at: clocks are set back */
};

/* Reads on, up to `limit`: LOG_OK: there is no room for more, or a record of another kind was met; LOG_AT_END: `limit` is
 * reached. Else as reader_next, and the next call meets the same again, unless it was of the moment. In all cases `count`
 * records are there. */
int run_read(struct reader *r, uint64_t limit, struct run *run, struct log_fault *fault);

/* Appends the text of a label of this kind, which reader_knows. False: there is no room for it. */
bool run_append_label(struct run_texts *texts, size_t row, unsigned kind, const uint8_t *label, size_t size);

/* ======== epochs ======== */

/* The epochs of a log: each master of a replicated log writes its records under a number of its own, higher than all before.
 *
 * The table follows from the records and lies nowhere: the first record of each segment says where to look. An epoch of which
 * there is no record has no entry; neither heads of segments nor files are trusted for it.
 */

struct log_epoch {
    uint32_t epoch;
    uint64_t start; /* position of its first record; it ends where the next one starts, or the log ends */
};

/* Of the records below `end`, which are durable, ascending; the caller frees the table. LOG_DAMAGED, LOG_FAILED, LOG_TRIMMED,
 * LOG_NO_MEMORY. */
int log_epochs(const struct log_folder *folder, uint64_t end, struct log_epoch **table, size_t *count,
               struct log_fault *fault);

#endif
