/* Bell: rings when a DDS reader has something, for who waits with select. */
#include "_engine.h"

typedef struct {
    PyObject_HEAD
    struct bell *core; /* until closed */
} Bell;

static PyObject *Bell_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"reader", NULL};
    int reader;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i", names, &reader)) return NULL;
    Bell *self = (Bell *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Py_BEGIN_ALLOW_THREADS
    self->core = bell_hang(reader);
    Py_END_ALLOW_THREADS
    if (self->core) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Format(state_of(type)->error, "entity %d is no DDS reader", reader);
}

static PyObject *Bell_fileno(PyObject *object, PyObject *unused)
{
    struct bell *core = ((Bell *)object)->core;
    (void)unused;
    return PyLong_FromLong(core ? core->descriptor : -1);
}

static PyObject *Bell_silence(PyObject *object, PyObject *unused)
{
    struct bell *core = ((Bell *)object)->core;
    uint64_t ages_ns[BELL_KEEPS];
    uint32_t count = core ? bell_silence(core, ages_ns) : 0;
    PyObject *list = PyList_New(count);
    (void)unused;
    for (uint32_t n = 0; list && n < count; n++) {
        PyObject *age = PyLong_FromUnsignedLongLong(ages_ns[n]);
        if (!age) Py_CLEAR(list);
        if (age) PyList_SET_ITEM(list, n, age);
    }
    return list;
}

static PyObject *Bell_close(PyObject *object, PyObject *unused)
{
    struct bell *core = ((Bell *)object)->core;
    (void)unused;
    ((Bell *)object)->core = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (core) bell_take_down(core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void Bell_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(Bell_close(object, NULL));
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef bell_methods[] = {{"fileno", Bell_fileno, METH_NOARGS, NULL},
                                     {"silence", Bell_silence, METH_NOARGS, NULL},
                                     {"close", Bell_close, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};

static PyType_Slot bell_slots[] = {{Py_tp_new, Bell_new},
                                   {Py_tp_dealloc, Bell_dealloc},
                                   {Py_tp_methods, bell_methods},
                                   {0, NULL}};
PyType_Spec Bell_spec = {"rtmw.net._engine.Bell", sizeof(Bell), 0, Py_TPFLAGS_DEFAULT, bell_slots};
