/* DataEvent: a descriptor that becomes readable when a DDS reader has something (data_event.c). */
#include "_engine.h"

typedef struct {
    PyObject_HEAD
    struct data_event *core; /* until closed */
} DataEvent;

static PyObject *DataEvent_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"reader", NULL};
    int reader;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i", names, &reader)) return NULL;
    DataEvent *self = (DataEvent *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    Py_BEGIN_ALLOW_THREADS
    self->core = data_event_open(reader);
    Py_END_ALLOW_THREADS
    if (self->core) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Format(state_of(type)->error, "entity %d is no DDS reader", reader);
}

static PyObject *DataEvent_fileno(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    (void)unused;
    return PyLong_FromLong(core ? core->descriptor : -1);
}

static PyObject *DataEvent_take(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    uint64_t ages_ns[DATA_EVENT_KEEPS];
    uint32_t count = core ? data_event_take(core, ages_ns) : 0;
    PyObject *list = PyList_New(count);
    (void)unused;
    for (uint32_t n = 0; list && n < count; n++) {
        PyObject *age = PyLong_FromUnsignedLongLong(ages_ns[n]);
        if (!age) Py_CLEAR(list);
        if (age) PyList_SET_ITEM(list, n, age);
    }
    return list;
}

static PyObject *DataEvent_close(PyObject *object, PyObject *unused)
{
    struct data_event *core = ((DataEvent *)object)->core;
    (void)unused;
    ((DataEvent *)object)->core = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (core) data_event_close(core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void DataEvent_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(DataEvent_close(object, NULL));
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef data_event_methods[] = {{"fileno", DataEvent_fileno, METH_NOARGS, NULL},
                                           {"take", DataEvent_take, METH_NOARGS, NULL},
                                           {"close", DataEvent_close, METH_NOARGS, NULL},
                                           {NULL, NULL, 0, NULL}};

static PyType_Slot data_event_slots[] = {{Py_tp_new, DataEvent_new},
                                         {Py_tp_dealloc, DataEvent_dealloc},
                                         {Py_tp_methods, data_event_methods},
                                         {0, NULL}};
PyType_Spec DataEvent_spec = {"rtmw.net.dds._engine.DataEvent", sizeof(DataEvent), 0, Py_TPFLAGS_DEFAULT,
                              data_event_slots};
