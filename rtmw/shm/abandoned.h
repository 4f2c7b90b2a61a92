/* What a process remembers of messages that history keeps on topics without a publisher: abandoned.c. */
#ifndef RTMW_ABANDONED_H
#define RTMW_ABANDONED_H

#include <stdbool.h>
#include <stdint.h>

/* The oldest, oldest first. */
enum { LISTED = 16 };
struct kept_message {
    uint64_t published_ns;
    uint32_t topic, band;
};
struct abandoned {
    struct kept_message oldest[LISTED];
    uint64_t horizon_ns, made_ns; /* no other is older than this; when it was listed, CLOCK_MONOTONIC */
    uint32_t count, gone, scan;   /* listed; `abandoned` of the hints then; where the next pass begins */
    bool of_pages, was_vain;      /* it has those with blocks; the pass found none */
};

/* What fills the memory, when that was looked at last. */
struct known_tally {
    uint64_t at_ns;     /* CLOCK_MONOTONIC */
    bool history_holds; /* history kept more than RELIABLE subscribers had unread */
};

#endif
