/* Bitmaps of hints in the region: a set bit says "look here". Wrong ones cost a look, and are cleared by the one who looked.
 *
 *   who makes it true    changes the word that counts, then sets the bit
 *   who finds it untrue  clears the bit, then looks again, and sets it when the word that counts has changed meanwhile
 *
 * All of it is sequentially consistent, so one of the two sees the other, and no bit is missing for good; but for a death
 * between the two steps, after which the sweep sets all bits anew.
 */
#ifndef RTMW_BITMAP_H
#define RTMW_BITMAP_H

#include "atomics.h"

#define BITMAP_END         UINT64_MAX
#define BITMAP_WORDS(bits) (((uint64_t)(bits) + 63) / 64)

static inline void bitmap_set(uint64_t *map, uint64_t bit)
{
    uint64_t mask = UINT64_C(1) << (bit & 63);
    if (!(load_seq(&map[bit >> 6]) & mask)) fetch_or(&map[bit >> 6], mask);
}

static inline void bitmap_clear(uint64_t *map, uint64_t bit)
{
    uint64_t mask = UINT64_C(1) << (bit & 63);
    if (load_seq(&map[bit >> 6]) & mask) fetch_and(&map[bit >> 6], ~mask);
}

/* The lowest set bit in [from, end), or BITMAP_END. */
static inline uint64_t bitmap_next(uint64_t *map, uint64_t from, uint64_t end)
{
    while (from < end) {
        uint64_t word = load_relaxed(&map[from >> 6]) >> (from & 63);
        if (word) {
            from += (uint64_t)__builtin_ctzll(word);
            return from < end ? from : BITMAP_END;
        }
        from = (from | 63) + 1;
    }
    return BITMAP_END;
}

/* The highest set bit in [first, before), or BITMAP_END. */
static inline uint64_t bitmap_last(uint64_t *map, uint64_t first, uint64_t before)
{
    while (before > first) {
        uint64_t top = before - 1, word = load_relaxed(&map[top >> 6]) << (63 - (top & 63));
        if (word) {
            top -= (uint64_t)__builtin_clzll(word);
            return top >= first ? top : BITMAP_END;
        }
        before = top & ~UINT64_C(63);
    }
    return BITMAP_END;
}

/* Where `length` set bits in a row begin, the first such place in [from, end), or BITMAP_END. */
static inline uint64_t bitmap_run(uint64_t *map, uint64_t from, uint64_t end, uint64_t length)
{
    uint64_t at = bitmap_next(map, from, end), run = 0;
    while (at != BITMAP_END && at + length <= end) {
        uint64_t there = at + run, ones = ~(load_relaxed(&map[there >> 6]) >> (there & 63));
        uint64_t in_word = 64 - (there & 63), set = ones ? (uint64_t)__builtin_ctzll(ones) : 64;
        run += set < in_word ? set : in_word;
        if (run >= length) return at;
        if (set >= in_word) continue;
        at = bitmap_next(map, at + run, end);
        run = 0;
    }
    return BITMAP_END;
}

#endif
