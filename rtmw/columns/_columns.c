/* Columns as Python sees them (_columns.pyi). What payloads and columns are, column*.c know. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "column.h"

typedef struct {
    PyObject_HEAD
    struct column_program program;
    PyObject *labels; /* which lend their text */
} Program;

struct module_state {
    PyTypeObject *memory_type, *array_type;
};

/* Payloads of Python, until they are given back. */
struct lent {
    struct column_rows rows;
    Py_buffer data, position, size;
};

static inline bool wrong(PyObject *type, const char *reason) { return PyErr_SetString(type, reason), false; }

/* The exception for what failed and is no damage; NULL. */
static PyObject *fail(enum column_fault fault)
{
    if (fault == COLUMN_NO_MEMORY) return PyErr_NoMemory();
    return wrong(PyExc_OverflowError, "a column of more than 2 GiB"), NULL;
}

/* ---- Memory: what was built, lent to whoever asks for it; and rows that Python lends ---- */

typedef struct {
    PyObject_HEAD
    uint8_t *bytes;
    Py_ssize_t size;
} Memory;

static void Memory_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Memory *)self)->bytes);
    type->tp_free(self);
    Py_DECREF(type);
}

static int Memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    Memory *memory = (Memory *)self;
    return PyBuffer_FillInfo(view, self, memory->bytes, memory->size, true, flags);
}

static PyType_Slot Memory_slots[] = {{Py_tp_dealloc, Memory_dealloc}, {Py_bf_getbuffer, Memory_getbuffer}, {0, NULL}};
static PyType_Spec Memory_spec = {"rtmw.columns._columns.Memory", sizeof(Memory), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Memory_slots};

/* Takes the bytes over that a place names; None if there are none. */
static PyObject *memory_of(struct module_state *state, void *place, uint64_t size)
{
    uint8_t **bytes = place;
    if (!*bytes) return Py_NewRef(Py_None);
    Memory *memory = (Memory *)state->memory_type->tp_alloc(state->memory_type, 0);
    if (!memory) return NULL;
    memory->bytes = *bytes;
    memory->size = (Py_ssize_t)size;
    *bytes = NULL;
    return (PyObject *)memory;
}

static void give_back(struct lent *lent)
{
    PyBuffer_Release(&lent->data);
    PyBuffer_Release(&lent->position);
    PyBuffer_Release(&lent->size);
}

static bool lie_within(const struct column_rows *rows)
{
    for (uint64_t i = 0; i < rows->count; i++) {
        uint64_t at = (uint64_t)rows->position[i], size = (uint64_t)rows->size[i];
        if (at > rows->end || size > rows->end - at) return false;
    }
    return true;
}

static bool read_rows(struct lent *lent)
{
    const Py_buffer *position = &lent->position, *size = &lent->size;
    lent->rows = (struct column_rows){lent->data.buf, (size_t)lent->data.len, position->buf, size->buf,
                                      (uint64_t)position->len / sizeof(int64_t)};
    if (position->len == size->len && size->len % (Py_ssize_t)sizeof(int64_t) == 0 && lie_within(&lent->rows))
        return true;
    return wrong(PyExc_ValueError, "positions and sizes are 64-bit numbers, as many of each, of what lies in the data");
}

/* Of data, position and size. false: an exception is set, and nothing is to be given back. */
static bool borrow(PyObject *const *given, struct lent *lent)
{
    *lent = (struct lent){0};
    if (!PyObject_GetBuffer(given[0], &lent->data, PyBUF_SIMPLE) &&
        !PyObject_GetBuffer(given[1], &lent->position, PyBUF_SIMPLE) &&
        !PyObject_GetBuffer(given[2], &lent->size, PyBUF_SIMPLE) && read_rows(lent))
        return true;
    give_back(lent);
    return false;
}

/* ---- Array: columns that wait to be taken over, by their address ---- */

typedef struct {
    PyObject_HEAD
    struct ArrowArray array;
} Array;

/* The reader that took the columns over has set `release` to NULL. */
static void Array_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct ArrowArray *array = &((Array *)self)->array;
    if (array->release) array->release(array);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Array_address(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(&((Array *)self)->array);
}

