/* A reader: goes through the records of a log, in this process or in any other, and needs no lock.
 *
 * It passes over what compaction has removed, also where it is opened there. It looks at nothing above what is durable. A
 * segment that is recycled or removed while a reader is in it shows no valid record any more: LOG_TRIMMED. One thread at
 * a time.
 */
#ifndef RTMW_LOG_READER_H
#define RTMW_LOG_READER_H

#include "labels.h"
#include "window.h"

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
/* seek.c: goes to the first record, by position, below `limit` that was appended at this time or later, also where the clock
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

/* salvage.c: the first valid record at or behind `from` in the segment of this base, whatever lies before it, and whatever
 * its head and marks say; LOG_AT_END: none follows. `is_whole`: there is nothing between it, or the end of the segment, and
 * the last one below `from`; so where positions are missing, compaction has removed them. Such a reader does nothing else. */
int reader_scan(struct reader *r, uint64_t base, uint64_t from, struct reader_record *record, struct log_fault *fault);

#endif
