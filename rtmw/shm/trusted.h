/* Which files of /dev/shm a process relies on. Every user of the host may make files there, under any name.
 *
 * Who may write to a file may also cut it short, and then each process that has mapped it dies of SIGBUS at its next look.
 * So a file is opened only if it is a regular file to which no others may write, and if it belongs to the user of this
 * process, or is open to a group that this process is in.
 */
#ifndef RTMW_TRUSTED_H
#define RTMW_TRUSTED_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static inline bool is_in_group(gid_t group) { return group == getegid() || group_member(group); }

static inline bool is_trusted(int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_mode & S_IWOTH) return false;
    bool open_to_group = (about.st_mode & (S_IRGRP | S_IWGRP)) == (S_IRGRP | S_IWGRP);
    return about.st_uid == geteuid() || (open_to_group && is_in_group(about.st_gid));
}

/* A descriptor of a file that is there; -1: errno says why, and is EPERM if this process does not rely on it. A symbolic link
 * is not followed (ELOOP), and a pipe is not waited for. */
static inline int open_trusted(const char *path, int flags)
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || is_trusted(fd)) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

#endif
