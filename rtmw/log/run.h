/* A run: records of a log as columns, many in one call. Nothing is allocated here, and no object stands for a record.
 *
 * The caller gives the memory. A run ends before a record for which there is no room, and the reader stands there.
 * reader.h says which threads may call, and when.
 */
#ifndef RTMW_LOG_RUN_H
#define RTMW_LOG_RUN_H

#include "reader.h"

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

/* run_label.c: appends the text of a label of this kind, which reader_knows. False: there is no room for it. */
bool run_append_label(struct run_texts *texts, size_t row, unsigned kind, const uint8_t *label, size_t size);

#endif
