/* Payloads of one type to Arrow columns, many at a time: a type is a table of ops, and each op builds one column.
 *
 *   [struct Plot | 1, 2]   [text title] [sequence points | 3]   [struct Point | 4, 2]   [float x] [boolean flag]
 *     0: the message         1             2                      3: what points          4         5
 *                                                                    consists of
 *   rows of 4 and 5: as many as of 3, whose number says the last offset of 2.
 *
 * What an op consists of lies together, from `first`, and behind it: no type contains itself here. How many rows a
 * column has follows from the one it belongs to, so a row that turns out damaged is taken back from above.
 * Bytes are those of XCDR1 and XCDR2 in either order, as the header of each payload says; positions count from its
 * start, and alignment from the end of the header's four bytes.
 */
#ifndef RTMW_COLUMN_H
#define RTMW_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../types/cdr_input.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Arrow's numbers are copied as they lie in memory");

enum {
    COLUMN_VERSIONS = 2,  /* XCDR1, XCDR2 */
    COLUMN_NULLS = 65536, /* rows that one payload may add without a byte of their own, and for each of its bytes: */
    COLUMN_NULLS_A_BYTE = 64,
};

/* Up to COLUMN_BITMASK: one number of `size` bytes. */
enum column_code {
    COLUMN_NUMBER, /* in a column of `width` bytes; only unsigned ones are widened */
    COLUMN_BOOLEAN,
    COLUMN_CHAR,
    COLUMN_ENUM,      /* its name; a number without one as digits */
    COLUMN_BITMASK,   /* `length` columns of bits from `first` */
    COLUMN_TEXT,      /* at most `length` characters, 0: any number */
    COLUMN_OCTETS,    /* at most `length`, 0: any number */
    COLUMN_OCTET_ROW, /* exactly `length` */
    COLUMN_SEQUENCE,  /* of `first`, at most `length`, 0: any number */
    COLUMN_ARRAY,     /* of `first`, exactly `length` */
    COLUMN_STRUCT,    /* `length` members from `first` */
    COLUMN_UNION,     /* `first` is the discriminator, `length` branches follow it */
    COLUMN_BIT,       /* bit `length` of a bitmask */
    COLUMN_CODES
};

/* An array in memory, as Arrow's C data interface has it:
 * https://arrow.apache.org/docs/format/CDataInterface.html */
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *); /* by any thread; NULL: released, or moved */
    void *private_data;
};

_Static_assert(sizeof(struct ArrowArray) == 5 * sizeof(int64_t) + 5 * sizeof(void *), "the layout is that of Arrow");

struct column_label {
    uint64_t value;
    const char *text; /* of an enumerator, with `size` bytes */
    size_t size;      /* in a union: the number of the branch */
};

struct column_op {
    uint8_t code; /* enum column_code */
    uint8_t size[COLUMN_VERSIONS];
    uint8_t width; /* bytes of a number in the column: `size` or more; 16: a decimal */
    bool sized;    /* XCDR2 puts the size of the content in front */
    bool optional;
    bool narrow;                     /* the column holds half of the unsigned range; what is beyond is refused */
    bool skipped;                    /* a member of the message without a column: decoding checks it all the same */
    uint32_t first, length;          /* see enum column_code */
    uint32_t least[COLUMN_VERSIONS]; /* fewest bytes of one element; never 0 */
    uint32_t label_count;            /* by value, ascending */
    int64_t otherwise;               /* the branch for other labels; -1: none */
    const struct column_label *labels;
};

struct column_program {
    uint32_t count; /* of ops; the message is the first */
    bool appendable;
    const struct column_op *ops;
};

/* The column of one op, while it is built. Make room before you append to it. */
struct column {
    uint64_t rows, room;
    uint64_t size, capacity; /* bytes of what the offsets lead into */
    uint8_t *validity;       /* a bit a row; NULL until the first null */
    int32_t *offsets;        /* rows + 1 */
    uint8_t *values;
};

static inline bool column_has_offsets(const struct column_op *op)
{
    return op->code == COLUMN_CHAR || op->code == COLUMN_ENUM || (op->code >= COLUMN_TEXT && op->code <= COLUMN_ARRAY);
}

