/* Frames: what the connections of a line carry. docs/formats/link-format.md has the bytes.
 *
 *   | u16 length | u8 kind | u8 flags | u32 route | body | CRC-32C, where there is no TLS |
 *
 * A frame is no longer than a TLS record may be. All numbers are little endian, as those of the trailer.
 */
#ifndef RTMW_LINK_FRAME_H
#define RTMW_LINK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../route/trailer.h"

enum {
    FRAME_MOST = 16384,
    FRAME_BAND = 0x07,    /* flags: the band of BEGIN, MORE and DROP */
    FRAME_CHECKED = 0x80, /* a CRC of all before ends the frame */
    FRAME_CRC = 4,
    FRAME_BANDS = 8,
    FRAME_WORDS = 512, /* bytes of the words of a BYE */
};

enum frame_kind {
    FRAME_SAY = 1,     /* of the connection, before a line carries it: bytes for Python */
    FRAME_RESUME = 2,  /* all ACKs of this node have been said: what the peer keeps may flow */
    FRAME_ACK = 3,     /* struct frame_ack; route 0: of controls */
    FRAME_CONTROL = 4, /* u64 number, bytes for Python */
    FRAME_BEGIN = 5,   /* struct frame_begin, and the first bytes of a message */
    FRAME_MORE = 6,    /* the next bytes of the message of this band */
    FRAME_DROP = 7,    /* struct frame_drop: nothing more of a message */
    FRAME_PING = 8,    /* u64 any value */
    FRAME_PONG = 9,    /* struct frame_pong */
    FRAME_BYE = 10,    /* u16 code, words: the connection ends */
};

struct frame_header {
    uint16_t length; /* of the whole frame */
    uint8_t kind, flags;
    uint32_t route;
};

struct frame_ack {
    uint64_t room;                /* cost of messages that may be on their way beyond these numbers */
    uint64_t number[FRAME_BANDS]; /* of each band: received up to, without a gap that is still to be filled */
};

struct frame_begin {
    uint64_t size; /* of the message */
    uint64_t source_time_ns;
    uint64_t site;
    uint8_t hops; /* over how many links it may go, this one included */
    uint8_t zeros[7];
    struct trailer trailer; /* sequence: the number within route and band. A step of more than 1: messages were lost */
};

enum frame_why { FRAME_EXPIRED = 1, FRAME_CLOSED = 2 };
struct frame_drop {
    uint64_t number;
    uint64_t why;
};

struct frame_pong {
    uint64_t value;     /* of the PING */
    uint64_t steady_ns; /* of who answers: now.h */
};

_Static_assert(sizeof(struct frame_header) == 8 && sizeof(struct frame_ack) == 72 && sizeof(struct frame_begin) == 64 &&
                   sizeof(struct frame_drop) == 16 && sizeof(struct frame_pong) == 16,
               "they travel");

/* Cost of a message in a route's room, besides its bytes. */
enum { FRAME_COST = 64 };

/* A frame that has come whole: header and body. */
struct frame {
    struct frame_header header;
    const uint8_t *body;
    size_t size; /* of the body */
};

enum frame_state { FRAME_PART, FRAME_WHOLE, FRAME_BAD, FRAME_DAMAGED };

/* The frame that begins here. PART: more bytes are needed. BAD, DAMAGED (its CRC): `words` says why; nothing after it can be read. Reads
 * nothing outside of `bytes`, and checks all that a frame can say wrongly by itself: kind, length, flags, route, CRC. */
enum frame_state frame_read(const uint8_t *bytes, size_t size, bool is_checked, struct frame *, const char **words);

/* Fills in header and CRC of a frame that lies in one piece: `bytes` has room for both around the body. Returns its length. */
size_t frame_seal(uint8_t *bytes, struct frame_header, size_t body);

/* The head of a BEGIN, copied. false: it contradicts itself, or the frame is too short for it. */
bool frame_begin_read(const struct frame *, struct frame_begin *);

#endif
