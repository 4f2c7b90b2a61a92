/* A channel: one connection, over TCP or a Unix socket, with TLS, a CRC a frame, or neither, and what is read and written of it.
 *
 *   outbox ─ frames, whole ─► socket ─► … ─► socket ─► inbox ─ frame by frame ─► who reads
 *                                                  └─► landing (landing.h) ─┘
 *
 * The outbox is filled when it is empty, and no sooner: so the band of each chunk is chosen as late as can be.
 */
#ifndef RTMW_LINK_CHANNEL_H
#define RTMW_LINK_CHANNEL_H

#include <sys/uio.h>

#include "frame.h"
#include "landing.h"
#include "tls.h"

enum {
    INBOX_BYTES = LANDING_FRAMES * FRAME_MOST,
    OUTBOX_BYTES = 4 * FRAME_MOST,
    OUTBOX_SWIFT = 4 * OUTBOX_BYTES, /* of what lies elsewhere, where the kernel takes an outbox at once */
    OUTBOX_PARTS = 64,
    COPIED_MOST = 1024, /* bytes of a payload that are copied also where they could be sent from their place */
    CHANNEL_WORDS = 600,
};

/* Memory that parts of an outbox lie in, until they are written. */
struct kept;

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

/* options.c: non-blocking, those of TCP, and what its other end is. false: errno is set. */
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
