/* Columns of one type: the program they follow, their memory while they are built, and what becomes of them. */
#include <stdlib.h>
#include <string.h>

#include "column.h"

/* ---- a program, checked once, so that running it need not ---- */

static bool is_power_up_to(uint8_t size, uint8_t most) { return size && size <= most && (size & (size - 1)) == 0; }

static bool has_number(const struct column_op *op)
{
    for (int version = 0; version < COLUMN_VERSIONS; version++)
        if (!is_power_up_to(op->size[version], 8)) return false;
    if (op->code != COLUMN_NUMBER) return true;
    return is_power_up_to(op->width, 16) && op->size[0] == op->size[1] && op->width >= op->size[0];
}

static bool has_least(const struct column_op *op) { return op->least[0] && op->least[1]; }

static uint64_t parts(const struct column_op *op)
{
    switch (op->code) {
    case COLUMN_SEQUENCE:
    case COLUMN_ARRAY:
        return 1;
    case COLUMN_STRUCT:
    case COLUMN_BITMASK:
        return op->length;
    case COLUMN_UNION:
        return (uint64_t)op->length + 1;
    default:
        return 0;
    }
}

static bool has_branches(const struct column_program *program, const struct column_op *op)
{
    if (program->ops[op->first].code > COLUMN_ENUM || op->otherwise >= op->length || op->otherwise < -1) return false;
    for (uint32_t i = 0; i < op->label_count; i++)
        if (op->labels[i].size >= op->length) return false;
    return true;
}

static bool has_bits(const struct column_program *program, const struct column_op *op)
{
    for (uint32_t i = 0; i < op->length; i++) {
        const struct column_op *bit = &program->ops[op->first + i];
        if (bit->code != COLUMN_BIT || bit->length > 63) return false;
    }
    return true;
}

static bool is_member(const struct column_program *program, uint32_t index)
{
    const struct column_op *message = &program->ops[0];
    return index >= message->first && index - message->first < message->length;
}

static const char *fault_of(const struct column_program *program, uint32_t index)
{
    const struct column_op *op = &program->ops[index];
    if (op->code >= COLUMN_CODES) return "an op that does not exist";
    if (op->code <= COLUMN_BITMASK && !has_number(op)) return "a number of a size that does not exist";
    if (parts(op) && (op->first <= index || op->first + parts(op) > program->count))
        return "an op that does not lead behind itself";
    if ((op->code == COLUMN_SEQUENCE || op->code == COLUMN_ARRAY) && !has_least(op))
        return "a row of elements without content";
    if (op->code == COLUMN_BITMASK && !has_bits(program, op)) return "a bitmask of something else than bits";
    if (op->code == COLUMN_UNION && !has_branches(program, op)) return "a union without the branch of a label";
    if (op->skipped && !is_member(program, index)) return "a skipped op that is no member of the message";
    return NULL;
}

const char *column_program_fault(const struct column_program *program)
{
    if (program->count == 0 || program->ops[0].code != COLUMN_STRUCT) return "a message is a struct";
    const char *fault = NULL;
    for (uint32_t i = 0; !fault && i < program->count; i++) fault = fault_of(program, i);
    return fault;
}

