/* CDR by interpretation: a type is a program, a table of ops; values and bytes are walked along it.
 *
 *   [struct Reading | 1, 3]   [string station] [sequence values | 4] [enum colour]   [double]
 *     0: the message            1                2                     3               4: what values consists of
 *
 * What an op consists of lies together, from `first`; so a struct that contains itself is an op that leads back.
 * Where bytes lie is decided in cdr.c, what a value is in _cdr.c alone: `cdr_value` is opaque here. These two call each other
 * in a circle: _cdr.c has a message walked, and cdr.c has each value made or looked into, without knowing Python. The bytes are those of XCDR1 and XCDR2, little endian; positions count from the start of the payload, whose
 * first four bytes are the encapsulation header, and alignment from the end of these.
 */
#ifndef RTMW_CDR_H
#define RTMW_CDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cdr_input.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie in memory");

enum {
    CDR_DEEPEST = 256,  /* values within each other in one message: bounds the stack */
    CDR_HOLLOW = 65536, /* values without any bytes in one message: all others are bounded by the payload */
    CDR_LARGEST_ALIGN = 8,
};

/* Up to CDR_BITMASK: one number of `size` bytes. */
enum cdr_code {
    CDR_SIGNED,
    CDR_UNSIGNED,
    CDR_FLOAT,
    CDR_BOOLEAN,
    CDR_CHAR,
    CDR_ENUM,
    CDR_BITMASK,
    CDR_TEXT,       /* at most `length` characters, 0: any number */
    CDR_OCTETS,     /* sequence of octets as one piece of memory, at most `length`, 0: any number */
    CDR_OCTET_LIST, /* the same, read as a list of numbers */
    CDR_OCTET_ROW,  /* exactly `length` octets */
    CDR_SEQUENCE,   /* of `first`, at most `length`, 0: any number */
    CDR_ARRAY,      /* of `first`, exactly `length` */
    CDR_OPTIONAL,   /* `first`, or nothing */
    CDR_STRUCT,     /* `length` members from `first` */
    CDR_UNION,      /* `first` is the discriminator, `length` branches follow it */
    CDR_CODES
};

struct cdr_op {
    uint8_t code;       /* enum cdr_code */
    uint8_t size;       /* of a number: 1, 2, 4 or 8 */
    bool sized;         /* XCDR2 puts the size of the content in front */
    uint32_t first;     /* where that lies which it consists of */
    uint32_t length;    /* see enum cdr_code */
    uint32_t least;     /* fewest bytes of one element; never 0 for the elements of a sequence */
    void *name;         /* of a member; for the glue alone, as the next two */
    void *type, *extra; /* class, and what else it takes to make or read a value of it */
};

struct cdr_program {
    uint16_t header; /* first two bytes of the payload, as a number */
    uint8_t align;   /* 8 in XCDR1, 4 in XCDR2 */
    uint32_t count;  /* of ops; the message is the first */
    struct cdr_op *ops;
};

/* Why the program cannot be run; NULL: each op leads into the table only. Nothing else looks at that again. */
const char *cdr_program_fault(const struct cdr_program *program);

static inline bool cdr_is_number(const struct cdr_op *op) { return op->code <= CDR_BITMASK; }

/* A number of 1, 2, 4 or 8 bytes, as this machine has it. */
static inline void cdr_store(uint8_t *at, size_t size, uint64_t bits)
{
    switch (size) {
    case 1:
        *at = (uint8_t)bits;
        break;
    case 2:
        memcpy(at, &bits, 2);
        break;
    case 4:
        memcpy(at, &bits, 4);
        break;
    default:
        memcpy(at, &bits, 8);
    }
}

struct cdr_writer {
    uint8_t *base; /* NULL: nothing is written, only measured */
    size_t position, capacity;
    bool (*grow)(struct cdr_writer *, size_t needed); /* more capacity, with what is written kept */
    uint32_t depth;
    uint8_t align;
    const struct cdr_op *ops;
    uint8_t unwritten[8];    /* what is put while measuring */
    char reason[CDR_REASON]; /* why it failed; empty: a Python error is set */
};

struct cdr_reader {
    struct cdr_input in; /* base and end: given. The rest is made by cdr_decode */
    uint32_t depth, hollow;
    const struct cdr_op *ops;
    char reason[CDR_REASON];
};

typedef struct cdr_value cdr_value;

bool cdr_encode(const struct cdr_program *program, struct cdr_writer *w, cdr_value *value);
/* NULL: damaged, at or after `in.position`. Reads from base to end only, and each byte once. */
cdr_value *cdr_decode(const struct cdr_program *program, struct cdr_reader *r);

/* ---- what _cdr.c knows of values; NULL or false: it has set an error ---- */

struct cdr_row {
    cdr_value *held;
    const uint8_t *bytes; /* when the elements lie in memory as they travel */
    size_t count;
};

/* From values. `value_member` gives a reference that `value_drop` ends; all others lend. */
cdr_value *value_member(const struct cdr_op *member, uint32_t index, cdr_value *value);
void value_drop(cdr_value *value);
bool value_is_of(const struct cdr_op *op, cdr_value *value);
bool value_is_none(cdr_value *value);
bool value_to_bits(const struct cdr_op *op, cdr_value *value, uint64_t *bits);
const char *value_text(cdr_value *value, size_t *bytes, size_t *characters);
bool row_open(const struct cdr_op *element, cdr_value *value, struct cdr_row *row); /* element NULL: octets */
bool row_to_numbers(const struct cdr_op *element, const struct cdr_row *row, uint8_t *out);
cdr_value *row_item(const struct cdr_row *row, size_t index); /* a reference */
void row_close(struct cdr_row *row);
bool union_open(const struct cdr_op *op, cdr_value *value, cdr_value **label, cdr_value **content); /* references */

/* To values: each gives a reference, or takes one over. */
cdr_value *value_none(void);
cdr_value *value_from_bits(const struct cdr_op *op, uint64_t bits);
cdr_value *value_from_text(const uint8_t *text, size_t bytes);
cdr_value *value_from_octets(const uint8_t *octets, size_t count);
cdr_value *row_from_numbers(const struct cdr_op *row, const struct cdr_op *element, const uint8_t *numbers,
                            size_t count);
cdr_value *list_new(void);
bool list_append(cdr_value *list, cdr_value *item);
cdr_value *object_new(const struct cdr_op *op);
bool object_set(const struct cdr_op *op, const struct cdr_op *member, uint32_t index, cdr_value *object,
                cdr_value *value);
cdr_value *object_finish(const struct cdr_op *op, cdr_value *object);
cdr_value *union_new(const struct cdr_op *op, cdr_value *label, cdr_value *content);

/* Both ways: the branch of a label; -1: none. Below -1: an error is set. */
int64_t union_branch(const struct cdr_op *op, cdr_value *label);

#endif
