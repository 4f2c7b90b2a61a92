/* Two copies of a body, into shared memory and out of it again, by one process: `memcpy BYTES TIMES`. One figure a pair. */
#include <string.h>

#include "common.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)argument(argc, argv, 1, 1 << 20);
    int times = argument(argc, argv, 2, 100);
    char *from = malloc(size), *to = malloc(size), *between = shared(size);
    if (from == NULL || to == NULL) return 1;
    memset(from, 1, size);
    memset(to, 2, size);
    for (int i = 0; i < times; i++) {
        from[0] = (char)i;
        uint64_t start = now_ns();
        memcpy(between, from, size);
        memcpy(to, between, size);
        uint64_t end = now_ns();
        if (to[0] != (char)i) return 1;
        printf("%llu\n", (unsigned long long)(end - start));
    }
    return 0;
}
