/* From bytes to columns. The bytes come from anybody: what they say is checked before anything is done about it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "column.h"

struct reader {
    struct column_build *build;
    const struct column_op *ops;
    const uint8_t *payload;
    size_t position, end; /* end of the innermost size that was read, never beyond the payload */
    uint64_t most_nulls;  /* in build */
    uint8_t align;
    uint8_t version; /* 0: XCDR1, 1: XCDR2 */
    bool swap;
    bool discards; /* within a skipped member: what is read is checked, and not appended */
};

static bool decode(struct reader *r, uint32_t index);

__attribute__((format(printf, 3, 4))) static bool refuse(struct reader *r, uint32_t index, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->build->reason, sizeof r->build->reason, format, arguments);
    va_end(arguments);
    return column_fail(r->build, index, COLUMN_DAMAGED);
}

static size_t left(const struct reader *r) { return r->end - r->position; }

static struct column *column_of(const struct reader *r, uint32_t index) { return &r->build->columns[index]; }

/* The next `bytes`, aligned as numbers of `size` bytes. NULL: so many are not there. */
static inline const uint8_t *next(struct reader *r, uint32_t index, size_t size, size_t bytes)
{
    size_t unit = size < r->align ? size : r->align;
    size_t pad = (COLUMN_HEADER - r->position) & (unit - 1);
    if (left(r) < pad || left(r) - pad < bytes) {
        refuse(r, index, "%zu bytes are needed there, and %zu are left", bytes + pad, left(r));
        return NULL;
    }
    const uint8_t *at = r->payload + r->position + pad;
    r->position += pad + bytes;
    return at;
}

static inline uint64_t load(const uint8_t *at, size_t size, bool swap)
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

static inline bool take(struct reader *r, uint32_t index, size_t size, uint64_t *bits)
{
    const uint8_t *at = next(r, index, size, size);
    if (at) *bits = load(at, size, r->swap);
    return at != NULL;
}

/* ---- numbers ---- */

static bool check_numbers(struct reader *r, uint32_t index, const uint8_t *from, size_t count)
{
    const struct column_op *op = &r->ops[index];
    size_t size = op->size[r->version];
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = load(from + i * size, size, r->swap);
        if (bits >> 63) return refuse(r, index, "%" PRIu64 " is beyond 64 bits with a sign", bits);
    }
    return true;
}

static bool append_numbers(struct reader *r, uint32_t index, const uint8_t *from, size_t count)
{
    const struct column_op *op = &r->ops[index];
    struct column *c = column_of(r, index);
    size_t size = op->size[r->version];
    if (op->narrow && !check_numbers(r, index, from, count)) return false;
    if (r->discards) return true;
    if (!column_make_room(r->build, index, c->rows + count)) return false;
    uint8_t *to = c->values + c->rows * op->width;
    if (!r->swap) {
        column_store(op, (unsigned)size, from, to, count);
    } else {
        for (size_t i = 0; i < count; i++, from += size, to += op->width) {
            uint64_t bits = load(from, size, true);
            column_store(op, (unsigned)size, (const uint8_t *)&bits, to, 1);
        }
    }
    if (!c->validity) return c->rows += count, true;
    while (count--) column_count(c);
    return true;
}

static inline void put_bit(struct column *c, bool is)
{
    uint8_t mask = (uint8_t)(1u << (c->rows & 7)), *byte = c->values + (c->rows >> 3);
    *byte = is ? *byte | mask : *byte & (uint8_t)~mask;
    column_count(c);
}

static bool append_bitmask(struct reader *r, uint32_t index, uint64_t bits)
{
    const struct column_op *op = &r->ops[index];
    struct column *c = column_of(r, index);
    if (!column_make_room(r->build, index, c->rows + 1)) return false;
    for (uint32_t at = op->first; at < op->first + op->length; at++) {
        if (!column_make_room(r->build, at, column_of(r, at)->rows + 1)) return false;
        put_bit(column_of(r, at), bits >> r->ops[at].length & 1);
    }
    column_count(c);
    return true;
}

static bool append_enum(struct reader *r, uint32_t index, uint64_t bits)
{
    const struct column_op *op = &r->ops[index];
    int64_t at = column_find(op, bits);
    if (at >= 0) return column_append_bytes(r->build, index, op->labels[at].text, op->labels[at].size);
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%" PRIu64, bits);
    return column_append_bytes(r->build, index, digits, (size_t)size);
}

static bool append_word(struct reader *r, uint32_t index, uint64_t bits)
{
    uint8_t letter = (uint8_t)bits, code = r->ops[index].code;
    if (code == COLUMN_CHAR && bits >= 0x80) return refuse(r, index, "a character that is not ASCII");
    if (r->discards) return true;
    switch (code) {
    case COLUMN_BOOLEAN:
        if (!column_make_room(r->build, index, column_of(r, index)->rows + 1)) return false;
        put_bit(column_of(r, index), bits != 0);
        return true;
    case COLUMN_CHAR:
        return column_append_bytes(r->build, index, &letter, 1);
    case COLUMN_ENUM:
        return append_enum(r, index, bits);
    default:
        return append_bitmask(r, index, bits);
    }
}

