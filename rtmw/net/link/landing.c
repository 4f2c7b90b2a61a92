/* Frames that are expected: where they are read to, and whether they have come. */
#include "landing.h"

#include <string.h>

#include "../../shm/crc32c.h"

static size_t crc_size(const struct landing *x) { return x->header.flags & FRAME_CHECKED ? FRAME_CRC : 0; }

void landing_expect(struct landing *x, struct frame_header header, uint8_t *to, uint64_t left)
{
    x->header = header;
    x->header.length = FRAME_MOST;
    x->size = FRAME_MOST - sizeof header - crc_size(x);
    x->frames = left / x->size < LANDING_FRAMES ? (uint32_t)(left / x->size) : LANDING_FRAMES;
    x->to = to;
}

/* ---- parts ---- */

struct parts {
    struct iovec *part;
    uint32_t count;
    size_t passed; /* bytes to be passed over yet */
};

static void add_part(struct parts *p, uint8_t *at, size_t size)
{
    size_t passed = size < p->passed ? size : p->passed;
    p->passed -= passed;
    if (size > passed) p->part[p->count++] = (struct iovec){at + passed, size - passed};
}

/* Of all frames, but for the first `passed` bytes. */
static uint32_t list(struct landing *x, size_t passed, struct iovec part[LANDING_PARTS])
{
    struct parts p = {.part = part, .passed = passed};
    size_t crc = crc_size(x);
    add_part(&p, x->edge[0].header, sizeof x->header);
    for (uint32_t n = 1; n <= x->frames; n++) {
        add_part(&p, x->to + (n - 1) * x->size, x->size);
        add_part(&p, (uint8_t *)&x->edge[n] + FRAME_CRC - crc, n < x->frames ? crc + sizeof x->header : crc);
    }
    return p.count;
}

uint32_t landing_parts(struct landing *x, struct iovec part[LANDING_PARTS]) { return list(x, x->have, part); }

/* ---- what has come ---- */

static bool is_expected(const struct landing *x, uint32_t frame)
{
    return memcmp(x->edge[frame].header, &x->header, sizeof x->header) == 0;
}

/* All bytes of it have come. */
static bool is_right(const struct landing *x, uint32_t frame)
{
    if (!is_expected(x, frame)) return false;
    if (!crc_size(x)) return true;
    uint32_t crc = crc32c(0, &x->header, sizeof x->header);
    crc = crc32c(crc, x->to + frame * x->size, x->size);
    return memcmp(&crc, x->edge[frame + 1].crc, sizeof crc) == 0;
}

static void copy_from(struct landing *x, uint32_t frame, size_t size, uint8_t *loose)
{
    struct iovec part[LANDING_PARTS];
    list(x, (size_t)frame * x->header.length, part);
    for (const struct iovec *p = part; size; p++) {
        size_t some = p->iov_len < size ? p->iov_len : size;
        memcpy(loose, p->iov_base, some);
        loose += some;
        size -= some;
    }
}

static void pass_frames(struct landing *x, uint32_t frames)
{
    x->edge[0] = x->edge[frames];
    x->edge[1] = x->edge[frames + 1];
    x->to += frames * x->size;
    x->frames -= frames;
}

uint32_t landing_take(struct landing *x, size_t got, uint8_t *loose, size_t *size)
{
    size_t left = x->have + got, length = x->header.length;
    uint32_t whole = 0;
    for (; left >= length && is_right(x, whole); left -= length) whole++;
    bool is_part = left < sizeof x->header || (left < length && is_expected(x, whole));
    *size = is_part ? 0 : left;
    copy_from(x, whole, *size, loose);
    x->have = is_part ? left : 0;
    if (whole) pass_frames(x, whole);
    return whole;
}

void landing_move(struct landing *x)
{
    size_t some = x->have > sizeof x->header ? x->have - sizeof x->header : 0;
    memcpy(x->spare, x->to, some < x->size ? some : x->size);
    x->to = x->spare;
    x->frames = 1;
}
