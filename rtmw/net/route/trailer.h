/* The trailer that a node adds to a message of the bus, behind its CDR bytes: fields for which DDS has no place.
 *
 *   | CDR header and data | 0 to 3 zero bytes | CRC-32C | struct trailer |          the CRC only where `magic` says so
 *
 * A plain DDS program stops reading where its type ends, and so never sees it. A node looks for it in what another
 * node's writer sent, and nowhere else: the user data of the writer says that it is one.
 *
 * The CRC is that of all other bytes of the sample. UDP's own sum is 16 bits wide, and is all that there is below.
 * Versions live together so: a node says in the user data of its participant that it reads CRCs (discovery.py), and a
 * node sends them while every reader of the topic has said so. A node that does not know them refuses such a sample,
 * and counts it as malformed: that can come only of messages that were kept before such a node joined. A sample without
 * a CRC is taken, and counted as unchecked. A damaged trailer never passes for one without a CRC: that has another magic.
 */
#ifndef RTMW_NET_TRAILER_H
#define RTMW_NET_TRAILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRAILER_MAGIC   0x776D7472u /* "rtmw" */
#define TRAILER_CHECKED 0x9B5A3CC6u /* a CRC stands before the trailer */

struct trailer { /* little endian, like the data before it */
    uint32_t magic;
    uint8_t version; /* 1: a single message; 2: a pack; 3: a single one from before anybody read */
    uint8_t priority;
    uint8_t padding;      /* zero bytes before it, and before the CRC: 0 to 3 */
    uint8_t messages;     /* of a pack (below); 0: it is a single message */
    uint64_t publisher;   /* identity on its own host; of a pack: 0 */
    uint64_t sequence;    /* messages that its node sent of the topic, with this one: a gap was lost on the way */
    uint64_t lifetime_ns; /* left when it was sent; 0: no limit; of a pack: 0. Relative: clocks need not agree */
};

_Static_assert(sizeof(struct trailer) == 32, "the trailer travels");

/* A lifetime that says when it was sent, as nodes send it to nodes that say they know such (discovery.py):
 *
 *   | 01 | 32 bits: microseconds left | 30 bits: when it was sent, in 2^17 ns of the sender's steady clock (now.h), modulo 39 hours |
 *
 * A lifetime of more than 71 minutes is sent as it is: no way takes that much of it. None without a date is as large. */
#define LIFETIME_DATED (UINT64_C(1) << 62)
enum { LIFETIME_DATE_BITS = 30, LIFETIME_DATE_UNIT = 17 };
#define LIFETIME_DATE_MASK ((UINT64_C(1) << LIFETIME_DATE_BITS) - 1)

static inline uint64_t lifetime_dated(uint64_t left_ns, uint64_t now_ns)
{
    uint64_t left_us = (left_ns + 999) / 1000;
    if (!left_ns || left_us > UINT32_MAX) return left_ns;
    return LIFETIME_DATED | left_us << LIFETIME_DATE_BITS | (now_ns >> LIFETIME_DATE_UNIT & LIFETIME_DATE_MASK);
}
static inline bool lifetime_is_dated(uint64_t lifetime) { return lifetime >> 62 == 1; }
static inline uint64_t lifetime_left_ns(uint64_t lifetime)
{
    return (lifetime >> LIFETIME_DATE_BITS & UINT32_MAX) * 1000;
}
/* The moment with this date that is nearest to `near_ns`. */
static inline uint64_t lifetime_sent_ns(uint64_t lifetime, uint64_t near_ns)
{
    uint64_t near = near_ns >> LIFETIME_DATE_UNIT, ahead = (lifetime - near) & LIFETIME_DATE_MASK;
    bool is_before = ahead > LIFETIME_DATE_MASK / 2;
    return (is_before ? near + ahead - LIFETIME_DATE_MASK - 1 : near + ahead) << LIFETIME_DATE_UNIT;
}

/* The rest of a lifetime with a date when it is `there_ns` on the sender's clock, which may be wrong by `unsure_ns`; never
 * too little. 0: it is over. */
static inline uint64_t lifetime_after_way(uint64_t lifetime, uint64_t there_ns, uint64_t unsure_ns)
{
    uint64_t left = lifetime_left_ns(lifetime);
    int64_t way = (int64_t)(there_ns - lifetime_sent_ns(lifetime, there_ns) - unsure_ns);
    return way <= 0 ? left : (uint64_t)way >= left ? 0 : left - (uint64_t)way;
}

enum { TRAILER_VERSION = 1, TRAILER_PACK = 2, TRAILER_OLD = 3 };
enum { TRAILER_PACK_LEAST = 2 /* a single message travels alone */ };
enum { TRAILER_CRC = sizeof(uint32_t), TRAILER_PADDING = 3 };

/* Takes trailer, CRC and padding off a sample of `size` bytes that stands before `end`. false: none is there, or it
 * contradicts itself. Whether the CRC is right is asked by trailer_fits. */
bool trailer_read(const uint8_t *end, size_t *size, struct trailer *);
/* Has the sample before `end`, of which `crc` is the CRC-32C of all that stands before its own, arrived as it was sent? */
bool trailer_fits(uint32_t crc, const uint8_t *end);
/* The CRC to be sent; `crc`: of all that stands before. */
uint32_t trailer_crc(uint32_t crc, const struct trailer *);

static inline bool trailer_is_checked(const struct trailer *t) { return t->magic == TRAILER_CHECKED; }
static inline uint32_t trailer_messages(const struct trailer *t)
{
    return t->version == TRAILER_PACK ? t->messages : 1;
}
/* Bytes of CRC and trailer. */
static inline size_t trailer_size(const struct trailer *t)
{
    return sizeof *t + (trailer_is_checked(t) ? TRAILER_CRC : 0);
}

/* ---- packs ---- */

/* Several small messages of one topic and band in one DDS sample, from node to node: what DDS does for a sample costs
 * more than a small message does.
 *
 *   | the first, as it travels alone | payload of the second | … | struct packed, for each | 0 to 3 zero bytes | trailer |
 *
 * A plain DDS program would find the first message and miss the others; so a pack is sent only where every reader of the
 * topic is a node that has said it knows packs (outbound.c). Messages of a pack wait already: none waits for a pack.
 */

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
