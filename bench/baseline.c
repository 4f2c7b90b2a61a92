/* What the machine itself does, beside which the bus is measured: half round trips of one word between two processes
 * by spinning and by futex, and memcpy. Prints `name nanoseconds` lines, medians of round trips or of copies.
 *
 *   gcc -O2 -D_GNU_SOURCE -Irtmw/shm bench/baseline.c -o baseline && ./baseline
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "atomics.h"

enum { SPINS = 50000, SLEEPS = 5000, COPIES = 200 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *name, uint64_t *times, int count, int divisor)
{
    qsort(times, (size_t)count, sizeof *times, ascending);
    printf("%s %.1f\n", name, (double)times[count / 2] / divisor);
}

static void await_word(uint32_t *word, uint32_t value, int sleeping)
{
    for (uint32_t seen; (seen = load_acquire(word)) != value;)
        if (sleeping) syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void say(uint32_t *word, uint32_t value, int sleeping)
{
    store_release(word, value);
    if (sleeping) syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void ping_pong(const char *name, int rounds, int sleeping)
{
    uint32_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t *ping = words, *pong = words + 32; /* lines of their own */
    uint64_t *times = calloc((size_t)rounds, sizeof *times);
    pid_t child = fork();
    if (child == 0) {
        for (uint32_t i = 1; i <= (uint32_t)rounds; i++) {
            await_word(ping, i, sleeping);
            say(pong, i, sleeping);
        }
        _exit(0);
    }
    for (uint32_t i = 1; i <= (uint32_t)rounds; i++) {
        uint64_t start = now_ns();
        say(ping, i, sleeping);
        await_word(pong, i, sleeping);
        times[i - 1] = now_ns() - start;
    }
    waitpid(child, NULL, 0);
    report(name, times, rounds, 2);
    free(times);
}

static void copies(const char *name, size_t size)
{
    char *from = malloc(size), *to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t times[COPIES];
    memset(from, 1, size);
    memset(to, 2, size);
    for (int i = 0; i < COPIES; i++) {
        uint64_t start = now_ns();
        memcpy(to, from, size);
        times[i] = now_ns() - start;
    }
    report(name, times, COPIES, 1);
    free(from);
}

int main(void)
{
    ping_pong("spin", SPINS, 0);
    ping_pong("futex", SLEEPS, 1);
    copies("memcpy_64K", 65536);
    copies("memcpy_1M", 1 << 20);
    copies("memcpy_4M", 4 << 20);
    return 0;
}
