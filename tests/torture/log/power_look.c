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

static const struct note *note_of(const struct expected *e, const struct origin *o)
{
    if (o->life != e->life || o->thread >= POWER_THREADS || o->number >= e->notes->count[o->thread])
        wrong_at(e, "a record that was never appended", NULL);
    return &e->notes->of[o->thread][o->number];
}

static void see(const struct expected *e, struct state *found, const struct reader_record *record)
{
    uint8_t data[POWER_LARGEST];
    struct origin o;
    if (record->data_size < sizeof o) wrong_at(e, "a record that was never appended", NULL);
    memcpy(&o, record->data, sizeof o);
    uint32_t size = power_data(o.life, o.thread, o.number, data);
    if (size != record->data_size || memcmp(data, record->data, size))
        wrong_at(e, "a record with other data than were appended", NULL);
    if (found->count == POWER_KEPT) abort();
    found->records[found->count++] = (struct kept){o, record->head.lsn};
}

/* LOG_AT_END: all were read. */
static int read_all(const struct log_folder *folder, const struct expected *e, struct state *found,
                    struct log_fault *fault)
{
    struct reader r;
    struct reader_record record;
    int code;
    reader_open(&r, folder, 0);
    while ((code = reader_next(&r, found->end, &record, fault)) == LOG_OK) see(e, found, &record);
    if (code == LOG_AT_END && r.position != found->end) code = LOG_DAMAGED;
    reader_close(&r);
    return code;
}

/* ---- compare ---- */

/* Of each key the position before which compaction may have removed all of its records. */
struct floors {
    uint64_t of[KEYS];
};

/* `upto`: of the records below it. */
static struct floors floors_of(const struct state *found, uint64_t upto, uint32_t per_key)
{
    struct floors floors = {0};
    uint32_t counts[KEYS] = {0};
    for (uint32_t n = found->count; n > 0; n--) {
        const struct kept *record = &found->records[n - 1];
        uint64_t tag = power_tag(&record->origin);
        uint32_t key = key_number(tag);
        if (record->position >= upto || !has_key(tag)) continue;
        if (++counts[key] == per_key) floors.of[key] = record->position;
    }
    return floors;
}

static bool is_superseded(const struct floors *floors, const struct origin *o, uint64_t position)
{
    uint64_t tag = power_tag(o);
    return has_key(tag) && position < floors->of[key_number(tag)];
}

