/* A write and an fdatasync of it, one after the other, in a file that is filled ahead: what a single writer can have of a
 * disk. `fdatasync FILE BYTES WARM_S SECONDS`. One figure a pair, from both calls; those before WARM_S do not count. */
#include <string.h>

#include "common.h"

enum { FILLED = 16 << 20 };

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    size_t size = (size_t)atol(argv[2]), places = FILLED / size;
    char *body = malloc(size);
    if (body == NULL) return 1;
    memset(body, 'r', size);
    int file = filled(argv[1], FILLED);
    uint64_t begin = now_ns() + (uint64_t)(atof(argv[3]) * 1e9), end = begin + (uint64_t)(atof(argv[4]) * 1e9);
    uint64_t last = now_ns();
    for (size_t n = 0; last < end; n++) {
        if (pwrite(file, body, size, (off_t)(n % places * size)) != (ssize_t)size || fdatasync(file)) return 1;
        uint64_t now = now_ns();
        if (now >= begin && now < end) printf("%llu\n", (unsigned long long)(now - last));
        last = now;
    }
    return 0;
}