static inline bool column_has_members(const struct column_op *op)
{
    return op->code == COLUMN_BITMASK || op->code == COLUMN_STRUCT || op->code == COLUMN_UNION;
}

/* Columns from `first` that have a row where this has one; only of an op that has members. */
static inline uint32_t column_members(const struct column_op *op) { return op->length + (op->code == COLUMN_UNION); }

enum column_fault { COLUMN_DAMAGED = 1, COLUMN_NO_MEMORY, COLUMN_TOO_LARGE };

struct column_build {
    const struct column_program *program;
    struct column *columns; /* one an op */
    enum column_fault fault;
    uint32_t failed;         /* op */
    uint64_t nulls;          /* appended so far, also to columns that have been taken back since */
    char reason[CDR_REASON]; /* of COLUMN_DAMAGED */
};

/* Payloads that lie in one piece of memory. */
struct column_rows {
    const uint8_t *base;
    size_t end;
    const int64_t *position, *size;
    uint64_t count;
};

/* Why the program cannot be run; NULL: each op leads into the table behind itself. Nothing else looks at that again. */
const char *column_program_fault(const struct column_program *program);
/* The place in `labels`, or -1. */
int64_t column_find(const struct column_op *op, uint64_t value);

bool column_start(struct column_build *build, const struct column_program *program, uint64_t rows);
void column_drop(struct column_build *build);
bool column_make_room(struct column_build *build, uint32_t index, uint64_t rows);
bool column_make_capacity(struct column_build *build, uint32_t index, uint64_t bytes);
bool column_append_bytes(struct column_build *build, uint32_t index, const void *bytes, size_t size);
bool column_append_null(struct column_build *build, uint32_t index);
/* How many columns get a null with it. */
uint64_t column_nulls(const struct column_program *program, uint32_t index);
void column_truncate(struct column_build *build, uint32_t index, uint64_t rows);
/* The row that has just been written is there. */
void column_count(struct column *column);
bool column_fail(struct column_build *build, uint32_t index, enum column_fault fault);

/* False: damaged, and nothing of it is left in the columns; or no memory. Reads within the payload only. Which payloads
 * are damaged does not depend on which members are skipped. */
bool column_decode(struct column_build *build, const uint8_t *payload, size_t size);
/* All rows at once, if the type is numbers at fixed places and the rows are whole; false: nothing has been done. */
bool column_decode_fixed(struct column_build *build, const struct column_rows *rows);

/* Moves what was built into an array of structs, a row a message, with the columns that are not skipped. False: no memory;
 * then the array is empty, and `column_drop` frees the rest. Whoever has the array calls its `release` once. */
bool column_hand_over(struct column_build *build, struct ArrowArray *array);

/* What the numbers of a column are. */
enum column_number {
    COLUMN_INT8,
    COLUMN_INT16,
    COLUMN_INT32,
    COLUMN_INT64,
    COLUMN_UINT8,
    COLUMN_UINT16,
    COLUMN_UINT32,
    COLUMN_UINT64,
    COLUMN_FLOAT,
    COLUMN_DOUBLE,
};

/* The least and the largest, as a number of 64 bits of the same kind. */
struct column_range {
    union {
        int64_t signed_number;
        uint64_t unsigned_number;
        double real;
    } least, most;
};

/* False: there is no number, or one that is none (NaN), which no range has. */
bool column_range(enum column_number number, const void *column, uint64_t count, struct column_range *range);

/* A column to read from: an Arrow array, whose first row is `offset`. Of a bitmask and of an enumeration: numbers of 8
 * bytes, of booleans: of one. */
struct column_source {
    const uint8_t *validity, *offsets, *values;
    int64_t offset;
};

/* Payloads, one behind the other. */
struct column_output {
    uint8_t *bytes;
    size_t size, capacity;
    enum column_fault fault;
    uint32_t failed;
    char reason[CDR_REASON];
};

/* The payload of a row. False: it does not fit the type, or no memory. The header is that of little endian, as a number. */
bool column_encode(const struct column_program *program, uint16_t header, const struct column_source *sources,
                   int64_t row, struct column_output *output);

/* `count` numbers from where they lie to the column's. */
void column_store(const struct column_op *op, unsigned size, const uint8_t *from, uint8_t *to, size_t count);

#endif
