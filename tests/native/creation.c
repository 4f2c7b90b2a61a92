/* creation DOMAIN POOL STEP: makes a domain, and dies before the given system call of that; counted from 1.
 * Exit status 0: the domain was made first. tests/shm/test_creation.py sees what is left.
 */
#undef shm_open /* here they are the real ones */
#undef posix_fallocate
#undef mmap
#undef munmap
#undef link
#undef close
#undef shm_unlink
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "native.h"

static unsigned long steps_left;

static void step(void)
{
    if (--steps_left == 0) kill(getpid(), SIGKILL);
}

int dying_shm_open(const char *name, int flags, mode_t mode) { return step(), shm_open(name, flags, mode); }
int dying_posix_fallocate(int fd, off_t from, off_t size) { return step(), posix_fallocate(fd, from, size); }
void *dying_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return step(), mmap(at, size, protection, flags, fd, offset);
}
int dying_munmap(void *base, size_t size) { return step(), munmap(base, size); }
int dying_link(const char *from, const char *to) { return step(), link(from, to); }
int dying_close(int fd) { return step(), close(fd); }
int dying_shm_unlink(const char *name) { return step(), shm_unlink(name); }

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    steps_left = strtoul(arguments[3], NULL, 10);
    int code = rtmw_create((uint32_t)atoi(arguments[1]), strtoull(arguments[2], NULL, 10), RTMW_RESERVE);
    if (code != RTMW_OK) fprintf(stderr, "%s\n", rtmw_describe(code));
    return code != RTMW_OK;
}
