/* The mappings of the region in this process: which it may write, which pages are there before they are needed, and how a
 * payload is copied into it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

/* A page is mapped for writing when it is first written. Adding nothing is a write that changes nothing, also of a word
 * that another process is just writing. */
static void touch(void *base, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PAGE) fetch_add((uint64_t *)(void *)((uint8_t *)base + at), 0);
}

/* The first publisher of a process makes its mapping of the blocks writable. Lock held. */
bool memory_make_writable(struct rtmw_region *r)
{
    if (r->blocks_writable) return true;
    r->blocks_writable = mprotect(r->blocks, r->header->pool_bytes, PROT_READ | PROT_WRITE) == 0;
    if (r->blocks_writable && r->memory_locked) touch(r->blocks, r->header->pool_bytes);
    return r->blocks_writable;
}

static bool lock_all(struct rtmw_region *r)
{
    uint64_t refs = r->header->descriptors * sizeof *r->refs;
    if (mlock(r->control, r->header->control_bytes) || mlock(r->blocks, r->header->pool_bytes) || mlock(r->refs, refs))
        return false;
    touch(r->control, r->header->control_bytes);
    if (r->blocks_writable) touch(r->blocks, r->header->pool_bytes);
    return true;
}

static void unlock_all(struct rtmw_region *r)
{
    munlock(r->control, r->header->control_bytes);
    munlock(r->blocks, r->header->pool_bytes);
    munlock(r->refs, r->header->descriptors * sizeof *r->refs);
}

int rtmw_lock_memory(rtmw_region *r)
{
    int state = region_state(r);
    if (state != RTMW_OK) return state;
    lock_take(&r->lock);
    bool locked = r->memory_locked || lock_all(r);
    int failed = errno;
    if (!locked) unlock_all(r);
    r->memory_locked = locked;
    lock_give(&r->lock);
    errno = failed;
    return locked ? RTMW_OK : RTMW_SYSTEM;
}

typedef long long vector __attribute__((vector_size(16), may_alias));
typedef vector unaligned_vector __attribute__((aligned(1)));

/* Eight vectors. The target is aligned. */
static inline void copy_eight(void *to, const void *from)
{
    const unaligned_vector *f = from;
    vector *t = to, a = f[0], b = f[1], c = f[2], d = f[3], e = f[4], g = f[5], h = f[6], i = f[7];
    t[0] = a, t[1] = b, t[2] = c, t[3] = d, t[4] = e, t[5] = g, t[6] = h, t[7] = i;
}

/* The libc's memcpy takes 1.04 to 1.5 times as long for the large body of a `bytes` object: that lies 48 bytes ahead of the
 * beginning of the page that it goes to, modulo 4,096. */
void copy_into_block(void *block, const void *data, uint64_t size)
{
    uint64_t done = 0, step = 8 * sizeof(vector);
    if (size >= LARGE_COPY)
        for (; size - done >= step; done += step) copy_eight((uint8_t *)block + done, (const uint8_t *)data + done);
    memcpy((uint8_t *)block + done, (const uint8_t *)data + done, size - done);
}
