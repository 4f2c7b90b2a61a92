/* Half a round trip of one word between two spinning processes: `spin ROUNDS CPU CPU`. One figure a round trip. */
#include "common.h"

static void await(uint32_t *word, uint32_t value)
{
    while (load_acquire(word) != value) {}
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
            store_release(&words->pong, i);
        }
        _exit(0);
    }
    pin(argument(argc, argv, 2, -1));
    uint64_t last = now_ns();
    for (uint32_t i = 1; i <= rounds; i++) {
        store_release(&words->ping, i);
        await(&words->pong, i);
        uint64_t now = now_ns();
        halves[i - 1] = (double)(now - last) / 2.0;
        last = now;
    }
    for (uint32_t i = 0; i < rounds; i++) printf("%.1f\n", halves[i]);
    wait(NULL);
    return 0;
}
