/* Half a round trip of a body that one process copies into shared memory and a spinning one copies out, in C, through
 * two buffers in turn: `handover BYTES ROUNDS CPU CPU`. One figure a round trip. Where caches are private, what one processor
 * has written costs the other more to read than its own; that is what this shows beside `memcpy`. */
#include <string.h>

#include "common.h"

static void await(uint32_t *word, uint32_t value)
{
    while (load_acquire(word) != value) {}
}

int main(int argc, char **argv)
{
    size_t size = (size_t)argument(argc, argv, 1, 1 << 20);
    uint32_t rounds = (uint32_t)argument(argc, argv, 2, 100);
    Words *words = shared(sizeof *words);
    char *there = shared(size), *back = shared(size), *own = malloc(size), *read = malloc(size);
    if (own == NULL || read == NULL) return 1;
    memset(own, 1, size);
    memset(read, 2, size);
    if (other_process(argument(argc, argv, 4, -1)) == 0) {
        for (uint32_t i = 1; i <= rounds; i++) {
            await(&words->ping, i);
            memcpy(read, there, size);
            memcpy(back, own, size);
            store_release(&words->pong, i);
        }
        _exit(0);
    }
    pin(argument(argc, argv, 3, -1));
    for (uint32_t i = 1; i <= rounds; i++) {
        uint64_t start = now_ns();
        memcpy(there, own, size);
        store_release(&words->ping, i);
        await(&words->pong, i);
        memcpy(read, back, size);
        printf("%.0f\n", (double)(now_ns() - start) / 2.0);
    }
    wait(NULL);
    return 0;
}
