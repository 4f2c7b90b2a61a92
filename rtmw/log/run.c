#include "run.h"

#include <string.h>

#include "labels.h"

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
