/* Reading CDR, for values (cdr.c) and columns (columns/column_decode.c): alignment, bounds, counts, texts and
 * sizes. The bytes come from anybody: each function checks what it reads before it moves on.
 *
 * A function that returns false or NULL has written to `reason` why the payload is damaged. All are inline, for they are
 * called for each number of each message.
 */
#ifndef RTMW_CDR_INPUT_H
#define RTMW_CDR_INPUT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    CDR_HEADER = 4,   /* bytes of the encapsulation header, from whose end alignment counts */
    CDR_MARGIN = 3,   /* zero bytes that networks append to a message */
    CDR_REASON = 120, /* bytes of a text that says why a payload is damaged */
};

struct cdr_input {
    const uint8_t *base;
    size_t position, end; /* end of the innermost size that was read, never beyond the payload */
    uint8_t align;        /* the largest: 8 in XCDR1, 4 in XCDR2 */
    char *reason;         /* CDR_REASON bytes */
};

/* Bytes to leave out, so that a number of `size` bytes lies aligned. */
static inline size_t cdr_padding(size_t position, size_t size, size_t align)
{
    size_t unit = size < align ? size : align;
    return (CDR_HEADER - position) & (unit - 1);
}

__attribute__((format(printf, 2, 3), cold, noinline, unused)) static void cdr_say(const struct cdr_input *in,
                                                                                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(in->reason, CDR_REASON, format, arguments);
    va_end(arguments);
}

/* false, with the reason. A macro, so that the compiler sees what it is. */
#define CDR_REFUSE(in, ...) (cdr_say(in, __VA_ARGS__), false)

static inline size_t cdr_left(const struct cdr_input *in) { return in->end - in->position; }

/* The next `bytes`, aligned as numbers of `size` bytes. NULL: so many are not there. */
__attribute__((always_inline)) static inline const uint8_t *cdr_next(struct cdr_input *in, size_t size, size_t bytes)
{
    size_t pad = cdr_padding(in->position, size, in->align), left = cdr_left(in);
    if (left < pad || left - pad < bytes) {
        cdr_say(in, "%zu bytes are needed there, and %zu are left", bytes + pad, left);
        return NULL;
    }
    const uint8_t *at = in->base + in->position + pad;
    in->position += pad + bytes;
    return at;
}

/* A number of 1, 2, 4 or 8 bytes, as it lies there or in the other order. */
__attribute__((always_inline)) static inline uint64_t cdr_load(const uint8_t *at, size_t size, bool swap)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 1:
        return *at;
    case 2:
        memcpy(&two, at, 2);
        return swap ? __builtin_bswap16(two) : two;
    case 4:
        memcpy(&four, at, 4);
        return swap ? __builtin_bswap32(four) : four;
    default:
        memcpy(&eight, at, 8);
        return swap ? __builtin_bswap64(eight) : eight;
    }
}

__attribute__((always_inline)) static inline bool cdr_take(struct cdr_input *in, size_t size, bool swap, uint64_t *bits)
{
    const uint8_t *at = cdr_next(in, size, size);
    if (at) *bits = cdr_load(at, size, swap);
    return at != NULL;
}

/* Of a sequence; `most` 0: any number. */
static inline bool cdr_take_count(struct cdr_input *in, bool swap, uint32_t most, size_t *count)
{
    uint64_t bits;
    if (!cdr_take(in, 4, swap, &bits)) return false;
    *count = (size_t)bits;
    if (most == 0 || bits <= most) return true;
    return CDR_REFUSE(in, "a sequence of %" PRIu64 " elements, where at most %" PRIu32 " may be", bits, most);
}

/* Can so many elements of `least` bytes or more each be there? So nothing is made for a count that is a lie. */
static inline bool cdr_may_hold(const struct cdr_input *in, size_t count, size_t least)
{
    return count <= cdr_left(in) / least ||
           CDR_REFUSE(in, "a row of %zu elements, for which %zu bytes are left", count, cdr_left(in));
}

/* The characters of a string without its terminator; `bytes`: how many bytes they are. */
static inline const uint8_t *cdr_take_text(struct cdr_input *in, bool swap, size_t *bytes)
{
    uint64_t size;
    if (!cdr_take(in, 4, swap, &size)) return NULL;
    if (size == 0) return cdr_say(in, "a string has length 0, without its terminator"), NULL;
    const uint8_t *text = cdr_next(in, 1, (size_t)size);
    if (!text) return NULL;
    if (text[size - 1] != 0) return cdr_say(in, "a string without its terminator"), NULL;
    *bytes = (size_t)size - 1;
    return text;
}

/* Has a text of UTF-8 at most so many characters? `most` 0: any number. */
static inline bool cdr_is_short(const struct cdr_input *in, const uint8_t *text, size_t bytes, uint32_t most)
{
    size_t characters = 0;
    if (most == 0) return true;
    for (size_t i = 0; i < bytes; i++) characters += (text[i] & 0xC0) != 0x80;
    return characters <= most || CDR_REFUSE(in, "a string of more than %" PRIu32 " characters", most);
}

/* A size, which from now on is the end of what may be read. `outer`: the end before, for cdr_leave. */
static inline bool cdr_enter(struct cdr_input *in, bool swap, size_t *outer)
{
    uint64_t size;
    if (!cdr_take(in, 4, swap, &size)) return false;
    if (size > cdr_left(in))
        return CDR_REFUSE(in, "a size of %" PRIu64 " bytes that does not agree with the content: %zu are left", size,
                          cdr_left(in));
    *outer = in->end;
    in->end = in->position + (size_t)size;
    return true;
}

/* `is_exact`: nothing may be left. Else what a newer writer added behind the known members is passed over. */
static inline bool cdr_leave(struct cdr_input *in, size_t outer, bool is_exact)
{
    size_t left = cdr_left(in);
    if (is_exact && left)
        return CDR_REFUSE(in, "a size that does not agree with the content: %zu bytes too many", left);
    in->position = in->end;
    in->end = outer;
    return true;
}

/* Is nothing left of the message but the zero bytes that networks append? */
static inline bool cdr_is_at_end(const struct cdr_input *in)
{
    size_t rest = cdr_left(in);
    bool is_zero = rest <= CDR_MARGIN;
    for (size_t i = 0; is_zero && i < rest; i++) is_zero = in->base[in->position + i] == 0;
    return is_zero || CDR_REFUSE(in, "%zu bytes too many", rest);
}

#endif
