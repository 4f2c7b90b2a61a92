/* wait_any: for the first of several subscribers that has something to say. */
#include "_core.h"
#include "waiting.h"

/* Until it leaves, close() does not end the subscriber's handle. false: an exception is set. */
static bool enter(Subscriber *s, rtmw_subscriber **core)
{
    bool open;
    GUARD_BEGIN(s);
    open = subscriber_is_open(s);
    *core = s->core;
    s->busy += open;
    GUARD_END();
    return open;
}

static void leave(PyObject *subscribers, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Subscriber *s = (Subscriber *)PyTuple_GET_ITEM(subscribers, i);
        GUARD_BEGIN(s);
        s->busy--;
        subscriber_finish(s);
        GUARD_END();
    }
}

/* How many were entered; fewer than there are: an exception is set. */
static Py_ssize_t enter_all(PyObject *module, PyObject *subscribers, rtmw_subscriber **cores)
{
    PyTypeObject *type = ((State *)PyModule_GetState(module))->subscriber;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(subscribers); i++) {
        PyObject *s = PyTuple_GET_ITEM(subscribers, i);
        if (!PyObject_TypeCheck(s, type))
            return PyErr_Format(PyExc_TypeError, "wait_any waits for subscribers, and was given %R", s), i;
        if (!enter((Subscriber *)s, &cores[i])) return i;
    }
    return PyTuple_GET_SIZE(subscribers);
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
    while ((code == RTMW_EMPTY || code == RTMW_INTERRUPTED) && !PyErr_CheckSignals()) {
        Py_BEGIN_ALLOW_THREADS
        code = wait_any(cores, ready, (size_t)count, end);
        Py_END_ALLOW_THREADS
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
    if (!cores || !ready) {
        PyErr_NoMemory();
    } else {
        Py_ssize_t entered = enter_all(module, subscribers, cores);
        if (entered == PyTuple_GET_SIZE(subscribers)) result = wait_until(subscribers, cores, ready, ends_after(ns));
        leave(subscribers, entered);
    }
    PyMem_Free(cores);
    PyMem_Free(ready);
    return result;
}
