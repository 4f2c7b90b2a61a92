/* What a Python value is: the part of the codec that knows Python (_cdr.pyi). Where bytes lie is decided in cdr.c.
 *
 * `type` and `extra` of an op (see codec.py, which makes them):
 *   boolean   extra: {False: 0, True: 1}, which refuses what is merely truthy
 *   enum      type: the class; extra: ("_value_", {number: enumerator}, function from any other value to its number)
 *   bitmask   extra: (function to a number, function from a number)
 *   sequence  extra: function from bytes to an array, else None: a list
 *   struct    type: the class; extra: names of its members, if it must be called with them, else None.
 *             type `tuple`: a value is a tuple of the members, and `extra` their names
 *   union     type: the class; extra: ({label: branch}, default branch, implicit label, names of its parts)
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>

#include "cdr.h"

#define OBJECT(value)    ((PyObject *)(value))
#define VALUE(object)    ((cdr_value *)(object))
#define EXTRA(op, index) PyTuple_GET_ITEM(OBJECT((op)->extra), index)

enum { ENUM_VALUE, ENUM_MEMBERS, ENUM_NUMBER, ENUM_EXTRAS };
enum { MASK_NUMBER, MASK_VALUE, MASK_EXTRAS };
enum { UNION_BRANCHES, UNION_DEFAULT, UNION_IMPLICIT, UNION_NAMES, UNION_EXTRAS };

static inline bool wrong(PyObject *type, const char *reason) { return PyErr_SetString(type, reason), false; }

/* ---- programs as Python hands them over: ops with the names, classes and functions that they need ---- */

static bool is_tuple_of(PyObject *extra, Py_ssize_t length)
{
    return PyTuple_Check(extra) && PyTuple_GET_SIZE(extra) == length;
}

/* Whether a struct can be made without its class being called, or with these names. */
static bool can_be_made(PyObject *type, PyObject *names, uint32_t count)
{
    if (!PyType_Check(type)) return false;
    if (names != Py_None) return is_tuple_of(names, count);
    return ((PyTypeObject *)type)->tp_new == PyBaseObject_Type.tp_new;
}

/* Whether `type` and `extra` are what encoding and decoding take them for. */
static bool has_fitting_objects(const struct cdr_op *op)
{
    PyObject *type = op->type, *extra = op->extra;
    switch (op->code) {
    case CDR_BOOLEAN:
        return PyDict_Check(extra);
    case CDR_ENUM:
        return PyType_Check(type) && is_tuple_of(extra, ENUM_EXTRAS) && PyUnicode_Check(EXTRA(op, ENUM_VALUE)) &&
               PyDict_Check(EXTRA(op, ENUM_MEMBERS));
    case CDR_BITMASK:
        return is_tuple_of(extra, MASK_EXTRAS);
    case CDR_STRUCT:
        return can_be_made(type, extra, op->length);
    case CDR_UNION:
        return PyType_Check(type) && is_tuple_of(extra, UNION_EXTRAS) && PyDict_Check(EXTRA(op, UNION_BRANCHES)) &&
               PyLong_Check(EXTRA(op, UNION_DEFAULT)) && is_tuple_of(EXTRA(op, UNION_NAMES), 2);
    default:
        return true;
    }
}

static bool read_op(PyObject *tuple, struct cdr_op *op)
{
    int sized;
    PyObject *name, *type, *extra;
    if (!PyTuple_Check(tuple)) return wrong(PyExc_TypeError, "an op is a tuple");
    if (!PyArg_ParseTuple(tuple, "bbpIIIUOO", &op->code, &op->size, &sized, &op->first, &op->length, &op->least, &name,
                          &type, &extra))
        return false;
    op->sized = sized;
    op->name = Py_NewRef(name);
    PyUnicode_InternInPlace((PyObject **)&op->name);
    op->type = Py_NewRef(type);
    op->extra = Py_NewRef(extra);
    return has_fitting_objects(op) || wrong(PyExc_TypeError, "an op without the objects it needs");
}

/* Reads a list of ops, each a tuple. false: an exception is set, and what was read is to be dropped. */
static bool program_read(struct cdr_program *program, PyObject *list)
{
    Py_ssize_t count = PyList_GET_SIZE(list);
    program->ops = PyMem_Calloc((size_t)count + 1, sizeof *program->ops);
    if (!program->ops) return PyErr_NoMemory(), false;
    for (; program->count < count; program->count++)
        if (!read_op(PyList_GET_ITEM(list, program->count), &program->ops[program->count])) return false;
    const char *fault = cdr_program_fault(program);
    return !fault || wrong(PyExc_ValueError, fault);
}

