/* A write and an fdatasync of it, one after the other, in a file that is filled ahead: what a single writer can have of a
 * disk. `fdatasync FILE BYTES WARM_S SECONDS`. One figure a pair, from both calls; those before WARM_S do not count. */
#include <fcntl.h>
#include <string.h>

#include "common.h"

enum { FILLED = 16 << 20, AT_ONCE = 1 << 20 };

static int filled(const char *name)
{
    char *zeros = calloc(1, AT_ONCE);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || zeros == NULL) exit(1);
    for (int at = 0; at < FILLED; at += AT_ONCE)
        if (pwrite(file, zeros, AT_ONCE, at) != AT_ONCE) exit(1);
    if (fsync(file)) exit(1);
    free(zeros);
    return file;
}

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    size_t size = (size_t)atol(argv[2]), places = FILLED / size;
    char *body = malloc(size);
    if (body == NULL) return 1;
    memset(body, 'r', size);
    int file = filled(argv[1]);
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
