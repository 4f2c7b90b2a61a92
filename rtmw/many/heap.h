/* A binary heap of messages: the highest priority first, then the time of publishing. It knows no Python, and holds no
 * lock. */
#ifndef RTMW_MANY_HEAP_H
#define RTMW_MANY_HEAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct entry {
    uint64_t time_ns; /* of publishing */
    uint32_t priority;
    void *source, *sample; /* the owner of the heap's */
};

struct heap {
    struct entry *entries;
    size_t count, room;
};

static inline bool goes_before(const struct entry *a, const struct entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->time_ns < b->time_ns;
}

/* false: no memory. */
static inline bool heap_reserve(struct heap *h)
{
    if (h->count < h->room) return true;
    size_t room = h->room ? 2 * h->room : 64;
    struct entry *larger = realloc(h->entries, room * sizeof *larger);
    if (!larger) return false;
    h->entries = larger;
    h->room = room;
    return true;
}

/* There is room. */
static inline void heap_push(struct heap *h, struct entry e)
{
    size_t at = h->count++;
    for (; at && goes_before(&e, &h->entries[(at - 1) / 2]); at = (at - 1) / 2)
        h->entries[at] = h->entries[(at - 1) / 2];
    h->entries[at] = e;
}

/* It is not empty. */
static inline struct entry heap_pop(struct heap *h)
{
    struct entry first = h->entries[0], last = h->entries[--h->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < h->count) {
        if (child + 1 < h->count && goes_before(&h->entries[child + 1], &h->entries[child])) child++;
        if (!goes_before(&h->entries[child], &last)) break;
        h->entries[at] = h->entries[child];
        at = child;
    }
    h->entries[at] = last;
    return first;
}

#endif
