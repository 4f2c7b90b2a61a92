/* Types that are numbers at fixed places: one column after the other is gathered over all rows, without looking at a
 * row's other bytes. And how numbers become a column's. */
#include <string.h>

#include "column.h"

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
