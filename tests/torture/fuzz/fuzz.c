/* fuzz [SEED [ROUNDS [SECONDS [LIMIT]]]]: so many rounds, or until the seconds are over; LIMIT seconds of processor time
 * for an operation. Exit status 1: a round failed, and its seed is said; `fuzz SEED 1` plays it again (with another
 * thread's damage it may go otherwise).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

enum { POOL = 1 << 16, OPERATIONS_A_ROUND = 300, PATIENCE_S = 3600 };

struct counts *counts;
static long limit_s = 30;

static void too_long(int number)
{
    static const char told[] = "an operation does not end\n";
    (void)number;
    _exit(write(STDERR_FILENO, told, sizeof told - 1) < 0 ? 5 : 4);
}

/* Processor time, so that a machine that is busy elsewhere makes no difference. */
static void begin_limit(void)
{
    struct itimerval limit = {.it_value = {.tv_sec = limit_s}};
    setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

static void play(uint64_t seed, uint32_t domain, void *control)
{
    uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1, hand = ~random;
    signal(SIGVTALRM, too_long);
    damage_begin(control, &hand);
    begin_limit();
    operations_begin(domain, &random);
    static const uint32_t rates[] = {0, 100, 2000, 20000}, pauses[] = {64, 8, 200};
    damage_before_steps(rates[seed % 4]);
    if (seed % 8 == 0) damage_at_second_looks((uint32_t)(seed / 8) % WORDS);
    if (seed % 16 == 4) damage_start_thread(seed);
    for (uint32_t i = 0; i < OPERATIONS_A_ROUND; i++) {
        if (random_below(&hand, pauses[seed % 3]) == 0) damage_some(&hand);
        begin_limit();
        operate();
    }
    begin_limit();
    damage_stop_thread();
    operations_end();
}

static struct {
    uint32_t domain;
    int fd;
    uint64_t nonce, bytes;
    void *control;
} region;

/* false: the round failed. The control object is made anew for it: what the last one left is not to be believed. */
static bool run_round(uint64_t seed)
{
    int status;
    memset(region.control, 0, region.bytes);
    CHECK(region_format(region.fd, &(struct pool){POOL, RTMW_RESERVE, region.nonce}) == RTMW_OK);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        play(seed, region.domain, region.control);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    fprintf(stderr, "fuzz: seed %llu ended with %s %d, in: %s\n", (unsigned long long)seed,
            WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
            operation_name(counts->doing));
    return false;
}

static void begin(void)
{
    char name[64];
    region.domain = domain_make(POOL, PATIENCE_S);
    snprintf(name, sizeof name, REGION_CONTROL, region.domain);
    region.fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    region.bytes = region_control_bytes(POOL);
    region.control = mmap(NULL, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(region.fd >= 0 && region.control != MAP_FAILED && counts != MAP_FAILED);
    region.nonce = ((struct header *)region.control)->nonce;
}

static void tell(uint64_t rounds, uint64_t failed)
{
    printf("%llu rounds, %llu operations, %llu words overwritten\n", (unsigned long long)rounds,
           (unsigned long long)counts->operations, (unsigned long long)counts->words);
    for (int code = 0; code < CODES; code++)
        if (counts->answers[code])
            printf("%10llu  %s\n", (unsigned long long)counts->answers[code], rtmw_describe(code));
    printf("%llu rounds failed\n", (unsigned long long)failed);
}

int main(int given, char **arguments)
{
    uint64_t seed = given > 1 ? strtoull(arguments[1], NULL, 0) : 1;
    uint64_t rounds = given > 2 ? strtoull(arguments[2], NULL, 0) : 100, played = 0, failed = 0;
    uint64_t seconds = given > 3 ? strtoull(arguments[3], NULL, 0) : PATIENCE_S;
    if (given > 4) limit_s = strtol(arguments[4], NULL, 0);
    begin();
    uint64_t began = monotonic_ns();
    for (; played < rounds && !failed && monotonic_ns() - began < seconds * 1000000000; played++)
        failed += !run_round(seed + played);
    tell(played, failed);
    return failed != 0;
}
