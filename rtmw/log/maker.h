/* What the maker does besides spares: retention and compaction. Its thread and the upkeep are declared in writer.h. */
#ifndef RTMW_LOG_MAKER_H
#define RTMW_LOG_MAKER_H

#include "folder.h"
#include "ids.h"
#include "segment.h"

/* ======== retention ======== */

/* Retention: how much of a log is kept, in whole segments; and the trim, which removes what is not. */

#define RETENTION_ALL UINT64_MAX

/* A full segment goes when one of the limits says so, and no cursor needs it. The last segment stays. */
struct retention {
    uint64_t age_ns;     /* goes when it was sealed longer ago; RETENTION_ALL: no limit */
    uint64_t bytes;      /* the oldest ones go, until no more is left in all; RETENTION_ALL: no limit */
    uint64_t cursors_ns; /* a cursor that was neither opened nor committed for so long keeps nothing; 0: none does */
    uint32_t per_key;    /* of records with the same key the newest so many stay (compaction); 0: all */
};

static inline bool retention_limits(const struct retention *r)
{
    return r->age_ns != RETENTION_ALL || r->bytes != RETENTION_ALL;
}

/* `*start`: where the log may begin. `*held`: bytes of segments that would go but for a cursor. LOG_DAMAGED, LOG_FAILED,
 * LOG_NO_MEMORY. */
int retention_find(const struct log_folder *folder, const struct retention *r, uint64_t *start, uint64_t *held,
                   struct log_fault *fault);
/* The lowest position of the cursors that are not abandoned; UINT64_MAX: there is none. */
int retention_floor(const struct log_folder *folder, uint64_t cursors_ns, uint64_t *position, struct log_fault *fault);

/* The log begins with the segment in which `before` lies, or with the last one. `*start`: where. First the file `start` says
 * so, durably; then segments go. With `keeps_one` the newest of them becomes the spare, unfilled, and `*kept` is its size, 0:
 * none did. LOG_FAILED: it begins there, or where it did. */
int trim(const struct log_folder *folder, uint64_t before, bool keeps_one, uint64_t *start, uint64_t *kept,
         struct log_fault *fault);

/* ======== compaction ======== */

/* Compaction: of the records with the same key, the newest ones stay. It rewrites sealed segments, and the maker does it in
 * small steps.
 *
 *   start             clean                upto           the last segment
 *   | looked at once  | new since          | …            | …
 *
 *   1. The keys of the new records are counted, up to `upto`, or as far as the table has room: `upto` is there then.
 *   2. The records of these keys before `clean` are counted.
 *   3. Each segment is gone through, oldest first. A record below `upto` goes if and only if as many records of its key
 *      follow below `upto` as are to be kept. If one goes, what stays is written to `compact.new`, synced a MiB at a
 *      time, and takes the segment's name. Positions stay; the end of the segment stays.
 *   4. The folder is synced, and the file `compacted` says, durably, that all below `upto` is clean.
 *
 * Interrupted at any point, each segment is there in its old form or in its new one, and both are whole: what a cut may bring
 * back is what was to be removed. `compacted` saves work, and nothing else rests on it.
 */

enum compaction_phase { COMPACTION_NONE, COMPACTION_NEW, COMPACTION_OLD, COMPACTION_CHOICE, COMPACTION_COPY };

struct compaction {
    struct log_folder folder;
    enum compaction_phase phase;
    uint32_t per_key;
    uint64_t clean, upto;
    struct bases bases; /* from bases.before on: the segments, of which all but the last are sealed */
    size_t at;          /* which of them */
    struct keys keys;
    struct reader reader;
    uint64_t removed; /* bytes, in all segments so far */

    /* Of the segment that is gone through. */
    uint8_t *goes; /* a bit a record */
    size_t goes_room;
    uint64_t number; /* of the next record */
    uint64_t going;  /* bytes that go */
    struct segment copy;
    uint8_t *buffer; /* what is to be written to the copy */
    size_t buffered;
    uint64_t copied, unsynced;
    uint64_t sealed_ns;
};

struct compaction_limits {
    uint32_t per_key;
    uint64_t floor; /* records from there on stay: the lowest cursor, or what no snapshot of ids covers */
};

/* Is there enough to do: as many bytes of new records as of those that are clean? Then the phase is not COMPACTION_NONE.
 * LOG_DAMAGED, LOG_FAILED, LOG_NO_MEMORY: of a file that cannot be read, and nothing is begun. */
int compaction_begin(struct compaction *c, const struct log_folder *folder, const struct compaction_limits *limits,
                     struct log_fault *fault);
/* One step, of a MiB. LOG_AT_END: that was the last. LOG_FULL: no room for a copy; LOG_DAMAGED, LOG_TRIMMED, LOG_NO_MEMORY: a segment
 * cannot be read. LOG_FAILED: a write failed. After anything but LOG_OK it has ended. */
int compaction_step(struct compaction *c, struct log_fault *fault);
/* Ends it early. Idempotent. */
void compaction_end(struct compaction *c);
/* Up to where the log is compacted to so many records a key; 0: nowhere. */
uint64_t compacted_upto(const struct log_folder *folder, uint32_t per_key);

#endif
