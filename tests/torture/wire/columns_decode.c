/* Any program and any rows through the bulk reader: it reads inside each payload only, a damaged row leaves nothing in
 * any column, and the columns are what Arrow takes them for: as many rows in each, offsets that ascend and end where the
 * values do, and no more rows than the payloads have bytes and COLUMN_NULLS allows. With members that are skipped the same
 * rows are damaged, and nothing is in the columns of these members. All memory is freed, also of what was handed over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rtmw/columns/column.h"

enum { OPS = 300, NAMES = 4, BRANCHES = 250, ROWS = 6, DEEPEST = 5, UNIT = 8 };

#define CHECK(fact)                                                         \
    do {                                                                    \
        if (!(fact)) fprintf(stderr, "%s does not hold\n", #fact), abort(); \
    } while (0)

static volatile uint8_t seen;
static const uint8_t *words;
static size_t words_left;

static uint8_t word(void) { return words_left ? words_left--, *words++ : 0; }

static struct column_op ops[OPS];
static struct column_label labels[OPS][BRANCHES];
static uint32_t count;

static uint32_t claim(uint32_t ops_needed)
{
    uint32_t first = count;
    count += ops_needed;
    return first;
}

static void make_number(struct column_op *op, uint8_t code)
{
    uint8_t size = code == COLUMN_BOOLEAN || code == COLUMN_CHAR ? 1 : (uint8_t)(1 << word() % 4), form = word() % 4;
    op->code = code;
    op->size[0] = code == COLUMN_ENUM ? 4 : size;
    op->size[1] = size;
    op->width = code == COLUMN_NUMBER && form == 0 ? 2 * size : size;
    op->narrow = code == COLUMN_NUMBER && form == 1 && size == 8;
}

static void make_names(uint32_t index)
{
    static const char *names[NAMES] = {"RED", "GREEN", "B", ""};
    uint64_t number = 0;
    ops[index].label_count = word() % NAMES;
    for (uint32_t i = 0; i < ops[index].label_count; i++, number += 1 + word() % 3)
        labels[index][i] = (struct column_label){number, names[i], strlen(names[i])};
    ops[index].labels = labels[index];
}

static void make_op(uint32_t index, unsigned depth);

static void make_parts(uint32_t index, uint32_t parts, unsigned depth)
{
    uint32_t first = claim(parts);
    ops[index].first = first;
    for (uint32_t i = 0; i < parts; i++) make_op(first + i, depth + 1);
}

static void make_union(uint32_t index, unsigned depth)
{
    struct column_op *op = &ops[index];
    bool wide = word() % 4 == 0 && count + BRANCHES < OPS; /* of booleans */
    op->length = wide ? BRANCHES : 1 + word() % 2;
    op->first = claim(1 + op->length);
    op->label_count = op->length;
    op->labels = labels[index];
    op->otherwise = word() & 1 ? -1 : 0;
    make_number(&ops[op->first], word() & 1 ? COLUMN_NUMBER : COLUMN_BOOLEAN);
    for (uint32_t i = 0; i < op->length; i++) {
        labels[index][i] = (struct column_label){i, NULL, i};
        if (wide)
            make_number(&ops[op->first + 1 + i], COLUMN_BOOLEAN);
        else
            make_op(op->first + 1 + i, depth + 1);
    }
}

static void make_bits(uint32_t index)
{
    struct column_op *op = &ops[index];
    make_number(op, COLUMN_BITMASK);
    op->length = word() % 3;
    op->first = claim(op->length);
    for (uint32_t i = 0; i < op->length; i++) ops[op->first + i] = (struct column_op){.code = COLUMN_BIT, .length = i};
}

