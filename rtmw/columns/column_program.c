/* Checks a program once, so that running it need not. */
#include "column.h"

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
