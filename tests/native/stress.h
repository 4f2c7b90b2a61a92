/* Roles of the stress test: stress_roles.c plays them, stress.c starts them as threads or as processes. */
#ifndef RTMW_STRESS_H
#define RTMW_STRESS_H

#include "native.h"

enum { TOPICS = 2, PUBLISHERS = 4, SUBSCRIBERS = 5, LARGEST = 65536, PATIENCE_S = 60 };

extern const char *const topic_names[TOPICS];

/* What the roles tell one another: in anonymous shared memory, so that threads and processes do it alike. */
struct scoreboard {
    uint64_t published[PUBLISHERS][TOPICS][BANDS]; /* by its publisher, after each message */
    uint64_t identity[PUBLISHERS][TOPICS];         /* by its publisher, before `ready` */
    uint32_t ready;                                /* roles that have opened what they need */
    uint32_t publishing;                           /* publishers not yet done */
    uint32_t done;                                 /* persistent subscribers that are done */
};

struct role {
    const char *name;
    void (*play)(struct role *);
    uint32_t number;                               /* of the publisher; topic of a subscriber */
    rtmw_reliability reliability;
    uint32_t depth;
    uint64_t min_interval_ns;
    struct scoreboard *board;
    struct rtmw_region *region;
    uint32_t domain, messages;
    uint64_t random;
};

void play_publisher(struct role *);
void play_subscriber(struct role *);   /* there from the first message to the last */
void play_visitor(struct role *);      /* comes and goes */

#endif
