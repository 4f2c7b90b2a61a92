/* From values: numbers, texts, rows, members and branches as cdr_encode.c asks for them. */
#include <math.h>

#include "_cdr.h"

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
