/* What tools see of a region that is at work; see inspect.c. */
#ifndef RTMW_INSPECT_H
#define RTMW_INSPECT_H

#include "core.h"

/* ---- contents of the queues of a topic, counted ---- */

enum { CONTENTS_TYPES = 16 }; /* most types of a topic that are named */

struct contents {
    uint32_t messages;
    uint32_t types;
    uint64_t bytes;                /* of the pool: blocks as they are claimed, not payloads */
    uint64_t type[CONTENTS_TYPES]; /* their lives: topics.c */
};

void contents_count(struct rtmw_region *, struct topic *, struct contents *);

/* ---- has anything come or gone? ---- */

uint64_t endpoints_fingerprint(struct rtmw_region *);
uint64_t participants_fingerprint(struct rtmw_region *);

/* ---- the checks of `rtmw doctor` ---- */

enum { BOOKS_PROBLEMS = 32, BOOKS_TEXT = 320 };

struct books {
    uint32_t free, loaned, queued, held;   /* descriptors; held: passed, and kept only by a holder */
    uint32_t granules_used, granules_kept; /* kept, among those used: blocks that only wait to be claimed anew */
    uint32_t problems;
    char problem[BOOKS_PROBLEMS][BOOKS_TEXT];
};

size_t books_marks(struct rtmw_region *);
void books_examine(struct rtmw_region *, struct books *, uint8_t *marks);
void books_repair(struct rtmw_region *, uint32_t *swept, uint32_t *freed);

#endif