static PyGetSetDef Array_getters[] = {{"address", Array_address, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot Array_slots[] = {{Py_tp_dealloc, Array_dealloc}, {Py_tp_getset, Array_getters}, {0, NULL}};
static PyType_Spec Array_spec = {"rtmw.columns._columns.Array", sizeof(Array), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Array_slots};

/* The columns that were built, which are handed over. */
static PyObject *array_of(struct module_state *state, struct column_build *build)
{
    Array *made = (Array *)state->array_type->tp_alloc(state->array_type, 0);
    if (!made || column_hand_over(build, &made->array)) return (PyObject *)made;
    Py_DECREF(made);
    return fail(build->fault);
}

/* ---- from payloads to columns ---- */

struct outcome {
    uint64_t damaged; /* rows */
    uint64_t first;   /* of them */
    uint32_t failed;  /* op */
    char reason[CDR_REASON];
};

static void note(struct outcome *outcome, const struct column_build *build, uint64_t row)
{
    if (outcome->damaged++) return;
    outcome->first = row;
    outcome->failed = build->failed;
    memcpy(outcome->reason, build->reason, sizeof outcome->reason);
}

/* All rows into columns. False: one is damaged, and that is not permitted, or no memory; build->fault says which. */
static bool decode_rows(struct column_build *build, const struct column_rows *rows, bool permissive,
                        struct outcome *outcome)
{
    if (column_decode_fixed(build, rows)) return true;
    for (uint64_t i = 0; i < rows->count; i++) {
        if (column_decode(build, rows->base + rows->position[i], (size_t)rows->size[i])) continue;
        if (build->fault != COLUMN_DAMAGED) return false;
        note(outcome, build, i);
        if (!permissive || !column_append_null(build, 0)) return false;
    }
    return true;
}

/* Py_BuildValue drops the others if one of them is NULL, and returns NULL; so in `encoded`. */
static PyObject *result_of(struct module_state *state, struct column_build *build, bool done,
                           const struct outcome *outcome)
{
    if (!done && build->fault != COLUMN_DAMAGED) return fail(build->fault);
    struct column *rows = build->columns;
    PyObject *validity = memory_of(state, &rows->validity, (rows->rows + 7) / 8);
    PyObject *columns = done ? array_of(state, build) : Py_NewRef(Py_None);
    return Py_BuildValue("NNKKIs", columns, validity, (unsigned long long)outcome->damaged,
                         (unsigned long long)outcome->first, outcome->failed, outcome->reason);
}

static PyObject *Program_decode(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    (void)names;
    if (count != 4) return wrong(PyExc_TypeError, "decode takes data, position, size, permissive"), NULL;
    struct lent lent;
    int permissive = PyObject_IsTrue(args[3]);
    if (permissive < 0 || !borrow(args, &lent)) return NULL;
    struct column_build build;
    struct outcome outcome = {0};
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = column_start(&build, &((Program *)object)->program, lent.rows.count) &&
           decode_rows(&build, &lent.rows, permissive, &outcome);
    Py_END_ALLOW_THREADS;
    PyObject *result = result_of(PyType_GetModuleState(type), &build, done, &outcome);
    column_drop(&build);
    give_back(&lent);
    return result;
}

static bool pack_rows(struct column_build *build, const struct column_rows *rows)
{
    for (uint64_t i = 0; i < rows->count; i++)
        if (!column_append_bytes(build, 0, rows->base + rows->position[i], (size_t)rows->size[i])) return false;
    return true;
}

static PyObject *packed(struct module_state *state, struct column *c)
{
    PyObject *offsets = memory_of(state, &c->offsets, (c->rows + 1) * sizeof *c->offsets);
    return Py_BuildValue("KNN", (unsigned long long)c->rows, offsets, memory_of(state, &c->values, c->size));
}

/* Payloads side by side, as a column of octets. */
static PyObject *pack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    static const struct column_op octets = {.code = COLUMN_OCTETS};
    static const struct column_program program = {.count = 1, .ops = &octets};
    if (count != 3) return wrong(PyExc_TypeError, "pack takes data, position, size"), NULL;
    struct lent lent;
    struct column_build build;
    if (!borrow(args, &lent)) return NULL;
    bool done;
    Py_BEGIN_ALLOW_THREADS;
    done = column_start(&build, &program, lent.rows.count) && pack_rows(&build, &lent.rows);
    Py_END_ALLOW_THREADS;
    PyObject *parts = done ? packed(PyModule_GetState(module), build.columns) : fail(build.fault);
    column_drop(&build);
    give_back(&lent);
    return parts;
}

/* ---- from payloads to ranges: of the columns decoded only the least and the largest number stay ---- */

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

static PyObject *packed_ranges(const struct range_so_far *so_far, Py_ssize_t count)
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
                                                 : packed_ranges(so_far, count);
    PyMem_Free(so_far);
    return result;
}

