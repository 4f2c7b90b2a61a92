/* The look at a log after a cut: what must be there is there, and nothing else. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "power.h"
#include "rig.h"

static void wrong_at(const struct expected *e, const char *what, const struct log_fault *fault)
    __attribute__((noreturn));
static void wrong_at(const struct expected *e, const char *what, const struct log_fault *fault)
{
    char when[80];
    snprintf(when, sizeof when, "after a cut at event %llu of life %u", (unsigned long long)e->event, e->life);
    wrong(when, what, fault);
}

/* Where the look at the records has come to. */
struct look {
    const struct expected *expected;
    struct state *found;
    uint32_t next[POWER_THREADS]; /* the first record of this thread that has not been seen */
    uint64_t begun;               /* the latest beginning of an append among the records so far */
};

static void see_own(struct look *look, const struct origin *o, uint64_t position)
{
    const struct expected *e = look->expected;
    if (o->life != e->life || o->thread >= POWER_THREADS || o->number >= e->notes->count[o->thread])
        wrong_at(e, "a record that was never appended", NULL);
    const struct note *note = &e->notes->of[o->thread][o->number];
    if (note->begun >= e->event) wrong_at(e, "a record whose append began after the cut", NULL);
    if (o->number != look->next[o->thread]++) wrong_at(e, "records of a thread are not in their order", NULL);
    if (note->answered != POWER_NEVER && note->position != position)
        wrong_at(e, "a record at another position than was answered", NULL);
    if (note->answered < look->begun) wrong_at(e, "a record behind one that was begun when it had been answered", NULL);
    if (note->begun > look->begun) look->begun = note->begun;
}

static void see(struct look *look, const struct reader_record *record)
{
    const struct expected *e = look->expected;
    struct state *found = look->found;
    uint8_t data[POWER_LARGEST];
    struct origin o;
    if (record->data_size < sizeof o) wrong_at(e, "a record that was never appended", NULL);
    memcpy(&o, record->data, sizeof o);
    uint32_t size = power_data(o.life, o.thread, o.number, data);
    if (size != record->data_size || memcmp(data, record->data, size))
        wrong_at(e, "a record with other data than were appended", NULL);
    const struct kept *before = found->count < e->before->count ? &e->before->records[found->count] : NULL;
    if (before && (memcmp(&before->origin, &o, sizeof o) || before->position != record->head.lsn))
        wrong_at(e, "a record that was there when the life began is lost or another one", NULL);
    if (!before) see_own(look, &o, record->head.lsn);
    if (found->count == POWER_KEPT) abort();
    found->records[found->count++] = (struct kept){o, record->head.lsn};
}

/* LOG_AT_END: all were read. */
static int read_all(const struct log_folder *folder, uint64_t end, struct look *look, struct log_fault *fault)
{
    struct reader r;
    struct reader_record record;
    int code;
    reader_open(&r, folder, 0);
    while ((code = reader_next(&r, end, &record, fault)) == LOG_OK) see(look, &record);
    if (code == LOG_AT_END && r.position != end) code = LOG_DAMAGED;
    reader_close(&r);
    return code;
}

static void check_missing(const struct look *look)
{
    const struct expected *e = look->expected;
    if (look->found->count < e->before->count)
        wrong_at(e, "records that were there when the life began are lost", NULL);
    for (uint32_t t = 0; t < POWER_THREADS; t++) {
        uint32_t count = look->next[t];
        if (count && e->notes->of[t][count - 1].more) wrong_at(e, "half a batch is there", NULL);
        for (uint32_t n = count; n < e->notes->count[t]; n++)
            if (e->notes->of[t][n].answered <= e->event) wrong_at(e, "a record that was answered is lost", NULL);
    }
}

/* Recovers and reads. LOG_AT_END, LOG_NO_LOG, or why it was refused. */
static int recover_and_read(int at, bool to_write, struct look *look, struct log_fault *fault)
{
    struct log_folder folder = {.io = &log_io_system, .folder = at};
    struct recovered found;
    void *description = NULL;
    uint32_t size;
    int code = log_identify(&folder, &description, &size, fault);
    free(description);
    if (!code) code = log_recover(&folder, to_write, &found, fault);
    if (code) return code;
    segment_close(&folder, &found.last);
    return read_all(&folder, found.end, look, fault);
}

void power_look(int folder, const struct expected *e, bool to_write, struct state *found)
{
    struct look look = {.expected = e, .found = found};
    struct log_fault fault = {0};
    found->count = 0;
    int code = recover_and_read(folder, to_write, &look, &fault);
    found->is_created = code != LOG_NO_LOG;
    if (code == LOG_NO_LOG && !e->before->is_created && e->notes->created > e->event) return;
    if (code == LOG_NO_LOG) wrong_at(e, "the log that was created is lost", NULL);
    if (code != LOG_AT_END) wrong_at(e, "the log is refused", &fault);
    check_missing(&look);
}

/* A record that was answered before another one began that was answered too: the mark of the second says that the first
 * one is durable. POWER_NEVER: there is none. */
static uint64_t below_watermark(const struct expected *e, uint64_t *seed)
{
    uint64_t latest = 0, chosen = POWER_NEVER, candidates = 0;
    for (uint32_t t = 0; t < POWER_THREADS; t++)
        for (uint32_t n = 0; n < e->notes->count[t]; n++)
            if (e->notes->of[t][n].answered <= e->event && e->notes->of[t][n].begun > latest)
                latest = e->notes->of[t][n].begun;
    for (uint32_t t = 0; t < POWER_THREADS; t++)
        for (uint32_t n = 0; n < e->notes->count[t]; n++)
            if (e->notes->of[t][n].answered < latest && disk_random(seed) % ++candidates == 0)
                chosen = e->notes->of[t][n].position;
    return chosen;
}

static void turn_byte(int at, uint64_t position)
{
    struct log_folder folder = {.io = &log_io_system, .folder = at};
    struct log_fault fault;
    uint64_t *bases, base = 0;
    size_t count;
    char name[SEGMENT_NAME];
    uint8_t byte;
    if (segment_list(&folder, &bases, &count, &fault)) abort();
    for (size_t n = 0; n < count && bases[n] <= position; n++) base = bases[n];
    free(bases);
    segment_name(base, name);
    int file = openat(at, name, O_RDWR);
    off_t place = (off_t)(SEGMENT_DATA + (position - base) + RECORD_HEAD);
    if (file < 0 || pread(file, &byte, 1, place) != 1) abort();
    byte ^= 1;
    if (pwrite(file, &byte, 1, place) != 1) abort();
    close(file);
}

bool power_rot(int folder, const struct expected *e, uint64_t *seed)
{
    static struct state found;
    struct look look = {.expected = e, .found = &found};
    struct log_fault fault = {0};
    uint64_t position = below_watermark(e, seed);
    if (position == POWER_NEVER) return false;
    turn_byte(folder, position);
    found.count = 0;
    int code = recover_and_read(folder, disk_random(seed) % 2, &look, &fault);
    if (code == LOG_AT_END) wrong_at(e, "a record below the watermark rotted, and was taken for a torn tail", NULL);
    if (code != LOG_DAMAGED) wrong_at(e, "rot was not called damage", &fault);
    return true;
}
