/* Functions that the glue of the engine and that of lines share. */
#ifndef RTMW_GLUE_H
#define RTMW_GLUE_H

#include <Python.h>

#include <errno.h>

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

#endif
