/* A file that lies in the page cache, copied out of it once, a MiB at a time: `page_cache FILE TIMES`. One figure a pass. */
#include <fcntl.h>

#include "common.h"

enum { AT_ONCE = 1 << 20 };

int main(int argc, char **argv)
{
    char *to = malloc(AT_ONCE);
    int file = argc == 3 ? open(argv[1], O_RDONLY) : -1, times = argument(argc, argv, 2, 1);
    if (file < 0 || to == NULL) return 1;
    for (int n = -1; n < times; n++) { /* the first one warms up */
        uint64_t start = now_ns();
        ssize_t got;
        for (off_t at = 0; (got = pread(file, to, AT_ONCE, at)) > 0;) at += got;
        uint64_t end = now_ns();
        if (got < 0) return 1;
        if (n >= 0) printf("%llu\n", (unsigned long long)(end - start));
    }
    return 0;
}