static int program_visit(const struct cdr_program *program, visitproc visit, void *arg)
{
    for (uint32_t i = 0; i < program->count; i++) {
        Py_VISIT(OBJECT(program->ops[i].type));
        Py_VISIT(OBJECT(program->ops[i].extra));
    }
    return 0;
}

static void program_drop(struct cdr_program *program)
{
    for (uint32_t i = 0; program->ops && i <= program->count; i++) { /* one beyond: half read */
        Py_XDECREF(OBJECT(program->ops[i].name));
        Py_XDECREF(OBJECT(program->ops[i].type));
        Py_XDECREF(OBJECT(program->ops[i].extra));
    }
    PyMem_Free(program->ops);
}

int64_t union_branch(const struct cdr_op *op, cdr_value *label)
{
    PyObject *number = PyDict_GetItemWithError(EXTRA(op, UNION_BRANCHES), OBJECT(label));
    if (!number && PyErr_Occurred()) return -2;
    long long branch = PyLong_AsLongLong(number ? number : EXTRA(op, UNION_DEFAULT));
    if (branch < (long long)op->length) return branch;
    return wrong(PyExc_SystemError, "a union has no such branch"), -2;
}

/* ---- from values: numbers, texts, rows, members and branches as cdr.c asks for them ---- */

static bool signed_bits(size_t size, PyObject *value, uint64_t *bits)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred()) return false;
    *bits = (uint64_t)number;
    long long limit = size == 8 ? LLONG_MAX : (1LL << (8 * size - 1)) - 1;
    if (!overflow && number <= limit && number >= -limit - 1) return true;
    return wrong(PyExc_OverflowError, "a number out of range");
}

static bool unsigned_bits(size_t size, PyObject *value, uint64_t *bits)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred()) return false;
    *bits = (uint64_t)number;
    if (!overflow && number >= 0 && (size == 8 || number >> (8 * size) == 0)) return true;
    if (overflow <= 0 || size < 8) return wrong(PyExc_OverflowError, "a number out of range");
    PyObject *whole = PyNumber_Index(value);
    *bits = whole ? PyLong_AsUnsignedLongLong(whole) : 0;
    Py_XDECREF(whole);
    return !PyErr_Occurred();
}

static bool float_bits(size_t size, PyObject *value, uint64_t *bits)
{
    double number = PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) return false;
    if (size == 8) return memcpy(bits, &number, 8), true;
    float single = (float)number;
    memcpy(bits, &single, 4);
    return !isinf(single) || isinf(number) || wrong(PyExc_OverflowError, "a number out of range");
}

static bool boolean_bits(const struct cdr_op *op, PyObject *value, uint64_t *bits)
{
    *bits = value == Py_True;
    if (PyBool_Check(value)) return true;
    PyObject *number = PyDict_GetItemWithError(op->extra, value);
    if (!number) return PyErr_Occurred() ? false : wrong(PyExc_TypeError, "not a boolean");
    return unsigned_bits(1, number, bits);
}

static bool char_bits(PyObject *value, uint64_t *bits)
{
    if (!PyUnicode_Check(value) || PyUnicode_GET_LENGTH(value) != 1) return wrong(PyExc_TypeError, "not a character");
    *bits = PyUnicode_READ_CHAR(value, 0);
    return *bits < 128 || wrong(PyExc_OverflowError, "a character out of range");
}

static bool enum_bits(const struct cdr_op *op, PyObject *value, uint64_t *bits)
{
    PyObject *number = Py_TYPE(value) == (PyTypeObject *)op->type ? PyObject_GetAttr(value, EXTRA(op, ENUM_VALUE))
                                                                  : PyObject_CallOneArg(EXTRA(op, ENUM_NUMBER), value);
    bool done = number && unsigned_bits(op->size, number, bits);
    Py_XDECREF(number);
    return done;
}

static bool mask_bits(const struct cdr_op *op, PyObject *value, uint64_t *bits)
{
    PyObject *number = PyObject_CallOneArg(EXTRA(op, MASK_NUMBER), value);
    bool done = number && unsigned_bits(op->size, number, bits);
    Py_XDECREF(number);
    return done;
}

