/* Functions that the glue of the engine and that of lines share. */
#ifndef RTMW_GLUE_H
#define RTMW_GLUE_H

#include <Python.h>

#include <errno.h>

#include "../shm/atomics.h"
#include "../shm/rtmw.h"

/* Raises `error`; NULL. errno is as the call left it that gave the code. */
static inline PyObject *fail(PyObject *error, const char *what, int code)
{
    char text[256];
    return PyErr_Format(error, "%s: %s", what, rtmw_explain(code, errno, text, sizeof text));
}

/* `kept`: another place for the type, beside the module; may be NULL. -1: an exception is set. */
static inline int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type || PyModule_AddType(module, (PyTypeObject *)type)) return Py_XDECREF(type), -1;
    if (kept)
        *kept = (PyTypeObject *)type;
    else
        Py_DECREF(type);
    return 0;
}

/* Closes an object as its method does, which keeps nothing open of it, and frees it. */
static inline void dealloc_closed(PyObject *object, PyObject *(*close)(PyObject *, PyObject *))
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(close(object, NULL));
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- routes ---- */

/* A route takes what its lane offers, and nothing that is offered with another reliability. */
static inline rtmw_subscriber_qos outbound_qos(int reliability, uint32_t depth, uint32_t history,
                                               uint64_t min_interval_ns, uint64_t lease_ns)
{
    return (rtmw_subscriber_qos){
        (rtmw_reliability)(reliability | RTMW_EXACT), depth, history, min_interval_ns, 0, lease_ns};
}

static inline rtmw_publisher_qos inbound_qos(int reliability, int priority, uint32_t depth, uint32_t history)
{
    return (rtmw_publisher_qos){(rtmw_reliability)reliability, (uint8_t)priority, depth, history, 0};
}

/* What another node has not sent: (expired, thinned). false: an exception is set. */
static inline bool read_unsent(PyObject *args, rtmw_lost *unsent)
{
    unsigned long long expired, thinned;
    if (!PyArg_ParseTuple(args, "KK", &expired, &thinned)) return false;
    *unsent = (rtmw_lost){.expired = expired, .thinned = thinned};
    return true;
}

/* `wants_old` NULL: the route is no inbound one, or closed. */
static inline PyObject *set_wants_old(uint32_t *wants_old, PyObject *given)
{
    int wanted = PyObject_IsTrue(given);
    if (wanted < 0) return NULL;
    if (wants_old) store_relaxed(wants_old, (uint32_t)wanted);
    Py_RETURN_NONE;
}

#endif
