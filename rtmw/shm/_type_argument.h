/* A type as Python hands it to the C modules of this package. Part of their glue: it knows Python, and no region. */
#ifndef RTMW_TYPE_ARGUMENT_H
#define RTMW_TYPE_ARGUMENT_H

#include <Python.h> /* with PY_SSIZE_T_CLEAN, which the file that includes this has defined */

#include <stdbool.h>

#include "rtmw.h"

/* A type as (name, identity, description), or None for raw bytes: NULL. The target lives as long as `given`.
 * false: a Python error is set. */
static inline bool read_type(PyObject *given, rtmw_type *space, const rtmw_type **type)
{
    unsigned long long identity;
    const char *description;
    Py_ssize_t bytes;
    *type = NULL;
    if (given == Py_None) return true;
    if (!PyArg_ParseTuple(given, "sKy#", &space->name, &identity, &description, &bytes)) return false;
    space->identity = identity;
    space->description = description;
    space->description_bytes = (size_t)bytes;
    *type = space;
    return true;
}

#endif