static bool decode_numbers(struct reader *r, uint32_t index, size_t count)
{
    const struct column_op *op = &r->ops[index];
    size_t size = op->size[r->version];
    const uint8_t *at = next(r, index, size, count * size);
    if (!at) return false;
    if (op->code == COLUMN_NUMBER) return append_numbers(r, index, at, count);
    for (size_t i = 0; i < count; i++, at += size)
        if (!append_word(r, index, load(at, size, r->swap))) return false;
    return true;
}

/* ---- bytes ---- */

static inline bool append_bytes(struct reader *r, uint32_t index, const uint8_t *bytes, size_t size)
{
    return r->discards || column_append_bytes(r->build, index, bytes, size);
}

static bool take_count(struct reader *r, uint32_t index, size_t *count)
{
    uint64_t bits;
    uint32_t most = r->ops[index].length;
    if (!take(r, index, 4, &bits)) return false;
    *count = (size_t)bits;
    if (most == 0 || bits <= most) return true;
    return refuse(r, index, "a sequence of %" PRIu64 " elements, where at most %" PRIu32 " may be", bits, most);
}

static size_t characters_of(const uint8_t *text, size_t bytes)
{
    size_t characters = 0;
    for (size_t i = 0; i < bytes; i++) characters += (text[i] & 0xC0) != 0x80;
    return characters;
}

static bool decode_text(struct reader *r, uint32_t index)
{
    uint64_t bytes;
    uint32_t most = r->ops[index].length;
    if (!take(r, index, 4, &bytes)) return false;
    if (bytes == 0) return refuse(r, index, "a string has length 0, without its terminator");
    const uint8_t *text = next(r, index, 1, (size_t)bytes);
    if (!text) return false;
    if (text[bytes - 1] != 0) return refuse(r, index, "a string without its terminator");
    if (!utf8_is_valid(text, (size_t)bytes - 1)) return refuse(r, index, "a string that is not UTF-8");
    if (most && characters_of(text, (size_t)bytes - 1) > most)
        return refuse(r, index, "a string of more than %" PRIu32 " characters", most);
    return append_bytes(r, index, text, (size_t)bytes - 1);
}

static bool decode_octets(struct reader *r, uint32_t index)
{
    size_t count = r->ops[index].length;
    if (r->ops[index].code == COLUMN_OCTETS && !take_count(r, index, &count)) return false;
    const uint8_t *octets = next(r, index, 1, count);
    return octets && append_bytes(r, index, octets, count);
}

/* ---- what consists of others ---- */

static inline bool make_row(struct reader *r, uint32_t index)
{
    return r->discards || column_make_room(r->build, index, column_of(r, index)->rows + 1);
}

static inline bool count_row(struct reader *r, uint32_t index)
{
    if (!r->discards) column_count(column_of(r, index));
    return true;
}

static bool decode_items(struct reader *r, uint32_t index, size_t count)
{
    const struct column_op *element = &r->ops[index];
    if (element->code <= COLUMN_BITMASK && !element->optional) return decode_numbers(r, index, count);
    for (size_t i = 0; i < count; i++)
        if (!decode(r, index)) return false;
    return true;
}

static bool decode_elements(struct reader *r, uint32_t index)
{
    const struct column_op *op = &r->ops[index];
    struct column *c = column_of(r, index);
    size_t count = op->length;
    if (op->code == COLUMN_SEQUENCE && !take_count(r, index, &count)) return false;
    if (count > left(r) / op->least[r->version])
        return refuse(r, index, "a row of %zu elements, for which %zu bytes are left", count, left(r));
    if (count && !decode_items(r, op->first, count)) return false; /* of none there is no padding either */
    if (r->discards) return true;
    if (!column_make_room(r->build, index, c->rows + 1)) return false;
    c->offsets[c->rows + 1] = (int32_t)column_of(r, op->first)->rows;
    column_count(c);
    return true;
}

static bool decode_struct(struct reader *r, uint32_t index)
{
    const struct column_op *op = &r->ops[index];
    if (!make_row(r, index)) return false;
    for (uint32_t i = 0; i < op->length; i++) {
        if (index == 0) r->discards = r->ops[op->first + i].skipped;
        if (!decode(r, op->first + i)) return false;
    }
    if (index == 0) r->discards = false;
    return count_row(r, index);
}

