/* From bytes to a value. The bytes come from anybody: what they say is checked before anything is done about it. */
#include "cdr.h"

static cdr_value *decode(struct cdr_reader *r, const struct cdr_op *op);

static cdr_value *decode_number(struct cdr_reader *r, const struct cdr_op *op)
{
    uint64_t bits;
    return cdr_take(&r->in, op->size, false, &bits) ? value_from_bits(op, bits) : NULL;
}

static cdr_value *decode_text(struct cdr_reader *r, const struct cdr_op *op)
{
    size_t bytes;
    const uint8_t *text = cdr_take_text(&r->in, false, &bytes);
    return text && cdr_is_short(&r->in, text, bytes, op->length) ? value_from_text(text, bytes) : NULL;
}

static cdr_value *decode_octets(struct cdr_reader *r, const struct cdr_op *op)
{
    static const struct cdr_op octet = {.code = CDR_UNSIGNED, .size = 1};
    size_t count = op->length;
    if (op->code != CDR_OCTET_ROW && !cdr_take_count(&r->in, false, op->length, &count)) return NULL;
    const uint8_t *octets = cdr_next(&r->in, 1, count);
    if (!octets) return NULL;
    return op->code == CDR_OCTET_LIST ? row_from_numbers(op, &octet, octets, count) : value_from_octets(octets, count);
}

static cdr_value *decode_items(struct cdr_reader *r, const struct cdr_op *element, size_t count)
{
    cdr_value *list = list_new();
    for (size_t i = 0; list && i < count; i++) {
        cdr_value *item = decode(r, element);
        if (item && list_append(list, item)) continue;
        value_drop(list);
        return NULL;
    }
    return list;
}

static cdr_value *decode_elements(struct cdr_reader *r, const struct cdr_op *op)
{
    const struct cdr_op *element = r->ops + op->first;
    size_t count = op->length;
    if (op->code == CDR_SEQUENCE && !cdr_take_count(&r->in, false, op->length, &count)) return NULL;
    if (count == 0 && cdr_is_number(element)) return row_from_numbers(op, element, NULL, 0);
    if (count == 0) return list_new(); /* and no padding */
    if (op->least && !cdr_may_hold(&r->in, count, op->least)) return NULL;
    if (!cdr_is_number(element)) return decode_items(r, element, count);
    const uint8_t *numbers = cdr_next(&r->in, element->size, count * element->size);
    return numbers ? row_from_numbers(op, element, numbers, count) : NULL;
}

static cdr_value *decode_optional(struct cdr_reader *r, const struct cdr_op *op)
{
    uint64_t present;
    if (!cdr_take(&r->in, 1, false, &present)) return NULL;
    return present ? decode(r, r->ops + op->first) : value_none();
}

static cdr_value *decode_struct(struct cdr_reader *r, const struct cdr_op *op)
{
    const struct cdr_op *members = r->ops + op->first;
    cdr_value *object = object_new(op);
    for (uint32_t i = 0; object && i < op->length; i++) {
        cdr_value *part = decode(r, members + i);
        if (part && object_set(op, members + i, i, object, part)) continue;
        value_drop(object);
        return NULL;
    }
    return object ? object_finish(op, object) : NULL;
}

static cdr_value *decode_union(struct cdr_reader *r, const struct cdr_op *op)
{
    cdr_value *label = decode(r, r->ops + op->first), *content = NULL;
    if (!label) return NULL;
    int64_t branch = union_branch(op, label);
    if (branch >= -1) content = branch < 0 ? value_none() : decode(r, r->ops + op->first + 1 + branch);
    if (content) return union_new(op, label, content);
    value_drop(label);
    return NULL;
}

static cdr_value *decode_content(struct cdr_reader *r, const struct cdr_op *op)
{
    switch (op->code) {
    case CDR_OPTIONAL:
        return decode_optional(r, op);
    case CDR_STRUCT:
        return decode_struct(r, op);
    case CDR_UNION:
        return decode_union(r, op);
    default:
        return decode_elements(r, op);
    }
}

/* What takes no bytes at all could be there any number of times: every such value is counted, when it is there. */
static inline cdr_value *counted(struct cdr_reader *r, size_t before, cdr_value *value)
{
    if (!value || r->in.position != before || ++r->hollow <= CDR_HOLLOW) return value;
    value_drop(value);
    return cdr_say(&r->in, "more than %d values without content", CDR_HOLLOW), NULL;
}

static cdr_value *decode_nested(struct cdr_reader *r, const struct cdr_op *op)
{
    size_t outer = 0, before = r->in.position;
    if (r->depth >= CDR_DEEPEST) return cdr_say(&r->in, "it is nested more than %d deep", CDR_DEEPEST), NULL;
    if (op->sized && !cdr_enter(&r->in, false, &outer)) return NULL;
    r->depth++;
    cdr_value *value = decode_content(r, op);
    r->depth--;
    bool is_exact = op->code == CDR_SEQUENCE || op->code == CDR_ARRAY;
    if (!value || !op->sized || cdr_leave(&r->in, outer, is_exact)) return counted(r, before, value);
    value_drop(value);
    return NULL;
}

static cdr_value *decode(struct cdr_reader *r, const struct cdr_op *op)
{
    size_t before;
    if (cdr_is_number(op)) return decode_number(r, op);
    switch (op->code) {
    case CDR_TEXT:
        return decode_text(r, op);
    case CDR_OCTETS:
    case CDR_OCTET_LIST:
        return decode_octets(r, op);
    case CDR_OCTET_ROW:
        before = r->in.position;
        return counted(r, before, decode_octets(r, op));
    default:
        return decode_nested(r, op);
    }
}

cdr_value *cdr_decode(const struct cdr_program *program, struct cdr_reader *r)
{
    r->in.position = r->depth = r->hollow = 0;
    r->in.align = program->align;
    r->in.reason = r->reason;
    r->ops = program->ops;
    r->reason[0] = 0;
    const uint8_t *header = cdr_next(&r->in, 1, CDR_HEADER);
    if (!header) return NULL;
    if (header[0] != (program->header & 0xFF) || header[1] != program->header >> 8)
        return cdr_say(&r->in, "another encoding"), NULL;
    cdr_value *value = decode(r, program->ops);
    if (!value || cdr_is_at_end(&r->in)) return value;
    value_drop(value);
    return NULL;
}
