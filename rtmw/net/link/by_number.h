/* Routes of a line by their number, for the frames that name them: a search in an array that is in order. Each side chooses the
 * numbers of its own routes, and only higher ones, so what is added comes last, and no choice of numbers makes a search longer
 * than the logarithm of how many are open. The lock of the routes is held. */
#ifndef RTMW_LINK_BY_NUMBER_H
#define RTMW_LINK_BY_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct by_number {
    struct numbered {
        uint32_t number;
        void *route;
    } *entries;
    uint32_t count, room;
};

/* Where the number is, or would be. */
static inline uint32_t by_number_at(const struct by_number *b, uint32_t number)
{
    uint32_t low = 0, high = b->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->entries[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: there is none. */
static inline void *by_number_find(const struct by_number *b, uint32_t number)
{
    uint32_t at = by_number_at(b, number);
    return at < b->count && b->entries[at].number == number ? b->entries[at].route : NULL;
}

/* false: the number is not above all that are there, or there is no memory. */
static inline bool by_number_add(struct by_number *b, uint32_t number, void *route)
{
    if (b->count && b->entries[b->count - 1].number >= number) return false;
    if (b->count == b->room) {
        uint32_t room = b->room ? 2 * b->room : 8;
        struct numbered *entries = realloc(b->entries, room * sizeof *entries);
        if (!entries) return false;
        b->entries = entries;
        b->room = room;
    }
    b->entries[b->count++] = (struct numbered){number, route};
    return true;
}

/* Nothing happens if it is not there. */
static inline void by_number_remove(struct by_number *b, uint32_t number)
{
    uint32_t at = by_number_at(b, number);
    if (at == b->count || b->entries[at].number != number) return;
    b->count--;
    memmove(&b->entries[at], &b->entries[at + 1], (b->count - at) * sizeof *b->entries);
}

#endif
