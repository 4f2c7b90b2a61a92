/* The least and the largest number of a column. */
#include <string.h>

#include "column.h"

#ifndef __clang__ /* which makes wide loops of these without being told */
#pragma GCC optimize("O3")
#endif

enum { LANES = 4 }; /* that wait for each other in nothing, so that a processor takes a step of each at a time */

/* A NaN is unlike itself. */
#define RANGE(type, member)                                                            \
    do {                                                                               \
        const type *values = (const type *)column;                                     \
        type least[LANES], most[LANES];                                                \
        bool numbers = true;                                                           \
        for (int lane = 0; lane < LANES; lane++) least[lane] = most[lane] = values[0]; \
        uint64_t i = 0;                                                                \
        for (; i + LANES <= count; i += LANES)                                         \
            for (int lane = 0; lane < LANES; lane++) {                                 \
                const type value = values[i + (uint64_t)lane];                         \
                least[lane] = value < least[lane] ? value : least[lane];               \
                most[lane] = value > most[lane] ? value : most[lane];                  \
                numbers &= value == value;                                             \
            }                                                                          \
        for (; i < count; i++) {                                                       \
            least[0] = values[i] < least[0] ? values[i] : least[0];                    \
            most[0] = values[i] > most[0] ? values[i] : most[0];                       \
            numbers &= values[i] == values[i];                                         \
        }                                                                              \
        for (int lane = 1; lane < LANES; lane++) {                                     \
            least[0] = least[lane] < least[0] ? least[lane] : least[0];                \
            most[0] = most[lane] > most[0] ? most[lane] : most[0];                     \
        }                                                                              \
        range->least.member = least[0];                                                \
        range->most.member = most[0];                                                  \
        return numbers;                                                                \
    } while (0)

bool column_range(enum column_number number, const void *column, uint64_t count, struct column_range *range)
{
    if (!count) return false;
    switch (number) {
    case COLUMN_INT8:
        RANGE(int8_t, signed_number);
    case COLUMN_INT16:
        RANGE(int16_t, signed_number);
    case COLUMN_INT32:
        RANGE(int32_t, signed_number);
    case COLUMN_INT64:
        RANGE(int64_t, signed_number);
    case COLUMN_UINT8:
        RANGE(uint8_t, unsigned_number);
    case COLUMN_UINT16:
        RANGE(uint16_t, unsigned_number);
    case COLUMN_UINT32:
        RANGE(uint32_t, unsigned_number);
    case COLUMN_UINT64:
        RANGE(uint64_t, unsigned_number);
    case COLUMN_FLOAT:
        RANGE(float, real);
    case COLUMN_DOUBLE:
        RANGE(double, real);
    }
    return false;
}
