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

static void copy_vectors(uint8_t *to, const uint8_t *from, uint64_t size)
{
    uint64_t done = 0, step = 8 * sizeof(vector);
    for (; size - done >= step; done += step) copy_eight(to + done, from + done);
    memcpy(to + done, from + done, size - done);
}

#if defined(__x86_64__)
#include <cpuid.h>

/* FSRM: this processor's own copy is fast for all sizes and alignments. */
static bool copies_by_itself(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 4);
}

/* The lines of the target are not fetched before they are written. */
static void copy_string(uint8_t *to, const uint8_t *from, uint64_t size)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}
#else
static bool copies_by_itself(void) { return false; }
#define copy_string copy_vectors
#endif

static bool has_copy;

__attribute__((constructor)) static void look_at_processor(void) { has_copy = copies_by_itself(); }

/* The libc's memcpy takes 1.04 to 1.5 times as long for the large body of a `bytes` object: that lies 48 bytes ahead of the
 * beginning of the page that it goes to, modulo 4,096. */
void copy_into_block(void *block, const void *data, uint64_t size)
{
    if (size < LARGE_COPY)
        memcpy(block, data, size);
    else if (has_copy)
        copy_string(block, data, size);
    else
        copy_vectors(block, data, size);
}
