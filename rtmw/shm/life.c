/* Life of a participant: a lock of the kernel on one byte of the control file a slot.
 *
 * A participant holds an open-file-description lock (F_OFD_SETLK) on the first byte of its slot's word, from before the
 * word says PRESENT until after it says ABSENT. The kernel drops the lock when the last descriptor of that open file is
 * closed: when the last thread of the process has ended, whatever ended it, and at exec, for the descriptor is
 * close-on-exec. A stopped process keeps its lock. Therefore:
 *
 *   a participant is dead if its word was read (not ABSENT) and its lock was found free after that.
 *
 * No /proc is asked, so that hidepid changes nothing, nor do pid, user, mount and time namespaces.
 *
 * The lock belongs to the open file, not to the process. Each attachment opens the file itself, so that several
 * attachments of one process are participants of their own. The region is mapped through another open file, because a
 * mapping keeps its file open. fork() shares the open file with the child, which closes its copy at once (region.c). A
 * child of the bare system call runs no such handler, and keeps its parent's lock: for that case participants.c also asks
 * whether the pid exists, where pids mean the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core.h"

#ifndef F_OFD_GETLK /* from Linux 3.15 on */
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

static struct flock byte_of(struct rtmw_region *r, uint32_t slot, short type)
{
    uint64_t at = r->header->at_participants + slot * sizeof(struct participant);
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
}

/* Takes the lock of a slot. RTMW_OK; RTMW_NO_PARTICIPANT_SLOT: another attachment has it; RTMW_NO_LOCKS and errno: the
 * kernel, the file system or a sandbox refuses locks. Never blocks. */
int life_take(struct rtmw_region *r, uint32_t slot)
{
    struct flock lock = byte_of(r, slot, F_WRLCK);
    if (fcntl(r->control_fd, F_OFD_SETLK, &lock) == 0) return RTMW_OK;
    return errno == EAGAIN ? RTMW_NO_PARTICIPANT_SLOT : RTMW_NO_LOCKS;
}

/* Is the descriptor still the one that was opened? A program that closes descriptors it does not know may have closed
 * it, and another file may have its number now, on which nobody holds a lock. */
bool life_file_is_open(struct rtmw_region *r)
{
    struct stat about;
    return fstat(r->control_fd, &about) == 0 && (uint64_t)about.st_dev == r->control_device &&
           (uint64_t)about.st_ino == r->control_inode;
}

/* Gives up the lock of a slot that this attachment holds; otherwise it does nothing. */
void life_give(struct rtmw_region *r, uint32_t slot)
{
    struct flock lock = byte_of(r, slot, F_UNLCK);
    if (life_file_is_open(r)) fcntl(r->control_fd, F_OFD_SETLK, &lock);
}

/* Does no other attachment hold the lock of this slot? false also if that cannot be told. */
bool life_is_over(struct rtmw_region *r, uint32_t slot)
{
    struct flock lock = byte_of(r, slot, F_WRLCK);
    return fcntl(r->control_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK && life_file_is_open(r);
}
