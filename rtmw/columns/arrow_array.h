/* An array in memory, as Arrow's C data interface has it: https://arrow.apache.org/docs/format/CDataInterface.html */
#ifndef RTMW_COLUMNS_ARROW_ARRAY_H
#define RTMW_COLUMNS_ARROW_ARRAY_H

#include <stdint.h>

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *); /* by any thread; NULL: released, or moved */
    void *private_data;
};

_Static_assert(sizeof(struct ArrowArray) == 5 * sizeof(int64_t) + 5 * sizeof(void *), "the layout is that of Arrow");

#endif
