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
#ifndef RTMW_LINK_LANDING_H
#define RTMW_LINK_LANDING_H

#include <sys/uio.h>

#include "frame.h"

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

#endif
