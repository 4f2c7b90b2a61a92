/* From bytes to columns. The bytes come from anybody: what they say is checked before anything is done about it. */
#include "../shm/utf8.h"
#include "column.h"

struct reader {
    struct column_build *build;
    const struct column_op *ops;
    struct cdr_input in;
    uint64_t most_nulls; /* in build */
    uint8_t version;     /* 0: XCDR1, 1: XCDR2 */
    bool swap;
    bool discards; /* within a skipped member: what is read is checked, and not appended */
};

static bool decode(struct reader *r, uint32_t index);

/* false: what has just been refused is damaged, in the column of this op. Macros, so that the compiler sees that. */
#define DAMAGED(r, index)     (column_fail((r)->build, index, COLUMN_DAMAGED), false)
#define REFUSE(r, index, ...) (cdr_say(&(r)->in, __VA_ARGS__), DAMAGED(r, index))

static struct column *column_of(const struct reader *r, uint32_t index) { return &r->build->columns[index]; }

/* The next `bytes`, aligned as numbers of `size` bytes. NULL: so many are not there. */
static inline const uint8_t *next(struct reader *r, uint32_t index, size_t size, size_t bytes)
{
    const uint8_t *at = cdr_next(&r->in, size, bytes);
    if (!at) column_fail(r->build, index, COLUMN_DAMAGED);
    return at;
}

static inline bool take(struct reader *r, uint32_t index, size_t size, uint64_t *bits)
{
    return cdr_take(&r->in, size, r->swap, bits) || DAMAGED(r, index);
}

/* ---- numbers ---- */

static bool check_numbers(struct reader *r, uint32_t index, const uint8_t *from, size_t count)
{
    const struct column_op *op = &r->ops[index];
    size_t size = op->size[r->version];
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = cdr_load(from + i * size, size, r->swap);
        if (bits >> 63) return REFUSE(r, index, "%" PRIu64 " is beyond 64 bits with a sign", bits);
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
            uint64_t bits = cdr_load(from, size, true);
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
    if (code == COLUMN_CHAR && bits >= 0x80) return REFUSE(r, index, "a character that is not ASCII");
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
        if (!append_word(r, index, cdr_load(at, size, r->swap))) return false;
    return true;
}

/* ---- bytes ---- */

static inline bool append_bytes(struct reader *r, uint32_t index, const uint8_t *bytes, size_t size)
{
    return r->discards || column_append_bytes(r->build, index, bytes, size);
}

static bool take_count(struct reader *r, uint32_t index, size_t *count)
{
    return cdr_take_count(&r->in, r->swap, r->ops[index].length, count) || DAMAGED(r, index);
}

static bool decode_text(struct reader *r, uint32_t index)
{
    size_t bytes;
    const uint8_t *text = cdr_take_text(&r->in, r->swap, &bytes);
    if (!text) return DAMAGED(r, index);
    if (!utf8_is_valid(text, bytes)) return REFUSE(r, index, "a string that is not UTF-8");
    if (!cdr_is_short(&r->in, text, bytes, r->ops[index].length)) return DAMAGED(r, index);
    return append_bytes(r, index, text, bytes);
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
    if (!cdr_may_hold(&r->in, count, op->least[r->version])) return DAMAGED(r, index);
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
    r->in.position -= size; /* once more, to where the column's number goes */
    return decode_numbers(r, op->first, 1);
}

/* What is not there takes a byte or none, and a row in each of its columns. */
static bool append_null(struct reader *r, uint32_t index)
{
    if (r->discards)
        r->build->nulls += column_nulls(r->build->program, index);
    else if (!column_append_null(r->build, index))
        return false;
    return r->build->nulls <= r->most_nulls || REFUSE(r, index, "more rows without content than so few bytes may have");
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

/* A size, and what lies within it. This and decode_optional stay functions of their own, so that `decode` saves no
 * registers for them. */
__attribute__((noinline)) static bool decode_sized(struct reader *r, uint32_t index)
{
    size_t outer;
    bool is_exact = r->ops[index].code != COLUMN_STRUCT && r->ops[index].code != COLUMN_UNION;
    if (!cdr_enter(&r->in, r->swap, &outer)) return DAMAGED(r, index);
    if (!decode_content(r, index)) return false;
    return cdr_leave(&r->in, outer, is_exact) || DAMAGED(r, index);
}

static inline bool decode_present(struct reader *r, uint32_t index)
{
    const struct column_op *op = &r->ops[index];
    if (op->code <= COLUMN_BITMASK) return decode_numbers(r, index, 1);
    return op->sized && r->version ? decode_sized(r, index) : decode_content(r, index);
}

__attribute__((noinline)) static bool decode_optional(struct reader *r, uint32_t index)
{
    uint64_t is_present;
    if (r->version == 0) return REFUSE(r, index, "an optional member in XCDR1, which is not read in bulk");
    if (!take(r, index, 1, &is_present)) return false;
    return is_present ? decode_present(r, index) : append_null(r, index);
}

static bool decode(struct reader *r, uint32_t index)
{
    return r->ops[index].optional ? decode_optional(r, index) : decode_present(r, index);
}

static const uint8_t ZSTD[CDR_HEADER] = {0x28, 0xB5, 0x2F, 0xFD};

/* CDR and CDR2, each big or little endian; CDR2 of an appendable message has a size in front. */
static bool read_header(struct reader *r)
{
    const uint8_t *header = next(r, 0, 1, CDR_HEADER);
    if (!header) return false;
    uint8_t form = header[1] & 0xFE;
    r->swap = !(header[1] & 1);
    r->version = form != 0;
    r->in.align = r->version ? 4 : 8;
    if (header[0] == 0 && (form == 0 || form == (r->build->program->appendable ? 8 : 6))) return true;
    if (!memcmp(header, ZSTD, sizeof ZSTD))
        return REFUSE(r, 0,
                      "it is compressed by itself, as in bags of ROS 2 with compression_mode message: write it anew "
                      "without (ros2 bag convert)");
    return REFUSE(r, 0, "it begins with %02x%02x, an encoding that is not read in bulk", header[0], header[1]);
}

bool column_decode(struct column_build *build, const uint8_t *payload, size_t size)
{
    uint64_t rows = build->columns[0].rows;
    struct reader r = {.build = build,
                       .ops = build->program->ops,
                       .in = {.base = payload, .end = size, .align = 8, .reason = build->reason}};
    r.most_nulls = build->nulls + COLUMN_NULLS + COLUMN_NULLS_A_BYTE * (uint64_t)size;
    if (read_header(&r) && decode(&r, 0) && (cdr_is_at_end(&r.in) || DAMAGED(&r, 0))) return true;
    column_truncate(build, 0, rows);
    return false;
}
