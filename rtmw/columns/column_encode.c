/* From columns to bytes. Arrow's arrays are well formed; whether they fit the type is seen here, row by row. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "column.h"

struct writer {
    struct column_output *output;
    const struct column_op *ops;
    const struct column_source *sources;
    size_t start; /* of the payload */
    uint8_t align, version;
};

static bool encode(struct writer *w, uint32_t index, int64_t row);

__attribute__((format(printf, 3, 4))) static bool refuse(struct writer *w, uint32_t index, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->output->reason, sizeof w->output->reason, format, arguments);
    va_end(arguments);
    w->output->fault = COLUMN_DAMAGED;
    w->output->failed = index;
    return false;
}

/* Zeros so that a number of `size` bytes may follow, and room for `bytes` behind them; NULL: no memory. */
static uint8_t *room(struct writer *w, size_t size, size_t bytes)
{
    struct column_output *o = w->output;
    size_t pad = cdr_padding(o->size - w->start, size, w->align), needed = o->size + pad + bytes;
    if (needed > o->capacity) {
        size_t capacity = needed < 2 * o->capacity ? 2 * o->capacity : needed + 4096;
        uint8_t *larger = realloc(o->bytes, capacity);
        if (!larger) return o->fault = COLUMN_NO_MEMORY, NULL;
        o->bytes = larger;
        o->capacity = capacity;
    }
    memset(o->bytes + o->size, 0, pad);
    o->size = needed;
    return o->bytes + needed - bytes;
}

static bool put(struct writer *w, size_t size, uint64_t bits)
{
    uint8_t *at = room(w, size, size);
    if (at) memcpy(at, &bits, size);
    return at != NULL;
}

static bool put_bytes(struct writer *w, const void *bytes, size_t size)
{
    uint8_t *at = room(w, 1, size);
    if (at && size) memcpy(at, bytes, size);
    return at != NULL;
}

static bool is_null(const struct column_source *s, int64_t row)
{
    int64_t bit = s->offset + row;
    return s->validity && !(s->validity[bit >> 3] >> (bit & 7) & 1);
}

/* Where the elements or bytes of a row begin, and how many there are. */
static int64_t extent(const struct column_source *s, int64_t row, int64_t *count)
{
    const int32_t *offsets = (const int32_t *)(const void *)s->offsets + s->offset + row;
    *count = offsets[1] - offsets[0];
    return offsets[0];
}

static uint64_t number(const struct column_source *s, size_t width, int64_t row)
{
    uint64_t bits = 0;
    memcpy(&bits, s->values + (size_t)(s->offset + row) * width, width);
    return bits;
}

/* How wide a number lies in the array: enumerations and bitmasks come in 8 bytes, booleans in one. */
static size_t width_of(const struct column_op *op)
{
    if (op->code == COLUMN_NUMBER) return op->width;
    return op->code == COLUMN_BOOLEAN ? 1 : 8;
}

static bool number_of(struct writer *w, uint32_t index, int64_t row, uint64_t *bits)
{
    const struct column_op *op = &w->ops[index];
    const struct column_source *s = &w->sources[index];
    int64_t count;
    if (op->code != COLUMN_CHAR) return *bits = number(s, width_of(op), row), true;
    const uint8_t *text = s->values + extent(s, row, &count);
    if (count != 1 || *text >= 0x80) return refuse(w, index, "one ASCII character is needed");
    return *bits = *text, true;
}

static bool encode_number(struct writer *w, uint32_t index, int64_t row)
{
    uint64_t bits;
    size_t size = w->ops[index].size[w->version];
    if (!number_of(w, index, row, &bits)) return false;
    if (size < 8 && w->ops[index].code != COLUMN_NUMBER && bits >> (8 * size))
        return refuse(w, index, "%" PRIu64 " does not fit into %zu bytes", bits, size);
    return put(w, size, bits);
}

static bool check_count(struct writer *w, uint32_t index, uint64_t count)
{
    const struct column_op *op = &w->ops[index];
    bool exact = op->code == COLUMN_ARRAY || op->code == COLUMN_OCTET_ROW;
    if (exact ? count == op->length : !op->length || count <= op->length) return true;
    return refuse(w, index, "%" PRIu64 " elements, where %s %" PRIu32 " are needed", count,
                  exact ? "exactly" : "at most", op->length);
}

static size_t characters_of(const uint8_t *text, size_t bytes)
{
    size_t characters = 0;
    for (size_t i = 0; i < bytes; i++) characters += (text[i] & 0xC0) != 0x80;
    return characters;
}

static bool encode_text(struct writer *w, uint32_t index, int64_t row)
{
    int64_t size;
    uint32_t most = w->ops[index].length;
    const uint8_t *text = w->sources[index].values + extent(&w->sources[index], row, &size);
    if (most && characters_of(text, (size_t)size) > most)
        return refuse(w, index, "a string of more than %" PRIu32 " characters", most);
    return put(w, 4, (uint64_t)size + 1) && put_bytes(w, text, (size_t)size) && put(w, 1, 0);
}

