/* The hash of names, and how publishers are called by programs of every host.
 *
 * A publisher is called by a number of 63 bits, so that it fits a signed column of SQL. It is a hash of the name of the publisher's origin and of its identity in the region. The origin of a publisher
 * in a region is "rtmw bus NONCE"; the node tells that name to other nodes, and with each message the identity. So each
 * host comes to the same number, also when the node is another one meanwhile. Of a plain DDS writer it is a hash of its
 * GUID, which each host is told, too. The node sets RTMW_REMOTE in what it publishes here, and nobody else sees that bit.
 */
#ifndef RTMW_IDENTITY_H
#define RTMW_IDENTITY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a in 64 bits (Fowler, Noll and Vo): a hash of names and small structures that programs do not choose to harm each
 * other. Hashes that travel or lie in a region are made with it, so it never changes. */
#define FNV_BASIS UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

/* `hash`: FNV_BASIS, or the hash of what stands before. */
static inline uint64_t fnv1a(uint64_t hash, const void *bytes, size_t count)
{
    for (const uint8_t *b = bytes; count--; b++) hash = (hash ^ *b) * FNV_PRIME;
    return hash;
}

static inline uint64_t fnv1a_text(uint64_t hash, const char *text) { return fnv1a(hash, text, strlen(text)); }

#define ORIGIN "rtmw bus "

/* Of an origin, by its name. */
static inline uint64_t identity_of_origin(const char *name) { return fnv1a_text(FNV_BASIS, name); }

static inline uint64_t identity_of_region(uint64_t nonce)
{
    char name[sizeof ORIGIN + 16];
    snprintf(name, sizeof name, ORIGIN "%016llx", (unsigned long long)nonce);
    return identity_of_origin(name);
}

/* Of a publisher there, by its identity in the region. The upper bit is anybody's. */
static inline uint64_t identity_of_publisher(uint64_t origin, uint64_t publisher)
{
    return fnv1a(origin, &publisher, sizeof publisher);
}

#endif
