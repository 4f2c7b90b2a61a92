/* The durable log, without Python: records in segments in a folder, one writer, any number of readers.
 *
 *   append ─► batch being filled ─ flusher: write, mark, one sync ─► durable, readers see it
 *                                  maker: the next segment, filled with zeros ahead
 *
 * Files of the folder (docs/formats/log-format.md): `log` (uuid and type; made last), `<base>.seg`, `spare` (will be a
 * segment), `end` (up to where it is durable: for readers), `lock` (of the process that recovers or writes: folder.py).
 */
#ifndef RTMW_LOG_LOG_H
#define RTMW_LOG_LOG_H

#include "io.h"

enum {
    LOG_VERSION = 1,
    LOG_REPLICATED = 2, /* version of the file `log` of a replicated log, and of its file `ids` */
    LOG_EPOCH = 1,      /* the first one; a plain log has no other */
};

enum log_code {
    LOG_OK = 0,
    LOG_AT_END,      /* a reader: nothing more is durable */
    LOG_TIMEOUT,     /* an appender: its time is up */
    LOG_INTERRUPTED, /* by a signal, before it was so far */
    LOG_FULL,        /* the disk has no room for another segment; nothing was appended */
    LOG_TOO_LARGE,   /* larger than a segment may be; nothing was appended */
    LOG_FAILED,      /* a call of the system failed; what was on its way may be on the disk or not */
    LOG_CLOSED,
    LOG_NO_MEMORY,
    LOG_DAMAGED,       /* bytes that were durable are not as they were */
    LOG_VERSION_OTHER, /* of another version of the format */
    LOG_TRIMMED,       /* a reader: its segment is not there any more */
    LOG_NO_RECORD,     /* a reader: no record begins at this position */
    LOG_NO_LOG,        /* there is none in this folder */
    LOG_ID_TAKEN,      /* a record with this id and other content is there; nothing was appended */
    LOG_REFUSED, /* raw bytes are no whole batches that follow, or no batch ends where it has to; nothing changed */
};

enum { LOG_FILE_NAME = 32 };

/* What went wrong, for a person. */
struct log_fault {
    int error;                /* errno of LOG_FAILED */
    const char *what;         /* the call that failed, or what is wrong with the bytes; static */
    char file[LOG_FILE_NAME]; /* in which file of the folder */
    uint64_t from, to;        /* positions that are concerned */
};

struct log_folder {
    const struct log_io *io;
    int folder; /* descriptor of the folder */
    uint8_t uuid[16];
    uint32_t seed; /* record_seed(uuid) */
    /* Records come from a master, and are not final before the master says so (writer_commit). The file `end` says up to
     * where they are durable and final, and is raised by the writer alone. */
    bool is_replicated;
};

/* io.c. Fills `fault` and gives `code`. */
int log_fail(struct log_fault *fault, int code, const char *what, const char *file, int error);
int log_damaged(struct log_fault *fault, const char *what, const char *file, uint64_t from, uint64_t to);

/* ---- recover.c: the file `log`, made last: where it is, there is a log ---- */

struct log_creation {
    uint64_t segment; /* bytes of the first segment's file */
    uint64_t base;    /* where the log begins: 0, or where the log of which it becomes a replica does */
    const void *description;
    uint32_t size; /* of the description of the type, as bytes */
    /* Sealed segments of another copy of this replicated log lie in the folder, from `base - copied` on, where the log begins then.
     * The file `ids` of that copy may lie there, too. 0: none do. */
    uint64_t copied;
};
/* A new log in an empty folder, and its first segment. The lock is held. LOG_REFUSED: no record may lie at this base. Copied
 * segments are read through, and synced; LOG_DAMAGED: they are not whole, or not of this log, and it does not come into being. */
int log_create(const struct log_folder *folder, const struct log_creation *creation, struct log_fault *fault);
/* uuid, kind and description of the log; the caller frees the description. LOG_NO_LOG, LOG_VERSION_OTHER, LOG_DAMAGED. */
int log_identify(struct log_folder *folder, void **description, uint32_t *size, struct log_fault *fault);

/* ---- and the file `end` ---- */

/* Not synced: after a power cut it says less than was durable, and never more. 0 or -errno. */
int end_write(const struct log_folder *folder, int file, uint64_t end);
/* Up to where readers may read, by the file, or else: by the watermark in a plain log, nothing in a replicated one.
 * `earliest`: the first position there is. */
int log_bounds(const struct log_folder *folder, uint64_t *earliest, uint64_t *end, struct log_fault *fault);
/* What the file says, if it is whole. */
bool end_read(const struct log_folder *folder, uint64_t *end);

#endif