static bool encode_octets(struct writer *w, uint32_t index, int64_t row)
{
    int64_t size;
    const uint8_t *octets = w->sources[index].values + extent(&w->sources[index], row, &size);
    if (!check_count(w, index, (uint64_t)size)) return false;
    if (w->ops[index].code == COLUMN_OCTETS && !put(w, 4, (uint64_t)size)) return false;
    return put_bytes(w, octets, (size_t)size);
}

static bool has_null(const struct column_source *s, int64_t first, int64_t count)
{
    for (int64_t i = 0; s->validity && i < count; i++)
        if (is_null(s, first + i)) return true;
    return false;
}

/* Numbers that lie in the array as they travel. */
static bool encode_numbers(struct writer *w, uint32_t index, int64_t first, int64_t count)
{
    const struct column_source *s = &w->sources[index];
    size_t size = w->ops[index].size[0];
    if (has_null(s, first, count)) return refuse(w, index, "it is null, and may not be");
    uint8_t *at = room(w, size, size * (size_t)count);
    if (at) memcpy(at, s->values + (size_t)(s->offset + first) * size, size * (size_t)count);
    return at != NULL;
}

static bool encode_elements(struct writer *w, uint32_t index, int64_t row)
{
    const struct column_op *op = &w->ops[index];
    int64_t count, first = extent(&w->sources[index], row, &count);
    if (!check_count(w, index, (uint64_t)count)) return false;
    if (op->code == COLUMN_SEQUENCE && !put(w, 4, (uint64_t)count)) return false;
    if (count && w->ops[op->first].code == COLUMN_NUMBER && !w->ops[op->first].optional)
        return encode_numbers(w, op->first, first, count);
    for (int64_t i = 0; i < count; i++)
        if (!encode(w, op->first, first + i)) return false;
    return true;
}

static bool encode_struct(struct writer *w, uint32_t index, int64_t row)
{
    const struct column_op *op = &w->ops[index];
    for (uint32_t i = 0; i < op->length; i++)
        if (!encode(w, op->first + i, row)) return false;
    return true;
}

static bool encode_union(struct writer *w, uint32_t index, int64_t row)
{
    const struct column_op *op = &w->ops[index];
    size_t size = w->ops[op->first].size[0];
    uint64_t bits;
    if (is_null(&w->sources[op->first], row)) return refuse(w, op->first, "it is null, and may not be");
    if (!number_of(w, op->first, row, &bits)) return false;
    int64_t at = column_find(op, size < 8 ? bits & ((1ull << (8 * size)) - 1) : bits);
    int64_t branch = at < 0 ? op->otherwise : (int64_t)op->labels[at].size;
    return encode_number(w, op->first, row) && (branch < 0 || encode(w, op->first + 1 + (uint32_t)branch, row));
}

static bool encode_content(struct writer *w, uint32_t index, int64_t row)
{
    switch (w->ops[index].code) {
    case COLUMN_TEXT:
        return encode_text(w, index, row);
    case COLUMN_OCTETS:
    case COLUMN_OCTET_ROW:
        return encode_octets(w, index, row);
    case COLUMN_SEQUENCE:
    case COLUMN_ARRAY:
        return encode_elements(w, index, row);
    case COLUMN_STRUCT:
        return encode_struct(w, index, row);
    case COLUMN_UNION:
        return encode_union(w, index, row);
    default:
        return encode_number(w, index, row);
    }
}

static bool encode_sized(struct writer *w, uint32_t index, int64_t row)
{
    if (!put(w, 4, 0)) return false;
    size_t begin = w->output->size;
    if (!encode_content(w, index, row)) return false;
    uint32_t size = (uint32_t)(w->output->size - begin);
    memcpy(w->output->bytes + begin - 4, &size, 4);
    return true;
}

static bool encode(struct writer *w, uint32_t index, int64_t row)
{
    const struct column_op *op = &w->ops[index];
    bool null = is_null(&w->sources[index], row);
    if (op->optional && !put(w, 1, !null)) return false;
    if (null) return op->optional || refuse(w, index, "it is null, and may not be");
    return op->sized && w->version ? encode_sized(w, index, row) : encode_content(w, index, row);
}

bool column_encode(const struct column_program *program, uint16_t header, const struct column_source *sources,
                   int64_t row, struct column_output *output)
{
    uint8_t version = header >> 8 > 1;
    struct writer w = {output, program->ops, sources, output->size, version ? 4 : 8, version};
    return put_bytes(&w, (uint8_t[]){header & 0xFF, header >> 8, 0, 0}, CDR_HEADER) && encode(&w, 0, row);
}
