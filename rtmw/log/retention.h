/* Retention: how much of a log is kept, in whole segments; and the trim, which removes what is not. */
#ifndef RTMW_LOG_RETENTION_H
#define RTMW_LOG_RETENTION_H

#include "segment.h"

#define RETENTION_ALL UINT64_MAX

/* A full segment goes when one of the limits says so, and no cursor needs it. The last segment stays. */
struct retention {
    uint64_t age_ns;     /* goes when it was sealed longer ago; RETENTION_ALL: no limit */
    uint64_t bytes;      /* the oldest ones go, until no more is left in all; RETENTION_ALL: no limit */
    uint64_t cursors_ns; /* a cursor that was neither opened nor committed for so long keeps nothing; 0: none does */
    uint32_t per_key;    /* of records with the same key the newest so many stay (compact.h); 0: all */
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

#endif