int64_t column_find(const struct column_op *op, uint64_t value)
{
    if (value < op->label_count && op->labels[value].value == value) return (int64_t)value;
    uint32_t low = 0, high = op->label_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (op->labels[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < op->label_count && op->labels[low].value == value ? (int64_t)low : -1;
}

/* ---- memory as columns grow, in Arrow's form: bitmaps of validity, offsets of 32 bits, values side by side ---- */

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

/* ---- columns that are built, handed over to Arrow: an array for each, within that of what it belongs to ---- */

enum { MOST_BUFFERS = 3, NULLS_UNKNOWN = -1 };

/* The memory that an array owns besides its buffers. The arrays of its members may be moved elsewhere; these places stay. */
struct owned {
    const void *buffers[MOST_BUFFERS];
    struct ArrowArray **children;
    struct ArrowArray arrays[];
};

static void release(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->private_data);
    array->release = NULL;
}

static struct owned *own(uint32_t children)
{
    struct owned *owned = calloc(1, sizeof *owned + children * (sizeof *owned->arrays + sizeof *owned->children));
    if (!owned) return NULL;
    owned->children = (struct ArrowArray **)&owned->arrays[children];
    for (uint32_t i = 0; i < children; i++) owned->children[i] = &owned->arrays[i];
    return owned;
}

static uint32_t child_count(const struct column_op *op)
{
    if (op->code == COLUMN_SEQUENCE || op->code == COLUMN_ARRAY) return 1;
    return column_has_members(op) ? column_members(op) : 0;
}

/* Moves memory of a column into the array. */
static void give(struct ArrowArray *array, void *place)
{
    void **memory = place;
    array->buffers[array->n_buffers++] = *memory;
    *memory = NULL;
}

static bool hand_over(struct column_build *build, uint32_t index, struct ArrowArray *array);

/* A part whose turn did not come has no `release`. */
static bool hand_over_parts(struct column_build *build, const struct column_op *op, struct ArrowArray *array)
{
    for (uint32_t i = op->first; i < op->first + child_count(op); i++)
        if (!build->program->ops[i].skipped && !hand_over(build, i, array->children[array->n_children++])) return false;
    return true;
}

static bool hand_over(struct column_build *build, uint32_t index, struct ArrowArray *array)
{
    const struct column_op *op = &build->program->ops[index];
    struct column *c = &build->columns[index];
    struct owned *owned = own(child_count(op));
    if (!owned) return column_fail(build, index, COLUMN_NO_MEMORY);
    *array = (struct ArrowArray){.length = (int64_t)c->rows, .release = release, .private_data = owned};
    array->null_count = c->validity ? NULLS_UNKNOWN : 0;
    array->buffers = owned->buffers;
    array->children = owned->children;
    give(array, &c->validity);
    if (column_has_offsets(op)) give(array, &c->offsets);
    if (!child_count(op) && !column_has_members(op)) give(array, &c->values);
    return hand_over_parts(build, op, array);
}

bool column_hand_over(struct column_build *build, struct ArrowArray *array)
{
    *array = (struct ArrowArray){0};
    free(build->columns[0].validity); /* each row of a batch is there */
    build->columns[0].validity = NULL;
    if (hand_over(build, 0, array)) return true;
    if (array->release) array->release(array);
    return false;
}

/* ---- the least and the largest number of a column; the rest of the file is for wide loops ---- */

#ifndef __clang__ /* which makes wide loops of these without being told */
#pragma GCC optimize("O3")
#endif

enum { LANES = 4 }; /* that wait for each other in nothing, so that a processor takes a step of each at a time */

/* A NaN is unlike itself. */
#define RANGE(type, member)                                                            \
    do {                                                                               \
        const type *values = (const type *)column;                                     \
        type least[LANES], most[LANES];                                                \
        bool numbers = true;                                                           \
        for (int lane = 0; lane < LANES; lane++) least[lane] = most[lane] = values[0]; \
        uint64_t i = 0;                                                                \
        for (; i + LANES <= count; i += LANES)                                         \
            for (int lane = 0; lane < LANES; lane++) {                                 \
                const type value = values[i + (uint64_t)lane];                         \
                least[lane] = value < least[lane] ? value : least[lane];               \
                most[lane] = value > most[lane] ? value : most[lane];                  \
                numbers &= value == value;                                             \
            }                                                                          \
        for (; i < count; i++) {                                                       \
            least[0] = values[i] < least[0] ? values[i] : least[0];                    \
            most[0] = values[i] > most[0] ? values[i] : most[0];                       \
            numbers &= values[i] == values[i];                                         \
        }                                                                              \
        for (int lane = 1; lane < LANES; lane++) {                                     \
            least[0] = least[lane] < least[0] ? least[lane] : least[0];                \
            most[0] = most[lane] > most[0] ? most[lane] : most[0];                     \
        }                                                                              \
        range->least.member = least[0];                                                \
        range->most.member = most[0];                                                  \
        return numbers;                                                                \
    } while (0)

bool column_range(enum column_number number, const void *column, uint64_t count, struct column_range *range)
{
    if (!count) return false;
    switch (number) {
    case COLUMN_INT8:
        RANGE(int8_t, signed_number);
    case COLUMN_INT16:
        RANGE(int16_t, signed_number);
    case COLUMN_INT32:
        RANGE(int32_t, signed_number);
    case COLUMN_INT64:
        RANGE(int64_t, signed_number);
    case COLUMN_UINT8:
        RANGE(uint8_t, unsigned_number);
    case COLUMN_UINT16:
        RANGE(uint16_t, unsigned_number);
    case COLUMN_UINT32:
        RANGE(uint32_t, unsigned_number);
    case COLUMN_UINT64:
        RANGE(uint64_t, unsigned_number);
    case COLUMN_FLOAT:
        RANGE(float, real);
    case COLUMN_DOUBLE:
        RANGE(double, real);
    }
    return false;
}