bool value_to_bits(const struct cdr_op *op, cdr_value *value, uint64_t *bits)
{
    switch (op->code) {
    case CDR_SIGNED:
        return signed_bits(op->size, OBJECT(value), bits);
    case CDR_UNSIGNED:
        return unsigned_bits(op->size, OBJECT(value), bits);
    case CDR_FLOAT:
        return float_bits(op->size, OBJECT(value), bits);
    case CDR_BOOLEAN:
        return boolean_bits(op, OBJECT(value), bits);
    case CDR_CHAR:
        return char_bits(OBJECT(value), bits);
    case CDR_ENUM:
        return enum_bits(op, OBJECT(value), bits);
    default:
        return mask_bits(op, OBJECT(value), bits);
    }
}

cdr_value *value_member(const struct cdr_op *member, uint32_t index, cdr_value *value)
{
    PyObject *object = OBJECT(value);
    if (!PyTuple_CheckExact(object)) return VALUE(PyObject_GetAttr(object, member->name));
    if (index >= (size_t)PyTuple_GET_SIZE(object)) return wrong(PyExc_TypeError, "a tuple is too short"), NULL;
    return VALUE(Py_NewRef(PyTuple_GET_ITEM(object, index)));
}

void value_drop(cdr_value *value) { Py_DECREF(OBJECT(value)); }

bool value_is_none(cdr_value *value) { return OBJECT(value) == Py_None; }

bool value_is_of(const struct cdr_op *op, cdr_value *value)
{
    if (Py_TYPE(OBJECT(value)) == (PyTypeObject *)op->type) return true;
    int is = PyObject_IsInstance(OBJECT(value), op->type);
    return is > 0 || (is == 0 && wrong(PyExc_TypeError, "an object of another class"));
}

const char *value_text(cdr_value *value, size_t *bytes, size_t *characters)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(OBJECT(value), &length); /* TypeError for what is no string */
    if (!text) return NULL;
    *bytes = (size_t)length;
    *characters = (size_t)PyUnicode_GET_LENGTH(OBJECT(value));
    return text;
}

static bool has_format(const struct cdr_op *element, const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B", *known = element->code == CDR_SIGNED     ? "bhilq"
                                                                     : element->code == CDR_UNSIGNED ? "BHILQ"
                                                                     : element->code == CDR_FLOAT    ? "fd"
                                                                                                     : "";
    if (*format && strchr("@=<", *format)) format++;
    return *format && strchr(known, *format) && format[1] == 0 && view->itemsize == element->size;
}

/* numpy arrays and the like, whose memory is as it travels. False without an error: not such a one. */
static bool row_from_memory(const struct cdr_op *element, PyObject *value, struct cdr_row *row)
{
    PyObject *memory = PyMemoryView_FromObject(value);
    if (!memory) return PyErr_Clear(), false;
    const Py_buffer *view = PyMemoryView_GET_BUFFER(memory);
    if (view->ndim == 1 && has_format(element, view) && PyBuffer_IsContiguous(view, 'C')) {
        *row = (struct cdr_row){VALUE(memory), view->buf, (size_t)(view->len / view->itemsize)};
        return true;
    }
    Py_DECREF(memory);
    return false;
}

/* Whether it has elements in an order. Text is a row of characters only, and bytes that come here are no octets. */
static bool is_row(const struct cdr_op *element, PyObject *value)
{
    if (PyUnicode_Check(value)) return element && element->code == CDR_CHAR;
    return PySequence_Check(value) && !PyBytes_Check(value) && !PyByteArray_Check(value);
}

bool row_open(const struct cdr_op *element, cdr_value *value, struct cdr_row *row)
{
    static const struct cdr_op octet = {.code = CDR_UNSIGNED, .size = 1};
    PyObject *given = OBJECT(value);
    bool listed = PyList_CheckExact(given) || PyTuple_CheckExact(given);
    if (!listed && PyObject_CheckBuffer(given) && row_from_memory(element ? element : &octet, given, row)) return true;
    if (!listed && PyObject_Size(given) < 0) return false; /* no generators, whose elements would be gone */
    if (!listed && !is_row(element, given)) return wrong(PyExc_TypeError, "a list is needed");
    PyObject *items = PySequence_Fast(given, "a list is needed");
    if (items) *row = (struct cdr_row){VALUE(items), NULL, (size_t)PySequence_Fast_GET_SIZE(items)};
    return items != NULL;
}

void row_close(struct cdr_row *row) { Py_DECREF(OBJECT(row->held)); }

