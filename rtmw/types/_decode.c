/* To values: what cdr_decode.c found becomes numbers, texts, lists and objects. */
#include "_cdr.h"

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
