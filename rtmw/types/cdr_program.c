/* Checks a program once, so that running it need not. */
#include "cdr.h"

static bool lies_within(const struct cdr_program *program, uint64_t first, uint64_t count)
{
    return first + count <= program->count;
}

static bool is_number_size(uint8_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

static bool leads_into_the_table(const struct cdr_program *program, const struct cdr_op *op)
{
    switch (op->code) {
    case CDR_SEQUENCE:
    case CDR_ARRAY:
    case CDR_OPTIONAL:
        return lies_within(program, op->first, 1);
    case CDR_STRUCT:
        return lies_within(program, op->first, op->length);
    case CDR_UNION:
        return lies_within(program, op->first, (uint64_t)op->length + 1);
    default:
        return true;
    }
}

const char *cdr_program_fault(const struct cdr_program *program)
{
    if (program->align != 4 && program->align != 8) return "alignment is 4 or 8";
    if (program->count == 0 || program->ops[0].code != CDR_STRUCT) return "a message is a struct";
    for (uint32_t i = 0; i < program->count; i++) {
        const struct cdr_op *op = &program->ops[i];
        if (op->code >= CDR_CODES) return "an op that does not exist";
        if (cdr_is_number(op) && !is_number_size(op->size)) return "a number of a size that does not exist";
        if (op->code == CDR_FLOAT && op->size < 4) return "a float of a size that does not exist";
        if (!leads_into_the_table(program, op)) return "an op that leads out of the program";
        if (op->code == CDR_SEQUENCE && op->least == 0) return "a sequence of elements without content";
    }
    return NULL;
}
