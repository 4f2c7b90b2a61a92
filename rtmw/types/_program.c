/* Programs as Python hands them over: ops with the names, classes and functions that they need. */
#include "_cdr.h"

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

/* Whether `type` and `extra` are what _encode.c and _decode.c take them for. */
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

bool program_read(struct cdr_program *program, PyObject *list)
{
    Py_ssize_t count = PyList_GET_SIZE(list);
    program->ops = PyMem_Calloc((size_t)count + 1, sizeof *program->ops);
    if (!program->ops) return PyErr_NoMemory(), false;
    for (; program->count < count; program->count++)
        if (!read_op(PyList_GET_ITEM(list, program->count), &program->ops[program->count])) return false;
    const char *fault = cdr_program_fault(program);
    return !fault || wrong(PyExc_ValueError, fault);
}

int program_visit(const struct cdr_program *program, visitproc visit, void *arg)
{
    for (uint32_t i = 0; i < program->count; i++) {
        Py_VISIT(OBJECT(program->ops[i].type));
        Py_VISIT(OBJECT(program->ops[i].extra));
    }
    return 0;
}

void program_drop(struct cdr_program *program)
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
