/* A block device that can lose what was not flushed: the file under a loop device under ext4.
 *
 *   ext4 ── loop device ── FUSE ── /dev/fuse ── fuse_serve (fuse.c), a process of its own
 *                                                  │ content: what a read shows
 *                                                  └ events: every write and every flush, in order
 *
 * A cut at event n is made afterwards, as often as wanted, from base and events: writes that a flush before n covers are
 * there, each other write before n is there, missing, or torn. So one life of writers gives thousands of cuts, and nobody
 * has to be killed at the right moment.
 *
 * A flush covers the writes that were answered before it was read from the kernel, and no other: that is the promise
 * of a disk. All lies in memory that the processes of the rig share.
 */
#ifndef TORTURE_BLOCK_H
#define TORTURE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_BYTES = 16 << 20, BLOCK_EVENTS = 1 << 16, BLOCK_SECTOR = 512, BLOCK_PAGE = 4096 };
#define BLOCK_ARENA (UINT64_C(1) << 30)

struct block_event {
    bool is_flush;
    uint32_t size;   /* bytes of a write */
    uint64_t at;     /* where it begins on the device */
    uint64_t bytes;  /* where its bytes begin in the arena */
    uint64_t covers; /* a flush: writes below this event were answered before it came */
};

struct block_disk {
    uint64_t count;    /* of events; fuse_serve writes it, with release, before the event is answered */
    uint64_t answered; /* events below this were answered; fuse_serve's own */
    uint64_t used;     /* bytes of the arena; fuse_serve's own */
    struct block_event events[BLOCK_EVENTS];
    uint8_t content[BLOCK_BYTES];
    uint8_t arena[];
};

/* Of memory that children of this process share, and programs that it starts: a file in memory; never given back. */
struct block_disk *block_new(int *file);
/* Nobody writes to it: it shows `content`, and no event is left. */
void block_begin(struct block_disk *disk, const uint8_t *content);
/* What fuse_serve hands in. false: the trace is full. */
bool block_write(struct block_disk *disk, uint64_t at, const void *bytes, uint32_t size);
bool block_flush(struct block_disk *disk, uint64_t covers);

/* A cut at an event moves on, event by event. */
struct block_cut {
    const struct block_disk *disk;
    uint8_t *stable;  /* what is there in any case */
    uint64_t flushed; /* writes below this event are in it */
    uint64_t event;
};

void block_cut_begin(struct block_cut *cut, const struct block_disk *disk, uint8_t *stable);
/* To an event that is not before the last one. */
void block_cut_move(struct block_cut *cut, uint64_t event);
/* Some disk after this cut: any subset of what was not flushed, some of it torn. */
void block_cut_take(const struct block_cut *cut, uint64_t *seed, uint8_t *content);

/* fuse.c: mounts the device on this empty file, and gives the descriptor to serve it with; -1: errno says why. */
int fuse_mount(const char *path);
/* Until it is unmounted. 0, or what went wrong. */
int fuse_serve(struct block_disk *disk, int fuse);

/* mounts.c: all of it lives in a mount namespace of this process, and goes when that does. -1: errno says why. */
#define MOUNTS "/mnt"
/* An empty folder in memory hides MOUNTS from this process and its children. */
int mounts_begin(void);
/* A loop device over this file; it is detached when its descriptor is closed and nothing of it is mounted. */
int loop_attach(int file, char name[32]);
/* Nothing of the device stays in the page cache: its file is about to change. */
int loop_forget(int device);

#endif
