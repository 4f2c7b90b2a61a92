/* How publishers are called, by programs of every host: a number of 63 bits, so that it fits a signed column of SQL.
 *
 * It is a hash (FNV-1a) of the name of the publisher's origin and of its identity in the region. The origin of a publisher
 * in a region is "rtmw bus NONCE"; the node tells that name to other nodes, and with each message the identity. So each
 * host comes to the same number, also when the node is another one meanwhile. Of a plain DDS writer it is a hash of its
 * GUID, which each host is told, too. The node sets RTMW_REMOTE in what it publishes here, and nobody else sees that bit.
 */
#ifndef RTMW_IDENTITY_H
#define RTMW_IDENTITY_H

#include <stdio.h>

#include "fnv.h"

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
