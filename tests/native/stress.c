/* Publishers and subscribers of all three reliabilities at once, in a pool that is much too small for them.
 *
 *   stress threads|processes MESSAGES        each publisher publishes so many
 *
 * Afterwards the books balance. As threads every role has a region handle of its own, so that ThreadSanitizer sees
 * what processes do to one another; the visitor and the last role share that of the role before them, so that it sees what
 * threads of a process do.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

enum { POOL = 768 * 1024, ROLES = PUBLISHERS + SUBSCRIBERS };

const char *const topic_names[TOPICS] = {"stress/first", "stress/second"};

static struct role roles[ROLES] = {
    {.name = "reliable subscriber", .play = play_subscriber, .number = 0, .reliability = RTMW_RELIABLE, .depth = 16},
    {.name = "reliable subscriber of the second topic", .play = play_subscriber, .number = 1, .reliability = RTMW_RELIABLE, .depth = 3},
    {.name = "adaptive subscriber", .play = play_subscriber, .number = 0, .reliability = RTMW_ADAPTIVE, .depth = 8},
    {.name = "visitor", .play = play_visitor},
    {.name = "reliable publisher", .play = play_publisher, .number = 0, .reliability = RTMW_RELIABLE},
    {.name = "second reliable publisher", .play = play_publisher, .number = 1, .reliability = RTMW_RELIABLE},
    {.name = "adaptive publisher", .play = play_publisher, .number = 2, .reliability = RTMW_ADAPTIVE},
    {.name = "timely publisher", .play = play_publisher, .number = 3, .reliability = RTMW_TIMELY},
    {.name = "timely subscriber", .play = play_subscriber, .number = 0, .reliability = RTMW_TIMELY, .depth = 4, .min_interval_ns = 100000},
};

static void *play(void *role)
{
    ((struct role *)role)->play(role);
    return NULL;
}

static bool shares(int role) { return role == ROLES - 1 || roles[role].play == play_visitor; }

static void play_as_threads(uint32_t domain)
{
    pthread_t thread[ROLES];
    for (int i = 0; i < ROLES; i++) roles[i].region = shares(i) ? roles[i - 1].region : attach(domain);
    for (int i = 0; i < ROLES; i++) CHECK(pthread_create(&thread[i], NULL, play, &roles[i]) == 0);
    for (int i = 0; i < ROLES; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < ROLES; i++)
        if (!shares(i)) rtmw_detach(roles[i].region);
}

static void play_as_process(struct role *role, uint32_t domain)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    role->region = attach(domain);
    role->play(role);
    rtmw_detach(role->region);
    exit(0);
}

static void play_as_processes(uint32_t domain)
{
    pid_t pid[ROLES];
    bool well = true;
    for (int i = 0; i < ROLES; i++) {
        pid[i] = fork();
        CHECK(pid[i] >= 0);
        if (pid[i] == 0) play_as_process(&roles[i], domain);
    }
    for (int left = ROLES; left > 0; left--) {
        int status, who = 0;
        pid_t ended = wait(&status);
        while (who < ROLES && pid[who] != ended) who++;
        if (status == 0) continue;
        fprintf(stderr, "%s: status %x\n", who < ROLES ? roles[who].name : "?", (unsigned)status);
        for (int i = 0; well && i < ROLES; i++)
            if (pid[i] != ended) kill(pid[i], SIGTERM);
        well = false;
    }
    CHECK(well);
}

static void report(const struct scoreboard *board)
{
    uint64_t sum = 0;
    for (int p = 0; p < PUBLISHERS; p++)
        for (int t = 0; t < TOPICS; t++)
            for (int b = 0; b < BANDS; b++) sum += board->published[p][t][b];
    printf("stress: %llu messages published, the books balance\n", (unsigned long long)sum);
}

int main(int count, char **arguments)
{
    CHECK(count == 3, "usage: stress threads|processes MESSAGES");
    struct scoreboard *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t domain = domain_make(POOL, PATIENCE_S);
    board->publishing = PUBLISHERS;
    for (uint32_t i = 0; i < ROLES; i++) {
        roles[i].board = board;
        roles[i].domain = domain;
        roles[i].messages = (uint32_t)atoi(arguments[2]);
        roles[i].random = monotonic_ns() + i;
    }
    if (strcmp(arguments[1], "processes") == 0)
        play_as_processes(domain);
    else
        play_as_threads(domain);
    struct rtmw_region *r = attach(domain);
    books_must_balance(r);
    rtmw_detach(r);
    report(board);
    return 0;
}