static int compare_positions(const void *one, const void *other)
{
    const struct kept *a = one, *b = other;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* A record that must be at this position is there, and no other one; or compaction has removed it. */
static void check_kept(const struct expected *e, const struct state *found, const struct floors *floors,
                       const struct kept *kept, const char *is_lost)
{
    const struct kept *there = bsearch(kept, found->records, found->count, sizeof *kept, compare_positions);
    bool is_same = there && there->origin.life == kept->origin.life && there->origin.thread == kept->origin.thread &&
                   there->origin.number == kept->origin.number;
    if (there && !is_same) wrong_at(e, "another record at the position that was answered", NULL);
    if (!there && !is_superseded(floors, &kept->origin, kept->position)) wrong_at(e, is_lost, NULL);
}

/* What was there when the life began is there. */
static void check_before(const struct expected *e, const struct state *found, const struct floors *floors)
{
    if (found->end < e->before->end) wrong_at(e, "the log ends before it did when the life began", NULL);
    for (uint32_t n = 0; n < e->before->count; n++)
        check_kept(e, found, floors, &e->before->records[n], "a record that was there when the life began is lost");
}

/* Of what this life appended, all that lies before the end of the log is there, with whole batches; and that is all that was
 * answered. */
static void check_appended(const struct expected *e, const struct state *found, const struct floors *floors)
{
    for (uint32_t t = 0; t < POWER_THREADS; t++) {
        for (uint32_t n = 0; n < e->notes->count[t]; n++) {
            const struct note *note = &e->notes->of[t][n];
            struct kept kept = {{.life = e->life, .thread = t, .number = n}, note->position};
            bool is_inside = note->position < found->end;
            if (is_inside) check_kept(e, found, floors, &kept, "a record before the end of the log is lost");
            if (is_inside && note->more && note[1].position >= found->end) wrong_at(e, "half a batch is there", NULL);
            if (!is_inside && note->answered <= e->event) wrong_at(e, "a record that was answered is lost", NULL);
        }
    }
}

/* Nothing else is there: each record is one of before, or was appended before the cut; in the order of its positions,
 * none lies behind one that was begun only when it had been answered. */
static void check_found(const struct expected *e, const struct state *found)
{
    uint64_t begun = 0; /* the latest one so far */
    for (uint32_t n = 0; n < found->count; n++) {
        const struct kept *record = &found->records[n];
        if (record->position < e->before->end) {
            if (!bsearch(record, e->before->records, e->before->count, sizeof *record, compare_positions))
                wrong_at(e, "a record that was not there when the life began", NULL);
            continue;
        }
        const struct note *note = note_of(e, &record->origin);
        if (note->begun >= e->event) wrong_at(e, "a record whose append began after the cut", NULL);
        if (note->position != record->position) wrong_at(e, "a record at another position than was answered", NULL);
        if (note->answered < begun) wrong_at(e, "a record behind one that was begun when it had been answered", NULL);
        if (note->begun > begun) begun = note->begun;
    }
}

/* What compaction has said to be done is done. */
static void check_compacted(const struct expected *e, const struct log_folder *folder, const struct state *found)
{
    uint64_t clean = compacted_upto(folder, e->per_key);
    struct floors floors = floors_of(found, clean, e->per_key);
    for (uint32_t n = 0; n < found->count && found->records[n].position < clean; n++)
        if (is_superseded(&floors, &found->records[n].origin, found->records[n].position))
            wrong_at(e, "a record is there although compaction has said that it is gone", NULL);
}

/* ---- look ---- */

/* Recovers and reads. LOG_AT_END, LOG_NO_LOG, or why it was refused. */
static int recover_and_read(struct log_folder *folder, const struct expected *e, bool to_write, struct state *found,
                            struct log_fault *fault)
{
    struct recovered recovered;
    void *description = NULL;
    uint32_t size;
    int code = log_identify(folder, &description, &size, fault);
    free(description);
    found->count = 0;
    if (!code) code = log_recover(folder, to_write, &recovered, fault);
    if (code) return code;
    segment_close(folder, &recovered.last);
    found->end = recovered.end;
    return read_all(folder, e, found, fault);
}

void power_look(int at, const struct expected *e, bool to_write, struct state *found)
{
    struct log_folder folder = {.io = &log_io_system, .folder = at};
    struct log_fault fault = {0};
    int code = recover_and_read(&folder, e, to_write, found, &fault);
    found->is_created = code != LOG_NO_LOG;
    if (code == LOG_NO_LOG && !e->before->is_created && e->notes->created > e->event) return;
    if (code == LOG_NO_LOG) wrong_at(e, "the log that was created is lost", NULL);
    if (code != LOG_AT_END) wrong_at(e, "the log is refused", &fault);
    struct floors floors = floors_of(found, UINT64_MAX, e->per_key);
    check_before(e, found, &floors);
    check_appended(e, found, &floors);
    check_found(e, found);
    check_compacted(e, &folder, found);
}

/* ---- rot ---- */

/* A record that was answered before another one began that was answered too: the mark of the second says that the first
 * one is durable. false: there is none. */
static bool below_watermark(const struct expected *e, uint64_t *seed, struct origin *chosen)
{
    uint64_t latest = 0, candidates = 0;
    for (uint32_t t = 0; t < POWER_THREADS; t++)
        for (uint32_t n = 0; n < e->notes->count[t]; n++)
            if (e->notes->of[t][n].answered <= e->event && e->notes->of[t][n].begun > latest)
                latest = e->notes->of[t][n].begun;
    for (uint32_t t = 0; t < POWER_THREADS; t++)
        for (uint32_t n = 0; n < e->notes->count[t]; n++)
            if (e->notes->of[t][n].answered < latest && disk_random(seed) % ++candidates == 0)
                *chosen = (struct origin){.life = e->life, .thread = t, .number = n};
    return candidates;
}

/* In this segment. false: these bytes are not there. */
static bool turn_byte_in(int at, uint64_t base, const uint8_t *data, size_t size)
{
    static uint8_t bytes[2 * POWER_SEGMENT];
    char name[SEGMENT_NAME];
    segment_name(base, name);
    int file = openat(at, name, O_RDWR | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : pread(file, bytes, sizeof bytes, 0);
    if (count < 0) abort();
    uint8_t *there = memmem(bytes, (size_t)count, data, size);
    if (there) {
        *there ^= 1;
        if (pwrite(file, there, 1, there - bytes) != 1) abort();
    }
    close(file);
    return there;
}

/* The record is looked for by its data, since compaction may have moved it within its segment, or removed it: then false. */
static bool turn_byte(int at, const struct origin *o)
{
    struct log_folder folder = {.io = &log_io_system, .folder = at};
    struct log_fault fault;
    uint8_t data[POWER_LARGEST];
    uint64_t *bases;
    size_t count, size = power_data(o->life, o->thread, o->number, data);
    bool has_turned = false;
    if (segment_list(&folder, &bases, &count, &fault)) abort();
    for (size_t n = 0; n < count && !has_turned; n++) has_turned = turn_byte_in(at, bases[n], data, size);
    free(bases);
    return has_turned;
}

bool power_rot(int at, const struct expected *e, uint64_t *seed)
{
    static struct state found;
    struct log_folder folder = {.io = &log_io_system, .folder = at};
    struct log_fault fault = {0};
    struct origin chosen;
    if (!below_watermark(e, seed, &chosen) || !turn_byte(at, &chosen)) return false;
    int code = recover_and_read(&folder, e, disk_random(seed) % 2, &found, &fault);
    if (code == LOG_AT_END) wrong_at(e, "a record below the watermark rotted, and was taken for a torn tail", NULL);
    if (code != LOG_DAMAGED) wrong_at(e, "rot was not called damage", &fault);
    return true;
}
