/* The checks of `rtmw doctor`; see books.c. */
#ifndef RTMW_BOOKS_H
#define RTMW_BOOKS_H

#include "core.h"

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
