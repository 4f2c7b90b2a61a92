/* Contents of the queues of a topic, counted; see contents.c. */
#ifndef RTMW_CONTENTS_H
#define RTMW_CONTENTS_H

#include "core.h"

enum { CONTENTS_TYPES = 16 }; /* most types of a topic that are named */

struct contents {
    uint32_t messages;
    uint32_t types;
    uint64_t bytes;                /* of the pool: blocks as they are claimed, not payloads */
    uint64_t type[CONTENTS_TYPES]; /* their lives: topics.h */
};

void contents_count(struct rtmw_region *, struct topic *, struct contents *);

#endif
