/* Making a domain: its two objects, filled under names that nobody looks for.
 *
 *   /rtmw.DOMAIN.new.PID.NONCE       the control object while it is made; `leftovers` of region.py finds a dead creator's
 *   /rtmw.DOMAIN.blocks.NONCE        the blocks; the control object names them by the nonce
 *   /rtmw.DOMAIN.control             the control object: its name, given last, by link
 *
 * Of several creators at a time one is the first to link; the others take back what they made.
 *
 * Both objects are for the creator's user, or also for a group: then they get it, and mode 0660, before they have a name that
 * others look for, whatever the umask is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"

enum { NAME_MOST = 80 };

struct making {
    char control[NAME_MOST], blocks[NAME_MOST], unfinished[NAME_MOST];
    int control_fd;
    const uint32_t *group; /* NULL: none */
};

static bool open_to_group(const struct making *m, int fd)
{
    return !m->group || (fchown(fd, (uid_t)-1, *m->group) == 0 && fchmod(fd, 0660) == 0);
}

/* An object with all of its memory reserved: a full /dev/shm is an error here, and never a SIGBUS later. */
static int allocate(const struct making *m, const char *name, uint64_t bytes, int *fd)
{
    int failed;
    *fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (*fd < 0) return RTMW_SYSTEM;
    flock(*fd, LOCK_EX); /* its creator lives; where that is refused the pid in the name tells */
    do failed = posix_fallocate(*fd, 0, (off_t)bytes);
    while (failed == EINTR);
    if (!failed && !open_to_group(m, *fd)) failed = errno;
    if (failed) {
        close(*fd);
        shm_unlink(name);
        *fd = -1;
    }
    errno = failed;
    if (failed == ENOSPC || failed == ENOMEM || failed == EFBIG) return RTMW_NO_SPACE;
    if (failed == EPERM) return RTMW_DENIED;
    return failed ? RTMW_SYSTEM : RTMW_OK;
}

static int fill(const struct making *m, const struct pool *pool)
{
    int blocks, code = allocate(m, m->blocks, pool->bytes, &blocks);
    if (code != RTMW_OK) return code;
    close(blocks);
    return region_format(m->control_fd, pool);
}

static int give_name(const struct making *m)
{
    char from[NAME_MOST + sizeof SHM], to[NAME_MOST + sizeof SHM];
    snprintf(from, sizeof from, SHM "%s", m->unfinished);
    snprintf(to, sizeof to, SHM "%s", m->control);
    if (link(from, to) == 0) return RTMW_OK;
    return errno == EEXIST ? RTMW_EXISTS : RTMW_SYSTEM;
}

static bool is_there(const struct making *m)
{
    char path[NAME_MOST + sizeof SHM];
    snprintf(path, sizeof path, SHM "%s", m->control);
    return access(path, F_OK) == 0;
}

static int make(struct making *m, const struct pool *pool)
{
    if (is_there(m)) return RTMW_EXISTS;
    int code = allocate(m, m->unfinished, region_control_bytes(pool->bytes), &m->control_fd);
    if (code != RTMW_OK) return code;
    code = fill(m, pool);
    if (code == RTMW_OK) code = give_name(m);
    int saved = errno;
    close(m->control_fd);
    shm_unlink(m->unfinished);
    if (code != RTMW_OK) shm_unlink(m->blocks);
    errno = saved;
    return code;
}

static int make_for(uint32_t domain, const struct pool *pool, const uint32_t *group)
{
    struct making m = {.group = group};
    unsigned long long nonce = pool->nonce;
    snprintf(m.control, sizeof m.control, REGION_CONTROL, domain);
    snprintf(m.blocks, sizeof m.blocks, REGION_BLOCKS, domain, nonce);
    snprintf(m.unfinished, sizeof m.unfinished, REGION_UNFINISHED, domain, (int)getpid(), nonce);
    return make(&m, pool);
}

int region_create(uint32_t domain, const struct pool *pool) { return make_for(domain, pool, NULL); }

static int create(uint32_t domain, uint64_t pool_bytes, uint32_t reserve, const uint32_t *group)
{
    struct pool pool = {.bytes = (pool_bytes + PAGE - 1) / PAGE * PAGE, .reserve = reserve};
    if (pool_bytes < SMALLEST_POOL || pool_bytes > LARGEST_POOL || reserve > RESERVE_MOST) return RTMW_BAD_SIZE;
    if (getrandom(&pool.nonce, sizeof pool.nonce, 0) != (ssize_t)sizeof pool.nonce) return RTMW_SYSTEM;
    int cancel = cancel_off(), code = make_for(domain, &pool, group);
    cancel_back(cancel);
    return code;
}

int rtmw_create(uint32_t domain, uint64_t pool_bytes, uint32_t reserve)
{
    return create(domain, pool_bytes, reserve, NULL);
}

int rtmw_create_for_group(uint32_t domain, uint64_t pool_bytes, uint32_t reserve, uint32_t group)
{
    return create(domain, pool_bytes, reserve, &group);
}