/* Python code that runs between two elements may change the list. */
cdr_value *row_item(const struct cdr_row *row, size_t index)
{
    PyObject *items = OBJECT(row->held);
    if (row->bytes) return VALUE(PySequence_GetItem(items, (Py_ssize_t)index));
    if (index < (size_t)PySequence_Fast_GET_SIZE(items))
        return VALUE(Py_NewRef(PySequence_Fast_GET_ITEM(items, (Py_ssize_t)index)));
    return wrong(PyExc_RuntimeError, "a list changed while it was read"), NULL;
}

bool row_to_numbers(const struct cdr_op *element, const struct cdr_row *row, uint8_t *out)
{
    for (size_t i = 0; i < row->count; i++, out += element->size) {
        uint64_t bits;
        cdr_value *item = row_item(row, i);
        if (!item) return false;
        bool done = value_to_bits(element, item, &bits);
        Py_DECREF(OBJECT(item));
        if (!done) return false;
        cdr_store(out, element->size, bits);
    }
    return true;
}

bool union_open(const struct cdr_op *op, cdr_value *value, cdr_value **label, cdr_value **content)
{
    PyObject *both = PyObject_CallMethod(OBJECT(value), "get", NULL), *first, *second;
    bool done = both && PyArg_ParseTuple(both, "OO", &first, &second);
    if (done) {
        *label = VALUE(Py_NewRef(first == Py_None ? EXTRA(op, UNION_IMPLICIT) : first));
        *content = VALUE(Py_NewRef(second));
    }
    Py_XDECREF(both);
    return done;
}

/* ---- to values: what cdr.c found becomes numbers, texts, lists and objects ---- */

cdr_value *value_none(void) { return VALUE(Py_NewRef(Py_None)); }

static int64_t extended(size_t size, uint64_t bits)
{
    unsigned shift = 64 - 8 * (unsigned)size;
    return (int64_t)(bits << shift) >> shift;
}

static PyObject *float_from(size_t size, uint64_t bits)
{
    double number;
    float single;
    memcpy(&number, &bits, 8);
    memcpy(&single, &bits, 4);
    return PyFloat_FromDouble(size == 8 ? number : single);
}

static PyObject *char_from(uint64_t bits)
{
    if (bits < 128) return PyUnicode_FromOrdinal((int)bits);
    return wrong(PyExc_ValueError, "a character that is not ASCII"), NULL;
}

/* Numbers without a name stay numbers. */
static PyObject *enum_from(const struct cdr_op *op, uint64_t bits)
{
    PyObject *number = PyLong_FromUnsignedLongLong(bits);
    PyObject *member = number ? PyDict_GetItemWithError(EXTRA(op, ENUM_MEMBERS), number) : NULL;
    if (!member) return number;
    Py_DECREF(number);
    return Py_NewRef(member);
}

static PyObject *mask_from(const struct cdr_op *op, uint64_t bits)
{
    PyObject *number = PyLong_FromUnsignedLongLong(bits);
    PyObject *value = number ? PyObject_CallOneArg(EXTRA(op, MASK_VALUE), number) : NULL;
    Py_XDECREF(number);
    return value;
}

cdr_value *value_from_bits(const struct cdr_op *op, uint64_t bits)
{
    switch (op->code) {
    case CDR_SIGNED:
        return VALUE(PyLong_FromLongLong(extended(op->size, bits)));
    case CDR_UNSIGNED:
        return VALUE(PyLong_FromUnsignedLongLong(bits));
    case CDR_FLOAT:
        return VALUE(float_from(op->size, bits));
    case CDR_BOOLEAN:
        return VALUE(PyBool_FromLong(bits != 0));
    case CDR_CHAR:
        return VALUE(char_from(bits));
    case CDR_ENUM:
        return VALUE(enum_from(op, bits));
    default:
        return VALUE(mask_from(op, bits));
    }
}

cdr_value *value_from_text(const uint8_t *text, size_t bytes)
{
    return VALUE(PyUnicode_DecodeUTF8((const char *)text, (Py_ssize_t)bytes, "strict"));
}

cdr_value *value_from_octets(const uint8_t *octets, size_t count)
{
    return VALUE(PyBytes_FromStringAndSize((const char *)octets, (Py_ssize_t)count));
}

cdr_value *list_new(void) { return VALUE(PyList_New(0)); }

