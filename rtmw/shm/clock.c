/* The time of messages, and waiting for a lock of this process. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"

enum { REAL_CHECK_NS = 1000000 };

static bool is_for_children(void)
{
    struct stat mine, childrens;
    return stat("/proc/self/ns/time", &mine) == 0 && stat("/proc/self/ns/time_for_children", &childrens) == 0 &&
           mine.st_ino != childrens.st_ino;
}

/* A kernel without time namespaces, and one that hides /proc, says nothing: then there is no offset. */
bool clock_offset(int64_t *ns)
{
    char text[256];
    long long seconds = 0, rest = 0;
    *ns = 0;
    if (is_for_children()) return false;
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    if (sscanf(text, "monotonic %lld %lld", &seconds, &rest) == 2) *ns = seconds * (int64_t)NS_PER_S + rest;
    return true;
}

uint64_t monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* One clock read a message instead of two: the wall clock is read once a millisecond. Lock held. It is read before the
 * other one: a thread that waits for the processor between the two then finds it behind for a millisecond, and stamps no
 * message with a time that has not come. */
uint64_t realtime_ns(struct rtmw_region *r, uint64_t mono)
{
    if (mono - r->real_checked_ns > REAL_CHECK_NS) {
        uint64_t real = clock_ns(CLOCK_REALTIME);
        r->real_checked_ns = monotonic_ns(); /* `mono` may be from before this thread waited for the processor */
        r->real_minus_mono = real - r->real_checked_ns;
    }
    return mono + r->real_minus_mono;
}

/* A real-time thread must sleep, or a holder of lower priority never runs. */
static void sleep_a_moment(void)
{
    int cancel = cancel_off(); /* its caller may have a block that nobody else knows of */
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    cancel_back(cancel);
}

void rtmw_lock_slow(rtmw_lock *lock)
{
    for (uint32_t spins = 0; __builtin_expect(load_relaxed(&lock->taken), 0) || exchange(&lock->taken, 1u); spins++) {
        if (spins < 64)
            cpu_relax();
        else if (spins < 256)
            sched_yield();
        else
            sleep_a_moment();
    }
}
