/* The memory of columns as they grow. Arrow's form: bitmaps of validity, offsets of 32 bits, values side by side. */
#include <stdlib.h>
#include <string.h>

#include "column.h"

enum { LEAST_ROOM = 64, LEAST_CAPACITY = 1024 };

static const struct column_op *op_of(const struct column_build *build, uint32_t index)
{
    return &build->program->ops[index];
}

static bool is_skipped(const struct column_build *build, uint32_t index) { return op_of(build, index)->skipped; }

static bool is_bits(const struct column_op *op) { return op->code == COLUMN_BOOLEAN || op->code == COLUMN_BIT; }

bool column_fail(struct column_build *build, uint32_t index, enum column_fault fault)
{
    build->fault = fault;
    build->failed = index;
    return false;
}

static bool enlarge(void *memory, uint64_t bytes)
{
    void **place = memory, *larger = realloc(*place, bytes);
    if (larger) *place = larger;
    return larger != NULL;
}

static uint64_t bitmap(uint64_t rows) { return (rows + 7) / 8; }

bool column_make_room(struct column_build *build, uint32_t index, uint64_t rows)
{
    struct column *c = &build->columns[index];
    const struct column_op *op = op_of(build, index);
    if (rows <= c->room) return true;
    if (rows > INT32_MAX) return column_fail(build, index, COLUMN_TOO_LARGE);
    uint64_t room = rows < 2 * c->room ? 2 * c->room : rows < LEAST_ROOM ? LEAST_ROOM : rows;
    bool done = !c->validity || enlarge(&c->validity, bitmap(room));
    if (done && column_has_offsets(op)) done = enlarge(&c->offsets, (room + 1) * sizeof *c->offsets);
    if (done && op->code == COLUMN_NUMBER) done = enlarge(&c->values, room * op->width);
    if (done && is_bits(op)) done = enlarge(&c->values, bitmap(room));
    if (!done) return column_fail(build, index, COLUMN_NO_MEMORY);
    if (c->offsets) c->offsets[0] = 0;
    c->room = room;
    return true;
}

bool column_make_capacity(struct column_build *build, uint32_t index, uint64_t bytes)
{
    struct column *c = &build->columns[index];
    if (bytes <= c->capacity) return true;
    if (bytes > INT32_MAX) return column_fail(build, index, COLUMN_TOO_LARGE);
    uint64_t capacity = bytes < 2 * c->capacity ? 2 * c->capacity : bytes < LEAST_CAPACITY ? LEAST_CAPACITY : bytes;
    if (!enlarge(&c->values, capacity)) return column_fail(build, index, COLUMN_NO_MEMORY);
    c->capacity = capacity;
    return true;
}

static inline void set_bit(uint8_t *bits, uint64_t at, bool is)
{
    uint8_t mask = (uint8_t)(1u << (at & 7));
    bits[at >> 3] = is ? bits[at >> 3] | mask : bits[at >> 3] & (uint8_t)~mask;
}

void column_count(struct column *c)
{
    if (c->validity) set_bit(c->validity, c->rows, true);
    c->rows++;
}

bool column_append_bytes(struct column_build *build, uint32_t index, const void *bytes, size_t size)
{
    struct column *c = &build->columns[index];
    if (!column_make_room(build, index, c->rows + 1)) return false;
    if (!column_make_capacity(build, index, c->size + size)) return false;
    if (size) memcpy(c->values + c->size, bytes, size);
    c->size += size;
    c->offsets[c->rows + 1] = (int32_t)c->size;
    column_count(c);
    return true;
}

/* All rows before the first null were there. */
static bool make_validity(struct column_build *build, uint32_t index)
{
    struct column *c = &build->columns[index];
    if (c->validity) return true;
    c->validity = malloc(bitmap(c->room));
    if (!c->validity) return column_fail(build, index, COLUMN_NO_MEMORY);
    memset(c->validity, 0xFF, bitmap(c->room));
    return true;
}

bool column_append_null(struct column_build *build, uint32_t index)
{
    struct column *c = &build->columns[index];
    const struct column_op *op = op_of(build, index);
    if (!column_make_room(build, index, c->rows + 1) || !make_validity(build, index)) return false;
    if (c->offsets) c->offsets[c->rows + 1] = c->offsets[c->rows];
    if (op->code == COLUMN_NUMBER) memset(c->values + c->rows * op->width, 0, op->width);
    if (is_bits(op)) set_bit(c->values, c->rows, false);
    set_bit(c->validity, c->rows++, false);
    build->nulls++;
    for (uint32_t i = 0; column_has_members(op) && i < column_members(op); i++)
        if (!is_skipped(build, op->first + i) && !column_append_null(build, op->first + i)) return false;
    return true;
}

uint64_t column_nulls(const struct column_program *program, uint32_t index)
{
    const struct column_op *op = &program->ops[index];
    uint64_t nulls = 1;
    for (uint32_t i = 0; column_has_members(op) && i < column_members(op); i++)
        nulls += column_nulls(program, op->first + i);
    return nulls;
}

void column_truncate(struct column_build *build, uint32_t index, uint64_t rows)
{
    struct column *c = &build->columns[index];
    const struct column_op *op = op_of(build, index);
    c->rows = rows;
    uint64_t led = c->offsets ? (uint64_t)c->offsets[rows] : 0;
    if (op->code == COLUMN_SEQUENCE || op->code == COLUMN_ARRAY) column_truncate(build, op->first, led);
    c->size = led;
    for (uint32_t i = 0; column_has_members(op) && i < column_members(op); i++)
        if (!is_skipped(build, op->first + i)) column_truncate(build, op->first + i, rows);
}

/* Members of the message, and of structs directly in it, have a row a message. */
static bool reserve(struct column_build *build, uint32_t index, uint64_t rows)
{
    const struct column_op *op = op_of(build, index);
    if (!column_make_room(build, index, rows ? rows : 1)) return false;
    for (uint32_t i = 0; column_has_members(op) && i < column_members(op); i++)
        if (!is_skipped(build, op->first + i) && !reserve(build, op->first + i, rows)) return false;
    return true;
}

bool column_start(struct column_build *build, const struct column_program *program, uint64_t rows)
{
    *build = (struct column_build){.program = program};
    build->columns = calloc(program->count, sizeof *build->columns);
    if (!build->columns) return column_fail(build, 0, COLUMN_NO_MEMORY);
    for (uint32_t i = 0; i < program->count; i++)
        if (!column_make_room(build, i, 1)) return false; /* so that each has its first offset */
    return reserve(build, 0, rows);
}

void column_drop(struct column_build *build)
{
    for (uint32_t i = 0; build->columns && i < build->program->count; i++) {
        free(build->columns[i].validity);
        free(build->columns[i].offsets);
        free(build->columns[i].values);
    }
    free(build->columns);
    build->columns = NULL;
}
