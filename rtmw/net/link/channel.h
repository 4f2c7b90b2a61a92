/* A channel: one connection, over TCP or a Unix socket, with TLS, a CRC a frame, or neither, and what is read and written of it.
 *
 *   outbox ─ frames, whole ─► socket ─► … ─► socket ─► inbox ─ frame by frame ─► who reads
 *                                                  └─► landing ─────────────┘
 *
 * The outbox is filled when it is empty, and no sooner: so the band of each chunk is chosen as late as can be.
 */
#ifndef RTMW_LINK_CHANNEL_H
#define RTMW_LINK_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../../shm/rtmw.h"
#include "../route/trailer.h"
#include "tls.h"

/* ---- frames ---- */

/* Frames: what the connections of a line carry. docs/formats/link-format.md has the bytes.
 *
 *   | u16 length | u8 kind | u8 flags | u32 route | body | CRC-32C, where there is no TLS |
 *
 * A frame is no longer than a TLS record may be. All numbers are little endian, as those of the trailer.
 */

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

/* ---- channels ---- */

/* ---- landing ---- */

/* Landing: frames whose bodies are read straight into the place of their message, and not by way of the inbox.
 *
 *   | header | body | CRC | header | body | CRC | …       as they come; under TLS and within a host without CRC
 *   edge[0]   place edge[1]         place edge[2]         where they are read to; bodies lie one behind the other
 *
 * While a large message is under way, its next frames are expected as its sender makes them: MORE, each as long as a frame
 * may be. What comes is only compared with that. A frame that is another one or damaged is copied to the inbox as it came,
 * with all that came behind it, and is read there.
 *
 * All of it under `arriving` of the line: whoever takes the place away says so first (landing_move).
 */

enum { LANDING_FRAMES = 16, LANDING_PARTS = 2 * LANDING_FRAMES + 1 };

struct landing_edge {
    uint8_t crc[FRAME_CRC]; /* of the frame before */
    uint8_t header[sizeof(struct frame_header)];
};
_Static_assert(sizeof(struct landing_edge) == FRAME_CRC + sizeof(struct frame_header), "both are read as one part");

struct landing {
    struct frame_header header; /* of each frame that is expected */
    uint32_t frames;            /* that are expected; 0: none */
    uint8_t *to;                /* where the body of the first one goes */
    size_t size;                /* of each body */
    size_t have;                /* bytes of the first one that have come */
    struct landing_edge edge[LANDING_FRAMES + 2];
    uint8_t spare[FRAME_MOST];
};

/* Expects frames with this header, but for its length: as many as `left` bytes of a message fill. What has come of the first
 * one stays, and is of the same message. */
void landing_expect(struct landing *, struct frame_header, uint8_t *to, uint64_t left);
/* Where the rest of them goes, in its order. Returns how many parts. */
uint32_t landing_parts(struct landing *, struct iovec part[LANDING_PARTS]);
/* `got` bytes more have come. Returns how many frames are whole and right: their bodies lie in the place. All behind these
 * is copied to `loose` if it is not expected: `*size` bytes of at most LANDING_FRAMES frames. */
uint32_t landing_take(struct landing *, size_t got, uint8_t *loose, size_t *size);
/* The place is taken away: what has come of a frame, and its rest, goes to memory of its own. */
void landing_move(struct landing *);
static inline bool landing_has_moved(const struct landing *x) { return x->have && x->to == x->spare; }

/* ---- messages that are kept ---- */

/* A message that was sent, until the peer has acknowledged it and no outbox has parts of it. */

struct line;

struct kept {
    struct kept *next;
    struct line *line;
    uint32_t references; /* the list of its route, and outboxes; under the lock of the line */
    bool is_zero_copy;   /* it holds the message of the bus; else `copy` has the bytes */
    bool has_gone;       /* its first chunk was sent, maybe by a connection before this one */
    uint64_t number;
    rtmw_message message;
    const uint8_t *data;
    uint8_t copy[];
};

/* out.c: under the lock of the line */
/* Takes over the hold on the message of the bus. `is_zero_copy`: keeps it; else copies the bytes and ends the hold. NULL: no
 * memory; then the hold is the caller's. */
struct kept *kept_new(struct line *, const rtmw_message *, bool is_zero_copy);
void kept_hold(struct kept *);
void kept_let_go(struct kept *);

/* ---- channel ---- */

enum {
    INBOX_BYTES = LANDING_FRAMES * FRAME_MOST,
    OUTBOX_BYTES = 4 * FRAME_MOST,
    OUTBOX_SWIFT = 4 * OUTBOX_BYTES, /* of what lies elsewhere, where the kernel takes an outbox at once */
    OUTBOX_PARTS = 64,
    COPIED_MOST = 1024, /* bytes of a payload that are copied also where they could be sent from their place */
    CHANNEL_WORDS = 600,
};

