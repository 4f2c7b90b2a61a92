/* A disk in memory, behind the seam of the log (rtmw/log/io.h). No privileges, no files, no waiting.
 *
 * Programs see the page cache. What was not synced is a list of writes, and of changes of the folder; a power cut keeps
 * any subset of these, and a write that is kept may be torn at 512 B or 4 KiB. A sync that fails keeps some subset of
 * the writes and forgets the others, while the page cache goes on showing them: so Linux does it.
 * What the log does not use is not there: links, other folders, and files that become shorter.
 */
#ifndef TORTURE_DISK_H
#define TORTURE_DISK_H

#include <pthread.h>

#include "../../../rtmw/log/io.h"

enum { DISK_FILES = 256, DISK_NAMES = 64, DISK_NAME = 40, DISK_PENDING = 512, DISK_FOLDER = 3, DISK_FIRST_FILE = 100 };

struct content {
    uint8_t *bytes;
    size_t size, room;
};

struct inode {
    struct content cache, media;
};

struct change { /* of a file: bytes at a place; or of the folder: a name gets an inode (-1: goes), another one goes */
    int inode;
    uint64_t at;
    size_t size;
    uint8_t *bytes;
    char name[DISK_NAME], gone[DISK_NAME];
};

struct name {
    char text[DISK_NAME];
    int inode;
};

struct names {
    struct name list[DISK_NAMES];
    int count;
};

enum call {
    CALL_OPEN,
    CALL_WRITE,
    CALL_ALLOCATE,
    CALL_SYNC,
    CALL_SYNC_FOLDER,
    CALL_RENAME,
    CALL_UNLINK,
    CALL_READ,
    CALLS
};

struct disk {
    pthread_mutex_t lock;
    struct inode inodes[DISK_FILES];
    int inode_count;
    struct names cache, media;
    struct change writes[DISK_PENDING], renames[DISK_NAMES];
    int write_count, rename_count;
    uint64_t seed; /* of what is left to chance */

    void (*before)(struct disk *, enum call call,
                   void *argument); /* called with the lock before a call that changes something */
    void *argument;

    long calls;            /* so far, reads excepted unless `reads_count` */
    long fail_at;          /* the number of the call that fails; 0: none */
    int fail_with;         /* errno; 0: that write is short */
    bool fails_from_there; /* all later ones, too */
    bool only_allocate;    /* and only those that ask for room */
    bool reads_count;
    bool has_failed;
    enum call failed_call;
    char failed_name[DISK_NAME];
    long again; /* writes and syncs of a file after one of it had failed */
};

void disk_open(struct disk *, uint64_t seed);
void disk_close(struct disk *);
struct log_io disk_io(struct disk *);

enum fate { FATE_LOST, FATE_KEPT, FATE_TORN };

/* What is on the disk after a power cut: `writes` and `renames` say what becomes of each change. Into `after`, not yet open. */
void disk_cut(const struct disk *, const enum fate *writes, const bool *renames, uint64_t seed, struct disk *after);
/* Where only the process has ended: all is there. */
void disk_kill(const struct disk *, struct disk *after);
/* The bytes of a file as programs see them; NULL: there is none. */
struct content *disk_content(struct disk *, const char *name);
/* Has the file of this name writes that are not synced? */
bool disk_is_dirty(struct disk *, const char *name);
/* A number that follows from the seed, and another one each time. */
uint64_t disk_random(uint64_t *seed);

#endif
