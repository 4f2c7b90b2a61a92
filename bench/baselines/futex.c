/* Half a round trip of one word between two processes that sleep: `futex ROUNDS CPU CPU`. One figure a round trip. */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "common.h"

static void await(uint32_t *word, uint32_t value)
{
    for (uint32_t seen; (seen = load_acquire(word)) != value;)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void say(uint32_t *word, uint32_t value)
{
    store_release(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int main(int argc, char **argv)
{
    uint32_t rounds = (uint32_t)argument(argc, argv, 1, 1000);
    Words *words = shared(sizeof *words);
    double *halves = calloc(rounds, sizeof *halves);
    if (halves == NULL) return 1;
    if (other_process(argument(argc, argv, 3, -1)) == 0) {
        for (uint32_t i = 1; i <= rounds; i++) {
            await(&words->ping, i);
            say(&words->pong, i);
        }
        _exit(0);
    }
    pin(argument(argc, argv, 2, -1));
    for (uint32_t i = 1; i <= rounds; i++) {
        uint64_t start = now_ns();
        say(&words->ping, i);
        await(&words->pong, i);
        halves[i - 1] = (double)(now_ns() - start) / 2.0;
    }
    for (uint32_t i = 0; i < rounds; i++) printf("%.0f\n", halves[i]);
    wait(NULL);
    return 0;
}
