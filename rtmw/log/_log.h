/* Python's view of the log: what its files share that know Python.
 *
 *   _log.c   the module, and functions of a folder       _writer.c   Writer       _reader.c   Reader
 *   _cursor.c   functions of cursors
 */
#ifndef RTMW_LOG_GLUE_H
#define RTMW_LOG_GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "reader.h"
#include "writer.h"

extern PyType_Spec Writer_spec, Reader_spec;

/* Sets the error of a code, as rtmw/log/failures.py makes it; gives NULL. `subject`: the path of the log. */
PyObject *fail(PyObject *subject, int code, const struct log_fault *fault);
/* The folder of a descriptor and a uuid; false: with a Python error. */
bool folder_of(struct log_folder *folder, int descriptor, const Py_buffer *uuid);
/* Seconds of a timeout, or None, as the end on the monotonic clock; false: with a Python error. */
bool deadline_of(PyObject *timeout, uint64_t *deadline);

/* _cursor.c */
PyObject *cursor_make(PyObject *module, PyObject *args);
PyObject *cursor_read(PyObject *module, PyObject *args);
PyObject *cursor_hold(PyObject *module, PyObject *args);
PyObject *cursor_write(PyObject *module, PyObject *args);
PyObject *cursor_delete(PyObject *module, PyObject *args);

#endif