bool list_append(cdr_value *list, cdr_value *item)
{
    int result = PyList_Append(OBJECT(list), OBJECT(item));
    Py_DECREF(OBJECT(item));
    return result == 0;
}

/* `size`: of the element, known where this is inlined. */
__attribute__((always_inline)) static inline bool fill(PyObject *list, const struct cdr_op *element,
                                                       const uint8_t *numbers, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++, numbers += size) {
        cdr_value *item = value_from_bits(element, cdr_load(numbers, size, false));
        if (!item) return false;
        PyList_SET_ITEM(list, (Py_ssize_t)i, OBJECT(item));
    }
    return true;
}

static bool fill_doubles(PyObject *list, const uint8_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++, numbers += sizeof(double)) {
        double number;
        memcpy(&number, numbers, sizeof number);
        PyObject *item = PyFloat_FromDouble(number);
        if (!item) return false;
        PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return true;
}

static bool fill_sized(PyObject *list, const struct cdr_op *element, const uint8_t *numbers, size_t count)
{
    if (element->code == CDR_FLOAT && element->size == 8) return fill_doubles(list, numbers, count);
    switch (element->size) {
    case 1:
        return fill(list, element, numbers, count, 1);
    case 2:
        return fill(list, element, numbers, count, 2);
    case 4:
        return fill(list, element, numbers, count, 4);
    default:
        return fill(list, element, numbers, count, 8);
    }
}

/* Making a value runs Python, which must not meet a list with gaps. */
static bool append_each(PyObject *list, const struct cdr_op *element, const uint8_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++, numbers += element->size) {
        cdr_value *item = value_from_bits(element, cdr_load(numbers, element->size, false));
        if (!item || !list_append(VALUE(list), item)) return false;
    }
    return true;
}

static cdr_value *array_from_numbers(const struct cdr_op *row, const uint8_t *numbers, size_t bytes)
{
    PyObject *memory = PyBytes_FromStringAndSize((const char *)numbers, (Py_ssize_t)bytes);
    PyObject *array = memory ? PyObject_CallOneArg(OBJECT(row->extra), memory) : NULL;
    Py_XDECREF(memory);
    return VALUE(array);
}

cdr_value *row_from_numbers(const struct cdr_op *row, const struct cdr_op *element, const uint8_t *numbers,
                            size_t count)
{
    if (OBJECT(row->extra) != Py_None) return array_from_numbers(row, numbers, count * element->size);
    bool runs_python = element->code == CDR_BITMASK;
    PyObject *list = PyList_New(runs_python ? 0 : (Py_ssize_t)count);
    bool is_full = list && (runs_python ? append_each : fill_sized)(list, element, numbers, count);
    if (list && !is_full) Py_CLEAR(list);
    return VALUE(list);
}

static bool is_called(const struct cdr_op *op) { return OBJECT(op->extra) != Py_None; }

/* The object itself, made as object.__new__ makes it, or the arguments of its class. */
cdr_value *object_new(const struct cdr_op *op)
{
    if (is_called(op)) return VALUE(PyTuple_New((Py_ssize_t)op->length));
    PyObject *nothing = PyTuple_New(0);
    PyObject *object = nothing ? PyBaseObject_Type.tp_new(op->type, nothing, NULL) : NULL;
    Py_XDECREF(nothing);
    return VALUE(object);
}

bool object_set(const struct cdr_op *op, const struct cdr_op *member, uint32_t index, cdr_value *object,
                cdr_value *value)
{
    if (is_called(op)) return PyTuple_SET_ITEM(OBJECT(object), (Py_ssize_t)index, OBJECT(value)), true;
    int result = PyObject_GenericSetAttr(OBJECT(object), member->name, OBJECT(value));
    Py_DECREF(OBJECT(value));
    return result == 0;
}

cdr_value *object_finish(const struct cdr_op *op, cdr_value *object)
{
    if (!is_called(op) || op->type == &PyTuple_Type) return object;
    PyObject *made = PyObject_Vectorcall(op->type, &PyTuple_GET_ITEM(OBJECT(object), 0), 0, op->extra);
    Py_DECREF(OBJECT(object));
    return VALUE(made);
}

cdr_value *union_new(const struct cdr_op *op, cdr_value *label, cdr_value *content)
{
    PyObject *parts[] = {OBJECT(label), OBJECT(content)};
    PyObject *made = PyObject_Vectorcall(op->type, parts, 0, EXTRA(op, UNION_NAMES));
    Py_DECREF(parts[0]);
    Py_DECREF(parts[1]);
    return VALUE(made);
}

