/* The power rig: the log's own system calls meet ext4 on a block device that loses what was not flushed (block.h).
 *
 *   a life:   a process mounts the device, recovers the log, and its threads append; each notes what it appends and what it
 *             was answered, with the number of events that the device had seen by then
 *   a cut:    of a life that has ended. The device as it may be after a power cut at one event is mounted, so that ext4
 *             replays its journal; the log is recovered and compared with the notes
 *   and then: the next life begins with the device of one of the cuts
 *
 * All lives of a disk compact by key. A record with a key may be missing if and only if as many newer ones of its key are
 * there as compaction leaves.
 *
 * Instead of the log's own threads a program may live on the file system, and look at it after each cut: then there is a cut
 * before each flush, and one at the end.
 *
 * The count of events orders notes and cuts without any clock: a record whose answer was noted at count n is on the disk
 * in every cut at event n or later; one whose append began at count n is in no cut at event n or earlier.
 */
#ifndef TORTURE_POWER_H
#define TORTURE_POWER_H

#include <stdio.h>

#include "block.h"

enum { POWER_THREADS = 4, POWER_NOTES = 512, POWER_KEPT = 1 << 14, POWER_LARGEST = 12000, POWER_SEGMENT = 64 * 1024 };
#define POWER_NEVER UINT64_MAX

/* A record of this life. The thread writes it; the rig reads when the life has ended, and then each has been answered. */
struct note {
    uint64_t begun, answered; /* counts of events */
    uint64_t position;
    bool more; /* the next one is of the same batch */
};

struct notes {
    uint64_t created;   /* count of events when log_create had answered; POWER_NEVER: it did not */
    uint64_t compacted; /* bytes that compaction removed */
    uint32_t count[POWER_THREADS];
    struct note of[POWER_THREADS][POWER_NOTES];
};

/* Who appended a record: its data begin with this. */
struct origin {
    uint32_t life, thread, number, size; /* size of the data, with this */
};

/* A record that is there when a life begins. */
struct kept {
    struct origin origin;
    uint64_t position;
};

struct state {
    bool is_created;
    uint64_t end; /* of the log */
    uint32_t count;
    struct kept records[POWER_KEPT];
};

/* The data of a record: all bytes follow from its origin. Gives the size. */
uint32_t power_data(uint32_t life, uint32_t thread, uint32_t number, uint8_t data[POWER_LARGEST]);
/* The tag from which the labels of a record follow: half of the records have a key, none an id. */
uint64_t power_tag(const struct origin *origin);

struct power_life {
    struct block_disk *disk;
    struct notes *notes;
    uint32_t number, per_key; /* so many records a key does compaction leave */
    uint64_t seed;
};

/* power_life.c: in a process of its own, with the file system as its working directory. Appends, and ends the process:
 * 0, or 1 with a message. */
void power_live(const struct power_life *life) __attribute__((noreturn));

/* What a look at the log after a cut compares it with. */
struct expected {
    uint32_t life, per_key;
    uint64_t event;
    const struct state *before;
    const struct notes *notes;
};

/* power_look.c: recovers the log in this folder, and leaves with a message when it is not as it must be. `found` gets its
 * records. */
void power_look(int folder, const struct expected *expected, bool to_write, struct state *found);
/* Turns a byte of a record that must be below the watermark; the log has to say so. false: there is no such record. */
bool power_rot(int folder, const struct expected *expected, uint64_t *seed);

/* power_program.c: a program that does what a line asks for, and answers with one: `ok`, or what is wrong. */
struct program {
    FILE *asked, *said; /* NULL: there is none */
};
/* `words`: what to run, and its arguments; behind them it gets the descriptor of the disk, which begins with its count of
 * events. */
void program_start(struct program *program, char **words, int disk);
/* Leaves with what the program has said, unless that is `ok`. */
void program_ask(struct program *program, const char *what, uint64_t number);

#endif
