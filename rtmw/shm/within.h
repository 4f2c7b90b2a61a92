/* What a process remembers of the queues in which it looks, message by message, behind one that is needed: within.c. */
#ifndef RTMW_WITHIN_H
#define RTMW_WITHIN_H

#include <stdbool.h>
#include <stdint.h>

enum { READERS = 8, TRAVERSALS = 4, GUESSES = 2 };

/* A subscriber that is asked for each message whether it needs it. Times are published_ns of messages. */
struct reader {
    uint64_t word;              /* of its slot */
    uint64_t behind;            /* it needs nothing up to this sequence */
    uint64_t interval;          /* its min_interval, if what that leaves out is not needed; 0: none */
    uint64_t began[GUESSES];    /* what it had accepted last when it was asked, 0: nothing; each of these may be true */
    uint64_t accepted[GUESSES]; /* the same, when it will have come to where the traversal is */
    bool frozen;                /* what it will accept from there on is not known */
    bool exact;
    uint32_t type, reliability; /* that it asks for */
};

/* Through a band, from its oldest message on. */
struct traversal {
    uint32_t topic, band, look;
    uint32_t epoch; /* of the topic */
    uint32_t index, count;
    uint64_t sequence;       /* of the message at `index`, to which it has come; 0: it has not begun */
    uint64_t seen, unneeded; /* messages that it has come to, and those of them that nobody needs */
    bool clogged;            /* when it came to the end last, these were more than half */
    uint64_t end;            /* which was at this sequence */
    uint64_t began_ns;
    struct reader reader[READERS];
};

struct within {
    uint32_t topic, band; /* at which the next search begins */
    uint32_t turn;        /* the traversal that is given up next */
    struct traversal traversal[TRAVERSALS];
};

#endif
