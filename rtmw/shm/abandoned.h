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

/* Granules, or descriptors. */
struct tally {
    uint64_t history, unread;
};

/* What fills the memory, when that was looked at last, in rounds over all topics. */
struct known_tally {
    struct tally sum;   /* of the topics before `scan` */
    uint32_t scan;      /* where the round goes on; 0: there is none */
    uint64_t at_ns;     /* CLOCK_MONOTONIC, when the last round ended; 0: none has */
    bool history_holds; /* history kept more than RELIABLE subscribers had unread */
};

#endif
