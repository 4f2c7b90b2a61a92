#include "retention.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "start.h"

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