static bool decode_label(struct reader *r, uint32_t index, int64_t *branch)
{
    const struct column_op *op = &r->ops[index], *label = &r->ops[op->first];
    uint64_t bits;
    size_t size = label->size[r->version];
    if (!take(r, op->first, size, &bits)) return false;
    int64_t at = column_find(op, label->code == COLUMN_BOOLEAN ? bits != 0 : bits);
    *branch = at < 0 ? op->otherwise : (int64_t)op->labels[at].size;
    if (label->code != COLUMN_NUMBER) return append_word(r, op->first, bits);
    r->position -= size; /* once more, to where the column's number goes */
    return decode_numbers(r, op->first, 1);
}

/* What is not there takes a byte or none, and a row in each of its columns. */
static bool append_null(struct reader *r, uint32_t index)
{
    if (r->discards)
        r->build->nulls += column_nulls(r->build->program, index);
    else if (!column_append_null(r->build, index))
        return false;
    return r->build->nulls <= r->most_nulls || refuse(r, index, "more rows without content than so few bytes may have");
}

static bool decode_union(struct reader *r, uint32_t index)
{
    const struct column_op *op = &r->ops[index];
    int64_t branch;
    if (!make_row(r, index) || !decode_label(r, index, &branch)) return false;
    for (uint32_t i = 0; i < op->length; i++) {
        uint32_t part = op->first + 1 + i;
        if (!(i == branch ? decode(r, part) : append_null(r, part))) return false;
    }
    return count_row(r, index);
}

static bool decode_content(struct reader *r, uint32_t index)
{
    switch (r->ops[index].code) {
    case COLUMN_TEXT:
        return decode_text(r, index);
    case COLUMN_OCTETS:
    case COLUMN_OCTET_ROW:
        return decode_octets(r, index);
    case COLUMN_SEQUENCE:
    case COLUMN_ARRAY:
        return decode_elements(r, index);
    case COLUMN_STRUCT:
        return decode_struct(r, index);
    default:
        return decode_union(r, index);
    }
}

/* A size, which is the end of what may be read; a newer writer's members behind those known are passed over. */
static bool decode_sized(struct reader *r, uint32_t index)
{
    uint64_t size;
    size_t outer = r->end;
    bool open = r->ops[index].code == COLUMN_STRUCT || r->ops[index].code == COLUMN_UNION;
    if (!take(r, index, 4, &size)) return false;
    if (size > left(r))
        return refuse(r, index, "a size of %" PRIu64 " bytes that does not agree with the content: %zu are left", size,
                      left(r));
    r->end = r->position + (size_t)size;
    if (!decode_content(r, index)) return false;
    if (!open && left(r))
        return refuse(r, index, "a size that does not agree with the content: %zu bytes too many", left(r));
    r->position = r->end;
    r->end = outer;
    return true;
}

static bool decode(struct reader *r, uint32_t index)
{
    const struct column_op *op = &r->ops[index];
    if (op->optional) {
        uint64_t present;
        if (r->version == 0) return refuse(r, index, "an optional member in XCDR1, which is not read in bulk");
        if (!take(r, index, 1, &present)) return false;
        if (!present) return append_null(r, index);
    }
    if (op->code <= COLUMN_BITMASK) return decode_numbers(r, index, 1);
    return op->sized && r->version ? decode_sized(r, index) : decode_content(r, index);
}

/* Up to three zero bytes may follow the message. */
static bool ends_properly(struct reader *r)
{
    size_t rest = left(r);
    bool zero = rest <= COLUMN_PADDING;
    for (size_t i = 0; zero && i < rest; i++) zero = r->payload[r->position + i] == 0;
    return zero || refuse(r, 0, "%zu bytes too many", rest);
}

static const uint8_t ZSTD[COLUMN_HEADER] = {0x28, 0xB5, 0x2F, 0xFD};

/* CDR and CDR2, each big or little endian; CDR2 of an appendable message has a size in front. */
static bool read_header(struct reader *r)
{
    const uint8_t *header = next(r, 0, 1, COLUMN_HEADER);
    if (!header) return false;
    uint8_t form = header[1] & 0xFE;
    r->swap = !(header[1] & 1);
    r->version = form != 0;
    r->align = r->version ? 4 : 8;
    if (header[0] == 0 && (form == 0 || form == (r->build->program->appendable ? 8 : 6))) return true;
    if (!memcmp(header, ZSTD, sizeof ZSTD))
        return refuse(r, 0,
                      "it is compressed by itself, as in bags of ROS 2 with compression_mode message: write it anew "
                      "without (ros2 bag convert)");
    return refuse(r, 0, "it begins with %02x%02x, an encoding that is not read in bulk", header[0], header[1]);
}

bool column_decode(struct column_build *build, const uint8_t *payload, size_t size)
{
    uint64_t rows = build->columns[0].rows;
    struct reader r = {.build = build, .ops = build->program->ops, .payload = payload, .end = size, .align = 8};
    r.most_nulls = build->nulls + COLUMN_NULLS + COLUMN_NULLS_A_BYTE * (uint64_t)size;
    if (read_header(&r) && decode(&r, 0) && ends_properly(&r)) return true;
    column_truncate(build, 0, rows);
    return false;
}
