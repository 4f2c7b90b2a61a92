/* Keys and ids as text, as Python's str() shows numbers, and hex() bytes. */
#include <string.h>

#include "run.h"

enum { GROUP = 9, LIMBS = LABEL_LONGEST / 4 };

static const uint32_t BILLION = 1000000000; /* what GROUP digits say at most, and one */

static size_t put_hexadecimal(const uint8_t *label, size_t size, uint8_t *to)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        to[2 * i] = (uint8_t)digits[label[i] >> 4];
        to[2 * i + 1] = (uint8_t)digits[label[i] & 15];
    }
    return 2 * size;
}

/* The magnitude of a number of two's complement, the lowest limb first; gives how many limbs there are. */
static size_t magnitude_of(const uint8_t *label, size_t size, bool is_negative, uint32_t *limbs)
{
    size_t count = (size + 3) / 4;
    memset(limbs, is_negative ? 0xFF : 0, 4 * count);
    memcpy(limbs, label, size);
    uint64_t carry = is_negative;
    for (size_t i = 0; is_negative && i < count; i++) {
        carry += (uint32_t)~limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return count;
}

/* Divides by a billion; gives the remainder. */
static uint32_t divide(uint32_t *limbs, size_t count)
{
    uint64_t rest = 0;
    for (size_t i = count; i-- > 0;) {
        rest = rest << 32 | limbs[i];
        limbs[i] = (uint32_t)(rest / BILLION);
        rest %= BILLION;
    }
    return (uint32_t)rest;
}

/* From the last digit to the first; so many that `to` has room for run_text_room. */
static size_t put_number(const uint8_t *label, size_t size, uint8_t *to)
{
    uint32_t limbs[LIMBS];
    bool is_negative = size && label[size - 1] & 0x80;
    size_t count = magnitude_of(label, size, is_negative, limbs), length = 0;
    do {
        uint32_t group = divide(limbs, count);
        while (count && !limbs[count - 1]) count--;
        for (int i = 0; i < GROUP && (count || group || !i); i++, group /= 10)
            to[length++] = (uint8_t)('0' + group % 10);
    } while (count);
    while (length > 1 && to[length - 1] == '0') length--;
    if (is_negative) to[length++] = '-';
    for (size_t i = 0; i < length / 2; i++) {
        uint8_t first = to[i];
        to[i] = to[length - 1 - i];
        to[length - 1 - i] = first;
    }
    return length;
}

/* Bytes of text that a label of so many bytes becomes at most: two hexadecimal digits, or 2.41 decimal ones, for each. */
static size_t text_room(size_t size) { return 3 * size + GROUP + 1; }

bool run_append_label(struct run_texts *texts, size_t row, unsigned kind, const uint8_t *label, size_t size)
{
    if (text_room(size) > texts->room - texts->size) return false;
    uint8_t *to = texts->text + texts->size;
    if (kind == LABEL_BYTES) texts->size += put_hexadecimal(label, size, to);
    if (kind == LABEL_NUMBER) texts->size += put_number(label, size, to);
    if (kind == LABEL_TEXT) texts->size += size;
    if (kind == LABEL_TEXT) memcpy(to, label, size);
    texts->is_there[row] = kind != LABEL_NONE && kind != LABEL_AUTOMATIC;
    texts->ends[row] = (int32_t)texts->size;
    return true;
}
