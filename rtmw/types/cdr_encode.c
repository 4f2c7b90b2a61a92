/* From a value to its bytes. */
#include <stdio.h>
#include <string.h>

#include "cdr.h"

static bool encode(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value);

static bool refuse(struct cdr_writer *w, const char *reason)
{
    snprintf(w->reason, sizeof w->reason, "%s", reason);
    return false;
}

/* Room for `bytes` that are aligned as numbers of `size` bytes; padding is zero. The next call may move it.
 * While measuring there is room for one number only. */
static inline uint8_t *claim(struct cdr_writer *w, size_t size, size_t bytes)
{
    size_t pad = cdr_padding(w->position, size, w->align);
    if (!w->base) return w->position += pad + bytes, w->unwritten;
    if (pad + bytes > w->capacity - w->position && !w->grow(w, w->position + pad + bytes)) return NULL;
    uint8_t *at = w->base + w->position;
    w->position += pad + bytes;
    for (; pad > 0; pad--) *at++ = 0;
    return at;
}

static inline bool put(struct cdr_writer *w, uint64_t bits, size_t size)
{
    uint8_t *at = claim(w, size, size);
    if (!at) return false;
    cdr_store(at, size, bits);
    return true;
}

static bool put_count(struct cdr_writer *w, size_t count)
{
    return count <= UINT32_MAX ? put(w, count, 4) : refuse(w, "it has more than 4294967295 elements");
}

static bool encode_number(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    uint64_t bits;
    return value_to_bits(op, value, &bits) && put(w, bits, op->size);
}

static bool encode_text(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    size_t bytes, characters;
    const char *text = value_text(value, &bytes, &characters);
    if (!text) return false;
    if (op->length && characters > op->length) return refuse(w, "a string is longer than its bound");
    if (!put_count(w, bytes + 1)) return false;
    uint8_t *at = claim(w, 1, bytes + 1);
    if (!at || !w->base) return at;
    memcpy(at, text, bytes);
    at[bytes] = 0;
    return true;
}

/* Where the size of what follows belongs; it is known when that is written. */
static bool begin_sized(struct cdr_writer *w, size_t *start)
{
    bool room = put(w, 0, 4);
    *start = w->position;
    return room;
}

static bool end_sized(struct cdr_writer *w, size_t start)
{
    size_t size = w->position - start;
    if (size > UINT32_MAX) return refuse(w, "a part of it has more than 4294967295 bytes");
    if (w->base) memcpy(w->base + start - 4, &(uint32_t){(uint32_t)size}, 4);
    return true;
}

static bool encode_items(struct cdr_writer *w, const struct cdr_op *element, const struct cdr_row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        cdr_value *item = row_item(row, i);
        bool done = item && encode(w, element, item);
        if (item) value_drop(item);
        if (!done) return false;
    }
    return true;
}

static bool encode_elements(struct cdr_writer *w, const struct cdr_op *element, const struct cdr_row *row)
{
    if (row->count == 0) return true; /* and no padding */
    if (!cdr_is_number(element)) return encode_items(w, element, row);
    if (row->count > PTRDIFF_MAX / element->size) return refuse(w, "a row is larger than memory");
    uint8_t *at = claim(w, element->size, row->count * element->size);
    if (!at || !w->base) return at;
    if (!row->bytes) return row_to_numbers(element, row, at);
    memcpy(at, row->bytes, row->count * element->size);
    return true;
}

static bool has_fitting_length(const struct cdr_op *op, size_t count)
{
    bool exact = op->code == CDR_ARRAY || op->code == CDR_OCTET_ROW;
    return exact ? count == op->length : op->length == 0 || count <= op->length;
}

static bool encode_open_row(struct cdr_writer *w, const struct cdr_op *op, const struct cdr_row *row)
{
    static const struct cdr_op octet = {.code = CDR_UNSIGNED, .size = 1};
    bool listed = op->code == CDR_SEQUENCE || op->code == CDR_ARRAY;
    bool counted = op->code != CDR_ARRAY && op->code != CDR_OCTET_ROW;
    size_t start = 0;
    if (!has_fitting_length(op, row->count)) return refuse(w, "a row has a length that does not fit");
    if (op->sized && !begin_sized(w, &start)) return false;
    if (counted && !put_count(w, row->count)) return false;
    if (!encode_elements(w, listed ? w->ops + op->first : &octet, row)) return false;
    return !op->sized || end_sized(w, start);
}

static bool encode_row(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    bool listed = op->code == CDR_SEQUENCE || op->code == CDR_ARRAY;
    struct cdr_row row;
    if (!row_open(listed ? w->ops + op->first : NULL, value, &row)) return false;
    bool done = encode_open_row(w, op, &row);
    row_close(&row);
    return done;
}

static bool encode_optional(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    bool present = !value_is_none(value);
    return put(w, present, 1) && (!present || encode(w, w->ops + op->first, value));
}

static bool encode_members(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    const struct cdr_op *members = w->ops + op->first;
    for (uint32_t i = 0; i < op->length; i++) {
        cdr_value *part = value_member(members + i, i, value);
        if (!part) return false;
        bool done = encode(w, members + i, part);
        value_drop(part);
        if (!done) return false;
    }
    return true;
}

static bool encode_branch(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    cdr_value *label, *content;
    if (!union_open(op, value, &label, &content)) return false;
    int64_t branch = -2;
    bool done = encode(w, w->ops + op->first, label) && (branch = union_branch(op, label)) >= -1;
    if (done && branch >= 0) done = encode(w, w->ops + op->first + 1 + branch, content);
    value_drop(label);
    value_drop(content);
    return done;
}

static bool encode_object(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    size_t start = 0;
    if (!value_is_of(op, value)) return false;
    if (op->sized && !begin_sized(w, &start)) return false;
    if (!(op->code == CDR_STRUCT ? encode_members : encode_branch)(w, op, value)) return false;
    return !op->sized || end_sized(w, start);
}

static bool encode_nested(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    bool done;
    if (w->depth >= CDR_DEEPEST) return refuse(w, "it is nested too deeply");
    w->depth++;
    if (op->code == CDR_STRUCT || op->code == CDR_UNION)
        done = encode_object(w, op, value);
    else
        done = (op->code == CDR_OPTIONAL ? encode_optional : encode_row)(w, op, value);
    w->depth--;
    return done;
}

static bool encode(struct cdr_writer *w, const struct cdr_op *op, cdr_value *value)
{
    if (cdr_is_number(op)) return encode_number(w, op, value);
    return op->code == CDR_TEXT ? encode_text(w, op, value) : encode_nested(w, op, value);
}

bool cdr_encode(const struct cdr_program *program, struct cdr_writer *w, cdr_value *value)
{
    w->position = w->depth = 0;
    w->align = program->align;
    w->ops = program->ops;
    w->reason[0] = 0;
    uint8_t *header = claim(w, 1, CDR_HEADER);
    if (!header) return false;
    memcpy(header, &(uint32_t){program->header}, CDR_HEADER);
    return encode(w, program->ops, value);
}
