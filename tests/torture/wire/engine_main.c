/* Without libFuzzer: inputs at random, for a time. engine_fuzz SEED ROUNDS SECONDS; what fails says its seed. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef INPUT_MOST
#define INPUT_MOST 2000
#endif
enum { CPU_SECONDS_MOST = 20 };

static uint64_t state;

static uint8_t random_byte(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint8_t)(state >> 56);
}

static uint64_t seed = 1, current; /* round */

/* Of the program's own abort, of a sanitizer's (abort_on_error), and of one that does not end. */
static void say_where(int number)
{
    fprintf(stderr, "fuzz: %s in round %llu of seed %llu\n", number == SIGALRM ? "no end" : "a fault",
            (unsigned long long)current, (unsigned long long)seed);
    _exit(1);
}

int main(int count, char **arguments)
{
    uint64_t rounds = count > 2 ? strtoull(arguments[2], NULL, 10) : 1000;
    if (count > 1) seed = strtoull(arguments[1], NULL, 10);
    time_t end = time(NULL) + (count > 3 ? strtol(arguments[3], NULL, 10) : 10);
    uint8_t input[INPUT_MOST];
    signal(SIGALRM, say_where);
    signal(SIGABRT, say_where);
    for (; current < rounds && time(NULL) < end; current++) {
        state = (seed << 32) + current;
        for (int n = 0; n < 8; n++) random_byte();
        size_t size = (size_t)(random_byte() << 8 | random_byte()) % INPUT_MOST;
        for (size_t n = 0; n < size; n++) input[n] = random_byte();
        alarm(CPU_SECONDS_MOST);
        LLVMFuzzerTestOneInput(input, size);
    }
    printf("%llu rounds\n", (unsigned long long)current);
    return 0;
}