/* ---- Codec: a program that values and payloads are walked along ---- */

typedef struct {
    PyObject_HEAD
    struct cdr_program program;
    PyObject *explain; /* (value, error) -> the error to raise when a value could not be encoded */
    PyObject *rescue;  /* (data, position, error) -> the value, or raises, when a payload could not be decoded */
} Codec;

static PyObject *Codec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *ops, *explain, *rescue;
    unsigned short header;
    unsigned char align;
    static char *names[] = {"ops", "header", "align", "explain", "rescue", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!HbOO", names, &PyList_Type, &ops, &header, &align, &explain,
                                     &rescue))
        return NULL;
    Codec *self = (Codec *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->program.header = header;
    self->program.align = align;
    self->explain = Py_NewRef(explain);
    self->rescue = Py_NewRef(rescue);
    if (program_read(&self->program, ops)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static int Codec_traverse(PyObject *object, visitproc visit, void *arg)
{
    Codec *self = (Codec *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->explain);
    Py_VISIT(self->rescue);
    return program_visit(&self->program, visit, arg);
}

/* A cycle leads through explain and rescue always; the ops stay whole as long as somebody may encode. */
static int Codec_clear(PyObject *object)
{
    Py_CLEAR(((Codec *)object)->explain);
    Py_CLEAR(((Codec *)object)->rescue);
    return 0;
}

static void Codec_dealloc(PyObject *object)
{
    Codec *self = (Codec *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Codec_clear(object);
    program_drop(&self->program);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The present error as an object, with `reason` if there is none. NULL: one that must not be hidden by another. */
static PyObject *caught(const char *reason)
{
    PyObject *type, *error, *trace;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, reason);
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) return NULL;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

enum {
    SMALL = 1024,
    BULK = 32768, /* a row so large is worth a second walk, so that it is copied once */
};

struct output {
    struct cdr_writer writer;
    PyObject *bytes; /* once the payload has outgrown `small` */
    bool in_place;   /* a row of BULK shall not be written here */
    bool is_bulk;
    uint8_t small[SMALL];
};

static bool output_grow(struct cdr_writer *writer, size_t needed)
{
    struct output *o = (struct output *)writer;
    o->is_bulk = o->in_place && needed - writer->position >= BULK;
    if (o->is_bulk) return false;
    if (needed > (size_t)PY_SSIZE_T_MAX / 2) return PyErr_NoMemory(), false;
    Py_ssize_t capacity = (Py_ssize_t)(needed + needed / 2);
    if (o->bytes) {
        if (_PyBytes_Resize(&o->bytes, capacity)) return false;
    } else {
        o->bytes = PyBytes_FromStringAndSize(NULL, capacity);
        if (!o->bytes) return false;
        memcpy(PyBytes_AS_STRING(o->bytes), o->small, writer->position);
    }
    writer->base = (uint8_t *)PyBytes_AS_STRING(o->bytes);
    writer->capacity = (size_t)capacity;
    return true;
}

static PyObject *output_finish(struct output *o)
{
    Py_ssize_t size = (Py_ssize_t)o->writer.position;
    if (!o->bytes) return PyBytes_FromStringAndSize((const char *)o->small, size);
    _PyBytes_Resize(&o->bytes, size);
    return o->bytes;
}

/* Raises what `explain` makes of the present error, or of the reason why the writer stopped. */
static PyObject *raise_explained(Codec *self, PyObject *value, const struct cdr_writer *w)
{
    PyObject *error = caught(w->reason);
    PyObject *explained = error ? PyObject_CallFunctionObjArgs(self->explain, value, error, NULL) : NULL;
    if (explained) PyErr_SetObject((PyObject *)Py_TYPE(explained), explained);
    Py_XDECREF(error);
    Py_XDECREF(explained);
    return NULL;
}

static PyObject *measured(Codec *self, PyObject *value)
{
    struct cdr_writer w = {.base = NULL};
    if (cdr_encode(&self->program, &w, VALUE(value))) return PyLong_FromSize_t(w.position);
    return raise_explained(self, value, &w);
}

static PyObject *encoded(Codec *self, PyObject *value, bool in_place)
{
    struct output o;
    o.writer = (struct cdr_writer){.base = o.small, .capacity = SMALL, .grow = output_grow};
    o.bytes = NULL;
    o.in_place = in_place;
    o.is_bulk = false;
    if (cdr_encode(&self->program, &o.writer, VALUE(value))) return output_finish(&o);
    Py_XDECREF(o.bytes);
    return o.is_bulk ? measured(self, value) : raise_explained(self, value, &o.writer);
}

static PyObject *Codec_encode(PyObject *self, PyObject *value) { return encoded((Codec *)self, value, false); }

static PyObject *Codec_begin(PyObject *self, PyObject *value) { return encoded((Codec *)self, value, true); }

static bool has_changed(struct cdr_writer *w, size_t needed)
{
    (void)needed;
    snprintf(w->reason, sizeof w->reason, "it changed while it was encoded");
    return false;
}

static PyObject *Codec_write(PyObject *object, PyObject *args)
{
    Codec *self = (Codec *)object;
    PyObject *value;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "Ow*", &value, &view)) return NULL;
    struct cdr_writer w = {.base = view.buf, .capacity = (size_t)view.len, .grow = has_changed};
    bool done = cdr_encode(&self->program, &w, VALUE(value));
    if (done && w.position != w.capacity) done = has_changed(&w, w.position);
    PyBuffer_Release(&view);
    return done ? Py_NewRef(Py_None) : raise_explained(self, value, &w);
}

static PyObject *Codec_decode(PyObject *object, PyObject *data)
{
    Codec *self = (Codec *)object;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    struct cdr_reader r = {.in = {.base = view.buf, .end = (size_t)view.len}};
    PyObject *value = OBJECT(cdr_decode(&self->program, &r));
    if (!value) {
        PyObject *error = caught(r.reason), *memory = error ? PyMemoryView_FromObject(data) : NULL;
        if (memory) value = PyObject_CallFunction(self->rescue, "OnO", memory, (Py_ssize_t)r.in.position, error);
        Py_XDECREF(memory);
        Py_XDECREF(error);
    }
    PyBuffer_Release(&view);
    return value;
}

static PyMethodDef Codec_methods[] = {
    {"encode", Codec_encode, METH_O, "encode(value) -> bytes\n\nThe payload; raises what `explain` gives."},
    {"begin", Codec_begin, METH_O,
     "begin(value) -> bytes | int\n\nThe payload; or, if it is large, its size, for the memory that `write` fills."},
    {"write", Codec_write, METH_VARARGS,
     "write(value, memory)\n\nThe payload into memory of exactly the size that begin() gave."},
    {"decode", Codec_decode, METH_O, "decode(data)\n\nThe value; or what `rescue` gives."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot Codec_slots[] = {{Py_tp_new, Codec_new},           {Py_tp_dealloc, Codec_dealloc},
                                    {Py_tp_traverse, Codec_traverse}, {Py_tp_clear, Codec_clear},
                                    {Py_tp_methods, Codec_methods},   {0, NULL}};
static PyType_Spec Codec_spec = {"rtmw.types._cdr.Codec", sizeof(Codec), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                 Codec_slots};

static int cdr_exec(PyObject *module)
{
    static const struct {
        const char *name;
        int code;
    } codes[] = {{"SIGNED", CDR_SIGNED},       {"UNSIGNED", CDR_UNSIGNED},
                 {"FLOAT", CDR_FLOAT},         {"BOOLEAN", CDR_BOOLEAN},
                 {"CHAR", CDR_CHAR},           {"ENUM", CDR_ENUM},
                 {"BITMASK", CDR_BITMASK},     {"TEXT", CDR_TEXT},
                 {"OCTETS", CDR_OCTETS},       {"OCTET_LIST", CDR_OCTET_LIST},
                 {"OCTET_ROW", CDR_OCTET_ROW}, {"SEQUENCE", CDR_SEQUENCE},
                 {"ARRAY", CDR_ARRAY},         {"OPTIONAL", CDR_OPTIONAL},
                 {"STRUCT", CDR_STRUCT},       {"UNION", CDR_UNION}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (PyModule_AddIntConstant(module, codes[i].name, codes[i].code)) return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &Codec_spec, NULL);
    int result = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot cdr_slots[] = {{Py_mod_exec, cdr_exec}, {0, NULL}};
static struct PyModuleDef cdr_module = {PyModuleDef_HEAD_INIT, .m_name = "rtmw.types._cdr", .m_slots = cdr_slots};

PyMODINIT_FUNC PyInit__cdr(void) { return PyModuleDef_Init(&cdr_module); }
