/* wait_any: for the first of several subscribers that has something to say. */
#include "_core.h"
#include "waiting.h"

/* false: an exception is set. */
static bool find_cores(PyObject *module, PyObject *subscribers, rtmw_subscriber **cores)
{
    PyTypeObject *type = ((State *)PyModule_GetState(module))->subscriber;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(subscribers); i++) {
        Subscriber *s = (Subscriber *)PyTuple_GET_ITEM(subscribers, i);
        if (!PyObject_TypeCheck((PyObject *)s, type))
            return PyErr_Format(PyExc_TypeError, "wait_any waits for subscribers, and was given %R", s), false;
        if (!subscriber_is_open(s)) return false;
        cores[i] = s->core;
    }
    return true;
}

static PyObject *those_ready(PyObject *subscribers, const bool *ready)
{
    PyObject *list = PyList_New(0);
    int failed = list == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(subscribers); i++)
        if (ready[i]) failed = PyList_Append(list, PyTuple_GET_ITEM(subscribers, i));
    return finished(list, failed);
}

static PyObject *wait_until(PyObject *subscribers, rtmw_subscriber **cores, bool *ready, uint64_t end)
{
    Py_ssize_t count = PyTuple_GET_SIZE(subscribers);
    int code = RTMW_EMPTY;
    for (Py_ssize_t i = 0; i < count; i++) ((Subscriber *)PyTuple_GET_ITEM(subscribers, i))->busy++;
    while ((code == RTMW_EMPTY || code == RTMW_INTERRUPTED) && !PyErr_CheckSignals()) {
        Py_BEGIN_ALLOW_THREADS
        code = wait_any(cores, ready, (size_t)count, end);
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Subscriber *s = (Subscriber *)PyTuple_GET_ITEM(subscribers, i);
        s->busy--;
        subscriber_finish(s);
    }
    if (PyErr_Occurred()) return NULL;
    if (code == RTMW_FORKED && count) return fail(PyTuple_GET_ITEM(subscribers, 0), code, NULL, 0);
    return code == RTMW_OK ? those_ready(subscribers, ready) : PyList_New(0);
}

/* wait_any(subscribers, timeout): those that have something to say; [] when the time is up. */
PyObject *core_wait_any(PyObject *module, PyObject *args)
{
    PyObject *subscribers, *timeout, *result = NULL;
    uint64_t ns;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &subscribers, &timeout) || !seconds(timeout, UINT64_MAX, &ns))
        return NULL;
    size_t room = (size_t)PyTuple_GET_SIZE(subscribers) + 1;
    rtmw_subscriber **cores = PyMem_Calloc(room, sizeof *cores);
    bool *ready = PyMem_Calloc(room, sizeof *ready);
    if (!cores || !ready)
        PyErr_NoMemory();
    else if (find_cores(module, subscribers, cores))
        result = wait_until(subscribers, cores, ready, ends_after(ns));
    PyMem_Free(cores);
    PyMem_Free(ready);
    return result;
}
