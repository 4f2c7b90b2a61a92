#include "epochs.h"

#include <errno.h>
#include <stdlib.h>

#include "reader.h"
#include "start.h"

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
static int gather(struct epochs *e, const struct bases *bases, struct log_fault *fault)
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
    if (!code) code = gather(&e, &bases, fault);
    free(bases.of);
    *table = e.table;
    *count = e.count;
    return code;
}
