/* A reader goes to a time: by the indexes of the sealed segments, and by the records where there is none. */
#include <stdlib.h>

#include "index.h"
#include "reader.h"
#include "start.h"

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
