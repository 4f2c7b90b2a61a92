/* The kernel's side of a file in user space (linux/fuse.h): one file, which is a block device in memory.
 *
 * The root of this file system is the file itself, so there are no names to look up. Requests are answered in their order,
 * by one thread. Before a write is answered, all requests that wait are read: a flush among them was asked for before
 * that answer, and does not cover the write.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

#include "block.h"

enum { LARGEST = 128 * 1024, REQUEST = LARGEST + 4096, WAITING = 64, MINOR = 31, FOREVER_S = 1000000 };

struct request {
    uint64_t covers; /* events that had been answered when it was read */
    size_t size;
    uint8_t bytes[REQUEST];
};

struct server {
    struct block_disk *disk;
    int fuse;
    bool has_ended;
    unsigned first, count; /* of requests that wait */
    struct request waiting[WAITING];
};

int fuse_mount(const char *path)
{
    char options[96];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fuse < 0) return -1;
    snprintf(options, sizeof options, "fd=%d,rootmode=100000,user_id=0,group_id=0", fuse);
    if (mount("rtmw-torture", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0) return fuse;
    int error = errno;
    close(fuse);
    errno = error;
    return -1;
}

static void read_waiting(struct server *s)
{
    while (s->count < WAITING && !s->has_ended) {
        struct request *r = &s->waiting[(s->first + s->count) % WAITING];
        ssize_t size = read(s->fuse, r->bytes, sizeof r->bytes);
        if (size < 0 && (errno == EINTR || errno == ENOENT)) continue; /* ENOENT: that request was taken back */
        if (size < 0) {
            s->has_ended = errno != EAGAIN;
            return;
        }
        r->size = (size_t)size;
        r->covers = s->disk->answered;
        s->count++;
    }
}

static void answer(struct server *s, const struct fuse_in_header *in, int error, const void *body, size_t size)
{
    struct fuse_out_header out = {.len = (uint32_t)(sizeof out + size), .error = -error, .unique = in->unique};
    struct iovec parts[2] = {{&out, sizeof out}, {(void *)(uintptr_t)body, size}};
    while (writev(s->fuse, parts, size ? 2 : 1) < 0 && errno == EINTR) continue;
}

static void answer_init(struct server *s, const struct fuse_in_header *in, const struct fuse_init_in *asked)
{
    struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = MINOR, .max_readahead = asked->max_readahead};
    out.flags = asked->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES);
    out.max_background = WAITING / 2;
    out.congestion_threshold = WAITING / 2;
    out.max_write = LARGEST;
    out.time_gran = 1;
    out.max_pages = LARGEST / BLOCK_PAGE;
    answer(s, in, 0, &out, sizeof out);
}

static void answer_attributes(struct server *s, const struct fuse_in_header *in)
{
    struct fuse_attr_out out = {.attr_valid = FOREVER_S};
    out.attr = (struct fuse_attr){.ino = FUSE_ROOT_ID, .size = BLOCK_BYTES, .blocks = BLOCK_BYTES / BLOCK_SECTOR};
    out.attr.mode = 0100600;
    out.attr.nlink = 1;
    out.attr.blksize = BLOCK_PAGE;
    answer(s, in, 0, &out, sizeof out);
}

static void answer_read(struct server *s, const struct fuse_in_header *in, const struct fuse_read_in *asked)
{
    uint64_t at = asked->offset < BLOCK_BYTES ? asked->offset : BLOCK_BYTES, left = BLOCK_BYTES - at;
    answer(s, in, 0, s->disk->content + at, asked->size < left ? asked->size : left);
}

static void answer_write(struct server *s, const struct fuse_in_header *in, const struct fuse_write_in *asked)
{
    struct fuse_write_out out = {.size = asked->size};
    bool is_there = block_write(s->disk, asked->offset, asked + 1, asked->size);
    read_waiting(s);
    answer(s, in, is_there ? 0 : ENOSPC, &out, is_there ? sizeof out : 0);
}

static void answer_one(struct server *s, const struct request *r)
{
    const struct fuse_in_header *in = (const void *)r->bytes;
    const void *body = in + 1;
    struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};
    switch (in->opcode) {
    case FUSE_INIT:
        answer_init(s, in, body);
        break;
    case FUSE_SETATTR: /* of times only: the size is what it is */
    case FUSE_GETATTR:
        answer_attributes(s, in);
        break;
    case FUSE_OPEN:
        answer(s, in, 0, &opened, sizeof opened);
        break;
    case FUSE_READ:
        answer_read(s, in, body);
        break;
    case FUSE_WRITE:
        answer_write(s, in, body);
        break;
    case FUSE_FSYNC:
        answer(s, in, block_flush(s->disk, r->covers) ? 0 : ENOSPC, NULL, 0);
        break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
        answer(s, in, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break; /* not answered */
    case FUSE_DESTROY:
        s->has_ended = true;
        break;
    default:
        answer(s, in, ENOSYS, NULL, 0);
    }
    s->disk->answered = s->disk->count;
}

int fuse_serve(struct block_disk *disk, int fuse)
{
    static struct server server;
    struct server *s = &server;
    s->disk = disk;
    s->fuse = fuse;
    while (!s->has_ended) {
        struct pollfd ready = {.fd = fuse, .events = POLLIN};
        if (!s->count && poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
        read_waiting(s);
        if (!s->count) continue;
        answer_one(s, &s->waiting[s->first]);
        s->first = (s->first + 1) % WAITING;
        s->count--;
    }
    return 0;
}