struct outbox {
    struct iovec part[OUTBOX_PARTS]; /* those from `first` on are to be written */
    struct kept *kept[OUTBOX_PARTS]; /* not NULL: the part is in a message, which it holds */
    uint32_t first, count;
    size_t used; /* of `bytes` */
    size_t total;
    uint8_t bytes[OUTBOX_BYTES];
};

struct channel {
    int descriptor;
    bool has_tls, is_unix, is_within_host; /* the last: over loopback, or a Unix socket */
    bool is_far;                           /* its first round trip took long */
    bool is_checked;                       /* each frame has a CRC */
    struct tls tls;
    bool is_followed;  /* the message in the outbox goes on in the next one, which is filled at once. This and the next:
                                 under the lock of the line */
    bool is_unflushed; /* of TLS: records that the kernel has not taken yet */
    bool is_swift;     /* the kernel has taken the last outbox at once */
    bool may_read, may_write; /* as far as was told; may_read: the reader's, may_write: under the lock of the line */
    uint64_t heard_ns, pinged_ns; /* CLOCK_MONOTONIC. Of who reads */
    uint64_t read;                /* bytes. The reader writes it; any thread reads it, with load_relaxed */
    uint64_t written;             /* bytes. Under the lock of the line */
    uint64_t rate, carried;       /* of pacing, bytes a second: that are allowed, 0: all; that the way has carried */
    uint64_t paced_ns; /* when to write again, CLOCK_MONOTONIC; 0: it need not wait. Under the lock of the line */
    struct shared_rate *interface; /* the rate of all that leaves by it; NULL: not taken yet */
    uint64_t acked, looked_ns;     /* bytes that TCP had acknowledged at the last look */
    uint64_t steered_ns;           /* when that is reckoned next */
    size_t first, end;             /* of the inbox, what was not read yet */
    struct frame landed;           /* the next one that has landed: those before the inbox's */
    uint32_t landed_count;
    struct tls_fault
        fault; /* this and the next: why handshake or reading has failed. A write that fails is not told: the
                               reader finds out, and may find a BYE before */
    char words[CHANNEL_WORDS];
    struct outbox out;
    uint8_t in[INBOX_BYTES];
};

enum channel_state { CHANNEL_DONE, CHANNEL_READ, CHANNEL_WRITE, CHANNEL_CLOSED, CHANNEL_FAILED };

/* Takes the descriptor over: makes it non-blocking and sets its options. NULL: errno says why; then it is the caller's. */
struct channel *channel_open(int descriptor, const struct tls_context *);
void channel_close(struct channel *); /* NULL is allowed. The outbox holds nothing any more */

/* channel.c: non-blocking, those of TCP, and what its other end is. false: errno is set. */
bool channel_set_options(struct channel *);
/* Its packets have this code point (DSCP) from here on. */
void channel_mark(struct channel *, int code_point);

/* None of these blocks. DONE, or what to wait for. */
enum channel_state channel_handshake(struct channel *);
enum channel_state channel_write(struct channel *); /* all of the outbox. Lets go of what was written */
/* Into the inbox: once. DONE: something has come. is_alone: no more than the frame lacks that has come in part. */
enum channel_state channel_read(struct channel *, bool is_alone);
/* The same of an inbox that is drained, and of frames that are expected. `arriving` of the line is held. */
enum channel_state channel_land(struct channel *, struct landing *);
static inline bool channel_is_drained(const struct channel *c) { return c->first == c->end && !c->landed_count; }

/* The next frame that has come, valid until the next channel_read; one that has landed, as long as its place. BAD: `words` of
 * the channel says why. */
enum frame_state channel_next(struct channel *, struct frame *);

/* Is the next frame one that only a line takes? Before who the peer is is known, none may come. */
bool channel_has_lines(const struct channel *);

/* Has it a rate at which an outbox takes long? Then no more than `ahead` bytes of messages lie in outbox and kernel at a time. */
bool channel_is_slow(const struct channel *);
size_t channel_ahead(const struct channel *);
/* Bytes that a frame may still have that is put into the outbox: 0: it is to be written first. */
size_t channel_room(const struct channel *);
/* Puts a frame into the outbox, which has room for it: `head` is copied; of `payload` so much is sent as lies there, and
 * where that is not copied, `kept` is held until it is written. NULL: it is copied. */
void channel_put(struct channel *, struct frame_header, struct iovec head, struct iovec payload, struct kept *);
static inline bool channel_is_empty(const struct channel *c)
{
    return c->out.first == c->out.count && !c->is_unflushed;
}
/* Bytes that the frame of a chunk has around its payload. */
static inline size_t channel_around(const struct channel *c)
{
    return sizeof(struct frame_header) + (c->is_checked ? FRAME_CRC : 0);
}
void channel_forget(struct channel *); /* bytes in the outbox are not written any more */

#endif
