/* Mounts and loop devices of the rig. The kernel takes them down when the last process of the rig ends, however it ends: the
 * mounts because their namespace goes, the loop devices because nothing has them open any more. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block.h"

enum { TRIES = 64 };

int mounts_begin(void)
{
    if (unshare(CLONE_NEWNS) < 0) return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return -1;
    return mount("rtmw-torture", MOUNTS, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700");
}

int loop_attach(int file, char name[32])
{
    struct loop_config config = {.fd = (uint32_t)file, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), device = -1;
    if (control < 0) return -1;
    for (int n = 0; n < TRIES && device < 0; n++) { /* another program may take the free one first */
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0) break;
        snprintf(name, 32, "/dev/loop%d", number);
        if (access(name, F_OK) < 0)
            mknod(name, S_IFBLK | 0600, (dev_t)(7 << 8 | number)); /* in a container without udev */
        device = open(name, O_RDWR | O_CLOEXEC);
        if (device < 0) break;
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0) break;
        int error = errno;
        close(device);
        device = -1;
        errno = error;
        if (error != EBUSY) break;
    }
    int error = errno;
    close(control);
    errno = error;
    return device;
}

int loop_forget(int device) { return ioctl(device, BLKFLSBUF, 0); }