static void make_op(uint32_t index, unsigned depth)
{
    struct column_op *op = &ops[index];
    uint8_t wanted = word() % (depth < DEEPEST && count + 4 < OPS ? COLUMN_BIT : COLUMN_SEQUENCE);
    *op = (struct column_op){.code = wanted, .sized = word() & 1, .optional = word() % 5 == 0 && depth > 1};
    op->length = word() % 16;
    if (wanted == COLUMN_BITMASK && count + 4 < OPS)
        make_bits(index);
    else if (wanted <= COLUMN_BITMASK)
        make_number(op, wanted == COLUMN_BITMASK ? COLUMN_NUMBER : wanted);
    else if (wanted == COLUMN_SEQUENCE || wanted == COLUMN_ARRAY)
        op->length = wanted == COLUMN_ARRAY ? 1 + op->length % 5 : word() % 4 ? 0 : word(), make_parts(index, 1, depth);
    else if (wanted == COLUMN_STRUCT)
        op->length %= 4, make_parts(index, op->length, depth);
    else if (wanted == COLUMN_UNION)
        make_union(index, depth);
    if (op->code == COLUMN_ENUM) make_names(index);
}

/* The fewest bytes of a value, as `minimum_size` has it. */
static uint64_t least(uint32_t index, int version)
{
    const struct column_op *op = &ops[index];
    uint64_t sum = 0;
    if (op->optional) return 1;
    switch (op->code) {
    case COLUMN_TEXT:
        return 5;
    case COLUMN_OCTETS:
    case COLUMN_SEQUENCE:
        return 4;
    case COLUMN_OCTET_ROW:
        return op->length;
    case COLUMN_ARRAY:
        return op->length * least(op->first, version);
    case COLUMN_STRUCT:
        for (uint32_t i = 0; i < op->length; i++) sum += least(op->first + i, version);
        return sum;
    case COLUMN_UNION:
        return ops[op->first].size[version];
    default:
        return op->size[version];
    }
}

static bool make_program(struct column_program *program)
{
    count = 1;
    ops[0] = (struct column_op){.code = COLUMN_STRUCT, .length = 1 + word() % 4};
    program->appendable = ops[0].sized = word() & 1;
    make_parts(0, ops[0].length, 0);
    program->count = count;
    CHECK(count <= OPS);
    for (uint32_t i = 0; i < count; i++)
        for (int version = 0; version < COLUMN_VERSIONS; version++)
            if (ops[i].code == COLUMN_SEQUENCE || ops[i].code == COLUMN_ARRAY)
                ops[i].least[version] = (uint32_t)least(ops[i].first, version);
    return !column_program_fault(program);
}

static void check_column(const struct column_build *build, uint32_t index)
{
    const struct column_op *op = &ops[index];
    const struct column *c = &build->columns[index];
    uint32_t parts = op->code == COLUMN_UNION ? op->length + 1 : op->length;
    bool is_row = op->code == COLUMN_SEQUENCE || op->code == COLUMN_ARRAY;
    for (uint64_t row = 0; c->offsets && row < c->rows; row++) CHECK(c->offsets[row] <= c->offsets[row + 1]);
    if (c->offsets) CHECK(c->offsets[0] == 0);
    if (c->offsets) CHECK((uint64_t)c->offsets[c->rows] == (is_row ? build->columns[op->first].rows : c->size));
    if (op->code == COLUMN_STRUCT || op->code == COLUMN_UNION || op->code == COLUMN_BITMASK)
        for (uint32_t i = 0; i < parts; i++)
            CHECK(build->columns[op->first + i].rows == (ops[op->first + i].skipped ? 0 : c->rows));
    for (uint64_t at = 0; c->validity && at < (c->rows + 7) / 8; at++) seen ^= c->validity[at];
}

/* One payload, in memory of exactly its size. */
static bool decode_alone(struct column_build *build, const uint8_t *payload, size_t size)
{
    uint8_t *memory = malloc(size ? size : 1);
    CHECK(memory);
    memcpy(memory, payload, size);
    uint64_t before = build->nulls;
    bool whole = column_decode(build, memory, size);
    CHECK(build->nulls - before <= COLUMN_NULLS + COLUMN_NULLS_A_BYTE * size + OPS);
    free(memory);
    return whole;
}

