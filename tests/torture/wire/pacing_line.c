/* Pacing (pacing.c) on lines that are simulated here: what SIOCOUTQ says, and time, are this program's.
 *
 * cc -std=gnu11 -D_GNU_SOURCE -I../../../rtmw/net/dds pacing_line.c ../../../rtmw/net/dds/pacing.c -pthread && ./a.out
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define MS UINT64_C(1000000)

enum {
    SLOW = 125000 * 2304 / 1500, /* bytes a second of 1 Mbit/s, as the kernel counts them */
    FAST = 1 << 30,
    FIVE_DATAGRAMS = 5 * 2304,
    ROUND_NS = 10000, /* of the sender, while nothing holds it up */
};

static struct engine engine = {.lock = PTHREAD_MUTEX_INITIALIZER};
static uint64_t now_ns = MS, rate, waiting, stuck; /* of the line; stuck: charged, and not on its way */
static double part;                                /* of a byte that has left */

static void pass(uint64_t to)
{
    part += (double)(to - now_ns) * (double)rate / 1e9;
    uint64_t left = (uint64_t)part;
    part -= (double)left;
    waiting -= left < waiting ? left : waiting;
    now_ns = to;
}

int ioctl(int descriptor, unsigned long request, ...)
{
    (void)descriptor;
    (void)request;
    va_list rest;
    va_start(rest, request);
    *va_arg(rest, int *) = (int)(waiting + stuck);
    va_end(rest);
    return 0;
}

/* The sender's rounds for so long; `is_flood`: there is always something to send. The most that waited; `sent`: bytes. */
static uint64_t rounds(uint64_t for_ns, bool is_flood, uint64_t *sent)
{
    uint64_t most = 0, end = now_ns + for_ns;
    while (now_ns < end) {
        uint64_t again = pacing_wait(&engine, now_ns);
        if (!again && is_flood) {
            pacing_mark(&engine, 0);
            waiting += pacing_burst(&engine) * 3 / 2;
            if (sent) *sent += pacing_burst(&engine);
        }
        if (waiting > most) most = waiting;
        pass(again ? again : now_ns + (is_flood ? ROUND_NS : MS));
    }
    return most;
}

static int wrong(const char *what, uint64_t is, uint64_t limit)
{
    fprintf(stderr, "%s: %llu, and %llu is the limit\n", what, (unsigned long long)is, (unsigned long long)limit);
    return 1;
}

static int quiet(void)
{
    rate = SLOW;
    rounds(2000 * MS, true, NULL);
    rounds(5000 * MS, false, NULL);
    uint64_t most = rounds(1000 * MS, true, NULL);
    return most > FIVE_DATAGRAMS ? wrong("bytes that wait in the second flood", most, FIVE_DATAGRAMS) : 0;
}

static int fast(void)
{
    rate = FAST;
    rounds(1000 * MS, true, NULL);
    rate = SLOW;
    uint64_t most = rounds(1000 * MS, true, NULL), limit = 3 * BURST_BYTES;
    return most > limit ? wrong("bytes that wait when the line is slow at once", most, limit) : 0;
}

/* 23 KB for a host that does not answer: ARP gives up after 3 s. */
static int dead(void)
{
    uint64_t before = 0, meanwhile = 0;
    rate = SLOW * 10;
    rounds(1000 * MS, true, &before);
    stuck = 23 << 10;
    rounds(1000 * MS, true, &meanwhile);
    if (meanwhile < before / 2) return wrong("bytes that were sent meanwhile, at least", meanwhile, before / 2);
    stuck = 0;
    rounds(500 * MS, true, NULL);
    uint64_t most = rounds(1000 * MS, true, NULL);
    return most > FIVE_DATAGRAMS ? wrong("bytes that wait when it is over", most, FIVE_DATAGRAMS) : 0;
}

int main(int count, char **argument)
{
    if (count != 2 || !pacing_open(&engine, 0)) return 2;
    if (!strcmp(argument[1], "quiet")) return quiet();
    if (!strcmp(argument[1], "fast")) return fast();
    return strcmp(argument[1], "dead") ? 2 : dead();
}
