/* State that a process keeps of the queues in which it looks, message by message, behind one that is needed: within.c. */
#ifndef RTMW_WITHIN_H
#define RTMW_WITHIN_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

enum { READERS = 32, TRAVERSALS = 4, GUESSES = 8 };

/* A subscriber that is asked for each message whether it needs it. Times are published_ns of messages. */
struct reader {
    uint64_t word;          /* of its slot */
    uint64_t behind;        /* it needs nothing up to this sequence */
    uint64_t interval;      /* its min_interval, if what that leaves out is not needed; 0: none. The rest is for that */
    uint64_t cursor[BANDS]; /* sequences to which it has come */
    uint64_t next;          /* the sequence that it may take next out of turn; 0: none of this band */
    uint64_t began[GUESSES];    /* what it had accepted last when it was asked, 0: nothing; each of these may be true */
    uint64_t accepted[GUESSES]; /* the same, when it will have come to where the traversal is */
    uint32_t guesses;           /* so many of these */
    bool frozen;                /* what it will accept from there on is not known */
    bool above;                 /* it has unread messages in a higher band */
    bool exact;
    uint32_t type, reliability; /* that it asks for */
};

/* Through a band, from its oldest message on; before that through the higher ones, if an interval has to be foretold. */
struct traversal {
    uint32_t topic, band, look;
    uint32_t epoch; /* of the topic */
    uint32_t index, count;
    uint32_t stage; /* the band in which it is */
    bool begun;
    bool clogged;            /* when it came to the end last, more than half of its messages were needed by nobody */
    uint64_t end;            /* which was at this sequence */
    uint64_t sequence;       /* of the message at `index` of the stage, to which it has come; 0: of none */
    uint64_t last[BANDS];    /* the newest sequence of each band */
    uint64_t seen, unneeded; /* messages of its band that it has come to, and those of them that nobody needs */
    uint64_t began_ns;
    struct reader reader[READERS];
};

struct within {
    uint32_t topic, band; /* at which the next search begins */
    uint32_t turn;        /* the traversal that is given up next */
    bool came_to_end;     /* the last traversal, of which another would begin anew */
    bool others_first;    /* in the next search, before the publisher's own queue */
    struct traversal traversal[TRAVERSALS];
};

#endif
