/* From bytes to columns. The bytes come from anybody: what they say is checked before anything is done about it. */
#include <string.h>

#include "../log/utf8.h"
#include "column.h"

/* ---- types that are numbers at fixed places ----
 *
 * One column after the other is gathered over all rows, without looking at a row's other bytes. */

/* A loop for each pair of sizes, so that the compiler knows both. */
#define WIDEN(from_type, to_type)                                 \
    for (size_t i = 0; i < count; i++) {                          \
        from_type number;                                         \
        memcpy(&number, from + i * sizeof number, sizeof number); \
        to_type wide = number;                                    \
        memcpy(to + i * sizeof wide, &wide, sizeof wide);         \
    }

static void store_decimals(const uint8_t *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(to + 16 * i, from + 8 * i, 8);
        memset(to + 16 * i + 8, 0, 8);
    }
}

/* Only unsigned numbers are widened. */
void column_store(const struct column_op *op, unsigned size, const uint8_t *from, uint8_t *to, size_t count)
{
    if (op->width == size)
        memcpy(to, from, count * size);
    else if (size == 1)
        WIDEN(uint8_t, uint16_t)
    else if (size == 2)
        WIDEN(uint16_t, uint32_t)
    else if (size == 4)
        WIDEN(uint32_t, uint64_t)
    else
        store_decimals(from, to, count);
}

struct fixed_layout {
    const struct column_op *ops;
    size_t end; /* of what has been laid out, from the start of the payload */
    uint8_t align, version;
};

static size_t place(struct fixed_layout *l, size_t size)
{
    size_t at = l->end + cdr_padding(l->end, size, l->align);
    l->end = at + size;
    return at;
}

static bool is_fixed(struct fixed_layout *l, uint32_t index)
{
    const struct column_op *op = &l->ops[index];
    if (op->optional || op->narrow || (op->sized && l->version)) return false;
    if (op->code == COLUMN_NUMBER || op->code == COLUMN_BOOLEAN) return place(l, op->size[l->version]), true;
    bool fixed = op->code == COLUMN_STRUCT;
    for (uint32_t i = 0; fixed && i < op->length; i++) fixed = is_fixed(l, op->first + i);
    return fixed;
}

static bool is_whole(const uint8_t *payload, size_t size, const uint8_t *header, size_t end)
{
    if (size < end || size - end > CDR_MARGIN || memcmp(payload, header, 2) != 0) return false;
    for (size_t i = end; i < size; i++)
        if (payload[i]) return false;
    return true;
}

/* What is written changes no position: the compiler is told so, and need not read them anew. */
#define GATHER(type, wide_type)                                 \
    for (uint64_t i = 0, count = rows->count; i < count; i++) { \
        type number;                                            \
        memcpy(&number, from + position[i], sizeof number);     \
        wide_type wide = number;                                \
        memcpy(to + i * sizeof wide, &wide, sizeof wide);       \
    }

static void gather_decimals(const struct column_rows *rows, const uint8_t *from, uint8_t *to)
{
    for (uint64_t i = 0; i < rows->count; i++) store_decimals(from + rows->position[i], to + 16 * i, 1);
}

static void gather_wider(const struct column_rows *rows, unsigned size, const uint8_t *from, uint8_t *restrict to)
{
    const int64_t *position = rows->position;
    if (size == 1)
        GATHER(uint8_t, uint16_t)
    else if (size == 2)
        GATHER(uint16_t, uint32_t)
    else if (size == 4)
        GATHER(uint32_t, uint64_t)
    else
        gather_decimals(rows, from, to);
}

static void gather_numbers(const struct column_rows *rows, const struct column_op *op, const uint8_t *from,
                           uint8_t *restrict to)
{
    const int64_t *position = rows->position;
    unsigned size = op->size[0];
    if (op->width > size)
        gather_wider(rows, size, from, to);
    else if (size == 1)
        GATHER(uint8_t, uint8_t)
    else if (size == 2)
        GATHER(uint16_t, uint16_t)
    else if (size == 4)
        GATHER(uint32_t, uint32_t)
    else
        GATHER(uint64_t, uint64_t)
}

static void gather_booleans(const struct column_rows *rows, const uint8_t *from, uint8_t *to)
{
    memset(to, 0, (rows->count + 7) / 8);
    for (uint64_t i = 0; i < rows->count; i++) to[i >> 3] |= (uint8_t)((from[rows->position[i]] != 0) << (i & 7));
}

/* Appends to the columns. */
static void gather(struct column_build *build, const struct column_rows *rows, struct fixed_layout *l, uint32_t index)
{
    const struct column_op *op = &l->ops[index];
    if (op->skipped) {
        is_fixed(l, index); /* those behind it have their places after it */
        return;
    }
    struct column *c = &build->columns[index];
    uint64_t before = c->rows;
    c->rows += rows->count;
    if (op->code == COLUMN_STRUCT) {
        for (uint32_t i = 0; i < op->length; i++) gather(build, rows, l, op->first + i);
        return;
    }
    const uint8_t *from = rows->base + place(l, op->size[l->version]);
    if (op->code == COLUMN_BOOLEAN)
        gather_booleans(rows, from, c->values + before / 8);
    else
        gather_numbers(rows, op, from, c->values + before * op->width);
}

/* A multiple of 8, so that bits of booleans begin with a byte; and so few that their payloads stay in the first cache
 * while they are gathered. */
enum { BLOCK = 256 };

static struct column_rows block_of(const struct column_rows *rows, uint64_t first)
{
    struct column_rows block = *rows;
    block.position += first;
    block.size += first;
    block.count = rows->count - first < BLOCK ? rows->count - first : BLOCK;
    return block;
}

static bool are_whole(const struct column_rows *rows, const uint8_t *header, size_t end)
{
    for (uint64_t i = 0; i < rows->count; i++)
        if (!is_whole(rows->base + rows->position[i], (size_t)rows->size[i], header, end)) return false;
    return true;
}

/* Room was made for all rows when the build was started. */
bool column_decode_fixed(struct column_build *build, const struct column_rows *rows)
{
    const struct column_program *program = build->program;
    if (rows->count == 0 || rows->size[0] < CDR_HEADER) return false;
    const uint8_t *header = rows->base + rows->position[0];
    uint8_t form = header[1];
    if (header[0] != 0 || (form != 1 && form != (program->appendable ? 9 : 7))) return false;
    const struct fixed_layout empty = {program->ops, CDR_HEADER, form == 1 ? 8 : 4, form != 1};
    struct fixed_layout l = empty;
    if (!is_fixed(&l, 0)) return false;
    const size_t end = l.end;
    for (uint64_t first = 0; first < rows->count; first += BLOCK) {
        const struct column_rows block = block_of(rows, first);
        if (!are_whole(&block, header, end)) return column_truncate(build, 0, 0), false;
        l = empty;
        gather(build, &block, &l, 0);
    }
    return true;
}

/* ---- all other types ---- */

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
