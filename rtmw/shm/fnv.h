/* FNV-1a in 64 bits (Fowler, Noll and Vo): a hash of names and small structures that programs do not choose to harm each
 * other. Hashes that travel or lie in a region are made with it, so it never changes. */
#ifndef RTMW_FNV_H
#define RTMW_FNV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FNV_BASIS UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

/* `hash`: FNV_BASIS, or the hash of what stands before. */
static inline uint64_t fnv1a(uint64_t hash, const void *bytes, size_t count)
{
    for (const uint8_t *b = bytes; count--; b++) hash = (hash ^ *b) * FNV_PRIME;
    return hash;
}

static inline uint64_t fnv1a_text(uint64_t hash, const char *text) { return fnv1a(hash, text, strlen(text)); }

#endif
