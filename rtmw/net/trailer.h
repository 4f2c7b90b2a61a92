/* What a node adds to a message of the bus, behind its CDR bytes: what DDS has no place for.
 *
 *   | CDR header and data | 0 to 3 zero bytes | struct trailer |
 *
 * A plain DDS program stops reading where its type ends, and so never sees it. A node looks for it in what another
 * node's writer sent, and nowhere else: the user data of the writer says that it is one.
 */
#ifndef RTMW_NET_TRAILER_H
#define RTMW_NET_TRAILER_H

#include <stdint.h>

#define TRAILER_MAGIC 0x776D7472u /* "rtmw" */

struct trailer { /* little endian, like the data before it */
    uint32_t magic;
    uint8_t version; /* 1: a single message; 2: a pack; 3: a single one from before anybody read */
    uint8_t priority;
    uint8_t padding;      /* zero bytes before it: 0 to 3 */
    uint8_t messages;     /* of a pack (pack.h); 0: it is a single message */
    uint64_t publisher;   /* identity on its own host; of a pack: 0 */
    uint64_t sequence;    /* what its node has sent of the topic, this included: a gap was lost on the way */
    uint64_t lifetime_ns; /* left when it was sent; 0: no limit; of a pack: 0. Relative: clocks need not agree */
};

_Static_assert(sizeof(struct trailer) == 32, "the trailer travels");

enum { TRAILER_VERSION = 1, TRAILER_PACK = 2, TRAILER_OLD = 3 };

#endif
