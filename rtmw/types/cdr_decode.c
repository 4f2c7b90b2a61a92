/* From bytes to a value. The bytes come from anybody: what they say is checked before anything is done about it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cdr.h"

enum { PADDING = 3 }; /* zero bytes that networks append */

static cdr_value *decode(struct cdr_reader *r, const struct cdr_op *op);

__attribute__((format(printf, 2, 3))) static void *refuse(struct cdr_reader *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->reason, sizeof r->reason, format, arguments);
    va_end(arguments);
    return NULL;
}

static size_t left(const struct cdr_reader *r) { return r->end - r->position; }

/* The next `bytes`, aligned as numbers of `size` bytes. NULL: so many are not there. */
static inline const uint8_t *next(struct cdr_reader *r, size_t size, size_t bytes)
{
    size_t unit = size < r->align ? size : r->align;
    size_t pad = (CDR_HEADER - r->position) & (unit - 1);
    if (left(r) < pad || left(r) - pad < bytes)
        return refuse(r, "%zu bytes are needed there, and %zu are left", bytes + pad, left(r));
    const uint8_t *at = r->base + r->position + pad;
    r->position += pad + bytes;
    return at;
}

static inline bool take(struct cdr_reader *r, size_t size, uint64_t *bits)
{
    const uint8_t *at = next(r, size, size);
    if (!at) return false;
    *bits = 0;
    switch (size) {
    case 1:
        *bits = *at;
        break;
    case 2:
        memcpy(bits, at, 2);
        break;
    case 4:
        memcpy(bits, at, 4);
        break;
    default:
        memcpy(bits, at, 8);
    }
    return true;
}

static bool take_count(struct cdr_reader *r, const struct cdr_op *op, size_t *count)
{
    uint64_t bits;
    if (!take(r, 4, &bits)) return false;
    *count = (size_t)bits;
    if (op->length == 0 || bits <= op->length) return true;
    return refuse(r, "a sequence of %" PRIu64 " elements, where at most %" PRIu32 " may be", bits, op->length);
}

static cdr_value *decode_number(struct cdr_reader *r, const struct cdr_op *op)
{
    uint64_t bits;
    return take(r, op->size, &bits) ? value_from_bits(op, bits) : NULL;
}

/* In UTF-8: each byte but those that continue a character. */
static size_t characters_of(const uint8_t *text, size_t bytes)
{
    size_t characters = 0;
    for (size_t i = 0; i < bytes; i++) characters += (text[i] & 0xC0) != 0x80;
    return characters;
}

static cdr_value *decode_text(struct cdr_reader *r, const struct cdr_op *op)
{
    uint64_t bytes;
    if (!take(r, 4, &bytes)) return NULL;
    if (bytes == 0) return refuse(r, "a string has length 0, without its terminator");
    const uint8_t *text = next(r, 1, (size_t)bytes);
    if (!text) return NULL;
    if (text[bytes - 1] != 0) return refuse(r, "a string without its terminator");
    if (op->length && characters_of(text, bytes - 1) > op->length)
        return refuse(r, "a string of more than %" PRIu32 " characters", op->length);
    return value_from_text(text, (size_t)bytes - 1);
}

static cdr_value *decode_octets(struct cdr_reader *r, const struct cdr_op *op)
{
    static const struct cdr_op octet = {.code = CDR_UNSIGNED, .size = 1};
    size_t count = op->length;
    if (op->code != CDR_OCTET_ROW && !take_count(r, op, &count)) return NULL;
    const uint8_t *octets = next(r, 1, count);
    if (!octets) return NULL;
    return op->code == CDR_OCTET_LIST ? list_from_numbers(&octet, octets, count) : value_from_octets(octets, count);
}

/* A size, which from now on is the end of what may be read. */
static bool enter_sized(struct cdr_reader *r, size_t *outer)
{
    uint64_t size;
    if (!take(r, 4, &size)) return false;
    if (size > left(r))
        return refuse(r, "a size of %" PRIu64 " bytes that does not agree with the content: %zu are left", size,
                      left(r));
    *outer = r->end;
    r->end = r->position + (size_t)size;
    return true;
}

static cdr_value *leave_sized(struct cdr_reader *r, size_t outer, bool exact, cdr_value *value)
{
    if (value && exact && left(r)) {
        value_drop(value);
        return refuse(r, "a size that does not agree with the content: %zu bytes too many", left(r));
    }
    r->position = r->end; /* what a newer writer added is passed over */
    r->end = outer;
    return value;
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
    if (op->code == CDR_SEQUENCE && !take_count(r, op, &count)) return NULL;
    if (count == 0) return list_new(); /* and no padding */
    if (op->least && count > left(r) / op->least)
        return refuse(r, "a row of %zu elements, for which %zu bytes are left", count, left(r));
    if (!cdr_is_number(element)) return decode_items(r, element, count);
    const uint8_t *numbers = next(r, element->size, count * element->size);
    return numbers ? list_from_numbers(element, numbers, count) : NULL;
}

static cdr_value *decode_optional(struct cdr_reader *r, const struct cdr_op *op)
{
    uint64_t present;
    if (!take(r, 1, &present)) return NULL;
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
    if (!value || r->position != before || ++r->hollow <= CDR_HOLLOW) return value;
    value_drop(value);
    return refuse(r, "more than %d values without content", CDR_HOLLOW);
}

static cdr_value *decode_nested(struct cdr_reader *r, const struct cdr_op *op)
{
    size_t outer = 0, before = r->position;
    if (r->depth >= CDR_DEEPEST) return refuse(r, "it is nested more than %d deep", CDR_DEEPEST);
    if (op->sized && !enter_sized(r, &outer)) return NULL;
    r->depth++;
    cdr_value *value = decode_content(r, op);
    r->depth--;
    bool exact = op->code == CDR_SEQUENCE || op->code == CDR_ARRAY;
    return counted(r, before, value && op->sized ? leave_sized(r, outer, exact, value) : value);
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
        before = r->position;
        return counted(r, before, decode_octets(r, op));
    default:
        return decode_nested(r, op);
    }
}

/* Up to three zero bytes may follow the message. */
static bool ends_properly(struct cdr_reader *r)
{
    size_t rest = left(r);
    bool zero = rest <= PADDING;
    for (size_t i = 0; zero && i < rest; i++) zero = r->base[r->position + i] == 0;
    return zero || refuse(r, "%zu bytes too many", rest);
}

cdr_value *cdr_decode(const struct cdr_program *program, struct cdr_reader *r)
{
    r->position = r->depth = r->hollow = 0;
    r->align = program->align;
    r->ops = program->ops;
    r->reason[0] = 0;
    const uint8_t *header = next(r, 1, CDR_HEADER);
    if (!header) return NULL;
    if (header[0] != (program->header & 0xFF) || header[1] != program->header >> 8)
        return refuse(r, "another encoding");
    cdr_value *value = decode(r, program->ops);
    if (!value || ends_properly(r)) return value;
    value_drop(value);
    return NULL;
}
