/* Any program and any payload through cdr_decode: it reads inside the payload only, drops what it made, and makes no
 * more values than the payload has bytes and CDR_HOLLOW allows. */
#include <stdio.h>
#include <stdlib.h>

#include "rtmw/types/cdr.h"

enum { OPS = 24, DEEP = CDR_DEEPEST + 1 };

#define CHECK(fact)                                                         \
    do {                                                                    \
        if (!(fact)) fprintf(stderr, "%s does not hold\n", #fact), abort(); \
    } while (0)

/* Values are counted, and are nothing else. */
static size_t living, made;
static volatile uint64_t seen;
static size_t labels;

static cdr_value *value(void)
{
    static char token;
    living++;
    made++;
    return (cdr_value *)&token;
}

static cdr_value *value_after(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) seen += bytes[i];
    return value();
}

void value_drop(cdr_value *v)
{
    (void)v;
    living--;
}

cdr_value *value_none(void) { return value(); }
cdr_value *value_from_bits(const struct cdr_op *op, uint64_t bits)
{
    return op->code == CDR_CHAR && bits > 127 ? NULL : value_after((const uint8_t *)&bits, sizeof bits);
}
cdr_value *value_from_text(const uint8_t *text, size_t bytes)
{
    return bytes && text[0] == 0xFF ? NULL : value_after(text, bytes);
}
cdr_value *value_from_octets(const uint8_t *octets, size_t count) { return value_after(octets, count); }
cdr_value *row_from_numbers(const struct cdr_op *row, const struct cdr_op *element, const uint8_t *numbers,
                            size_t count)
{
    (void)row;
    return value_after(numbers, count * element->size);
}
cdr_value *list_new(void) { return value(); }
bool list_append(cdr_value *list, cdr_value *item)
{
    (void)list;
    value_drop(item);
    return true;
}
cdr_value *object_new(const struct cdr_op *op)
{
    (void)op;
    return value();
}
bool object_set(const struct cdr_op *op, const struct cdr_op *member, uint32_t index, cdr_value *object, cdr_value *v)
{
    (void)op, (void)member, (void)index, (void)object;
    value_drop(v);
    return true;
}
cdr_value *object_finish(const struct cdr_op *op, cdr_value *object)
{
    (void)op;
    return object;
}
cdr_value *union_new(const struct cdr_op *op, cdr_value *label, cdr_value *content)
{
    (void)op;
    value_drop(label);
    value_drop(content);
    return value();
}
/* Any branch, or none. */
int64_t union_branch(const struct cdr_op *op, cdr_value *label)
{
    (void)label;
    return (int64_t)(labels++ % (op->length + 1)) - 1;
}

static const uint8_t *words;
static size_t words_left;

static uint8_t word(void) { return words_left ? words_left--, *words++ : 0; }

static uint32_t length_of(uint8_t code, uint32_t parts)
{
    uint32_t length = 1 + word() % 8;
    if (word() % 32 == 0) return 0;
    if (code == CDR_ARRAY || code == CDR_OCTET_ROW) return word() % 2 ? length << (word() % 28) : length;
    return code == CDR_STRUCT || code == CDR_UNION ? length % parts : length;
}

/* Most of these lead into the table, as those of the compiler do. */
static void make_op(struct cdr_op *op, uint32_t index, uint32_t count)
{
    uint8_t code = word() % CDR_CODES;
    *op = (struct cdr_op){.code = code, .size = (uint8_t)(1 << word() % 4), .sized = word() % 4 == 0};
    if (code == CDR_FLOAT) op->size = op->size < 4 ? 4 : op->size;
    bool onwards = index + 1 < count && word() % 16; /* else maybe within itself, and nested until that is refused */
    op->first = onwards ? index + 1 + word() % (count - index - 1) : word() % count;
    op->length = length_of(code, count - op->first);
    op->least = word() % 9;
    if (code == CDR_SEQUENCE) op->least++;
}

/* Many of what takes no bytes: struct, row or octets. */
static void make_hollow(struct cdr_op *row, uint32_t place)
{
    static const uint8_t codes[] = {CDR_STRUCT, CDR_ARRAY, CDR_OCTET_ROW};
    row[0] = (struct cdr_op){.code = CDR_ARRAY, .first = place + 1, .length = 1u << (17 + word() % 10)};
    row[1] = (struct cdr_op){.code = codes[word() % sizeof codes]};
}

/* As the compiler makes them: the message is a struct; a sequence has elements with content. */
static bool make_program(struct cdr_program *program)
{
    uint32_t count = 2 + word() % (OPS - 1);
    program->header = 0x0100;
    program->align = word() & 1 ? 8 : 4;
    program->count = count;
    for (uint32_t i = 0; i < count; i++) make_op(&program->ops[i], i, count);
    uint32_t place = 1 + word() % count;
    if (place + 1 < count && word() % 32 == 0) make_hollow(&program->ops[place], place);
    program->ops[0].code = CDR_STRUCT;
    program->ops[0].first = 1 + word() % (count - 1);
    program->ops[0].length = 1 + word() % (count - program->ops[0].first);
    return !cdr_program_fault(program);
}

/* A byte lies in at most so many values as may be within each other (a union makes two more); all others are hollow. */
static size_t most(size_t bytes) { return CDR_HOLLOW + (bytes + 1) * DEEP * 3; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t header[CDR_HEADER] = {0, 1, 0, 0};
    struct cdr_op ops[OPS];
    struct cdr_program program = {.ops = ops};
    if (size < 1) return 0;
    size_t split = data[0] < size - 1 ? data[0] : size - 1;
    words = data + 1;
    words_left = split;
    if (!make_program(&program)) return 0;
    size_t content = size - 1 - split;
    uint8_t *payload = malloc(CDR_HEADER + content); /* exactly: AddressSanitizer sees one byte too many */
    CHECK(payload);
    memcpy(payload, header, CDR_HEADER);
    memcpy(payload + CDR_HEADER, data + 1 + split, content);
    made = labels = 0;
    struct cdr_reader reader = {.in = {.base = payload, .end = CDR_HEADER + content}};
    cdr_value *found = cdr_decode(&program, &reader);
    CHECK(found || memchr(reader.reason, 0, CDR_REASON));
    if (found) value_drop(found);
    CHECK(living == 0);
    CHECK(made <= most(content));
    free(payload);
    return 0;
}
