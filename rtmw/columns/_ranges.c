/* From payloads to ranges: they are decoded to columns as ever, of which only the least and the largest number stays. */
#include "_columns.h"

#include <string.h>

struct wanted {
    uint32_t op, number; /* enum column_number */
};

enum { ENTRY = 1 + 8 + 8 };

static bool are_possible(const Program *self, const struct wanted *wanted, Py_ssize_t count)
{
    static const uint8_t widths[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    for (Py_ssize_t i = 0; i < count; i++) {
        if (wanted[i].op >= self->program.count || wanted[i].number > COLUMN_DOUBLE)
            return wrong(PyExc_ValueError, "there is no such column");
        const struct column_op *op = &self->program.ops[wanted[i].op];
        if (op->code != COLUMN_NUMBER || op->width != widths[wanted[i].number])
            return wrong(PyExc_ValueError, "the column has no such numbers");
    }
    return true;
}

/* Of one block after the other; whether all of them had one, and from where to where. */
struct range_so_far {
    bool is_there;
    struct column_range range;
};

#define WIDER(member)                                                                         \
    do {                                                                                      \
        if (found->least.member < all->least.member) all->least.member = found->least.member; \
        if (found->most.member > all->most.member) all->most.member = found->most.member;     \
    } while (0)

static void widen(struct column_range *all, const struct column_range *found, uint32_t number)
{
    if (number <= COLUMN_INT64)
        WIDER(signed_number);
    else if (number <= COLUMN_UINT64)
        WIDER(unsigned_number);
    else
        WIDER(real);
}

static void add_block(const struct column_build *build, const struct wanted *wanted, Py_ssize_t count, bool is_first,
                      struct range_so_far *so_far)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        const struct column *column = &build->columns[wanted[i].op];
        struct column_range range;
        bool found = !column->validity && column_range(wanted[i].number, column->values, column->rows, &range);
        so_far[i].is_there = found && (is_first || so_far[i].is_there);
        if (!found) continue;
        if (is_first)
            so_far[i].range = range;
        else
            widen(&so_far[i].range, &range, wanted[i].number);
    }
}

/* So few that their columns stay in the cache. */
enum { BLOCK = 1024 };

/* The fault of a block that could not be decoded; 0: there was none. */
static enum column_fault add_rows(const struct column_program *program, const struct column_rows *rows,
                                  const struct wanted *wanted, Py_ssize_t count, struct range_so_far *so_far)
{
    for (uint64_t first = 0; first < rows->count; first += BLOCK) {
        struct column_rows block = *rows;
        block.position += first;
        block.size += first;
        block.count = rows->count - first < BLOCK ? rows->count - first : BLOCK;
        struct column_build build;
        struct outcome outcome = {0};
        bool done = column_start(&build, program, block.count) && decode_rows(&build, &block, false, &outcome);
        if (done) add_block(&build, wanted, count, first == 0, so_far);
        enum column_fault fault = build.fault;
        column_drop(&build);
        if (!done) return fault;
    }
    return 0;
}

static PyObject *packed(const struct range_so_far *so_far, Py_ssize_t count)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, count * ENTRY);
    uint8_t *to = bytes ? (uint8_t *)PyBytes_AS_STRING(bytes) : NULL;
    for (Py_ssize_t i = 0; to && i < count; i++, to += ENTRY) {
        to[0] = so_far[i].is_there;
        memcpy(to + 1, &so_far[i].range.least, 8);
        memcpy(to + 9, &so_far[i].range.most, 8);
    }
    return bytes;
}

static PyObject *ranges_of(const Program *self, const struct lent *lent, const struct wanted *wanted, Py_ssize_t count)
{
    struct range_so_far *so_far = PyMem_Calloc((size_t)count + 1, sizeof *so_far);
    if (!so_far) return PyErr_NoMemory();
    enum column_fault fault;
    Py_BEGIN_ALLOW_THREADS;
    fault = add_rows(&self->program, &lent->rows, wanted, count, so_far);
    Py_END_ALLOW_THREADS;
    PyObject *result = fault == COLUMN_NO_MEMORY ? PyErr_NoMemory()
                       : fault                   ? Py_NewRef(Py_None)
                                                 : packed(so_far, count);
    PyMem_Free(so_far);
    return result;
}

PyObject *Program_ranges(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    if (count != 4) return wrong(PyExc_TypeError, "ranges takes data, position, size, wanted"), NULL;
    struct lent lent;
    Py_buffer wanted;
    PyObject *result = NULL;
    if (PyObject_GetBuffer(args[3], &wanted, PyBUF_SIMPLE)) return NULL;
    Py_ssize_t columns = wanted.len / (Py_ssize_t)sizeof(struct wanted);
    if (are_possible((Program *)object, wanted.buf, columns) && borrow(args, &lent)) {
        result = ranges_of((Program *)object, &lent, wanted.buf, columns);
        give_back(&lent);
    }
    PyBuffer_Release(&wanted);
    return result;
}
