/* Several small messages of one topic and band in one DDS sample, from node to node: what DDS does for a sample costs
 * more than a small message does.
 *
 *   | the first, as it travels alone | payload of the second | … | struct packed, for each | 0 to 3 zero bytes | trailer |
 *
 * A plain DDS program would find the first message and miss the others; so a pack is sent only where every reader of the
 * topic is a node that has said it knows packs (packing.c). Messages of a pack wait already: none waits for a pack.
 */
#ifndef RTMW_NET_PACK_H
#define RTMW_NET_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../route/trailer.h"

enum {
    PACK_MOST = 32,        /* messages in a pack that is sent */
    PACK_BYTES = 32 << 10, /* payload in a pack that is sent */
};

struct packed { /* little endian */
    uint64_t publisher;
    uint64_t source_time_ns;
    uint64_t lifetime_ns; /* as in the trailer */
    uint32_t size;        /* of the payload */
    uint32_t reserved;    /* 0 */
};

_Static_assert(sizeof(struct packed) == 32, "the table travels");

/* A pack that was received and is read from the first message on. */
struct pack {
    const uint8_t *payload, *table; /* of the next message */
    uint32_t left;
};

/* `bytes`: the sample without its trailer and padding; `before`: where the payload of the first message begins.
 * false: the lengths contradict each other, and nothing of it is to be used. Reads nothing outside of `bytes`. */
bool pack_open(struct pack *, const uint8_t *bytes, size_t size, size_t before, uint32_t messages);
/* Is what it says of a message within its bounds? */
bool pack_may_be(const struct packed *);
/* false: that was the last one. */
bool pack_next(struct pack *, const uint8_t **payload, struct packed *);

#endif
