/* What the explored core finds instead of the kernel: time that passes by being asked for, so that every run of a
 * schedule is the same, locks that processes hold until the test says that they are dead, and datagrams that are counted.
 * (Futexes are simulated in explore.c.)
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "explore.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

enum { SOCKET_FD = 1000001 };

uint64_t monotonic_ns(void) { return world.clock_ns += 1000; }
uint64_t realtime_ns(struct rtmw_region *r, uint64_t mono) { return mono + r->real_minus_mono; }

void rtmw_lock_slow(rtmw_lock *lock)
{
    broken("a lock of one process was taken by two actors");
    lock->taken = 1;
}

pid_t explore_getpid(void) { return (pid_t)world.pid[me()]; }

/* Pids say nothing here: what tells the living from the dead is the lock. */
int explore_kill(pid_t pid, int number)
{
    (void)pid, (void)number;
    return 0;
}

/* The control file is one, and its descriptor is the pid of who opened it: an open file lives as long as its process. */
int explore_fstat(int fd, struct stat *about)
{
    (void)fd;
    memset(about, 0, sizeof *about);
    return 0;
}

int explore_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    struct flock *lock = va_arg(arguments, struct flock *);
    va_end(arguments);
    uint64_t *holder = &world.locks[(uint64_t)lock->l_start / sizeof(struct participant)];
    rtmw_explore_step(holder);
    bool is_anothers = *holder && *holder != (uint64_t)fd && !world.dead[*holder];
    if (command == F_OFD_GETLK) {
        lock->l_type = is_anothers ? F_WRLCK : F_UNLCK;
        return 0;
    }
    if (lock->l_type == F_UNLCK) {
        if (*holder == (uint64_t)fd) *holder = 0;
        return 0;
    }
    errno = EAGAIN;
    if (is_anothers) return -1;
    *holder = (uint64_t)fd;
    return 0;
}

int explore_socket(int domain, int type, int protocol)
{
    (void)domain, (void)type, (void)protocol;
    return SOCKET_FD;
}

ssize_t explore_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t length)
{
    unsigned slot;
    (void)fd, (void)data, (void)flags, (void)length;
    const char *name = ((const struct sockaddr_un *)(const void *)address)->sun_path + 1;
    if (world.unsent) return world.unsent--, errno = ENOBUFS, -1;
    if (sscanf(name, "rtmw.%*x.p%u.", &slot) == 1 && slot < PARTICIPANTS) world.datagrams[slot]++;
    return (ssize_t)size;
}
