/* Processes that publish, take, loan, attach and detach are killed at random, one every few milliseconds, and others
 * take their place; some are never killed, and must get on all along.
 *
 *   kill_stress SECONDS
 *
 * Afterwards a sweep brings everything back, and the RELIABLE survivor has all that any publisher was told is published.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_stress.h"

enum { POOL = 1024 * 1024, VICTIMS = 4, WINDOW_MS = 1000 };

static struct scoreboard *board;
static uint32_t domain, instances;
static pid_t parent, survivors[SURVIVORS], victims[VICTIMS];

static pid_t begin(void (*play)(struct life *))
{
    struct life life = {board, domain, instances++, monotonic_ns() + instances};
    CHECK(instances <= INSTANCES);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    play(&life);
    exit(0);
}

static void must_have_ended_well(pid_t pid, const char *who)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0, "%s: status %x", who, (unsigned)status);
}

/* SIGKILL is the only way a victim may end. */
static void kill_one(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a victim ended by itself: status %x", (unsigned)status);
}

static void see_progress(uint64_t *before, const char *when)
{
    for (int i = 0; i < SURVIVORS; i++) {
        uint64_t now = load_seq(&board->progress[i]);
        CHECK(now > before[i], "survivor %d stood still for %d ms %s", i, WINDOW_MS, when);
        before[i] = now;
    }
}

static void stop_everybody(void)
{
    if (getpid() != parent) return;
    for (int i = 0; i < VICTIMS; i++)
        if (victims[i] > 0) kill(victims[i], SIGKILL);
    for (int i = 0; i < SURVIVORS; i++)
        if (survivors[i] > 0) kill(survivors[i], SIGKILL);
}

static uint32_t kill_at_random(uint32_t seconds)
{
    uint64_t random = monotonic_ns(), end = random + seconds * UINT64_C(1000000000), progress[SURVIVORS] = {0};
    uint64_t window = random + WINDOW_MS * UINT64_C(1000000);
    uint32_t kills = 0;
    while (monotonic_ns() < end) {
        usleep(500 + random_below(&random, 5000));
        uint32_t who = random_below(&random, VICTIMS);
        kill_one(victims[who]);
        victims[who] = begin(live_dangerously);
        kills++;
        if (monotonic_ns() < window) continue;
        see_progress(progress, "while others were killed");
        window = monotonic_ns() + WINDOW_MS * UINT64_C(1000000);
    }
    return kills;
}

int main(int count, char **arguments)
{
    CHECK(count == 2, "usage: kill_stress SECONDS");
    uint32_t seconds = (uint32_t)atoi(arguments[1]);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    domain = domain_make(POOL, seconds + 30);
    parent = getpid();
    atexit(stop_everybody);
    board->publishing = 2;
    survivors[0] = begin(survive_subscribing);
    while (!load_seq(&board->progress[0])) usleep(1000);
    survivors[1] = begin(survive_publishing);
    survivors[2] = begin(survive_publishing);
    survivors[3] = begin(survive_sipping);
    for (int i = 0; i < VICTIMS; i++) victims[i] = begin(live_dangerously);
    uint32_t kills = kill_at_random(seconds);
    for (int i = 0; i < VICTIMS; i++) kill_one(victims[i]), victims[i] = 0;
    store_seq(&board->stop, 1u);
    static const char *const names[SURVIVORS] = {"the RELIABLE subscriber", "a publisher", "a publisher", "the one that sips"};
    for (int i = SURVIVORS - 1; i >= 0; i--) {
        must_have_ended_well(survivors[i], names[i]);
        survivors[i] = 0;
    }
    struct rtmw_region *r = attach(domain);
    books_must_balance(r);
    rtmw_detach(r);
    printf("kill_stress: %u killed; %llu messages came, none was lost, and the books balance\n", kills,
           (unsigned long long)board->progress[0]);
    return 0;
}
