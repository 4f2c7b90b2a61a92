/* What the parts of the rig share: lives of a log on a disk in memory, and the look at what is left of it. */
#ifndef TORTURE_RIG_H
#define TORTURE_RIG_H

#include "../../../rtmw/log/folder.h"
#include "../../../rtmw/log/reader.h"
#include "../../../rtmw/log/writer.h"
#include "disk.h"

enum { ENTRIES = 256, SEGMENT = 64 * 1024, IDLE_NS = 1000000, LARGEST = 14000, LABELS = 24 };

/* What a life opens its writer with: all ids of a history are in the window. */
static const struct writer_options OPTIONS = {SEGMENT,       IDLE_NS, ENTRIES, {RETENTION_ALL, RETENTION_ALL, 0, 0},
                                              SEGMENT_BLOCK, 0};

static const struct log_creation CREATION = {SEGMENT, 0, "type", 4, 0};

/* A record as it was handed to the log, before it was. */
struct entry {
    uint64_t lsn, tag;
    bool more; /* the next one is of the same batch */
};

/* Appenders write, whoever looks at the disk reads: an entry before its count. */
struct history {
    struct entry entries[ENTRIES];
    uint32_t count;      /* with release */
    uint64_t answered;   /* all below it was said to be durable */
    uint64_t trim_to;    /* the log was asked to begin there, or before it */
    uint64_t trimmed;    /* it was said to begin there */
    uint32_t is_created; /* log_create has answered */
    uint64_t commit_to;  /* the cursor was asked to stand there, or before it */
    uint64_t committed;  /* it was said to stand there */
    uint32_t per_key;    /* compaction may leave so few records a key; 0: there is none */
};

struct life {
    struct disk *disk;
    struct history *history;
    uint64_t seed;
    int appends, threads;
    bool keeps_all; /* its appenders trim nothing */
    const struct entry
        *lost;           /* records that a cut took: the first ones are of the same sizes again, so that what is left */
    uint32_t lost_count; /* of the old ones lies where new ones could end */
    uint64_t rolls;      /* how many segments it began */
    bool holds_cursor;   /* it has made the cursor, or taken it */
    uint64_t compacted;  /* bytes that compaction removed */
    struct log_fault fault; /* of what ended it early */
};

/* Opens or creates the log, appends, closes. The code that ended it; LOG_OK: it went to its end. */
int live(struct life *life);
/* The log of this disk; it is made where there is none yet. */
int begin_log(struct life *life, struct log_folder *folder);
/* Appends a record with key and id. `*made`: what a history has of it; `*end`: what to wait for. The code of writer_append. */
int append_one(struct writer *w, uint64_t *seed, struct entry *made, uint64_t *end);
/* Of each record with an id that is there, its position is known; of none that a cut took. */
void check_ids(const struct life *life, const struct writer *w);
/* Recovers what is on the disk, and compares it with what was handed in and answered. Leaves with a message when it is wrong.
 * Gives the number of records. */
uint32_t check(struct disk *disk, const struct history *history, bool to_write, const char *when);
/* The first entry from `n` on that is not before `lsn`, or must be there although no record was found. `end`: of the log. */
uint32_t pass_compacted(const struct history *history, uint32_t n, uint64_t lsn, uint64_t end);
/* Salvage finds, in each segment, only records that were handed in. Gives how many are in [from, end). */
uint32_t salvage_all(const struct log_folder *folder, const struct history *history, uint64_t from, uint64_t end,
                     const char *when);
/* Until the maker has no snapshot to take and nothing to compact: a writer that is closed leaves what it has not begun. */
void await_upkeep(struct writer *w);
/* Has a segment behind the first one got its name? */
bool disk_has_segment(const struct disk *disk);
/* The data of the record with this tag; how many bytes. */
size_t data_of(uint64_t tag, uint8_t data[LARGEST]);
#define CURSOR "c.cursor"
enum { KEYS = 3 };
static inline uint32_t key_number(uint64_t tag) { return (uint32_t)(tag >> 16) % KEYS; }
static inline bool has_key(uint64_t tag) { return tag % 4 < 2; }
/* Labels of the record with this tag, of which some have a key, and some an id, too; how many bytes. */
size_t labels_of(uint64_t tag, uint8_t labels[LABELS]);
/* Does a record that recovery will not find lie there whole, behind the first `count`? It must not come back. */
bool has_leftovers(struct disk *disk, const struct history *history, uint32_t count);
/* The index of the first entry at or behind a position. */
uint32_t first_from(const struct history *history, uint64_t position);
/* The first so many entries, as what a next life begins with. */
void copy_history(const struct history *from, uint32_t count, struct history *to);
/* The history as it was at one moment. */
void look_at_history(const struct history *from, struct history *to);
void wrong(const char *when, const char *what, const struct log_fault *fault) __attribute__((noreturn));

/* The parts, each with the seed and how much of it; they print what they did. */
void try_cuts(uint64_t seed, long rounds);
void try_overlap(uint64_t seed);  /* of try_cuts */
void try_unsynced(uint64_t seed); /* likewise */
void try_faults(uint64_t seed, long every);
void try_rot(uint64_t seed, long every);
void try_replica(uint64_t seed, long rounds);
void try_power(uint64_t seed, long cuts);                 /* on ext4, as root: power.h */
void try_program(uint64_t seed, long cuts, char **words); /* the same, by a program */

#endif
