/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
#ifndef RTMW_UTF8_H
#define RTMW_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t utf8_ascii(const uint8_t *text, size_t size)
{
    size_t at = 0;
    uint64_t eight;
    for (; size - at >= 8; at += 8) {
        memcpy(&eight, text + at, 8);
        if (eight & 0x8080808080808080u) break;
    }
    while (at < size && text[at] < 0x80) at++;
    return at;
}

static inline bool utf8_continues(const uint8_t *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((text[i] & 0xC0) != 0x80) return false;
    return true;
}

/* Bytes of the character that begins there; 0: it is none. */
static inline size_t utf8_character(const uint8_t *text, size_t size)
{
    uint8_t lead = text[0], low = 0x80, high = 0xBF; /* what the second byte may be */
    size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead < 0xC2 || lead > 0xF4 || size < bytes) return 0;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (text[1] < low || text[1] > high || !utf8_continues(text + 2, bytes - 2)) return 0;
    return bytes;
}

static inline bool utf8_is_valid(const uint8_t *text, size_t size)
{
    for (size_t at = 0;;) {
        at += utf8_ascii(text + at, size - at);
        if (at == size) return true;
        size_t bytes = utf8_character(text + at, size - at);
        if (bytes == 0) return false;
        at += bytes;
    }
}

#endif