static PyObject *Program_ranges(PyObject *object, PyObject *const *args, Py_ssize_t count)
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

/* ---- from columns, which Arrow lends, to payloads ---- */

struct arrays {
    struct column_source *sources;
    Py_buffer *views; /* three a source: validity, offsets, values */
    uint32_t count;
};

static bool lend_buffer(PyObject *given, Py_buffer *view, const uint8_t **place)
{
    if (given == Py_None) return true;
    if (PyObject_GetBuffer(given, view, PyBUF_SIMPLE)) return false;
    *place = view->buf;
    return true;
}

static bool read_source(PyObject *tuple, struct column_source *source, Py_buffer *views)
{
    long long offset;
    PyObject *validity, *offsets, *values;
    if (!PyTuple_Check(tuple)) return wrong(PyExc_TypeError, "a source is a tuple");
    if (!PyArg_ParseTuple(tuple, "LOOO", &offset, &validity, &offsets, &values)) return false;
    source->offset = offset;
    return lend_buffer(validity, &views[0], &source->validity) && lend_buffer(offsets, &views[1], &source->offsets) &&
           lend_buffer(values, &views[2], &source->values);
}

static void drop_arrays(struct arrays *arrays)
{
    for (uint32_t i = 0; arrays->views && i < 3 * arrays->count; i++) PyBuffer_Release(&arrays->views[i]);
    PyMem_Free(arrays->views);
    PyMem_Free(arrays->sources);
}

static bool read_arrays(const struct column_program *program, PyObject *list, struct arrays *arrays)
{
    if (PyList_GET_SIZE(list) != (Py_ssize_t)program->count)
        return wrong(PyExc_ValueError, "as many sources as ops are needed");
    arrays->count = program->count;
    arrays->sources = PyMem_Calloc(program->count, sizeof *arrays->sources);
    arrays->views = PyMem_Calloc(program->count, 3 * sizeof *arrays->views);
    if (!arrays->sources || !arrays->views) return PyErr_NoMemory(), false;
    for (uint32_t i = 0; i < program->count; i++)
        if (!read_source(PyList_GET_ITEM(list, i), &arrays->sources[i], &arrays->views[3 * i])) return false;
    return true;
}

struct places {
    int64_t *position, *size;
    int64_t done; /* rows */
};

static bool encode_rows(const struct column_program *program, uint16_t header, const struct arrays *arrays,
                        struct column_output *output, struct places *places, int64_t rows)
{
    places->position = malloc(((size_t)rows + 1) * sizeof *places->position);
    places->size = malloc(((size_t)rows + 1) * sizeof *places->size);
    if (!places->position || !places->size) return output->fault = COLUMN_NO_MEMORY, false;
    for (int64_t *done = &places->done; *done < rows; ++*done) {
        places->position[*done] = (int64_t)output->size;
        if (!column_encode(program, header, arrays->sources, *done, output)) return false;
        places->size[*done] = (int64_t)output->size - places->position[*done];
    }
    return true;
}

