/* What the explored core finds instead of the kernel: time that passes by being asked for, so that every run of a
 * schedule is the same, a /proc of processes that live until the test says otherwise, and datagrams that are counted.
 * (Futexes are simulated in explore.c.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "explore.h"

#undef open
#undef read
#undef close
#undef getpid
#undef access

enum { PROC_FD = 1000000, SOCKET_FD };

uint32_t rtmw_forks;

uint64_t monotonic_ns(void) { return world.clock_ns += 1000; }
uint64_t realtime_ns(struct rtmw_region *r, uint64_t mono) { return mono + r->real_minus_mono; }

void rtmw_lock_slow(rtmw_lock *lock)
{
    broken("a lock of one process was taken by two actors");
    lock->taken = 1;
}

pid_t explore_getpid(void) { return (pid_t)world.pid[me()]; }

int explore_open(const char *path, int flags, ...)
{
    unsigned pid;
    (void)flags;
    if (sscanf(path, "/proc/%u/stat", &pid) == 1 && pid <= world.pids && !world.dead[pid]) return PROC_FD;
    errno = ENOENT;
    return -1;
}

ssize_t explore_read(int fd, void *buffer, size_t size)
{
    static const char text[] = "1 (race) R 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 77 0";
    if (fd != PROC_FD) return -1;
    snprintf(buffer, size, "%s", text);
    return (ssize_t)strlen(text);
}

int explore_access(const char *path, int mode)
{
    (void)path;
    return mode == R_OK || mode == F_OK ? 0 : -1;
}

int explore_close(int fd) { return fd == PROC_FD ? 0 : -1; }

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