static void decode_each(struct column_build *build, const struct column_rows *rows, bool *damaged)
{
    for (uint64_t i = 0; i < rows->count; i++) {
        if (decode_alone(build, rows->base + rows->position[i], (size_t)rows->size[i])) continue;
        if (build->fault != COLUMN_DAMAGED) return;
        for (uint32_t at = 0; at < count; at++) check_column(build, at);
        CHECK(build->columns[0].rows == i);
        damaged[i] = true;
        if (!column_append_null(build, 0)) return;
    }
    CHECK(build->columns[0].rows == rows->count);
}

static uint32_t columns_of(uint32_t first, uint32_t members)
{
    uint32_t found = 0;
    for (uint32_t i = first; i < first + members; i++) found += !ops[i].skipped;
    return found;
}

/* Whoever takes columns over may move one elsewhere, and releases each once; a leak is seen when the program ends. */
static void hand_over(struct column_build *build)
{
    struct ArrowArray array, moved = {0};
    uint64_t rows = build->columns[0].rows;
    if (!column_hand_over(build, &array)) return;
    CHECK(array.n_children == columns_of(ops[0].first, ops[0].length));
    for (int64_t i = 0; i < array.n_children; i++) CHECK((uint64_t)array.children[i]->length == rows);
    if (array.n_children) moved = *array.children[0], array.children[0]->release = NULL;
    array.release(&array);
    if (moved.release) moved.release(&moved);
    CHECK(!array.release && !moved.release);
}

/* False: for want of memory. */
static bool decode_all(const struct column_program *program, const struct column_rows *rows, bool *damaged)
{
    struct column_build build;
    bool started = column_start(&build, program, rows->count);
    if (started) {
        if (!column_decode_fixed(&build, rows)) decode_each(&build, rows, damaged);
        for (uint32_t at = 0; at < count && !build.fault; at++) check_column(&build, at);
    }
    bool done = started && (!build.fault || build.fault == COLUMN_DAMAGED);
    if (done) hand_over(&build);
    column_drop(&build);
    return done;
}

static void skip_some(uint8_t which)
{
    for (uint32_t i = 0; i < ops[0].length; i++) ops[ops[0].first + i].skipped = which >> i & 1;
}

/* The first byte of each row says how long it is, in units; half of all rows begin with a header that is read. */
static void divide(uint8_t *memory, size_t size, struct column_rows *rows, int64_t *position, int64_t *sizes)
{
    static const uint8_t forms[] = {1, 7, 9, 0};
    bool alike = size && memory[0] & 1;
    for (size_t at = 0; at < size && rows->count < ROWS;) {
        size_t length = (size_t)memory[at++] * UNIT;
        if (alike && rows->count) length = (size_t)sizes[0];
        if (length > size - at) length = size - at;
        position[rows->count] = (int64_t)at;
        sizes[rows->count++] = (int64_t)length;
        if (length >= 4 && memory[at + 2] & 1) memory[at + 1] = forms[memory[at + 1] & 3], memory[at] = 0;
        at += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct column_program program = {.ops = ops};
    if (size < 8) return 0;
    size_t split = data[0] < size - 1 ? data[0] : size - 1, rest = size - 1 - split;
    words = data + 1;
    words_left = split;
    if (!make_program(&program)) return 0;
    uint8_t *memory = malloc(rest ? rest : 1);
    CHECK(memory);
    memcpy(memory, data + 1 + split, rest);
    int64_t position[ROWS], sizes[ROWS];
    struct column_rows rows = {.base = memory, .end = rest, .position = position, .size = sizes};
    divide(memory, rest, &rows, position, sizes);
    bool damaged[ROWS] = {0}, skipping[ROWS] = {0};
    bool done = decode_all(&program, &rows, damaged);
    skip_some(size > 1 ? data[1] : 0);
    CHECK(!column_program_fault(&program));
    if (decode_all(&program, &rows, skipping) && done) CHECK(memcmp(damaged, skipping, sizeof damaged) == 0);
    free(memory);
    return 0;
}