static PyObject *encoded(struct module_state *state, struct column_output *output, struct places *places)
{
    if (output->fault == COLUMN_NO_MEMORY) return PyErr_NoMemory();
    if (output->fault) return Py_BuildValue("OLIs", Py_None, (long long)places->done, output->failed, output->reason);
    uint64_t bytes = (uint64_t)places->done * sizeof *places->size;
    PyObject *data = memory_of(state, &output->bytes, output->size);
    PyObject *position = memory_of(state, &places->position, bytes), *size = memory_of(state, &places->size, bytes);
    return Py_BuildValue("(NNN)LIs", data, position, size, (long long)places->done, 0, "");
}

static PyObject *Program_encode(PyObject *object, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    (void)names;
    const struct column_program *program = &((Program *)object)->program;
    if (count != 3 || !PyList_Check(args[2])) return wrong(PyExc_TypeError, "encode takes header, rows, sources"), NULL;
    long long header = PyLong_AsLongLong(args[0]), rows = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    if (rows < 0) return wrong(PyExc_ValueError, "rows are not negative"), NULL;
    struct arrays arrays = {0};
    struct column_output output = {0};
    struct places places = {0};
    PyObject *result = NULL;
    if (read_arrays(program, args[2], &arrays)) {
        Py_BEGIN_ALLOW_THREADS;
        encode_rows(program, (uint16_t)header, &arrays, &output, &places, rows);
        Py_END_ALLOW_THREADS;
        result = encoded(PyType_GetModuleState(type), &output, &places);
    }
    free(output.bytes);
    free(places.position);
    free(places.size);
    drop_arrays(&arrays);
    return result;
}

/* ---- Program: the ops of a type, read from tuples ---- */

static void Program_dealloc(PyObject *object)
{
    Program *self = (Program *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (uint32_t i = 0; i < self->program.count; i++) PyMem_Free((void *)self->program.ops[i].labels);
    PyMem_Free((void *)self->program.ops);
    Py_XDECREF(self->labels);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool read_label(PyObject *tuple, struct column_label *label)
{
    PyObject *given;
    unsigned long long value;
    if (!PyTuple_Check(tuple)) return wrong(PyExc_TypeError, "a label is a tuple");
    if (!PyArg_ParseTuple(tuple, "KO", &value, &given)) return false;
    label->value = value;
    if (!PyBytes_Check(given)) return (label->size = PyLong_AsSize_t(given)), !PyErr_Occurred();
    label->text = PyBytes_AS_STRING(given);
    label->size = (size_t)PyBytes_GET_SIZE(given);
    return true;
}

static bool read_labels(Program *self, PyObject *labels, struct column_op *op)
{
    Py_ssize_t count = PyTuple_GET_SIZE(labels);
    struct column_label *table = PyMem_Calloc((size_t)count + 1, sizeof *table);
    if (!table) return PyErr_NoMemory(), false;
    op->labels = table;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_label(PyTuple_GET_ITEM(labels, i), &table[i])) return false;
    op->label_count = (uint32_t)count;
    return PyList_Append(self->labels, labels) == 0;
}

static bool read_op(Program *self, PyObject *tuple, struct column_op *op)
{
    int sized, optional, narrow, skipped;
    long long otherwise;
    PyObject *labels;
    if (!PyTuple_Check(tuple)) return wrong(PyExc_TypeError, "an op is a tuple");
    if (!PyArg_ParseTuple(tuple, "b(bb)bppppII(II)LO!", &op->code, &op->size[0], &op->size[1], &op->width, &sized,
                          &optional, &narrow, &skipped, &op->first, &op->length, &op->least[0], &op->least[1],
                          &otherwise, &PyTuple_Type, &labels))
        return false;
    op->sized = sized;
    op->optional = optional;
    op->narrow = narrow;
    op->skipped = skipped;
    op->otherwise = otherwise;
    return read_labels(self, labels, op);
}

static bool has_text(const struct column_op *op)
{
    for (uint32_t i = 0; op->code == COLUMN_ENUM && i < op->label_count; i++)
        if (!op->labels[i].text) return false;
    return true;
}

static bool read_program(Program *self, PyObject *list)
{
    Py_ssize_t count = PyList_GET_SIZE(list);
    struct column_op *ops = PyMem_Calloc((size_t)count + 1, sizeof *ops);
    self->program.ops = ops;
    self->labels = PyList_New(0);
    if (!ops || !self->labels) return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        self->program.count++;
        if (!read_op(self, PyList_GET_ITEM(list, i), &ops[i])) return false;
        if (!has_text(&ops[i])) return wrong(PyExc_TypeError, "an enumerator without a name");
    }
    const char *fault = column_program_fault(&self->program);
    return !fault || wrong(PyExc_ValueError, fault);
}

static PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *ops;
    int appendable;
    static char *names[] = {"ops", "appendable", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!p", names, &PyList_Type, &ops, &appendable)) return NULL;
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->program.appendable = appendable;
    if (read_program(self, ops)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static PyMethodDef Program_methods[] = {
    {"decode", (PyCFunction)(void (*)(void))Program_decode, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "decode(data, position, size, permissive) -> (columns | None, validity | None, damaged, first, op, reason)"},
    {"encode", (PyCFunction)(void (*)(void))Program_encode, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "encode(header, rows, sources) -> ((data, position, size) | None, row, op, reason)"},
    {"ranges", (PyCFunction)(void (*)(void))Program_ranges, METH_FASTCALL,
     "ranges(data, position, size, wanted) -> ranges | None"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot Program_slots[] = {{Py_tp_new, Program_new},
                                      {Py_tp_dealloc, Program_dealloc},
                                      {Py_tp_methods, Program_methods},
                                      {0, NULL}};
static PyType_Spec Program_spec = {"rtmw.columns._columns.Program", sizeof(Program), 0, Py_TPFLAGS_DEFAULT,
                                   Program_slots};

/* ---- the module ---- */

static PyMethodDef columns_functions[] = {
    {"pack", (PyCFunction)(void (*)(void))pack, METH_FASTCALL,
     "pack(data, position, size) -> (rows, offsets, values)\n\nThe payloads side by side."},
    {NULL, NULL, 0, NULL},
};

static int add_codes(PyObject *module)
{
    static const struct {
        const char *name;
        int code;
    } codes[] = {{"NUMBER", COLUMN_NUMBER}, {"BOOLEAN", COLUMN_BOOLEAN},     {"CHAR", COLUMN_CHAR},
                 {"ENUM", COLUMN_ENUM},     {"BITMASK", COLUMN_BITMASK},     {"TEXT", COLUMN_TEXT},
                 {"OCTETS", COLUMN_OCTETS}, {"OCTET_ROW", COLUMN_OCTET_ROW}, {"SEQUENCE", COLUMN_SEQUENCE},
                 {"ARRAY", COLUMN_ARRAY},   {"STRUCT", COLUMN_STRUCT},       {"UNION", COLUMN_UNION},
                 {"BIT", COLUMN_BIT}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (PyModule_AddIntConstant(module, codes[i].name, codes[i].code)) return -1;
    return 0;
}

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, (PyTypeObject *)type)) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int columns_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    state->memory_type = add_type(module, &Memory_spec);
    state->array_type = state->memory_type ? add_type(module, &Array_spec) : NULL;
    PyTypeObject *program = state->array_type ? add_type(module, &Program_spec) : NULL;
    Py_XDECREF(program);
    return program ? add_codes(module) : -1;
}

static int columns_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);
    if (!state) return 0;
    Py_VISIT(state->memory_type);
    Py_VISIT(state->array_type);
    return 0;
}

static int columns_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    if (!state) return 0;
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->array_type);
    return 0;
}

static PyModuleDef_Slot columns_slots[] = {{Py_mod_exec, columns_exec}, {0, NULL}};
static struct PyModuleDef columns_module = {
    PyModuleDef_HEAD_INIT,          .m_name = "rtmw.columns._columns", .m_size = sizeof(struct module_state),
    .m_methods = columns_functions, .m_slots = columns_slots,          .m_traverse = columns_traverse,
    .m_clear = columns_clear};

PyMODINIT_FUNC PyInit__columns(void) { return PyModuleDef_Init(&columns_module); }
