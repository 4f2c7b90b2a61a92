/* Frames, as they are read. They come from another host: each field is compared with what may be, before any is used. */
#include "frame.h"

#include <string.h>

#include "../../shm/crc32c.h"

enum { SIZE_MOST_BITS = 40 }; /* of a message: a pool has at most 512 GiB */

/* Bytes that the body of each kind has at least and at most. */
static const struct {
    uint16_t least, most;
    bool has_route, has_band;
} kinds[] = {
    [FRAME_SAY] = {0, FRAME_MOST, false, false},
    [FRAME_RESUME] = {0, 0, false, false},
    [FRAME_ACK] = {sizeof(struct frame_ack), sizeof(struct frame_ack), true, false},
    [FRAME_CONTROL] = {8, FRAME_MOST, false, false},
    [FRAME_BEGIN] = {sizeof(struct frame_begin), FRAME_MOST, true, true},
    [FRAME_MORE] = {1, FRAME_MOST, true, true},
    [FRAME_DROP] = {sizeof(struct frame_drop), sizeof(struct frame_drop), true, true},
    [FRAME_PING] = {8, 8, false, false},
    [FRAME_PONG] = {sizeof(struct frame_pong), sizeof(struct frame_pong), false, false},
    [FRAME_BYE] = {2, 2 + FRAME_WORDS, false, false},
};

static bool is_crc_right(const uint8_t *bytes, size_t length)
{
    uint32_t sent;
    memcpy(&sent, bytes + length - FRAME_CRC, sizeof sent);
    return crc32c(0, bytes, length - FRAME_CRC) == sent;
}

static const char *fault_of(const struct frame *f, bool is_checked)
{
    const struct frame_header *h = &f->header;
    if (h->kind == 0 || h->kind >= sizeof kinds / sizeof *kinds) return "a frame of a kind that does not exist";
    if (((h->flags & FRAME_CHECKED) != 0) != is_checked)
        return "a frame with a CRC where none is due, or without one where one is";
    if (h->flags & (kinds[h->kind].has_band ? ~(FRAME_CHECKED | FRAME_BAND) : ~FRAME_CHECKED))
        return "a frame with flags that its kind does not have";
    if (h->route && !kinds[h->kind].has_route) return "a frame with a route that its kind does not have";
    if (f->size < kinds[h->kind].least || f->size > kinds[h->kind].most)
        return "a frame whose length is not one of its kind";
    return NULL;
}

enum frame_state frame_read(const uint8_t *bytes, size_t size, bool is_checked, struct frame *f, const char **words)
{
    size_t around = sizeof f->header + (is_checked ? FRAME_CRC : 0);
    if (size < sizeof f->header) return FRAME_PART;
    memcpy(&f->header, bytes, sizeof f->header);
    *words = "a frame of a length that none has";
    if (f->header.length < around || f->header.length > FRAME_MOST) return FRAME_BAD;
    f->body = bytes + sizeof f->header;
    f->size = f->header.length - around;
    *words = fault_of(f, is_checked);
    if (*words) return FRAME_BAD;
    if (size < f->header.length) return FRAME_PART;
    *words = "a frame whose CRC is not that of its bytes: it was damaged on the way";
    return !is_checked || is_crc_right(bytes, f->header.length) ? FRAME_WHOLE : FRAME_DAMAGED;
}

size_t frame_seal(uint8_t *bytes, struct frame_header header, size_t body)
{
    bool is_checked = (header.flags & FRAME_CHECKED) != 0;
    header.length = (uint16_t)(sizeof header + body + (is_checked ? FRAME_CRC : 0));
    memcpy(bytes, &header, sizeof header);
    if (!is_checked) return header.length;
    uint32_t crc = crc32c(0, bytes, sizeof header + body);
    memcpy(bytes + sizeof header + body, &crc, sizeof crc);
    return header.length;
}

bool frame_begin_read(const struct frame *f, struct frame_begin *b)
{
    static const uint8_t zeros[sizeof b->zeros];
    size_t size = sizeof b->trailer;
    memcpy(b, f->body, sizeof *b);
    const uint8_t *end = f->body + sizeof *b;
    if (!trailer_read(end, &size, &b->trailer) || size || trailer_is_checked(&b->trailer)) return false;
    size_t bytes = f->size - sizeof *b;
    return b->trailer.version != TRAILER_PACK && b->trailer.priority == (f->header.flags & FRAME_BAND) &&
           b->trailer.sequence && b->trailer.sequence <= INT64_MAX && b->hops &&
           memcmp(b->zeros, zeros, sizeof zeros) == 0 && b->size >> SIZE_MOST_BITS == 0 && bytes <= b->size &&
           (bytes || !b->size);
}
