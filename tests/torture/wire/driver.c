/* Random input for LLVMFuzzerTestOneInput, where there is no libFuzzer: made up, or an earlier input with changes.
 *
 *   PROGRAM SEED SECONDS      prints how many inputs there were; what goes wrong ends the process
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST = 4096, KEPT = 64, SLOWEST = 20 };

static uint64_t state;

static uint64_t chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t count) { return chance() % count; }

/* Of what counts, sizes and tags are made: small numbers, and the ends of ranges. */
static uint8_t likely(void)
{
    static const uint8_t bytes[] = {0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 127, 128, 255};
    return below(3) ? bytes[below(sizeof bytes)] : (uint8_t)chance();
}

static size_t make_up(uint8_t *input)
{
    size_t size = 8 + below(below(4) ? 400 : LONGEST - 8);
    for (size_t i = 0; i < size; i++) input[i] = likely();
    return size;
}

static size_t change(uint8_t *input, size_t size)
{
    for (uint64_t times = 1 + below(4); times && size > 8; times--) {
        size_t at = below(size), count = 1 + below(8);
        switch (below(4)) {
        case 0:
            input[at] ^= (uint8_t)(1u << below(8));
            break;
        case 1:
            for (size_t i = at; i < size && i < at + count; i++) input[i] = likely();
            break;
        case 2: /* shorter */
            if (count > size - at) count = size - at;
            memmove(input + at, input + at + count, size - at - count);
            size -= count;
            break;
        default: /* longer, by what is already there */
            if (size + count > LONGEST) break;
            memmove(input + at + count, input + at, size - at);
            size += count;
        }
    }
    return size;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static uint8_t kept[KEPT][LONGEST], input[LONGEST];
    static size_t sizes[KEPT];
    if (argc != 3) return fprintf(stderr, "usage: %s SEED SECONDS\n", argv[0]), 2;
    state = strtoull(argv[1], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
    double until = now() + atof(argv[2]);
    unsigned long inputs = 0;
    for (; now() < until; inputs++) {
        size_t place = below(KEPT), size = sizes[place];
        memcpy(input, kept[place], size);
        size = size && below(4) ? change(input, size) : make_up(input);
        alarm(SLOWEST); /* SIGALRM ends what goes on for ever */
        LLVMFuzzerTestOneInput(input, size);
        memcpy(kept[place], input, sizes[place] = size);
    }
    return printf("%lu inputs\n", inputs) < 0;
}
