/* CDR by interpretation; see cdr.h. */
#include <stdio.h>
#include <string.h>

#include "cdr.h"

/* ---- a program, checked once, so that running it need not ---- */

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

/* ---- from a value to its bytes ---- */

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

/* ---- from bytes to a value ----
 *
 * The bytes come from anybody: what they say is checked before anything is done about it. */

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
