/* Program: the ops of a type, read from tuples. */
#include "_columns.h"

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
PyType_Spec Program_spec = {"rtmw.columns._columns.Program", sizeof(Program), 0, Py_TPFLAGS_DEFAULT, Program_slots};
